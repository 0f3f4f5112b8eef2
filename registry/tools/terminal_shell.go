package tools

import (
	"context"
	"crypto/rand"
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// shellFinder looks for the box's shell once per session, and not on the PATH
// a command may have exported: that must not be able to break the tool.
type shellFinder struct {
	mu    sync.Mutex
	found *shell
}

// shell is the program that runs commands.
type shell struct {
	program string // absolute
	bash    bool
}

func (f *shellFinder) find(ctx context.Context, files sandbox.Files, env []string) (*shell, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found != nil {
		return f.found, nil
	}
	var dirs []string
	for _, entry := range env {
		if list, ok := strings.CutPrefix(entry, "PATH="); ok {
			dirs = strings.Split(list, ":")
		}
	}
	dirs = append(dirs, "/bin", "/usr/bin", "/usr/local/bin", "/run/current-system/sw/bin")
	for _, name := range []string{"bash", "sh"} {
		for _, dir := range dirs {
			if program := path.Join(dir, name); path.IsAbs(program) && executable(ctx, files, program) {
				f.found = &shell{program, name == "bash"}
				return f.found, nil
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return nil, errors.New("there is no shell (bash or sh) in this sandbox")
}

func executable(ctx context.Context, files sandbox.Files, name string) bool {
	resolved, err := files.Resolve(ctx, name)
	if err != nil {
		return false
	}
	info, err := files.Stat(ctx, resolved)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// maxInArgs is the longest command passed as an argument: Linux takes 128 KiB
// in one. A longer one is read from standard input.
const maxInArgs = 96 << 10

// cmd is how the shell is started. The command is data to it, never spliced
// into a text: an unclosed quote or here-document in it cannot reach what
// stands around it.
//
// Around the command the shell reports, on its standard error, which from
// then on only it holds: the directory at the start, and at the end, however
// the command ends (exit, set -e, a syntax error), the directory and the
// exported variables. The command's own two streams are both the standard
// output. So nothing of the report can appear in the output, nothing the
// command prints or closes can disturb the report, nothing is written to a
// file, and no process the command leaves behind holds the channel. A command
// that sets its own EXIT trap and then calls exit, that replaces the shell
// with exec, or is killed, changes nothing for the next one.
//
// Only builtins run: no process is spent on it.
func (s *shell) cmd(command, mark string) sandbox.Cmd {
	text, args := s.script(mark, len(command) > maxInArgs), []string{s.program}
	if s.bash {
		args = append(args, "--norc", "--noprofile")
	}
	args = append(args, "-c", text, path.Base(s.program))
	if len(command) > maxInArgs {
		return sandbox.Cmd{Args: args, Stdin: strings.NewReader(command)}
	}
	return sandbox.Cmd{Args: append(args, command)}
}

// script is the text around the command. It is one line, so that line numbers
// in messages are the command's own.
func (s *shell) script(mark string, fromStdin bool) string {
	load, builtin, quiet := "_hx_c=$1; set --; ", "", "set +xeuv"
	spare := ""
	if fromStdin {
		load = "_hx_c=$(cat); exec </dev/null; "
	}
	if s.bash {
		builtin, quiet = "builtin ", "set +xeuv; trap - DEBUG ERR RETURN"
		spare = " 10>&-"
		if fromStdin {
			load = "_hx_c=$(</dev/stdin); exec </dev/null; "
		}
	}
	say := builtin + `printf "` + mark + `\n"; `
	where := builtin + "pwd -P"
	report := "{ " + say + where + " || echo; " + say + builtin + "export -p; " + say + "}"
	// Never into a file, should the command have put one on the descriptor.
	report8 := "[ -f /dev/fd/8 ] || " + report + " >&8"
	atExit := report8
	if s.bash {
		// bash leaves a function without undoing 8>&-; the descriptor it
		// keeps for that is the first free one from 10, so 10 is made free.
		atExit += " || [ -f /dev/fd/10 ] || " + report + " >&10"
	}
	return load + "exec 8>&2 2>&1" + spare + "; " +
		"trap '{ " + quiet + "; [ -z \"${_hx_c-}\" ] || " + atExit + "; } 2>/dev/null' EXIT; " +
		"{ " + say + where + "; } >&8 2>/dev/null; " +
		// The command cannot see 8; the shell keeps it closed on exec.
		`eval "$_hx_c" 8>&-; ` +
		"{ _hx_s=$?; " + quiet + "; " + report8 + "; } 2>/dev/null; " +
		`_hx_c=; ` + builtin + `exit "$_hx_s"`
}

// newMark is a line nobody can guess.
func newMark() string { return "hx-" + rand.Text() }
