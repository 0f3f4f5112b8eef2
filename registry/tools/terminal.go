package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/engine/approval"
	"github.com/hermes-exec/hermes-exec/registry"
)

const terminalDoc = `Run a shell command (foreground only). Returns dict with "output" and "exit_code".

The command runs in bash (sh where there is none) without a terminal and with an empty standard input; standard output and standard error come as one text.
The working directory and exported variables carry over to the next command, as they do in a shell; other variables, functions and aliases do not. workdir holds for one command only.
The call returns when the command ends, or after timeout seconds, when everything it started is killed and the output so far is returned with exit code 124.
Prefer read_file, write_file, search_files and patch to cat, echo, grep and sed for work on files.`

// maxCommand is the longest command in bytes.
const maxCommand = 1 << 20

type terminalIn struct {
	Command          json.RawMessage `json:"command" type:"string" required:"schema" doc:"The command line, for bash."`
	Background       bool            `json:"background" default:"false" script:"-" doc:"Run in the background and return at once."`
	Timeout          *int            `json:"timeout" min:"1" strict:"true" doc:"Seconds before the command is killed. There is a default and a maximum."`
	Workdir          *string         `json:"workdir" doc:"Directory for this command alone, absolute or relative to the current one."`
	PTY              bool            `json:"pty" default:"false" script:"-" doc:"Give the command a terminal; for background commands."`
	NotifyOnComplete bool            `json:"notify_on_complete" default:"false" script:"-" doc:"Tell when a background command has ended."`
	WatchPatterns    []string        `json:"watch_patterns" script:"-" doc:"Texts to look for in the output of a background command."`
}

// terminalOut is the result; what is not set has no key, except error.
type terminalOut struct {
	Output   string  `json:"output"`
	ExitCode int     `json:"exit_code"`
	Error    *string `json:"error"`
	Status   string  `json:"status,omitempty"`
	Meaning  string  `json:"exit_code_meaning,omitempty"`
	Note     string  `json:"note,omitempty"`
}

// The exit codes that are ours.
const (
	exitRefused     = -1
	exitTimedOut    = 124
	exitNoDir       = 126
	exitInterrupted = 130
)

func refused(status, text string) terminalOut {
	return terminalOut{ExitCode: exitRefused, Error: &text, Status: status}
}

// terminalTool runs shell commands in the session's box. Commands of one
// session may run at the same time.
func terminalTool(s *session) registry.Tool {
	t := &terminal{session: s}
	tool := registry.New("terminal", "terminal", terminalDoc, t.run)
	tool.Emoji = "💻"
	return tool
}

type terminal struct {
	*session
	shell shellFinder
	state shellState
}

func (t *terminal) run(ctx context.Context, caller registry.Caller, in terminalIn) (terminalOut, error) {
	if t.box == nil {
		return terminalOut{}, ErrNoSandbox
	}
	t.reads.acted(caller.Session)
	command, refusal := commandText(in.Command)
	if refusal != "" {
		return refused("error", refusal), nil
	}
	timeout := t.cfg.DefaultTimeout
	if in.Timeout != nil {
		if longest := t.cfg.MaxForegroundTimeout; !in.Background && *in.Timeout > int(longest/time.Second) {
			return terminalOut{}, errors.New("Foreground timeout " + strconv.Itoa(*in.Timeout) + "s exceeds the maximum of " + seconds(longest) +
				". Use background=true with notify_on_complete=true for long-running commands.")
		}
		timeout = time.Duration(*in.Timeout) * time.Second
	}
	if in.Background || in.PTY {
		return refused("error", "background=true and pty=true are not available here: commands run in the foreground and without a terminal."), nil
	}
	parsed := approval.Parse(command)
	if advice := foregroundAdvice(parsed, caller.IsScript()); advice != "" {
		return refused("error", advice), nil
	}
	if text := approval.Refusal(parsed.Judge(approval.Options{Home: t.box.Info().Home})); text != "" {
		return refused("blocked", text), nil
	}
	dir := ""
	if in.Workdir != nil && *in.Workdir != "" {
		if bad := disallowed(*in.Workdir); bad != "" {
			return refused("blocked", "Blocked: workdir contains disallowed character "+bad+". Use a simple filesystem path without shell metacharacters."), nil
		}
		var err error
		if dir, err = t.expand(*in.Workdir); err != nil {
			return refused("error", "Invalid workdir: "+err.Error()), nil
		}
	}
	out, err := t.execute(ctx, caller, command, dir, timeout)
	if err != nil {
		return refused("error", "Failed to execute command: "+err.Error()), nil
	}
	if out.ExitCode != 0 {
		out.Meaning = exitMeaning(parsed, out.ExitCode)
	}
	return out, nil
}

// commandText is the command, or why it cannot be one.
func commandText(raw json.RawMessage) (command, refusal string) {
	if err := json.Unmarshal(raw, &command); err != nil || len(raw) == 0 || raw[0] != '"' {
		return "", "Invalid command: expected string, got " + pythonKind(raw)
	}
	switch {
	case strings.IndexByte(command, 0) >= 0:
		return "", "Invalid command: it contains a NUL byte, which no shell can be given"
	case len(command) > maxCommand:
		return "", fmt.Sprintf("Invalid command: it is %d bytes long, the limit is %d. Write it to a file and run that", len(command), maxCommand)
	}
	return command, ""
}

// pythonKind names the type of a JSON value as Python does.
func pythonKind(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "NoneType"
	}
	switch raw[0] {
	case 'n':
		return "NoneType"
	case 't', 'f':
		return "bool"
	case '[':
		return "list"
	case '{':
		return "dict"
	case '"':
		return "str"
	}
	if strings.ContainsAny(string(raw), ".eE") {
		return "float"
	}
	return "int"
}

// disallowed finds the first character that no directory a shell is told of
// should have, spelt as Python would. The directory never sees a shell here:
// the rule keeps a command from being mistaken for a path.
func disallowed(workdir string) string {
	at := strings.IndexAny(workdir, ";|&$`<>\n\x00")
	if at < 0 {
		return ""
	}
	switch ch := workdir[at]; ch {
	case '\n':
		return `'\n'`
	case 0:
		return `'\x00'`
	default:
		return "'" + string(ch) + "'"
	}
}

// seconds writes a duration as in "600s".
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
