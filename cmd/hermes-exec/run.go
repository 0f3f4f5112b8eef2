package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-exec/hermes-exec/engine"
)

// runFlags are the flags of run alone.
type runFlags struct {
	code        string
	timeout     string
	maxCalls    int
	interpreter string
	json        bool
	compat      bool
	quiet       bool
}

func runCommand(a *app) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [SCRIPT|-] [args…]",
		Short: "Run a Python script that can call tools",
		Long: `Run a Python script. It imports its tools (from hermes_tools import read_file,
terminal, …) and is given sys.argv and a scrubbed environment; its output
appears as it comes, or with --json in one result object.

- reads the script from standard input. Everything after SCRIPT goes to it.
Ctrl-C interrupts the script; a second one kills it.`,
		Example: `  hermes-exec run survey.py src
  hermes-exec run -c 'from hermes_tools import read_file; print(read_file("go.mod")["content"])'
  hermes-exec run --json --timeout 30 --tools read_file,search_files report.py
  hermes-exec run --mode strict --env MODEL=small - < script.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd.Context(), f, cmd.Flags().Changed("code"), args)
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		err = fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())
		if slices.Contains(a.args, "--json") || slices.Contains(a.args, "--json-compat") {
			err = errors.Join(err, a.print(failureJSON(err)))
		}
		return err
	})
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows SCRIPT is the script's
	flags.StringVarP(&f.code, "code", "c", "", "the script itself")
	flags.StringVar(&f.timeout, "timeout", "", "end the script after this long: seconds, or 90s, 5m (default: code_execution.timeout, else 300)")
	flags.IntVar(&f.maxCalls, "max-tool-calls", -1, "tool calls the script may make (default: code_execution.max_tool_calls, else 50)")
	flags.Lookup("max-tool-calls").DefValue = "0" // shown by help, which hides a zero; -1 is "not given"
	flags.StringVar(&f.interpreter, "interpreter", "", "the Python to use, a path or a name on PATH")
	flags.BoolVar(&f.json, "json", false, "print one result object instead of the script's output")
	flags.BoolVar(&f.compat, "json-compat", false, "like --json, with Hermes Agent's own keys alone")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no warnings and no summary on stderr")
	return cmd
}

func (a *app) run(ctx context.Context, f runFlags, inline bool, args []string) error {
	asJSON := f.json || f.compat
	script, err := a.script(f, inline, args)
	var s *engine.Session
	if err == nil {
		s, err = a.open(ctx, f.quiet, "")
	}
	if err != nil {
		// With --json even a run that never began has its object on stdout.
		if asJSON {
			err = errors.Join(err, a.print(failureJSON(err)))
		}
		return err
	}
	if !asJSON {
		script.Stdout, script.Stderr = a.stdout, a.stderr
	}
	if a.debugTools {
		script.OnCall = func(c engine.ToolCall) {
			a.log.Info("tool call", "tool", c.Tool, "args", c.ArgsPreview, "seconds", c.Duration, "ok", c.OK)
		}
	}
	r, err := s.Run(ctx, script)
	if !f.quiet && r.StderrLost == nil {
		a.warn(r.Warnings[len(s.Warnings()):]...) // the session's own have been told
	}
	if r.StderrLost != nil { // saying so there might block
		return exitCode(cmp.Or(resultCode(r), exitInternal))
	}
	if !f.quiet && !asJSON {
		a.aftermath(r)
	}
	var shown error
	switch {
	case asJSON && errors.Is(err, engine.ErrNoCode):
		shown = a.print(failureJSON(err))
	case f.compat:
		shown = a.print(r.CompatJSON())
	case f.json:
		shown = a.print(r.JSON())
	case err == nil:
		a.summary(f, r)
		if r.StdoutLost != nil {
			shown = fmt.Errorf("not all output could be shown: %w", r.StdoutLost)
		}
	}
	if err != nil {
		return errors.Join(err, shown)
	}
	if code := resultCode(r); code != 0 {
		return exitCode(code)
	}
	return shown // a success nobody could see is none
}

// print writes one line of JSON.
func (a *app) print(object []byte) error {
	if _, err := fmt.Fprintf(a.stdout, "%s\n", object); err != nil {
		return fmt.Errorf("the result could not be printed: %w", err)
	}
	return nil
}

// script reads the script and its limits from flags and arguments.
func (a *app) script(f runFlags, inline bool, args []string) (engine.Script, error) {
	script := engine.Script{Interpreter: f.interpreter}
	if f.timeout != "" {
		d, err := parseTimeout(f.timeout)
		if err != nil {
			return script, err
		}
		script.Limits.Timeout = d
	}
	switch {
	case f.maxCalls == 0:
		script.Limits.MaxToolCalls = engine.NoToolCalls
	case f.maxCalls > 0:
		script.Limits.MaxToolCalls = f.maxCalls
	case f.maxCalls < -1:
		return script, fmt.Errorf("--max-tool-calls %d: want 0 or more", f.maxCalls)
	}
	switch {
	case inline:
		script.Code, script.Args = f.code, args
		return script, nil
	case len(args) == 0 && isTerminal(a.stdin):
		return script, errors.New("nothing to run: name a SCRIPT, - for standard input, or -c CODE (see hermes-exec run --help)")
	case len(args) == 0:
		args = []string{"-"}
	}
	code, err := a.readScript(args[0])
	script.Code, script.Args = code, args[1:]
	return script, err
}

// maxScript bounds what is read into memory; the engine's own limit is lower
// and says so more precisely.
const maxScript = 64 << 20

func (a *app) readScript(name string) (string, error) {
	in := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("run: %w", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return "", fmt.Errorf("run: %s is a directory, want a Python script", name)
		}
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxScript+1))
	if err != nil {
		return "", fmt.Errorf("run: read %s: %w", name, err)
	}
	if len(data) > maxScript {
		return "", fmt.Errorf("run: %s has more than %d MiB", name, maxScript>>20)
	}
	return string(data), nil
}

// parseTimeout reads seconds ("30", "1.5") or a duration ("90s", "5m").
func parseTimeout(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		d, err = time.ParseDuration(s + "s")
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--timeout %q: want a positive number of seconds, or a duration such as 90s or 5m", s)
	}
	return d, nil
}

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

// failureJSON is the object of a run that never began.
func failureJSON(err error) []byte {
	return engine.ErrorJSON(strings.TrimPrefix(engine.Unavailable(err).Error(), "engine: "))
}
