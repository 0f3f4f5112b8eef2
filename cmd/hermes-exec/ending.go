package main

import (
	"fmt"
	"strings"

	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// aftermath says what the policy kept the script from, and what it left that
// runs later.
func (a *app) aftermath(r engine.Result) {
	for _, d := range r.Denials {
		fmt.Fprintln(a.stderr, paint(a.stderr, yellow, fmt.Sprintf("hermes-exec: denied: %s (%s); to allow it: %s", d.What, d.Clause, d.Hint)))
	}
	const shown = 5
	for i, f := range r.FutureInputs {
		if i == shown {
			a.warn(fmt.Sprintf("%d more files will be run or trusted later (--json lists them)", len(r.FutureInputs)-shown))
			break
		}
		a.warn(fmt.Sprintf("changed, and used later: %q: %s", f.Path, f.Why))
	}
	if r.FutureInputsComplete != nil && !*r.FutureInputsComplete {
		a.warn("not everything could be looked through for files that will be run or trusted later")
	}
}

// summary says on a terminal how the run ended; elsewhere only what the
// script's own output cannot tell.
func (a *app) summary(f runFlags, r engine.Result) {
	switch r.Status {
	case engine.TimedOut:
		fmt.Fprintf(a.stderr, "%s\n", paint(a.stderr, red, "hermes-exec: "+r.Error))
	case engine.Interrupted:
		fmt.Fprintf(a.stderr, "%s\n", paint(a.stderr, red, "hermes-exec: "+strings.Trim(r.Output[strings.LastIndex(r.Output, "\n")+1:], "[]")))
	case engine.Failed:
		how := ""
		if r.ExitCode != nil && *r.ExitCode < 0 {
			how = fmt.Sprintf("was ended by signal %d", -*r.ExitCode)
		}
		if reached := a.reached(r.Limit); reached != "" {
			how = strings.TrimSuffix(reached+" and "+how, " and ")
		}
		if how != "" {
			fmt.Fprintf(a.stderr, "%s\n", paint(a.stderr, red, "hermes-exec: the script "+how))
		}
	}
	if reached := a.reached(r.Limit); reached != "" && r.Status != engine.Failed && !f.quiet {
		a.warn("the script " + reached)
	}
	if f.quiet || !isTerminal(a.stderr) {
		return
	}
	mark, code := "✓", green
	if r.Status != engine.Success {
		mark, code = "✗", red
	}
	calls := "no tool calls"
	switch {
	case r.ToolCallsMade == 1:
		calls = "1 tool call"
	case r.ToolCallsMade > 1:
		calls = fmt.Sprintf("%d tool calls", r.ToolCallsMade)
	}
	exit := ""
	if r.ExitCode != nil && *r.ExitCode != 0 {
		exit = fmt.Sprintf(" · exit code %d", *r.ExitCode)
	}
	fmt.Fprintf(a.stderr, "%s %s\n", paint(a.stderr, code, mark+" "+string(r.Status)),
		paint(a.stderr, dim, fmt.Sprintf("· %s · %.2fs · %s · policy %s%s", calls, r.DurationSeconds, r.Backend, r.Policy, exit)))
}

// reached says which limit of its box a script reached, and where it is set; ""
// for none.
func (a *app) reached(limit sandbox.Limit) string {
	what := map[sandbox.Limit]string{
		sandbox.LimitMemory: "memory limit", sandbox.LimitPIDs: "limit of processes and threads",
		sandbox.LimitCPU: "processor limit", sandbox.LimitDisk: "limit of disk space",
	}[limit]
	if what == "" {
		return ""
	}
	key, unit := "code_execution."+string(limit), ""
	if place := a.place(); elsewhere(place) && !a.resourceSet(string(limit)) { // a container has limits of its own
		key = "backends." + place.Name + "." + string(limit)
		if place.Name == "docker" {
			key, unit = "terminal.container_"+string(limit), " MiB"
		}
	}
	for _, s := range a.cfg.Show() {
		switch {
		case s.Key != key:
		case key == "code_execution.disk" && s.Origin == "default": // see resources
			return fmt.Sprintf("reached its %s (%s, at most half the memory, %s)", what, s.Value, key)
		default:
			return fmt.Sprintf("reached its %s (%s%s, %s)", what, s.Value, unit, key)
		}
	}
	return "reached its " + what
}

// resultCode is the exit code of a run that took place.
func resultCode(r engine.Result) int {
	switch {
	case r.Status == engine.TimedOut:
		return exitTimeout
	case r.Status == engine.Interrupted:
		return exitInterrupted
	case r.ExitCode == nil:
		return exitInternal
	case *r.ExitCode < 0:
		return 128 - *r.ExitCode
	}
	return *r.ExitCode
}
