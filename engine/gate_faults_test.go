//go:build unix

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools"
	"github.com/hermes-exec/hermes-exec/rpc"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// The reference's faults of its tools that concern the gate and the session,
// by their numbers: wrong is what it answered. The others are in package
// registry and below it.

// 5: whoever dispatched a call did not look at what was granted. The gate does,
// first, and takes a name for nothing but itself.
func TestFault05NoSpellingPassesTheGate(t *testing.T) {
	var ran atomic.Int64
	e := newEngine(t, func(c *Config) {
		c.Tools = func(sandbox.Sandbox) []registry.Tool {
			var list []registry.Tool
			for _, name := range []string{"terminal", "execute_code", "delegate_task", "read_file"} {
				list = append(list, registry.New(name, "t", "", func(context.Context, registry.Caller, struct{}) (string, error) {
					ran.Add(1)
					return name, nil
				}))
			}
			return list
		}
	})
	s := open(t, e, Task{Tools: []string{"read_file"}})
	g := &gate{place: s.place, run: "run-1", granted: s.granted, max: 5, ctx: t.Context()}
	names := []string{
		"terminal", "Terminal", "TERMINAL", " terminal", "terminal ", "terminal\n", "terminal\x00", "\x00terminal", "terminal\u200b",
		"\ufeffterminal", "tеrminal", "ｔｅｒｍｉｎａｌ", "te\u0301rminal", "./terminal", "../terminal", "hermes_tools.terminal", "terminal()",
		"functions.terminal", "mcp_terminal", "read_file,terminal", "read_file\x00terminal", "read_file/../terminal", "read_fil", "read_filee",
		"execute_code", "delegate_task", "", "*", "all", "__proto__", "__class__", "_call", strings.Repeat("terminal", 1<<16), "terminal\xff",
	}
	for _, name := range names {
		const wrong = `"terminal"`
		got := g.handle(t.Context(), rpc.Call{ID: 1, Tool: name, Args: json.RawMessage(`{}`)})
		if string(got) == wrong || !strings.Contains(string(got), " is not available in execute_code. Available: read_file") || !json.Valid(got) || len(got) > 2000 {
			t.Errorf("%.40q: %.300s", name, got)
		}
	}
	if n := ran.Load(); n != 0 || g.made.Load() != 0 || len(g.ledger()) != 0 {
		t.Errorf("%d tools ran, %d calls were counted", n, g.made.Load())
	}
	// The twin: the name itself passes.
	if got := string(g.handle(t.Context(), rpc.Call{ID: 2, Tool: "read_file"})); got != `"read_file"` || g.made.Load() != 1 {
		t.Errorf("what is granted answers %s", got)
	}
}

// 6: a guard that broke let the call through. Here what a tool checks is part
// of the call: when it breaks, the call fails, counts, and the run goes on.
func TestFault06ABrokenGuardRefuses(t *testing.T) {
	var effects atomic.Int64
	none := func() map[string]int { return nil }
	guards := map[string]func() error{
		"panics":  func() error { panic("the guard broke") },
		"nil map": func() error { none()["x"]++; return nil },
		"refuses": func() error { return fmt.Errorf("the guard says no") },
	}
	names := []string{"panics", "nil map", "refuses"}
	r := run(t, `
import hermes_tools
for guard in ("panics", "nil map", "refuses", "none"):
    print(hermes_tools.write_file(guard))
`, func(c *Config, _ *Task, _ *Script) {
		type in struct {
			Guard string `json:"guard"`
		}
		c.Tools = func(sandbox.Sandbox) []registry.Tool {
			return []registry.Tool{registry.New("write_file", "file", "Guarded.", func(_ context.Context, _ registry.Caller, in in) (string, error) {
				if guard := guards[in.Guard]; guard != nil {
					if err := guard(); err != nil {
						return "", err
					}
				}
				effects.Add(1)
				return "written", nil
			})}
		}
	})
	lines := strings.Split(strings.TrimSpace(r.Output), "\n")
	if r.Status != Success || len(lines) != 4 {
		t.Fatalf("got %s", r.JSON())
	}
	const wrong = "written"
	for i, name := range names {
		if lines[i] == wrong || !strings.HasPrefix(lines[i], "{'error': ") {
			t.Errorf("%s: %s", name, lines[i])
		}
	}
	if lines[3] != wrong || effects.Load() != 1 || r.ToolCallsMade != 4 {
		t.Errorf("without a guard: %s; %d effects, %d calls", lines[3], effects.Load(), r.ToolCallsMade)
	}
	for i, call := range r.ToolCalls {
		if call.OK != (i == 3) {
			t.Errorf("call %d is told as %+v", i, call)
		}
	}
}

// counting is a backend that notes what it was asked to create.
type counting struct {
	sandbox.Backend
	mu    sync.Mutex
	specs []sandbox.Spec
}

func (c *counting) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	c.mu.Lock()
	c.specs = append(c.specs, spec)
	c.mu.Unlock()
	return c.Backend.Create(ctx, spec)
}

// 43: the tool that was called first made the box, each with settings of its
// own. Here the session makes it, once, before any tool, and all share it.
func TestFault43OneBoxWhoeverIsFirst(t *testing.T) {
	calls := map[string]rpc.Call{
		"file":     {Tool: "write_file", Args: json.RawMessage(`{"path":"f","content":"$SET\n"}`)},
		"terminal": {Tool: "terminal", Args: json.RawMessage(`{"command":"cat f; echo $SET"}`)},
	}
	for _, order := range [][]string{{"file", "terminal"}, {"terminal", "file", "terminal"}} {
		b := &counting{Backend: local.New(local.Config{Scratch: shortTemp(t)})}
		e := newEngine(t, func(c *Config) {
			c.Backends = map[string]sandbox.Backend{"local": b}
			c.Tools = func(box sandbox.Sandbox) []registry.Tool {
				cfg := tools.Config{}
				if box != nil {
					cfg.ModelEnv = append(testEnviron(), "SET=by the session")
				}
				return tools.New(box, cfg)
			}
		})
		s := open(t, e, Task{Env: []string{"SET=by the session"}})
		before := slices.Clone(b.specs)
		var last string
		for i, name := range order {
			call := calls[name]
			call.ID = uint64(i)
			last = string(s.Call(t.Context(), call))
		}
		const wrong = `"output":""` // another box, or one without the settings
		if strings.Contains(last, wrong) || !strings.Contains(last, `"output":"$SET\nby the session"`) {
			t.Errorf("%v: %s", order, last)
		}
		if len(before) != 1 || len(b.specs) != 1 || !slices.Contains(b.specs[0].Env, "SET=by the session") {
			t.Errorf("%v: boxes were made as %v, then %v", order, before, b.specs)
		}
	}
}

// 53 (and 1): an empty list of tools meant every tool.
func TestFault53AnEmptyGrantIsEmpty(t *testing.T) {
	e := newEngine(t, nil)
	const wrong = "patch read_file terminal write_file"
	over, cancel := context.WithCancel(t.Context())
	cancel() // should terminal be reached, it returns
	for what, c := range map[string]struct {
		tools []string
		want  string
	}{
		"none":         {[]string{}, ""},
		"one left out": {[]string{"write_file", "read_file", "patch"}, "patch read_file write_file"},
	} {
		s := open(t, e, Task{Tools: c.tools})
		g := &gate{place: s.place, run: "run-1", granted: s.granted, max: 5, ctx: t.Context()}
		if got := strings.Join(s.Granted(), " "); got == wrong || got != c.want {
			t.Errorf("%s: granted %q", what, got)
		}
		if got := string(g.handle(over, rpc.Call{Tool: "terminal"})); !strings.Contains(got, "is not available") {
			t.Errorf("%s: %s", what, got)
		}
		if module := s.place.module(); strings.Contains(module, "def terminal(") {
			t.Errorf("%s: the module offers it", what)
		}
	}
}
