package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// One case for each row of the reference's tables 1.1 (constants), 1.2 (tools)
// and 1.4 (strings) that a run can show; rows about the wire, the filter and
// the output pipeline have theirs in rpc, envfilter and output. "beaten" says
// what is different on purpose.
func TestReferenceRows(t *testing.T) {
	rows := []struct {
		name, beaten string
		code         string
		setup        func(*Config, *Task, *Script)
		check        func(t *testing.T, r Result)
	}{
		{name: "1.1 script timeout is configurable", code: "import time; time.sleep(60)",
			setup: func(c *Config, _ *Task, _ *Script) { c.Limits.Timeout = time.Second },
			check: func(t *testing.T, r Result) { wantStatus(t, r, TimedOut) }},
		{name: "1.1 max tool calls", code: "import hermes_tools as h\nprint([('error' in h.read_file('x')) for _ in range(52)].index(True))",
			check: func(t *testing.T, r Result) { wantOutput(t, r, "50\n") }},
		{name: "1.1 stdout cap and split", code: "print('a' * 20000 + 'b' * 40000, end='')",
			check: func(t *testing.T, r Result) {
				if strings.Count(r.Output, "a") != 20_000+strings.Count("bytes total", "a") || strings.Count(r.Output, "b") != 30_000+strings.Count("bytes", "b") {
					t.Errorf("%d a, %d b", strings.Count(r.Output, "a"), strings.Count(r.Output, "b"))
				}
			}},
		{name: "1.1 stderr cap", beaten: "head and tail, with a notice, instead of a silent head", code: "import sys; sys.stderr.write('e' * 4000 + 'm' * 5000 + 't' * 6000)",
			check: func(t *testing.T, r Result) {
				if len(r.Stderr) > 10_200 || !strings.Contains(r.Stderr, "OUTPUT TRUNCATED - 5,000 bytes omitted out of 15,000 total") || !strings.HasSuffix(r.Stderr, "t") {
					t.Errorf("%d bytes", len(r.Stderr))
				}
			}},
		{name: "1.1 pipe reads", beaten: "what is in the pipe is read, not blocks of 4096", code: "import os, subprocess; os.write(1, b'x' * 5000); subprocess.Popen(['sleep', '600'])",
			check: func(t *testing.T, r Result) { wantOutput(t, r, strings.Repeat("x", 5000)) }},
		{name: "1.1 kill grace: SIGTERM first", code: "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (print('cleaned up'), sys.exit(0)))\nprint('up')\ntime.sleep(60)",
			setup: func(_ *Config, _ *Task, s *Script) { s.Limits.Timeout = time.Second },
			check: func(t *testing.T, r Result) {
				wantStatus(t, r, TimedOut)
				if !strings.HasPrefix(r.Output, "up\ncleaned up\n") {
					t.Errorf("output %q", r.Output)
				}
			}},
		{name: "1.1 kill grace: SIGKILL after it", code: "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)",
			setup: func(_ *Config, _ *Task, s *Script) {
				s.Limits = Limits{Timeout: time.Second, Grace: 50 * time.Millisecond}
			},
			check: func(t *testing.T, r Result) {
				wantStatus(t, r, TimedOut)
				if *r.ExitCode != -9 {
					t.Errorf("exit code %d", *r.ExitCode)
				}
			}},
		{name: "1.1 connections", beaten: "any number, instead of the first alone", code: "import multiprocessing as m, hermes_tools as h\nh.read_file('x')\nwith m.get_context('fork').Pool(3) as p: print(len(p.map(h.read_file, 'abc')))",
			check: func(t *testing.T, r Result) { wantOutput(t, r, "3\n") }},
		{name: "1.1 args_preview is 80 characters, duration has two decimals", code: "import hermes_tools as h\nh.read_file('é' * 500)",
			check: func(t *testing.T, r Result) {
				c := r.ToolCalls[0]
				if n := len([]rune(c.ArgsPreview)); n != 80 || fmt.Sprintf("%.2f", c.Duration) != fmt.Sprintf("%.2f", float64(int(c.Duration*100+0.5))/100) {
					t.Errorf("%d characters, %v s", n, c.Duration)
				}
			}},
		{name: "1.1 result cap", beaten: "a script gets all of a result up to the frame limit", code: "import hermes_tools as h\nprint(len(h.patch(300000)))",
			check: func(t *testing.T, r Result) { wantOutput(t, r, "300000\n") }},
		{name: "1.2 server re-checks the grant", code: "import hermes_tools as h\nprint(h._call('extra', {})['error'])",
			check: func(t *testing.T, r Result) {
				wantOutput(t, r, "Tool 'extra' is not available in execute_code. Available: patch, read_file, terminal, write_file\n")
			}},
		{name: "1.2 a tool that is not granted cannot be imported", code: "from hermes_tools import extra",
			check: func(t *testing.T, r Result) {
				wantStatus(t, r, Failed)
				if !strings.Contains(r.Error, "ImportError") {
					t.Error(r.Error)
				}
			}},
		{name: "1.4 disallowed, limit, handler error", code: "import hermes_tools as h, json\nprint(json.dumps([h._call('nope', {}), h.write_file(), h.write_file()]))",
			setup: func(_ *Config, _ *Task, s *Script) { s.Limits.MaxToolCalls = 1 },
			check: func(t *testing.T, r Result) {
				wantOutput(t, r, `[{"error": "Tool 'nope' is not available in execute_code. Available: patch, read_file, terminal, write_file"}, {"error": "disk on fire"}, {"error": "Tool call limit reached (1). No more tool calls allowed in this execution."}]`+"\n")
				if r.ToolCallsMade != 1 {
					t.Errorf("%d calls counted", r.ToolCallsMade)
				}
			}},
		{name: "1.4 no calls at all", code: "import hermes_tools as h\nprint(h.read_file('x')['error'])",
			setup: func(_ *Config, _ *Task, s *Script) { s.Limits.MaxToolCalls = NoToolCalls },
			check: func(t *testing.T, r Result) {
				wantOutput(t, r, "Tool call limit reached (0). No more tool calls allowed in this execution.\n")
			}},
		{name: "1.4 an unexpected argument", beaten: "named, instead of passed through", code: "import hermes_tools as h\nprint(h._call('read_file', {'text': 'x', 'force': True})['error'])",
			check: func(t *testing.T, r Result) {
				if !strings.Contains(r.Output, "force") {
					t.Error(r.Output)
				}
			}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { row.check(t, run(t, row.code, row.setup)) })
	}
}

func wantStatus(t *testing.T, r Result, want Status) {
	t.Helper()
	if r.Status != want {
		t.Errorf("got %s, want status %s", r.JSON(), want)
	}
}

func wantOutput(t *testing.T, r Result, want string) {
	t.Helper()
	if r.Output != want || r.Status != Success {
		t.Errorf("got %.300s %.300s, want %.300q", r.JSON(), r.Stderr, want)
	}
}

// The execute_code tool as a model calls it: 1.3's rows about arguments.
func TestReferenceExecuteCodeTool(t *testing.T) {
	e := newEngine(t, nil)
	s := open(t, e, Task{})
	tool := func(find func(context.Context) (*Session, error)) *registry.Registry {
		r, err := registry.NewRegistry(e.ExecuteCode(s.Granted(), find))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	here := tool(func(context.Context) (*Session, error) { return s, nil })
	nowhere := tool(func(context.Context) (*Session, error) { return nil, fmt.Errorf("local: %w", sandbox.ErrUnavailable) })
	for _, row := range []struct {
		name, args, want string
		tools            *registry.Registry
	}{
		{"no code", `{}`, `{"error":"No code provided."}`, here},
		{"empty", `{"code":""}`, `{"error":"No code provided."}`, here},
		{"white space", `{"code":" \n"}`, `{"error":"No code provided."}`, here},
		{"null", `{"code":null}`, `{"error":"No code provided."}`, here},
		{"unavailable", `{"code":"pass"}`, `{"error":"execute_code sandbox is unavailable in this environment. Use normal tool calls (terminal, read_file, write_file, ...) instead."}`, nowhere},
	} {
		if got := string(row.tools.Dispatch(t.Context(), registry.Caller{}, "execute_code", json.RawMessage(row.args))); got != row.want {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
	// The reference answered a number with a Python traceback's text.
	const fault = "AttributeError"
	got := string(here.Dispatch(t.Context(), registry.Caller{}, "execute_code", json.RawMessage(`{"code":123}`)))
	if strings.Contains(got, fault) || !strings.Contains(got, "'code' must be a string") {
		t.Errorf("a number: %s", got)
	}
	var r Result
	if err := json.Unmarshal(here.Dispatch(t.Context(), registry.Caller{}, "execute_code", json.RawMessage(`{"code":"print(6*7)"}`)), &r); err != nil || r.Output != "42\n" {
		t.Errorf("got %+v, %v", r, err)
	}
}
