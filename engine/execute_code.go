package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// errUnavailable is the answer where scripts cannot run at all.
//
//lint:ignore ST1005 the wording agents know
var errUnavailable = errors.New("execute_code sandbox is unavailable in this environment. Use normal tool calls (terminal, read_file, write_file, ...) instead.")

// executeIn are the arguments of execute_code.
type executeIn struct {
	// An absent code is answered by the tool itself, in the words agents know.
	Code string `json:"code" required:"schema"`
}

// ExecuteCode declares the tool a model calls to run a script. open opens (or
// finds) the session the script runs in; it may be nil for the declaration
// alone. The description is made from what this engine really grants and
// limits.
func (e *Engine) ExecuteCode(granted []string, open func(context.Context) (*Session, error)) registry.Tool {
	t := registry.New("execute_code", "code_execution", e.describe(granted),
		func(ctx context.Context, _ registry.Caller, in executeIn) (json.RawMessage, error) {
			if strings.TrimSpace(in.Code) == "" {
				return nil, ErrNoCode
			}
			if open == nil {
				return nil, errUnavailable
			}
			s, err := open(ctx)
			if err != nil {
				return nil, Unavailable(err)
			}
			r, _ := s.Run(ctx, Script{Code: in.Code}) // the result tells the error
			return r.JSON(), nil
		})
	t.Emoji = "🐍"
	t.Params = slices.Clone(t.Params)
	t.Params[0].Doc = codeDoc(granted)
	return t
}

// Unavailable turns the error of a backend that can run nothing here into the
// words agents know; any other error is returned as it is.
func Unavailable(err error) error {
	if errors.Is(err, sandbox.ErrUnavailable) {
		return errUnavailable
	}
	return err
}

// Granted resolves a grant as Open would: nil is the default one.
func (e *Engine) Granted(tools []string) ([]string, error) {
	names, err := grant(e.declared, e.cfg.AllowedTools, tools)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return names, nil
}

// describe says what a script can do, with the limits in force.
func (e *Engine) describe(granted []string) string {
	var b strings.Builder
	b.WriteString("Run a Python script that can call Hermes tools as functions. Prefer it when a task takes three or more tool calls with logic between them, when large outputs should be filtered before you read them, when the next step depends on a result, or when the same thing is done to many pages or files.\n\n")
	b.WriteString("Prefer plain tool calls for a single call, for results you must read and think about in full, and for anything that asks the user.\n\n")
	if len(granted) == 0 {
		b.WriteString("No tools can be imported in this session.\n\n")
	} else {
		b.WriteString("Import from hermes_tools (`from hermes_tools import ...`):\n")
		for _, name := range canonical(granted) {
			if t, ok := e.declared.Get(name); ok {
				b.WriteString("  " + registry.DocLine(t) + "\n")
			}
		}
		b.WriteByte('\n')
	}
	l := e.cfg.Limits
	fmt.Fprintf(&b, "Limits: %s timeout, %s stdout cap, max %d tool calls per script.", duration(l.Timeout), size(l.Stdout), l.MaxToolCalls)
	if slices.Contains(granted, "terminal") {
		b.WriteString(" terminal() is foreground-only (no background or pty).")
	}
	b.WriteString("\n\n")
	if e.cfg.Mode == Strict {
		b.WriteString("The script runs in a temporary directory of its own, not in the session's working directory: use absolute paths for the user's files.")
	} else {
		b.WriteString("The script runs in the session's working directory with the project's Python, so the project's packages and relative paths work as in terminal().")
	}
	b.WriteString("\n\nPrint the final result to stdout.\n\n")
	b.WriteString("Import from hermes_tools as well: json_parse(text), json.loads that tolerates control characters; shell_quote(s), for values put into commands; retry(fn, max_attempts=3, delay=2), with exponential backoff.")
	return b.String()
}

// canonical puts the well-known tools in their usual order and the rest after
// them, by name.
func canonical(granted []string) []string {
	var names []string
	for _, name := range ScriptTools() {
		if slices.Contains(granted, name) {
			names = append(names, name)
		}
	}
	for _, name := range granted {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// codeDoc describes the code argument, with an import line that works.
func codeDoc(granted []string) string {
	var show []string
	for _, name := range []string{"web_search", "terminal"} {
		if slices.Contains(granted, name) {
			show = append(show, name)
		}
	}
	if len(show) == 0 {
		show = granted[:min(2, len(granted))]
	}
	if len(show) == 0 {
		return "Python code to execute. Print the final result to stdout."
	}
	return "Python code to execute. Import tools with `from hermes_tools import " + strings.Join(show, ", ") + ", ...` and print the final result to stdout."
}

// duration prints 300 s as "5-minute" and 90 s as "90-second".
func duration(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d-minute", d/time.Minute)
	}
	return formatSeconds(d) + "-second"
}

// size prints 50,000 bytes as "50KB".
func size(n int) string {
	if n >= 1000 && n%1000 == 0 {
		return fmt.Sprintf("%dKB", n/1000)
	}
	return fmt.Sprintf("%d-byte", n)
}
