package tools

import (
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/engine/approval"
)

// foregroundAdvice says why a command does not fit a call that waits for its
// end; "" when it does. It looks at what the shell would run, not at the text:
// `pip install uvicorn` serves nothing.
func foregroundAdvice(parsed *approval.Script, script bool) string {
	if parsed.Err != nil {
		return ""
	}
	instead := "Use background=true for it"
	if script {
		instead = "From a script, start it with subprocess.Popen"
	}
	// A command that waits for what it started, or stops it, is done at its end.
	tidy := slices.ContainsFunc(parsed.Calls, func(c approval.Call) bool {
		return c.Name == "wait" || c.Name == "kill"
	})
	for i := range parsed.Calls {
		c := &parsed.Calls[i]
		if asksHelp(c.Args) {
			continue
		}
		switch {
		case c.Name == "nohup" || c.Name == "disown" || c.Name == "setsid":
			return "This foreground command detaches a process from the shell (" + c.Name + "). " + instead +
				", so that the process is not lost track of, and check on it in later calls."
		case c.Background && !tidy:
			return "This foreground command puts a process into the background with '&'. " + instead +
				", and check on it in later calls; or end the command with `wait`."
		case !c.Background && !slices.Contains(c.Via, "timeout") && serves(c.Name, c.Args):
			return "This foreground command seems to start a server or watcher (" + c.Name + "), which does not end by itself. " + instead +
				", wait until it answers, and go on in later calls; or bound it with `timeout`."
		}
	}
	return ""
}

func asksHelp(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return arg == "--help" || arg == "-h" || arg == "--version" || arg == "-v" || arg == "-V"
	})
}

// serves tells a program that runs until somebody stops it.
func serves(name string, args []string) bool {
	operands := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, "-") })
	first := func(i int) string {
		if i < len(operands) {
			return operands[i]
		}
		return ""
	}
	has := func(flags ...string) bool {
		return slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(flags, arg) })
	}
	switch name {
	case "npx", "bunx", "pnpx":
		return len(operands) > 0 && serves(first(0), operands[1:])
	case "uv", "poetry", "pipenv":
		return first(0) == "run" && len(operands) > 1 && serves(first(1), operands[2:])
	case "npm", "pnpm", "yarn", "bun":
		verb := first(0)
		if verb == "run" || verb == "run-script" {
			verb = first(1)
		}
		return slices.Contains([]string{"dev", "start", "serve", "watch"}, verb)
	case "docker-compose":
		return first(0) == "up" && !has("-d", "--detach")
	case "docker", "podman":
		at := slices.Index(operands, "compose")
		return at == 0 && slices.Contains(operands, "up") && !has("-d", "--detach")
	case "next":
		return first(0) == "dev"
	case "vite":
		return first(0) != "build" && first(0) != "optimize"
	case "nodemon", "uvicorn":
		return true
	case "gunicorn":
		return !has("-D", "--daemon", "--check-config", "--print-config")
	}
	if strings.Trim(strings.TrimPrefix(name, "python"), "0123456789.") == "" && strings.HasPrefix(name, "python") {
		if at := slices.Index(args, "-m"); at >= 0 && at+1 < len(args) {
			module := args[at+1]
			return module == "http.server" || serves(module, args[at+2:])
		}
	}
	return false
}

// exitMeanings says what an exit status means that is not a failure, or not
// an obvious one.
var exitMeanings = map[string]map[int]string{
	"grep": {1: "No matches found (not an error)"},
	"diff": {1: "Files differ (expected, not an error)"},
	"find": {1: "Some directories were inaccessible (partial results may still be valid)"},
	"test": {1: "Condition evaluated to false (expected, not an error)"},
	"curl": {6: "Could not resolve host", 7: "Failed to connect to host",
		22: "HTTP response code indicated error (e.g. 404, 500)", 28: "Operation timed out"},
	"git": {1: "Non-zero exit (often normal — e.g. 'git diff' returns 1 when files differ)"},
}

// exitMeaning explains the exit status of the command that gave it.
func exitMeaning(parsed *approval.Script, code int) string {
	if parsed.Err != nil {
		return ""
	}
	name := ""
	for i := range parsed.Calls {
		if parsed.Calls[i].Last {
			name = parsed.Calls[i].Name
		}
	}
	switch name {
	case "egrep", "fgrep", "rg", "ag", "ack":
		name = "grep"
	case "colordiff":
		name = "diff"
	case "[":
		name = "test"
	}
	return exitMeanings[name][code]
}
