package sshbox

import (
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

//go:embed plain_keeper.sh
var keeperScript string

//go:embed plain_run.sh
var runScript string

// plainHost is what the keeper found out about its host.
type plainHost struct {
	scratch, work, home, uid string
	system, machine          string // uname -s, uname -m
	way                      string // how descendants are found: proc, ps, none
	setsid                   string // "setsid" where a session leads no group of its own
	env                      []string
}

// parseHello reads what the keeper says of itself: fields that end in NUL.
func parseHello(text []byte) (h plainHost, err error) {
	fields := strings.Split(string(text), "\x00")
	if fields[0] == "fail" && len(fields) > 2 {
		return h, helloFailure(fields[1], fields[2])
	}
	if fields[0] != "ok" || len(fields) < 11 {
		return h, fmt.Errorf("the host's shell answers %.200q", text)
	}
	h = plainHost{
		scratch: fields[1], work: fields[2], home: fields[3], uid: fields[4],
		system: fields[5], machine: fields[6], way: fields[7],
	}
	if !strings.HasPrefix(h.scratch, "/") || !strings.HasPrefix(h.work, "/") {
		return h, fmt.Errorf("the host's shell names directories %.100q and %.100q", h.scratch, h.work)
	}
	if leads := fields[8] == "yes"; !leads {
		if h.setsid = fields[9]; h.setsid == "" {
			return h, fmt.Errorf("the host's sshd starts commands in its own process group and there is no setsid: they could not be killed: %w", sandbox.ErrUnsupported)
		}
	}
	if h.way == "none" {
		return h, fmt.Errorf("the host has neither /proc nor ps and awk: what a command starts could not be killed: %w", sandbox.ErrUnsupported)
	}
	for _, v := range fields[11:] {
		name, _, ok := strings.Cut(v, "=")
		if ok && shellName(name) && !slices.Contains(ofLogin(), name) {
			h.env = append(h.env, v)
		}
	}
	return h, nil
}

// ofLogin are variables of the one session that the keeper is in.
func ofLogin() []string {
	return []string{"PWD", "OLDPWD", "SHLVL", "_", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SSH_AUTH_SOCK", "SSH_ORIGINAL_COMMAND"}
}

func helloFailure(kind, text string) error {
	switch kind {
	case "dir":
		return fmt.Errorf("work directory %.300s: %w", text, fs.ErrNotExist)
	case "denied":
		return fmt.Errorf("work directory %.300s: %w", text, fs.ErrPermission)
	case "notdir":
		return fmt.Errorf("work directory %.300s", text)
	case "missing":
		return fmt.Errorf("the host has no %.100s on its PATH: %w", text, sandbox.ErrUnsupported)
	}
	return fmt.Errorf("%.300s: %w", text, sandbox.ErrUnavailable)
}

func (h plainHost) goos() string { return strings.ToLower(h.system) }

func (h plainHost) goarch() string {
	switch h.machine {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	}
	return h.machine
}

// enforcement says what a plain sshd keeps: nothing but that commands end.
func (h plainHost) enforcement() sandbox.Enforcement {
	const why = "policy open confines nothing"
	kill := sandbox.Clause{
		Clause: sandbox.ClauseKill, State: sandbox.Partial,
		Mechanism: "process groups of all that has the command's mark in its environment, killed by a second channel",
		Why:       "what clears its environment and leaves the process group is not found",
	}
	if h.way == "ps" {
		kill.Mechanism = "process groups of all descendants, killed by a second channel"
		kill.Why = "what daemonizes is not found"
	}
	e := sandbox.Enforcement{}
	for _, c := range []sandbox.ClauseName{sandbox.ClauseFiles, sandbox.ClauseGuards, sandbox.ClauseNetwork, sandbox.ClauseProcesses, sandbox.ClauseSyscalls, sandbox.ClauseResources} {
		e = append(e, sandbox.Clause{Clause: c, State: sandbox.Unsupported, Why: why})
	}
	return append(e, kill)
}

// keeperSource is the script of one box's keeper.
func keeperSource(spec PlainSpec, mark, name string) []byte {
	var b bytes.Buffer
	for _, v := range [][2]string{{"mark", mark}, {"name", name}, {"work", spec.WorkDir}, {"tag", spec.ID}, {"run", runScript}} {
		fmt.Fprintf(&b, "%s=%s\n", v[0], verbatim(v[1]))
	}
	b.WriteString(keeperScript)
	return b.Bytes()
}

// verbatim quotes for a POSIX shell.
func verbatim(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
