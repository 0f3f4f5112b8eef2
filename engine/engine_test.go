package engine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/rpc"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	guest.Main()
	goleak.VerifyTestMain(m)
}

// testTools are small tools that behave in known ways.
func testTools(box sandbox.Sandbox) []registry.Tool {
	type none struct{}
	type echoIn struct {
		Text string `json:"text"`
	}
	type sizeIn struct {
		Bytes int `json:"bytes"`
	}
	return []registry.Tool{
		registry.New("read_file", "file", "Echo for tests.", func(_ context.Context, c registry.Caller, in echoIn) (map[string]any, error) {
			return map[string]any{"text": in.Text, "kind": c.Kind, "run": c.Run}, nil
		}),
		registry.New("terminal", "terminal", "Block until cancelled.", func(ctx context.Context, _ registry.Caller, _ none) (map[string]any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}),
		registry.New("write_file", "file", "Always fail.", func(context.Context, registry.Caller, none) (none, error) {
			return none{}, errors.New("disk on fire")
		}),
		registry.New("patch", "file", "Return many bytes.", func(_ context.Context, _ registry.Caller, in sizeIn) (string, error) {
			return strings.Repeat("x", in.Bytes), nil
		}),
		registry.New("extra", "other", "Not one of the seven.", func(context.Context, registry.Caller, none) (string, error) {
			return "extra", nil
		}),
	}
}

// testEnviron is a small environment with a Python an ordinary user can run.
func testEnviron(more ...string) []string {
	return append([]string{"PATH=/usr/bin:/bin", "HOME=" + os.TempDir(), "LANG=C.UTF-8"}, more...)
}

func newEngine(t *testing.T, change func(*Config)) *Engine {
	t.Helper()
	cfg := Config{
		Backends: map[string]sandbox.Backend{"local": local.New(local.Config{Scratch: shortTemp(t)})},
		Tools:    testTools,
		Environ:  testEnviron(),
	}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return e
}

// shortTemp is a temp dir with a path short enough for a socket, checked to be
// empty again in the end: nothing may be left behind.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				t.Errorf("left behind: %s", name)
			}
			return nil
		})
		os.RemoveAll(dir)
	})
	return dir
}

// unconfined is the policy of tests of what the engine does in any box.
func unconfined() *sandbox.Policy { return &sandbox.Policy{Name: "open", Unconfined: true} }

func open(t *testing.T, e *Engine, task Task) *Session {
	t.Helper()
	if task.WorkDir == "" {
		task.WorkDir = t.TempDir()
	}
	if task.Policy == nil {
		task.Policy = unconfined()
	}
	s, err := e.Open(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs code in a session of its own.
func run(t *testing.T, code string, change func(*Config, *Task, *Script)) Result {
	t.Helper()
	task, script := Task{Policy: unconfined()}, Script{Code: code}
	e := newEngine(t, func(c *Config) {
		if change != nil {
			change(c, &task, &script)
		}
	})
	s := open(t, e, task)
	r, err := s.Run(t.Context(), script)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if !json.Valid(r.JSON()) || !json.Valid(r.CompatJSON()) {
		t.Fatalf("invalid JSON: %s", r.JSON())
	}
	return r
}

func TestPass(t *testing.T) {
	r := run(t, "pass", nil)
	if r.Status != Success || r.Output != "" || r.Error != "" || *r.ExitCode != 0 {
		t.Errorf("got %s", r.JSON())
	}
}

func TestToolCallThroughTheGate(t *testing.T) {
	r := run(t, `
from hermes_tools import read_file
print(read_file("héllo\n\x00"))
`, nil)
	if r.Status != Success || !strings.Contains(r.Output, `'kind': 'script'`) || !strings.Contains(r.Output, `héllo\n\x00`) {
		t.Fatalf("got %s", r.JSON())
	}
	if r.ToolCallsMade != 1 || len(r.ToolCalls) != 1 || r.ToolCalls[0].Tool != "read_file" || !r.ToolCalls[0].OK {
		t.Errorf("ledger %+v", r.ToolCalls)
	}
}

func TestGrants(t *testing.T) {
	tests := []struct {
		name    string
		tools   []string
		allowed []string
		want    string // what a script may import, or the error
		refused bool
	}{
		{"default is the seven", nil, nil, "patch read_file terminal write_file", false},
		{"allowed tools add to the default", nil, []string{"extra"}, "extra patch read_file terminal write_file", false},
		{"a list grants just that", []string{"patch"}, nil, "patch", false},
		{"an empty list grants nothing", []string{}, nil, "", false}, // the reference granted all seven
		{"unknown names refuse", []string{"read_fil"}, nil, `did you mean "read_file"?`, true},
		{"case matters", []string{"Read_File"}, nil, "unknown tool", true},
		{"execute_code never", []string{"execute_code"}, nil, "never", true},
		{"delegate_task never", []string{"delegate_task"}, nil, "never", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, func(c *Config) { c.AllowedTools = tt.allowed })
			s, err := e.Open(t.Context(), Task{WorkDir: t.TempDir(), Tools: tt.tools, Policy: unconfined()})
			if tt.refused {
				if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("got error %v, want a refusal with %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.Granted(), " "); got != tt.want {
				t.Errorf("granted %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRefusedCallIsFreeAndFailedCallCounts(t *testing.T) {
	r := run(t, `
import hermes_tools, json
print(json.dumps(hermes_tools._call("terminal", {})))
print(json.dumps(hermes_tools._call("__proto__", {})))
print(json.dumps(hermes_tools.write_file()))
print(json.dumps(hermes_tools.write_file()))
print(json.dumps(hermes_tools.write_file()))
`, func(c *Config, task *Task, s *Script) {
		task.Tools = []string{"write_file", "read_file"}
		s.Limits.MaxToolCalls = 2
	})
	want := `{"error": "Tool 'terminal' is not available in execute_code. Available: read_file, write_file"}
{"error": "Tool '__proto__' is not available in execute_code. Available: read_file, write_file"}
{"error": "disk on fire"}
{"error": "disk on fire"}
{"error": "Tool call limit reached (2). No more tool calls allowed in this execution."}
`
	if r.Output != want || r.ToolCallsMade != 2 {
		t.Errorf("got %d calls and\n%swant\n%s", r.ToolCallsMade, r.Output, want)
	}
	if len(r.ToolCalls) != 2 || r.ToolCalls[0].OK {
		t.Errorf("ledger %+v", r.ToolCalls)
	}
}

func TestCapIsExactUnderManyThreads(t *testing.T) {
	var served atomic.Int64
	r := run(t, `
import threading, hermes_tools
answers = []
def work():
    for _ in range(5):
        answers.append("error" in hermes_tools.extra())
threads = [threading.Thread(target=work) for _ in range(64)]
[t.start() for t in threads]
[t.join() for t in threads]
print(answers.count(False), answers.count(True))
`, func(c *Config, task *Task, s *Script) {
		c.Tools = func(sandbox.Sandbox) []registry.Tool {
			return []registry.Tool{registry.New("extra", "t", "Count.", func(context.Context, registry.Caller, struct{}) (map[string]int64, error) {
				return map[string]int64{"n": served.Add(1)}, nil
			})}
		}
		task.Tools = []string{"extra"}
		s.Limits.MaxToolCalls = 37
	})
	if strings.TrimSpace(r.Output) != "37 283" || served.Load() != 37 || r.ToolCallsMade != 37 {
		t.Errorf("output %q, served %d, counted %d", r.Output, served.Load(), r.ToolCallsMade)
	}
}

func TestTimeoutCancelsTheCallInFlight(t *testing.T) {
	r := run(t, `
import hermes_tools
print("before")
hermes_tools.terminal()
`, func(_ *Config, _ *Task, s *Script) {
		s.Limits.Timeout = time.Second
		s.Limits.Grace = 200 * time.Millisecond
	})
	if r.Status != TimedOut || !strings.HasPrefix(r.Output, "before\n\n\n⏰ Script timed out after 1s and was killed.") {
		t.Fatalf("got %s", r.JSON())
	}
}

func TestInterruptNamesItsCause(t *testing.T) {
	for _, tt := range []struct {
		cause error
		want  string
	}{
		{nil, "\n[execution interrupted — user sent a new message]"},
		{errors.New("the machine is needed elsewhere"), "\n[execution interrupted — the machine is needed elsewhere]"},
	} {
		e := newEngine(t, nil)
		s := open(t, e, Task{})
		ctx, cancel := context.WithCancelCause(t.Context())
		started := make(chan struct{})
		w := writerFunc(func(p []byte) (int, error) { close(started); return len(p), nil })
		go func() { <-started; cancel(tt.cause) }()
		r, err := s.Run(ctx, Script{Code: "import time\nprint('up', flush=True)\ntime.sleep(60)", Stdout: w})
		if err != nil || r.Status != Interrupted || r.Output != "up\n"+tt.want || r.Error != "" {
			t.Errorf("cause %v: got %s, %v", tt.cause, r.JSON(), err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestCallsAfterTheEndAreRefused(t *testing.T) {
	// A grandchild goes on calling after the main process has ended. What it
	// sends before the engine can have heard of that may still be served; then
	// it is refused. It has until SIGKILL, 200 ms, to write down how: on a
	// machine so busy that it cannot, another one tries.
	for range 5 {
		marker := filepath.Join(t.TempDir(), "answer")
		r := run(t, `
import os, signal, sys, time
import hermes_tools
hermes_tools.read_file("warm")
main = os.getpid()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while os.getppid() == main:
        time.sleep(0.001)
    try:
        while True:
            hermes_tools.read_file("late")
    except Exception as e:
        open(sys.argv[1], "w").write(type(e).__name__)
    os._exit(0)
`, func(_ *Config, _ *Task, s *Script) {
			s.Args = []string{marker}
			s.Limits.MaxToolCalls = 1 << 30
		})
		if r.Status != Success {
			t.Fatalf("got %s", r.JSON())
		}
		if data, err := os.ReadFile(marker); err == nil {
			if string(data) != "Disconnected" {
				t.Errorf("refused by %s", data)
			}
			return
		}
	}
	t.Error("calls after the end were never refused")
}

func TestSessionCallsAsItsCaller(t *testing.T) {
	e := newEngine(t, nil)
	s := open(t, e, Task{Caller: registry.Shell})
	got := s.Call(t.Context(), rpc.Call{ID: 7, Tool: "read_file", Args: json.RawMessage(`{"text":"x"}`)})
	if string(got) != `{"kind":"shell","run":"","text":"x"}` {
		t.Errorf("got %s", got)
	}
}

func TestClosedSessionRefuses(t *testing.T) {
	e := newEngine(t, nil)
	s := open(t, e, Task{})
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("second close: %v", err)
	}
	if r, err := s.Run(t.Context(), Script{Code: "pass"}); !errors.Is(err, ErrClosed) || r.Status != Failed {
		t.Errorf("run after close: %s, %v", r.JSON(), err)
	}
	if got := s.Call(t.Context(), rpc.Call{Tool: "read_file"}); !strings.Contains(string(got), "closed") {
		t.Errorf("call after close: %s", got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Open(t.Context(), Task{}); !errors.Is(err, ErrClosed) {
		t.Errorf("open after close: %v", err)
	}
}

func TestCloseEndsARunningScript(t *testing.T) {
	e := newEngine(t, nil)
	s := open(t, e, Task{})
	started := make(chan struct{})
	done := make(chan Result, 1)
	go func() {
		r, _ := s.Run(context.Background(), Script{
			Code:   "print('up', flush=True)\nimport time; time.sleep(60)",
			Stdout: writerFunc(func(p []byte) (int, error) { close(started); return len(p), nil }),
		})
		done <- r
	}()
	<-started
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.Status == Success || !strings.Contains(r.Output, "up") {
		t.Errorf("got %s", r.JSON())
	}
}

func TestUnsetPolicyIsThatOfTheMode(t *testing.T) {
	for mode, want := range map[Mode]string{Project: "workspace", Strict: "sealed"} {
		e := newEngine(t, func(c *Config) { c.Backends = map[string]sandbox.Backend{"local": &sandboxtest.Fake{}} })
		s, err := e.Open(t.Context(), Task{Mode: mode, WorkDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if s.policy != want || s.spec.Policy.Unconfined || s.spec.Policy.Name != want {
			t.Errorf("%s: %+v", mode, s.spec.Policy)
		}
		if off := s.spec.Policy.Network == sandbox.NetworkOff; off != (mode == Strict) {
			t.Errorf("%s: network %q", mode, s.spec.Policy.Network)
		}
	}
}

func TestPolicyThatCannotBeKeptIsRefused(t *testing.T) {
	e := newEngine(t, nil)
	_, err := e.Open(t.Context(), Task{Policy: &sandbox.Policy{Name: "mine", Network: "example.com"}}) // what no backend has: hosts by name
	if !errors.Is(err, ErrRefused) || !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), `"example.com"`) {
		t.Errorf("got %v", err)
	}
}

// Without a network of its own a script must not borrow the engine's, but for
// what it was given by name.
func TestNetworkOffGrantsNoWebTools(t *testing.T) {
	e := newEngine(t, func(c *Config) {
		c.Backends = map[string]sandbox.Backend{"local": &sandboxtest.Fake{}}
		c.Tools = func(sandbox.Sandbox) []registry.Tool {
			fetch := func(context.Context, registry.Caller, struct{}) (string, error) { return "", nil }
			return []registry.Tool{registry.New("web_extract", "web", "Fetch.", fetch), registry.New("read_file", "file", "Read.", fetch)}
		}
	})
	off, host := &sandbox.Policy{Name: "off"}, &sandbox.Policy{Name: "host", Network: sandbox.NetworkHost}
	for _, c := range []struct {
		policy *sandbox.Policy
		tools  []string
		want   string
	}{
		{off, nil, "read_file"},
		{host, nil, "read_file web_extract"},
		{unconfined(), nil, "read_file web_extract"},
		{off, []string{"web_extract"}, "web_extract"},
	} {
		s, err := e.Open(t.Context(), Task{Policy: c.policy, Tools: c.tools, WorkDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Granted(), " "); got != c.want {
			t.Errorf("%s %v: granted %q, want %q", c.policy.Name, c.tools, got, c.want)
		}
	}
}
