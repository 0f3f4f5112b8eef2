package main

import (
	"fmt"
	"strings"

	"github.com/hermes-exec/hermes-exec/engine"
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
		if r.ExitCode != nil && *r.ExitCode < 0 {
			fmt.Fprintf(a.stderr, "%s\n", paint(a.stderr, red, fmt.Sprintf("hermes-exec: the script was ended by signal %d", -*r.ExitCode)))
		}
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
