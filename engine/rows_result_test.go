package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

// toolRows are those of section 1.2.
func toolRows() []row {
	const seven = "web_search web_extract read_file write_file search_files patch terminal"
	return []row{
		{id: "1.2/1 the seven tools", test: all(
			equals(strings.Join(ScriptTools(), " "), seven),
			printsWith(realTools, "from hermes_tools import "+strings.ReplaceAll(seven, " ", ", ")+"\nprint(all(map(callable, ("+strings.ReplaceAll(seven, " ", ", ")+"))))", "True\n"))},

		{id: "1.2/2 stubs are allowed and in the session", beaten: "S9: fails closed; an empty or unknown grant is not all seven", test: func(t *testing.T) {
			const list = "import hermes_tools as h\nprint([n for n in h.__all__ if n in 'extra patch read_file terminal write_file web_search'.split()])"
			for _, c := range []struct {
				tools []string
				want  string
			}{
				{nil, "['patch', 'read_file', 'terminal', 'write_file']\n"}, // this session has four of the seven
				{[]string{"terminal", "patch"}, "['patch', 'terminal']\n"},
				{[]string{}, "[]\n"},
			} {
				printsWith(func(_ *Config, task *Task, _ *Script) { task.Tools = c.tools }, list, c.want)(t)
			}
			if _, err := newEngine(t, nil).Open(t.Context(), Task{Tools: []string{"web_search"}}); !errors.Is(err, ErrRefused) {
				t.Errorf("a tool that is not there: %v", err)
			}
		}},

		{id: "1.2/3 tools a script never gets", test: all(
			shows("from hermes_tools import extra", nil, func(t *testing.T, r Result) { // registered, but not one of the seven
				wantStatus(t, r, Failed)
				if !strings.Contains(r.Error, "ImportError") {
					t.Error(r.Error)
				}
			}),
			func(t *testing.T) {
				for _, name := range []string{"execute_code", "delegate_task"} {
					if _, err := newEngine(t, nil).Open(t.Context(), Task{Tools: []string{name}}); !errors.Is(err, ErrRefused) {
						t.Errorf("%s by task: %v", name, err)
					}
					if _, err := New(Config{Backends: map[string]sandbox.Backend{"local": &sandboxtest.Fake{}}, AllowedTools: []string{name}}); err == nil {
						t.Errorf("%s by configuration", name)
					}
				}
			},
			printsWith(realTools, "import hermes_tools as h\nprint([n for n in ('execute_code', 'delegate_task', 'memory', 'browser_navigate', 'vision_analyze') if 'not available' not in h._call(n, {})['error']])", "[]\n"))},

		{id: "1.2/4 the server checks the grant again", test: prints("import hermes_tools as h\nprint(h._call('extra', {})['error'])",
			"Tool 'extra' is not available in execute_code. Available: patch, read_file, terminal, write_file\n")},
	}
}

// ends runs a script and wants status, output and error of the reference's own
// keys; "" for no error.
func ends(code string, timeout time.Duration, status Status, output, message string) func(*testing.T) {
	return shows(code, func(_ *Config, _ *Task, s *Script) {
		s.Limits = Limits{Timeout: timeout, Grace: 100 * time.Millisecond}
	}, func(t *testing.T, r Result) {
		var got struct {
			Status Status
			Output string
			Error  *string
		}
		if err := json.Unmarshal(r.CompatJSON(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Status != status || got.Output != output || (got.Error != nil) != (message != "") || got.Error != nil && *got.Error != message {
			t.Errorf("got %s\nwant %s, output %q, error %q", r.CompatJSON(), status, output, message)
		}
	})
}

// resultRows are those of section 1.3.
func resultRows() []row {
	const slow = "import time; time.sleep(60)"
	return []row{
		{id: "1.3/1 keys, their order, text as it is", test: all(
			shows("print('é世 <&> \"')", nil, func(t *testing.T, r Result) {
				if ok, _ := regexp.Match(`^\{"status":"success","output":"é世 <&> \\"\\n","tool_calls_made":0,"duration_seconds":[0-9.]+\}$`, r.CompatJSON()); !ok {
					t.Errorf("%s", r.CompatJSON())
				}
			}),
			shows("import sys; sys.exit(3)", nil, func(t *testing.T, r Result) {
				if ok, _ := regexp.Match(`^\{"status":"error","output":"","tool_calls_made":0,"duration_seconds":[0-9.]+,"error":"Script exited with code 3"`, r.JSON()); !ok {
					t.Errorf("%s", r.JSON())
				}
			}))},

		{id: "1.3/2 exit 0", beaten: "W4: stderr is in a key of its own, where it was thrown away", test: all(
			ends("print('hi')", 0, Success, "hi\n", ""),
			ends("pass", 0, Success, "", ""),
			ends("import os; os.close(1); os.close(2)", 0, Success, "", ""),
			ends("import sys; print('e', file=sys.stderr)", 0, Success, "", ""),
			shows("import sys; print('e', file=sys.stderr)", nil, func(t *testing.T, r Result) { equals(r.Stderr, "e\n")(t); equals(r.StderrBytes, 2)(t) }))},

		{id: "1.3/3 exit code and stderr", test: all(
			ends("import sys; print('o'); sys.exit('bad')", 0, Failed, "o\n\n--- stderr ---\nbad\n", "bad\n"),
			ends("import sys; sys.exit('bad')", 0, Failed, "\n--- stderr ---\nbad\n", "bad\n"))},

		{id: "1.3/4 exit code without stderr", test: all(
			ends("import sys; print('o'); sys.exit(3)", 0, Failed, "o\n", "Script exited with code 3"),
			ends("import os; os.kill(os.getpid(), 9)", 0, Failed, "", "Script exited with code -9"),
			ends("import os, signal; print('x', flush=True); os.killpg(0, signal.SIGTERM)", 0, Failed, "x\n", "Script exited with code -15"))},

		{id: "1.3/5 timeout", test: all(
			ends("print('partial')\n"+slow, time.Second, TimedOut, "partial\n\n\n⏰ Script timed out after 1s and was killed.", "Script timed out after 1s and was killed."),
			ends(slow, 1500*time.Millisecond, TimedOut, "⏰ Script timed out after 1.5s and was killed.", "Script timed out after 1.5s and was killed."))},

		{id: "1.3/6 interrupted", beaten: "another reason than a new message is named", test: func(t *testing.T) {
			for want, cause := range map[string]error{
				"user sent a new message":                nil,
				"the machine is needed for other things": errors.New("the machine is needed for other things"),
			} {
				s := open(t, newEngine(t, nil), Task{})
				ctx, cancel := context.WithCancelCause(t.Context())
				w := writerFunc(func(p []byte) (int, error) { cancel(cause); return len(p), nil })
				r, err := s.Run(ctx, Script{Code: "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nprint('up', flush=True)\ntime.sleep(60)", Stdout: w})
				cancel(nil)
				if err != nil || r.Status != Interrupted || r.Output != "up\n\n[execution interrupted — "+want+"]" || r.Error != "" {
					t.Errorf("cause %v: got %s, %v", cause, r.JSON(), err)
				}
			}
		}},

		{id: "1.3/7 no code", beaten: "a command in place of code is told what is taken", test: func(t *testing.T) {
			for _, args := range []string{`{}`, `{"code":""}`, `{"code":" \n"}`, `{"code":null}`} {
				equals(executeCode(t, nil, args), `{"error":"No code provided."}`)(t)
			}
			if got := executeCode(t, nil, `{"code":"print(6*7)"}`); !strings.HasPrefix(got, `{"status":"success","output":"42\n",`) {
				t.Error(got)
			}
			if got := executeCode(t, nil, `{"command":"ls"}`); !strings.HasPrefix(got, `{"error":"`) || !strings.Contains(got, "command") || !strings.Contains(got, "code") {
				t.Error(got)
			}
		}},

		{id: "1.3/8 unavailable", test: func(t *testing.T) {
			fake := &sandboxtest.Fake{CreateErr: fmt.Errorf("local: %w", sandbox.ErrUnavailable)}
			equals(executeCode(t, fake, `{"code":"pass"}`),
				`{"error":"execute_code sandbox is unavailable in this environment. Use normal tool calls (terminal, read_file, write_file, ...) instead."}`)(t)
		}},

		// Nobody is asked about a whole script yet; what is guarded today is each
		// command, and what a run may be, whose refusal has the same shape.
		{id: "1.3/9 guard denied", beaten: "a denied command does not end the script", test: all(
			printsWith(realTools, "import hermes_tools as h\nr = h.terminal('rm -rf /')\nprint(r['status'], r['exit_code'], r['error'][:19])", "blocked -1 BLOCKED (hardline):\n"),
			func(t *testing.T) {
				fake := &sandboxtest.Fake{}
				s := open(t, newEngine(t, func(c *Config) { c.Backends, c.Limits.Code = map[string]sandbox.Backend{"local": fake}, 10 }), Task{})
				r, err := s.Run(t.Context(), Script{Code: strings.Repeat("#", 11)})
				if ok, _ := regexp.Match(`^\{"status":"error","output":"","tool_calls_made":0,"duration_seconds":0,"error":"run: .*"\}$`, r.CompatJSON()); !ok || err == nil {
					t.Errorf("%s, %v", r.CompatJSON(), err)
				}
				if started := fake.Boxes()[0].Started(); len(started) > 0 {
					t.Errorf("it was started: %v", started)
				}
			})},

		{id: "1.3/10 internal error", beaten: "a lone surrogate is no error of ours", test: func(t *testing.T) {
			fake := &sandboxtest.Fake{Run: func(context.Context, *sandboxtest.FakeBox, sandbox.Cmd) sandbox.Exit { return sandbox.Exit{} }, Lost: fmt.Errorf("fake: %w", sandbox.ErrLost)}
			e := newEngine(t, func(c *Config) {
				c.Backends, c.Python, c.Mode = map[string]sandbox.Backend{"local": fake}, "/work/python3.11", Strict
			})
			s := open(t, e, Task{WorkDir: "/work"})
			f, err := s.place.box.Files().Create(t.Context(), "/work/python3.11", sandbox.CreateOptions{Perm: 0o755})
			if err != nil || f.Commit() != nil {
				t.Fatal(err)
			}
			r, err := s.Run(t.Context(), Script{Code: "pass"})
			if ok, _ := regexp.Match(`^\{"status":"error","output":"","tool_calls_made":0,"duration_seconds":[0-9.]+,"error":"run: fake: process was lost"\}$`, r.CompatJSON()); !ok || !errors.Is(err, sandbox.ErrLost) {
				t.Errorf("%s, %v", r.CompatJSON(), err)
			}
			if got := executeCode(t, nil, `{"code":"print('\ud800' == chr(0xfffd))"}`); strings.Contains(got, "codec") || !json.Valid([]byte(got)) {
				t.Errorf("a lone surrogate: %s", got)
			}
		}},

		{id: "1.3/11 code that is no string", beaten: "told so, where a traceback's text came", test: func(t *testing.T) {
			const fault = "AttributeError"
			got := executeCode(t, nil, `{"code":123}`)
			if strings.Contains(got, fault) || !strings.Contains(got, "'code' must be a string") {
				t.Error(got)
			}
		}},

		// Remote places are refused as a whole; the same states on this machine:
		{id: "1.3/12 remote without Python", beaten: "no remote place yet; here the refusal says what to install", test: all(refusesRemote(nil),
			func(t *testing.T) {
				s := open(t, newEngine(t, func(c *Config) { c.Environ = []string{"PATH=" + t.TempDir()} }), Task{})
				r, err := s.Run(t.Context(), Script{Code: "pass"})
				if !errors.Is(err, ErrNoInterpreter) || r.Status != Failed || r.ToolCallsMade != 0 || !strings.Contains(r.Error, "install Python 3.8 or newer") {
					t.Errorf("%s, %v", r.JSON(), err)
				}
			})},
		{id: "1.3/13 remote exit code", beaten: "no remote place yet; here stderr is told apart", test: all(refusesRemote(nil),
			shows("print('o'); raise SystemExit('e')", nil, func(t *testing.T, r Result) {
				if r.Stderr != "e\n" || r.StdoutBytes != 2 || *r.ExitCode != 1 {
					t.Errorf("%s", r.JSON())
				}
			}))},
		{id: "1.3/14 remote exit 124 and 130", beaten: "no remote place yet; here they are the script's own", test: all(refusesRemote(nil),
			ends("import sys; sys.exit(124)", 0, Failed, "", "Script exited with code 124"),
			ends("import sys; sys.exit(130)", 0, Failed, "", "Script exited with code 130"))},
		{id: "1.3/15 remote timeout", beaten: "no remote place yet; here one notice, not two", test: all(refusesRemote(nil),
			shows("print('x')\n"+slow, func(_ *Config, _ *Task, s *Script) { s.Limits.Timeout = time.Second }, func(t *testing.T, r Result) {
				if strings.Contains(r.Output, "[Command timed out") || strings.Count(r.Output, "timed out") != 1 {
					t.Error(r.Output)
				}
			}))},

		{id: "1.3/16 duration", beaten: "the whole run is measured, the wait for calls included",
			test: inFakeTime(func(ctx context.Context, box *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit {
				c, err := dial(ctx, box, cmd)
				if err != nil {
					return sandbox.Exit{Code: 2}
				}
				go c.call(1, "extra", "{}")
				time.Sleep(2*time.Second + 346*time.Millisecond)
				return sandbox.Exit{}
			}, takes(10*time.Minute), func(t *testing.T, r Result, took time.Duration) {
				if r.DurationSeconds != seconds(took) || r.DurationSeconds != 7.35 || r.Usage.WallSeconds != 2.35 {
					t.Errorf("took %v: %s", took, r.JSON())
				}
			})},
	}
}

// executeCode calls the execute_code tool as a model does, in a session on a
// backend; nil is this machine.
func executeCode(t *testing.T, backend sandbox.Backend, args string) string {
	t.Helper()
	e := newEngine(t, func(c *Config) {
		c.Tools = func(box sandbox.Sandbox) []registry.Tool { return tools.New(box, tools.Config{}) }
		if backend != nil {
			c.Backends = map[string]sandbox.Backend{"local": backend}
		}
	})
	dir := t.TempDir()
	r, err := registry.NewRegistry(e.ExecuteCode([]string{"read_file"}, func(ctx context.Context) (*Session, error) {
		return e.Open(ctx, Task{WorkDir: dir, Policy: unconfined()})
	}))
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Dispatch(t.Context(), registry.Caller{}, "execute_code", json.RawMessage(args)))
}
