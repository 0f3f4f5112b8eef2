package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/output"
)

// runFlags are the flags of run alone.
type runFlags struct {
	code        string
	timeout     string
	maxCalls    calls
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

- reads the script from standard input. Everything after SCRIPT goes to it; its
own standard input is empty (/dev/null).
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
	flags.Var((*text)(&f.timeout), "timeout", "end the script after this long: seconds, or 90s, 5m (default: code_execution.timeout, else 300)")
	flags.Var(&f.maxCalls, "max-tool-calls", "tool calls the script may make (default: code_execution.max_tool_calls, else 50)")
	flags.Var((*text)(&f.interpreter), "interpreter", "the Python to use, a path or a name on PATH")
	flags.BoolVar(&f.json, "json", false, "print one result object instead of the script's output")
	flags.BoolVar(&f.compat, "json-compat", false, "like --json, with Hermes Agent's own keys alone")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no warnings and no summary on stderr")
	return cmd
}

func (a *app) run(ctx context.Context, f runFlags, inline bool, args []string) error {
	asJSON := f.json || f.compat
	script, err := a.script(ctx, f, inline, args)
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
	shown := func() {}
	if !asJSON {
		script.Stdout, script.Stderr, shown = a.live()
	}
	if a.debugTools {
		script.OnCall = func(c engine.ToolCall) {
			a.log.Info("tool call", "tool", c.Tool, "args", c.ArgsPreview, "seconds", c.Duration, "ok", c.OK)
		}
	}
	r, err := s.Run(ctx, script)
	if r.StdoutLost == nil && r.StderrLost == nil { // else a write may hang there still
		shown()
	}
	if !f.quiet && r.StderrLost == nil {
		a.warn(r.Warnings[len(s.Warnings()):]...) // the session's own have been told
	}
	if r.StderrLost != nil { // saying so there might block
		return exitCode(cmp.Or(resultCode(r), exitInternal))
	}
	if !f.quiet && !asJSON {
		a.aftermath(r)
	}
	var unseen error
	switch {
	case asJSON && errors.Is(err, engine.ErrNoCode):
		unseen = a.print(failureJSON(err))
	case f.compat:
		unseen = a.print(r.CompatJSON())
	case f.json:
		unseen = a.print(r.JSON())
	case err == nil:
		a.summary(f, r)
		if r.StdoutLost != nil {
			unseen = fmt.Errorf("not all output could be shown: %w", r.StdoutLost)
		}
	}
	if errors.Is(err, engine.ErrNoCode) && !asJSON { // the words agents know are not all a person needs
		err = fmt.Errorf("%w Name a SCRIPT, - for standard input, or -c CODE (see hermes-exec run --help)", err)
	}
	if err != nil {
		return errors.Join(err, unseen)
	}
	if code := resultCode(r); code != 0 {
		return exitCode(code)
	}
	return unseen // a success nobody could see is none
}

// live returns where a script's output goes while it runs: what is a terminal is
// not the script's to command. done is called when it has ended.
func (a *app) live() (stdout, stderr io.Writer, done func()) {
	var shown []*output.TerminalWriter
	wrap := func(w io.Writer) io.Writer {
		if !isTerminal(w) {
			return w
		}
		t := output.NewTerminalWriter(w)
		shown = append(shown, t)
		return t
	}
	return wrap(a.stdout), wrap(a.stderr), func() {
		for _, t := range shown {
			_ = t.Close() // a failure is the script's output's, and known
		}
	}
}

// print writes one line of JSON.
func (a *app) print(object []byte) error {
	if _, err := fmt.Fprintf(a.stdout, "%s\n", object); err != nil {
		return fmt.Errorf("the result could not be printed: %w", err)
	}
	return nil
}

// failureJSON is the object of a run that never began.
func failureJSON(err error) []byte {
	return engine.ErrorJSON(strings.TrimPrefix(engine.Unavailable(err).Error(), "engine: "))
}
