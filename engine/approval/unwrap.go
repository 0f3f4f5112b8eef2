package approval

import (
	"slices"
	"strings"
)

// wrapper is how a program that runs another one reads its own arguments.
type wrapper struct {
	short    string   // letters of the options that take a value
	long     []string // long options that take the next argument
	operands int      // arguments before the command
	assigns  bool     // NAME=value before the command
	query    string   // letters of the options that make it run nothing
	opaque   bool     // its exit status is not the command's
	shell    bool     // what it runs is shell text, its arguments joined
}

// wrappers by name. Options without a value need no entry.
var wrappers = map[string]wrapper{
	"sudo": {short: "ugpCDhRTUrtac", assigns: true, query: "lKkVev",
		long: []string{"user", "group", "prompt", "close-from", "chdir", "host", "chroot", "role", "type", "command-timeout", "other-user", "login-class", "auth-type"}},
	"doas":        {short: "uCa", query: "L"},
	"pkexec":      {long: []string{"user"}},
	"env":         {short: "uCSP", long: []string{"unset", "chdir", "split-string"}, assigns: true},
	"command":     {query: "vV"},
	"builtin":     {},
	"exec":        {short: "a"},
	"nohup":       {},
	"setsid":      {},
	"time":        {short: "of", long: []string{"output", "format"}},
	"nice":        {short: "n", long: []string{"adjustment"}},
	"ionice":      {short: "cn", long: []string{"class", "classdata"}, query: "pPu"},
	"timeout":     {short: "ks", long: []string{"kill-after", "signal"}, operands: 1},
	"stdbuf":      {short: "ioe", long: []string{"input", "output", "error"}},
	"chrt":        {short: "TPD", operands: 1, query: "p"},
	"taskset":     {operands: 1, query: "p"},
	"chroot":      {operands: 1},
	"unshare":     {short: "SGRw"},
	"nsenter":     {short: "tSG", long: []string{"target"}},
	"setpriv":     {long: []string{"reuid", "regid", "groups"}},
	"systemd-run": {short: "puEHM", long: []string{"unit", "property", "description", "slice", "setenv", "uid", "gid"}},
	"flock":       {short: "wE", long: []string{"timeout", "conflict-exit-code"}, operands: 1},
	"strace":      {short: "aebEIoOpPsSuUX", opaque: true},
	"ltrace":      {short: "aeloFnpsuwxX", opaque: true},
	"fakeroot":    {short: "lsib"},
	"eatmydata":   {},
	"chronic":     {},
	"unbuffer":    {},
	"busybox":     {},
	"toybox":      {},
	"caffeinate":  {short: "tw"},
	"watch":       {short: "n", long: []string{"interval"}, opaque: true, shell: true},
	"xargs":       {short: "adEILnPs", long: []string{"arg-file", "delimiter", "replace", "max-lines", "max-args", "max-procs", "max-chars", "process-slot-var"}, opaque: true},
	"eval":        {shell: true},
}

// shells are the programs that run their argument after -c, or their input.
var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish"}

// command records a simple command and whatever it is going to run.
func (s *Script) command(argv []string, c context) {
	if len(argv) == 0 {
		return
	}
	name, args := programName(argv[0]), argv[1:]
	if strings.Contains(name, Unknown) || strings.Contains(name, home) {
		s.doubt(joined(argv))
		name = ""
	}
	s.call(name, args, c)
	if name == "" || len(c.via) > 32 {
		return
	}
	inner := c
	inner.via = append(slices.Clip(c.via), name)
	if w, ok := wrappers[name]; ok {
		s.wrapped(name, w, args, inner)
		return
	}
	switch {
	case slices.Contains(shells, name):
		s.shell(args, inner)
	case name == "su" || name == "runuser" || name == "script":
		s.optionText(args, inner)
	case name == "trap":
		if len(args) > 1 && args[0] != "-" {
			inner.last, inner.stdin = false, nil
			s.text(args[0], inner)
		}
	case name == "source" || name == ".":
		if len(args) > 0 && args[0] == "/dev/stdin" && c.stdin != nil {
			s.text(*c.stdin, inner)
		}
	case name == "find":
		inner.last, inner.stdin = false, nil
		for i := 0; i < len(args); i++ {
			switch args[i] {
			case "-exec", "-execdir", "-ok", "-okdir":
				end := i + 1
				for end < len(args) && args[end] != ";" && args[end] != "+" {
					end++
				}
				run := slices.Clone(args[i+1 : end])
				for j := range run {
					run[j] = strings.ReplaceAll(run[j], "{}", Unknown)
				}
				s.command(run, inner)
				i = end
			}
		}
	}
}

// wrapped finds the command among a wrapper's arguments.
func (s *Script) wrapped(name string, w wrapper, args []string, c context) {
	if w.opaque {
		c.last = false
	}
	rest, query := options(w.short, w.long, w.query, args)
	if query {
		return
	}
	if name == "env" {
		if text, ok := optionValue(args, 'S', "split-string"); ok {
			s.text(joined(append([]string{text}, rest...)), c)
			return
		}
	}
	for w.assigns && len(rest) > 0 && strings.Contains(rest[0], "=") {
		rest = rest[1:]
	}
	if name == "flock" {
		if text, ok := optionValue(rest[min(len(rest), 1):], 'c', "command"); ok {
			s.text(text, c)
			return
		}
	}
	rest = rest[min(len(rest), w.operands):]
	if len(rest) == 0 {
		if name == "sudo" && c.stdin != nil && hasFlag(args, "si", "shell", "login") {
			s.text(*c.stdin, c)
		}
		return
	}
	if w.shell {
		s.text(joined(rest), c)
		return
	}
	if name == "xargs" {
		if c.stdin != nil && s.spend(len(*c.stdin)) {
			rest = append(slices.Clip(rest), strings.Fields(*c.stdin)...)
		}
		c.stdin = nil
	}
	s.command(rest, c)
}

// shell handles sh -c text, and a shell that reads commands from its input.
func (s *Script) shell(args []string, c context) {
	c.function = true
	command, stdin := false, true
	for len(args) > 0 {
		arg := args[0]
		if len(arg) < 2 || arg[0] != '-' && arg[0] != '+' {
			break
		}
		args = args[1:]
		switch {
		case arg == "--":
		case strings.HasPrefix(arg, "--"):
			if (arg == "--rcfile" || arg == "--init-file") && len(args) > 0 {
				args = args[1:]
			}
			continue
		default:
			command = command || arg[0] == '-' && strings.Contains(arg, "c")
			if strings.HasSuffix(arg, "o") || strings.HasSuffix(arg, "O") { // -o pipefail
				args = args[min(len(args), 1):]
			}
			continue
		}
		break
	}
	if len(args) > 0 && args[0] == "-" {
		args = args[1:]
	}
	switch {
	case command:
		if len(args) > 0 {
			s.text(args[0], c)
		}
		return
	case len(args) > 0:
		stdin = args[0] == "/dev/stdin"
	}
	if stdin && c.stdin != nil {
		text := *c.stdin
		c.stdin = nil
		s.text(text, c)
	}
}

// optionText runs what is behind -c: su, script.
func (s *Script) optionText(args []string, c context) {
	if text, ok := optionValue(args, 'c', "command"); ok {
		s.text(text, c)
	} else if i := slices.Index(args, "--"); i >= 0 {
		s.command(args[i+1:], c)
	}
}

// options skips a program's own options and tells whether one of them makes
// it run nothing.
func options(short string, long []string, query string, args []string) (rest []string, asks bool) {
	for len(args) > 0 {
		arg := args[0]
		if len(arg) < 2 || arg[0] != '-' {
			break
		}
		args = args[1:]
		if arg == "--" {
			break
		}
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			if slices.Contains(long, name) {
				args = args[min(len(args), 1):]
			}
			continue
		}
		for i := 1; i < len(arg); i++ {
			asks = asks || strings.IndexByte(query, arg[i]) >= 0
			if strings.IndexByte(short, arg[i]) >= 0 {
				if i == len(arg)-1 {
					args = args[min(len(args), 1):]
				}
				break
			}
		}
	}
	return args, asks
}

// optionValue finds the value of -x value, -xvalue, --long value, --long=value.
func optionValue(args []string, short byte, long string) (string, bool) {
	for i, arg := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case arg == "--":
			return "", false
		case arg == "--"+long:
			return next, true
		case strings.HasPrefix(arg, "--"+long+"="):
			return arg[len(long)+3:], true
		case strings.HasPrefix(arg, "--"):
		case strings.HasPrefix(arg, "-"):
			if at := strings.IndexByte(arg, short); at > 0 {
				if at == len(arg)-1 {
					return next, true
				}
				return arg[at+1:], true
			}
		}
	}
	return "", false
}

// hasFlag reports an option without a value, alone or in a cluster, before
// the first operand or anywhere after it.
func hasFlag(args []string, short string, long ...string) bool {
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			if slices.Contains(long, name) {
				return true
			}
		} else if len(arg) > 1 && arg[0] == '-' && strings.ContainsAny(arg[1:], short) {
			return true
		}
	}
	return false
}
