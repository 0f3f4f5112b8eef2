package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v4"

	"github.com/hermes-exec/hermes-exec/registry"
)

const (
	maxLint       = 2 << 20 // bytes of a file that is checked
	maxScriptLint = 8 << 10 // for a script, whose calls must stay quick
	maxLintErrors = 20      // lines reported
)

// lintResult is what a syntax check found.
type lintResult struct {
	Status  string `json:"status"` // ok, error, skipped
	Output  string `json:"output,omitempty"`
	Message string `json:"message,omitempty"`
}

// errNoChecker: the program that could check is not in the box.
var errNoChecker = errors.New("no checker")

// checker finds the syntax errors of a text, one a line; "" is none.
type checker func(ctx context.Context, name, content string) (string, error)

// checkerFor returns the one for a file, and whether it starts a process.
func (s *session) checkerFor(resolved string) (check checker, process bool) {
	pure := func(f func(string) string) checker {
		return func(_ context.Context, _, content string) (string, error) { return f(content), nil }
	}
	switch strings.ToLower(path.Ext(resolved)) {
	case ".json":
		return pure(func(c string) string { return checkJSON(c, isJSONC(resolved)) }), false
	case ".yaml", ".yml":
		return pure(checkYAML), false
	case ".toml":
		return pure(checkTOML), false
	case ".go":
		return pure(checkGo), false
	case ".py":
		return s.checkPython, true
	case ".js", ".mjs", ".cjs":
		return s.checkJavaScript, true
	case ".ts":
		return s.checkTypeScript, true
	case ".rs":
		return s.checkRust, true
	}
	return nil, false
}

// compared is how long an old text may be that lint compares with, 0 for none.
func (s *session) compared(caller registry.Caller, resolved string) int64 {
	switch check, process := s.checkerFor(resolved); {
	case check == nil || process && caller.IsScript():
		return 0
	case caller.IsScript():
		return maxScriptLint
	}
	return maxLint
}

// lint checks what was written. When it is broken and was before, only what is
// new is reported: both texts go through the same checker.
func (s *session) lint(ctx context.Context, caller registry.Caller, resolved, content string, old oldFile) lintResult {
	ext := path.Ext(resolved)
	check, process := s.checkerFor(resolved)
	switch {
	case check == nil && ext == "":
		return lintResult{Status: "skipped", Message: "No linter for files without an extension"}
	case check == nil:
		return lintResult{Status: "skipped", Message: "No linter for " + ext + " files"}
	case process && caller.IsScript():
		return lintResult{Status: "skipped", Message: "Not checked for scripts: " + ext + " files need a checker process"}
	case len(content) > maxLint || caller.IsScript() && len(content) > maxScriptLint:
		return lintResult{Status: "skipped", Message: "Not checked: the file is too long"}
	}
	after, err := guarded(check)(ctx, path.Base(resolved), content)
	if err != nil {
		return lintResult{Status: "skipped", Message: "Not checked: " + err.Error()}
	}
	if after == "" {
		return lintResult{Status: "ok"}
	}
	if old.whole {
		if before, err := guarded(check)(ctx, path.Base(resolved), old.text); err == nil && before != "" {
			known := strings.Split(before, "\n")
			fresh := slices.DeleteFunc(strings.Split(after, "\n"), func(l string) bool { return slices.Contains(known, l) })
			if len(fresh) == 0 {
				return lintResult{Status: "error", Output: after,
					Message: "Pre-existing lint errors — this edit didn't introduce new ones but the file is still broken."}
			}
			after = strings.Join(fresh, "\n")
		}
	}
	return lintResult{Status: "error", Output: after}
}

// guarded keeps a parser that breaks on strange input from breaking the call:
// the file is written already.
func guarded(check checker) checker {
	return func(ctx context.Context, name, content string) (out string, err error) {
		defer func() {
			if r := recover(); r != nil {
				out, err = "", fmt.Errorf("the checker failed on it (%v)", r)
			}
		}()
		out, err = check(ctx, name, strings.TrimPrefix(content, bom))
		if list := strings.Split(out, "\n"); len(list) > maxLintErrors {
			out = strings.Join(list[:maxLintErrors], "\n")
		}
		return clip(strings.ToValidUTF8(out, "\uFFFD"), 4000), err
	}
}

// checkYAML takes a stream of several documents for what it is, and knows
// nothing of what tags mean.
func checkYAML(content string) string {
	loader, err := yaml.NewLoader(strings.NewReader(content))
	for err == nil {
		var doc yaml.Node
		err = loader.Load(&doc)
	}
	if err == io.EOF {
		return ""
	}
	return "YAMLError: " + strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " ")
}

func checkTOML(content string) string {
	var doc map[string]any
	_, err := toml.Decode(content, &doc)
	var pe toml.ParseError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &pe):
		return fmt.Sprintf("TOMLDecodeError: %s (line %d, column %d)", pe.Message, pe.Position.Line, pe.Position.Col)
	}
	return "TOMLDecodeError: " + err.Error()
}

func checkGo(content string) string {
	_, err := parser.ParseFile(token.NewFileSet(), "", content, parser.AllErrors|parser.SkipObjectResolution)
	var list scanner.ErrorList
	if err == nil {
		return ""
	}
	if !errors.As(err, &list) {
		return "SyntaxError: " + err.Error()
	}
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("SyntaxError: %s (line %d, column %d)", e.Msg, e.Pos.Line, e.Pos.Column))
	}
	return strings.Join(out, "\n")
}

// capped keeps the beginning of a checker's output.
type capped struct {
	bytes.Buffer
	max int
}

func (c *capped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), max(c.max-c.Len(), 0))])
	return len(p), nil
}
