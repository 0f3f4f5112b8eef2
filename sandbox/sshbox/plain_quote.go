package sshbox

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// maxArg and maxPlain are what one argument or variable, and all of them, may
// have in bytes: less than what Linux takes.
const (
	maxArg   = 128<<10 - 1
	maxPlain = 1 << 20
)

// line quotes for a POSIX shell without a newline: $__hx_n stands for it.
func line(s string) string { return strings.ReplaceAll(verbatim(s), "\n", `'"$__hx_n"'`) }

// header is what plain_run.sh reads: two lines.
func header(cmd sandbox.Cmd, dir string, env []string) ([]byte, error) {
	size := 0
	for _, list := range [][]string{cmd.Args, env, {dir}} {
		for _, s := range list {
			if strings.ContainsRune(s, 0) {
				return nil, errors.New("NUL in an argument, a variable or the directory")
			}
			size += len(s) + 16
			if len(s) > maxArg || size > maxPlain {
				return nil, fmt.Errorf("arguments and environment are too long: %w", syscall.E2BIG)
			}
		}
	}
	second, err := exports(env)
	if err != nil {
		return nil, err
	}
	path := "/usr/bin:/bin"
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
			break
		}
	}
	var b strings.Builder
	flag := func(name string, on bool) {
		fmt.Fprintf(&b, "%s=%d;", name, map[bool]int{true: 1}[on])
	}
	flag("__hx_m", cmd.PTY == nil && same(cmd.Stdout, cmd.Stderr))
	flag("__hx_o", cmd.PTY != nil || cmd.Stdout != nil)
	flag("__hx_e", cmd.PTY != nil || cmd.Stderr != nil)
	b.WriteString("__hx_d=" + line(dir) + ";__hx_p=" + line(path) + ";set --")
	for _, a := range cmd.Args {
		b.WriteString(" " + line(a))
	}
	b.WriteString("\n" + second + "\n")
	return []byte(b.String()), nil
}

// exports is shell text that sets variables; the first of a name counts.
func exports(env []string) (string, error) {
	var b strings.Builder
	seen := map[string]bool{commandMark: true}
	for _, v := range env {
		name, value, ok := strings.Cut(v, "=")
		if !ok || strings.ContainsRune(v, 0) {
			return "", fmt.Errorf("environment: %.40q is not NAME=value without NUL", name)
		}
		if !shellName(name) {
			return "", fmt.Errorf("environment: a plain sshd's shell cannot pass a variable called %.100q: %w", name, sandbox.ErrUnsupported)
		}
		if !seen[name] {
			seen[name] = true
			b.WriteString("export " + name + "=" + line(value) + ";")
		}
	}
	if b.Len() == 0 {
		return ":", nil
	}
	return b.String(), nil
}

// commandMark is the variable by which a command's descendants are found.
const commandMark = "HERMES_EXEC_COMMAND"

// shellName tells whether a POSIX shell can export a variable of that name and
// means nothing of its own by it.
func shellName(name string) bool {
	if name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" || name[0] <= '9' {
		return false
	}
	switch name {
	case "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASHPID", "GROUPS", "DIRSTACK", "FUNCNAME", "LINENO", "OPTIND", "RANDOM", "SECONDS", "_":
		return false
	}
	return !strings.HasPrefix(name, "__hx_") && !strings.HasPrefix(name, "BASH_")
}
