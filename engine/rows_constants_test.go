package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

// constantRows are those of section 1.1.
func constantRows() []row {
	def := Limits{}.withDefaults()
	return []row{
		{id: "1.1/1 script timeout", test: all(
			equals(def.Timeout, 300*time.Second),
			func(t *testing.T) {
				equals(configured(t, "code_execution: {timeout: 7}").CodeExecution.Timeout, 7*time.Second)(t)
			},
			shows("import time; time.sleep(60)", func(c *Config, _ *Task, _ *Script) { c.Limits.Timeout = time.Second },
				func(t *testing.T, r Result) { wantStatus(t, r, TimedOut) }))},

		{id: "1.1/2 max tool calls", test: all(
			equals(def.MaxToolCalls, 50),
			func(t *testing.T) {
				equals(configured(t, "code_execution: {max_tool_calls: 7}").CodeExecution.MaxToolCalls, 7)(t)
			},
			prints("import hermes_tools as h\nprint([('error' in h.read_file('x')) for _ in range(52)].index(True))", "50\n"))},

		{id: "1.1/3 stdout cap", beaten: "it is configurable", test: all(
			equals(def.Stdout, 50_000),
			prints("print('a' * 50_000, end='')", strings.Repeat("a", 50_000)),
			shows("print('a' * 50_001, end='')", nil, func(t *testing.T, r Result) {
				if !r.Truncated || r.StdoutBytes != 50_001 {
					t.Errorf("truncated %v, %d bytes", r.Truncated, r.StdoutBytes)
				}
			}),
			shows("print('a' * 101, end='')", func(c *Config, _ *Task, _ *Script) { c.Limits.Stdout = 100 }, func(t *testing.T, r Result) {
				if !r.Truncated {
					t.Error(r.Output)
				}
			}))},

		{id: "1.1/4 stdout split", beaten: "W2: exact to the byte, where the tail lost up to a block of 4096",
			test: shows("import sys; sys.stdout.write('a' * 20000 + 'b' + 'c' * 30000)", nil, func(t *testing.T, r Result) {
				want := strings.Repeat("a", 20_000) + "\n\n... [OUTPUT TRUNCATED - 1 bytes omitted out of 50,001 total] ...\n\n" + strings.Repeat("c", 30_000)
				wantOutput(t, r, want)
			})},

		{id: "1.1/5 stderr cap", beaten: "W4: head and tail, with a notice, instead of a silent head", test: all(
			equals(def.Stderr, 10_000),
			shows("import sys; sys.stderr.write('e' * 4000 + 'm' * 5000 + 't' * 6000)", nil, func(t *testing.T, r Result) {
				if !r.Truncated || r.StderrBytes != 15_000 || len(r.Stderr) > 10_200 || !strings.Contains(r.Stderr, "OUTPUT TRUNCATED - 5,000 bytes omitted out of 15,000 total") || !strings.HasSuffix(r.Stderr, "t") {
					t.Errorf("%d bytes", len(r.Stderr))
				}
			}))},

		{id: "1.1/6 pipe reads", beaten: "what is in the pipe is read, not blocks of 4096",
			test: prints("import os, subprocess; os.write(1, b'x' * 5000); subprocess.Popen(['sleep', '600'])", strings.Repeat("x", 5000))},

		{id: "1.1/7 exit poll interval", beaten: "nothing polls: the end of the script is seen when it comes",
			test: func(t *testing.T) {
				for _, life := range []time.Duration{0, time.Nanosecond, 1234567891, 299 * time.Second} {
					inFakeTime(func(context.Context, *sandboxtest.FakeBox, sandbox.Cmd) sandbox.Exit {
						time.Sleep(life)
						return sandbox.Exit{}
					}, nil, func(t *testing.T, r Result, took time.Duration) {
						if took != life || r.Status != Success {
							t.Errorf("a script of %v took %v: %s", life, took, r.Status)
						}
					})(t)
				}
			}},

		{id: "1.1/8 kill grace", beaten: "an interrupt is followed by SIGKILL too", test: killGrace},

		{id: "1.1/9 reader join after exit", beaten: "a slow reader gets everything; only calls in flight are given up, after 5 s",
			test: func(t *testing.T) {
				w := &slow{}
				r := run(t, "print('z' * 199_999)", func(_ *Config, _ *Task, s *Script) { s.Stdout = w })
				if w.n != 200_000 || r.StdoutLost != nil {
					t.Errorf("%d bytes arrived: %v", w.n, r.StdoutLost)
				}
				inFakeTime(func(ctx context.Context, box *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit {
					c, err := dial(ctx, box, cmd)
					if err != nil {
						return sandbox.Exit{Code: 2}
					}
					go c.call(1, "extra", "{}")
					time.Sleep(time.Second)
					return sandbox.Exit{}
				}, takes(10*time.Minute), func(t *testing.T, r Result, took time.Duration) {
					if took != 6*time.Second || r.Status != Success {
						t.Errorf("took %v: %s", took, r.JSON())
					}
				})(t)
			}},

		{id: "1.1/10 RPC accept poll", beaten: "nothing polls: a connection is taken when it comes, however late",
			test: inFakeTime(func(ctx context.Context, box *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit {
				for i := range 3 {
					time.Sleep(20*time.Minute + time.Duration(i)*time.Millisecond)
					start := time.Now()
					c, err := dial(ctx, box, cmd)
					if err != nil {
						return sandbox.Exit{Code: 2}
					}
					line, err := c.call(i, "read_file", `{"text":"x"}`)
					c.Close()
					if err != nil || !strings.Contains(line, `"result"`) || time.Since(start) != 0 {
						return sandbox.Exit{Code: 3}
					}
				}
				return sandbox.Exit{}
			}, func(_ *Config, _ *Task, s *Script) { s.Limits.Timeout = 2 * time.Hour }, succeeds)},

		{id: "1.1/11 RPC socket timeouts", beaten: "only the run's own clock ends a call", test: all(
			// On the engine's side, an hour; the reference cut at 300 s.
			inFakeTime(func(ctx context.Context, box *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit {
				c, err := dial(ctx, box, cmd)
				if err != nil {
					return sandbox.Exit{Code: 2}
				}
				defer c.Close()
				for id := range 2 {
					line, err := c.call(id, "extra", "{}")
					if err != nil || line != fmt.Sprintf(`{"id":%d,"result":"late"}`+"\n", id) {
						return sandbox.Exit{Code: 3}
					}
					time.Sleep(time.Hour) // nor is a silent connection cut
				}
				return sandbox.Exit{}
			}, takes(time.Hour), succeeds),
			// On the script's side, scaled: whatever timeout the script sets for
			// its own sockets.
			printsWith(takes(300*time.Millisecond), "import socket; socket.setdefaulttimeout(0.01)\nimport hermes_tools as h\nprint(h.extra(), h.extra())", "late late\n"))},

		{id: "1.1/12 RPC recv chunk, backlog, connections", beaten: "frames instead of chunks; any number of connections, at once", test: all(
			prints(`
import hermes_tools as h
for n in (65_534, 65_535, 65_536, 65_537, 131_072, 1_000_000):
    assert h.read_file("\n" * n)["text"] == "\n" * n, n
    assert len(h.patch(n)) == n, n
print("whole")
`, "whole\n"),
			prints(`
import json, os, socket
def connect():
    s = socket.socket(socket.AF_UNIX); s.connect(os.environ["HERMES_RPC_SOCKET"]); return s
links = [connect() for _ in range(48)]
for i, s in enumerate(links):
    s.sendall(json.dumps({"id": i, "token": os.environ["HERMES_RPC_TOKEN"], "tool": "read_file", "args": {"text": str(i)}}).encode() + b"\n")
print(sum(json.loads(s.makefile().readline())["result"]["text"] == str(i) for i, s in enumerate(links)))
`, "48\n"))},

		{id: "1.1/13 remote request poll", beaten: "no remote place yet: it is refused before anything starts", test: refusesRemote(nil)},

		{id: "1.1/14 remote response poll", beaten: "no file transport: a stub without its socket says so at once", test: prints(`
import os
del os.environ["HERMES_RPC_SOCKET"]
import hermes_tools as h
try: h.read_file("x")
except RuntimeError as e: print(e)
`, "HERMES_RPC_SOCKET is not set: tools can only be called from a script that hermes-exec runs\n")},

		{id: "1.1/15 remote exec timeouts", beaten: "no remote place yet: an image or another mode change nothing", test: all(
			refusesRemote(func(task *Task) { task.Image = "debian" }),
			refusesRemote(func(task *Task) { task.Mode = Strict }))},

		{id: "1.1/16 interpreter probe", beaten: "a failure is not remembered; 10 s instead of 5 s, for cold disks", test: interpreterProbe},

		{id: "1.1/17 args preview and duration", test: shows("import hermes_tools as h\nh.read_file('é' * 500)", nil, func(t *testing.T, r Result) {
			c := r.ToolCalls[0]
			if n := len([]rune(c.ArgsPreview)); n != 80 || seconds(time.Duration(c.Duration*float64(time.Second))) != c.Duration {
				t.Errorf("%d characters, %v s", n, c.Duration)
			}
		})},

		{id: "1.1/18 heartbeat", test: func(t *testing.T) {
			var mu sync.Mutex
			var told []string
			inFakeTime(func(context.Context, *sandboxtest.FakeBox, sandbox.Cmd) sandbox.Exit {
				time.Sleep(25 * time.Second)
				return sandbox.Exit{}
			}, func(_ *Config, _ *Task, s *Script) {
				s.OnHeartbeat = func(message string) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, message)
				}
			}, func(t *testing.T, _ Result, _ time.Duration) { synctest.Wait() })(t)
			if got, want := strings.Join(told, "; "), "execute_code running (10s elapsed); execute_code running (20s elapsed)"; got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		}},

		{id: "1.1/19 result cap", beaten: "a script gets all of a result up to the frame limit, in the answer itself",
			test: prints("import hermes_tools as h\nprint(len(h.patch(300_000)))", "300000\n")},
	}
}

// takes adds the tool "extra", which answers after so long, whatever its
// context says.
func takes(d time.Duration) change {
	return func(c *Config, task *Task, s *Script) {
		c.Tools = func(sandbox.Sandbox) []registry.Tool {
			return []registry.Tool{registry.New("extra", "t", "Take time.", func(context.Context, registry.Caller, struct{}) (string, error) {
				time.Sleep(d)
				return "late", nil
			})}
		}
		task.Tools = []string{"extra"}
		s.Limits.Timeout = 24 * time.Hour
	}
}

// succeeds wants exit code 0.
func succeeds(t *testing.T, r Result, _ time.Duration) { wantStatus(t, r, Success) }

func killGrace(t *testing.T) {
	equals(Limits{}.withDefaults().Grace, 5*time.Second)(t)
	r := run(t, "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (print('cleaned up'), sys.exit(0)))\nprint('up')\ntime.sleep(60)",
		func(_ *Config, _ *Task, s *Script) { s.Limits.Timeout = time.Second })
	if r.Status != TimedOut || !strings.HasPrefix(r.Output, "up\ncleaned up\n") {
		t.Errorf("SIGTERM first: %s", r.JSON())
	}
	const deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(600)"
	for _, want := range []Status{TimedOut, Interrupted} {
		s := open(t, newEngine(t, nil), Task{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		script := Script{Code: deaf, Limits: Limits{Timeout: time.Second, Grace: 50 * time.Millisecond}}
		if want == Interrupted {
			script.Limits.Timeout = time.Hour
			script.Stdout = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
		}
		r, err := s.Run(ctx, script)
		if err != nil || r.Status != want || *r.ExitCode != -9 {
			t.Errorf("SIGKILL after it: %s, %v", r.JSON(), err)
		}
	}
}

// interpreterProbe: a program with an unusual name is asked which Python it is,
// within a bound, and asked again after a failure.
func interpreterProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []string{"", "no Python", "[3, 8, \"/work/py\"]"}
		probes := 0
		fake := &sandboxtest.Fake{Run: func(ctx context.Context, _ *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit {
			if len(cmd.Args) < 2 || cmd.Args[1] != "-I" {
				return sandbox.Exit{} // the script
			}
			answer := answers[probes]
			probes++
			if answer == "" {
				<-ctx.Done()
			}
			cmd.Stdout.Write([]byte(answer))
			return sandbox.Exit{}
		}}
		s := open(t, newEngine(t, func(c *Config) { c.Backends = map[string]sandbox.Backend{"local": fake} }), Task{WorkDir: "/work"})
		f, err := s.place.box.Files().Create(t.Context(), "/work/py", sandbox.CreateOptions{Perm: 0o755})
		if err == nil {
			err = f.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for _, want := range []string{"no answer within 10s", `is not a Python: it printed "no Python"`, ""} {
			r, err := s.Run(t.Context(), Script{Code: "pass", Interpreter: "/work/py"})
			if want == "" && err != nil || want != "" && (!errors.Is(err, ErrNoInterpreter) || !strings.Contains(r.Error, want)) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		if took := time.Since(start); took != probeTimeout || probes != 3 {
			t.Errorf("%d probes in %v", probes, took)
		}
	})
}
