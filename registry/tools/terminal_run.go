package tools

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// killGrace is what a command gets between SIGTERM and SIGKILL.
const killGrace = time.Second

var (
	errTimedOut = errors.New("the command timed out") // why a command's context ends at its timeout
	errNoDir    = errors.New("no such directory")
)

// running is one command from start to result.
type running struct {
	*terminal
	caller  registry.Caller
	command string
	shell   *shell
	kind    environment
	before  map[string]string // what the command could change of its environment
	mark    string
	out     capture
	report  *limited
	note    string
}

// execute runs one command. dir "" means the session's working directory,
// which the command may then change for later ones.
func (t *terminal) execute(ctx context.Context, caller registry.Caller, command, dir string, timeout time.Duration) (terminalOut, error) {
	r := &running{terminal: t, caller: caller, command: command, kind: environmentOf(caller), mark: newMark(),
		out: newCapture(caller.IsScript(), t.cfg.MaxOutputBytes), report: &limited{limit: maxReport}}
	base := t.cfg.ModelEnv
	if r.kind == scriptEnv {
		base = t.cfg.Env
	}
	var err error
	if r.shell, err = t.shell.find(ctx, t.box.Files(), base); err != nil {
		return terminalOut{}, err
	}
	var env []string
	env, r.before = t.state.environ(r.kind, base)

	// What the command leaves behind may live on (a daemon it started), until
	// the run or the session ends. But when the command itself is cut short,
	// all of it goes: hence one context for the command and its descendants,
	// which is cancelled only then.
	lifetime := caller.Lifetime
	if lifetime == nil {
		lifetime = ctx
	}
	life, end := context.WithCancelCause(lifetime)
	unwatch := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	timer := time.AfterFunc(timeout, func() { end(errTimedOut) })
	exit, err := r.run(ctx, life, env, dir)
	unwatch()
	timer.Stop()

	switch {
	case errors.Is(context.Cause(life), errTimedOut):
		return r.cutShort(exitTimedOut, "[Command timed out after "+seconds(timeout)+"]"), nil
	case life.Err() != nil:
		return r.cutShort(exitInterrupted, "[Command interrupted]"), nil
	case errors.Is(err, errNoDir):
		end(err)
		return terminalOut{Output: "cd: " + dir + ": No such directory", ExitCode: exitNoDir}, nil
	case errors.Is(err, sandbox.ErrLost):
		end(err)
		text := "The command's fate is unknown: " + err.Error()
		result := r.cutShort(exitRefused, "")
		result.Error, result.Status = &text, "error"
		return result, nil
	case err != nil:
		end(err)
		return terminalOut{}, err
	}
	return r.finish(exit, dir == ""), nil
}

// run starts the command and waits for its end.
func (r *running) run(ctx, life context.Context, env []string, dir string) (sandbox.Exit, error) {
	start := func(dir string) (sandbox.Process, error) {
		cmd := r.shell.cmd(r.command, r.mark)
		cmd.Dir, cmd.Env, cmd.Grace, cmd.Keep = dir, env, killGrace, true
		cmd.Stdout, cmd.Stderr = r.out, r.report
		return r.box.Start(life, cmd)
	}
	at := dir
	if at == "" {
		at = r.cwd()
	}
	proc, err := start(at)
	if err != nil && life.Err() == nil && !r.isDir(ctx, at) {
		if dir != "" {
			return sandbox.Exit{}, errNoDir
		}
		// Somebody deleted it since the last command.
		if near := r.nearestDir(ctx, at); near != "" {
			r.setCwd(near)
			r.note = "The working directory " + at + " is gone; the command ran in " + near + "."
			proc, err = start(near)
		}
	}
	if err != nil {
		return sandbox.Exit{}, err
	}
	return proc.Wait()
}

// finish is the result of a command that ended by itself; what it left to
// later ones is taken over.
func (r *running) finish(exit sandbox.Exit, sticks bool) terminalOut {
	result := terminalOut{ExitCode: exit.Code, Note: r.note}
	if exit.Signal != 0 {
		result.ExitCode = -int(exit.Signal)
	}
	if exit.Limit != "" {
		result.addNote("The command was ended by the " + string(exit.Limit) + " limit of the sandbox.")
	}
	if rec, ok := parseRecord(r.report.data, r.mark); ok {
		if sticks && rec.end != "" && rec.end != rec.start {
			r.setCwd(rec.end)
		}
		result.addNote(r.state.apply(r.kind, r.before, rec.exports))
	} else {
		// What the shell said instead, such as why it could not begin.
		_, _ = r.out.Write(withoutMark(r.report.data, r.mark))
	}
	return r.render(result, "")
}

// cutShort is the result of a command that was not left to end.
func (r *running) cutShort(code int, ending string) terminalOut {
	return r.render(terminalOut{ExitCode: code, Note: r.note}, ending)
}

func (r *running) render(result terminalOut, ending string) terminalOut {
	text, cut := r.out.text(r.cfg.Redact)
	if ending != "" && text != "" {
		ending = "\n" + ending
	}
	result.Output = text + ending
	result.addNote(cut)
	if r.caller.IsScript() {
		// As the shell's own $(…): what starts a line stays, since it may mean
		// something (git status), the last newline never does.
		result.Output = strings.TrimRight(result.Output, "\r\n")
	} else {
		result.Output = strings.TrimSpace(result.Output)
	}
	return result
}

func (o *terminalOut) addNote(text string) {
	if text != "" && o.Note != "" {
		o.Note += " "
	}
	o.Note += text
}

// isDir reports whether a directory is there, links followed.
func (t *terminal) isDir(ctx context.Context, dir string) bool {
	files := t.box.Files()
	resolved, err := files.Resolve(ctx, dir)
	if err != nil {
		return false
	}
	info, err := files.Stat(ctx, resolved)
	return err == nil && info.IsDir()
}

// nearestDir is the closest ancestor that is there.
func (t *terminal) nearestDir(ctx context.Context, dir string) string {
	for dir = path.Clean(dir); dir != "/" && dir != "."; {
		dir = path.Dir(dir)
		if t.isDir(ctx, dir) {
			return dir
		}
	}
	return ""
}
