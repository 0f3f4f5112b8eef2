//go:build unix

package engine

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The reference's faults that concern a run, each with its wrong answer where
// there is one. W7 to W10, S6 and S8 are about the wire: see package rpc. W14
// is read_file's, S3 envfilter's; W2 to W4, S9, S10 and W15 are told with the
// rows of TestReferenceRows that they are about.

// W1: a background child that holds stdout made the reference wait and lose
// the output.
func TestFaultW1OutputWithBackgroundChild(t *testing.T) {
	for name, size := range map[string]int{"little": 6, "more than a head": 30_000} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			r := run(t, `
import subprocess, sys
sys.stdout.write("x" * `+strconv.Itoa(size-1)+` + "\n")
subprocess.Popen(["sleep", "600"])
`, nil)
			const fault = ""
			if r.Status != Success || r.Output == fault || len(r.Output) != size || r.Truncated {
				t.Errorf("%d of %d bytes: %s", len(r.Output), size, r.Status)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("the child held the run for %v", took)
			}
		})
	}
	// The same for a timeout: partial output stays.
	r := run(t, "import subprocess, time\nprint('partial')\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\ntime.sleep(600)", func(_ *Config, _ *Task, s *Script) {
		s.Limits.Timeout = time.Second
	})
	if r.Status != TimedOut || !strings.HasPrefix(r.Output, "partial\n") {
		t.Errorf("timeout: %s", r.JSON())
	}
}

// W5: what the reference's kill missed: a daemon (double fork, setsid), a
// grandchild that traps TERM, background children after success, and a script
// that ignores TERM when it is interrupted.
func TestFaultW5NothingOutlivesARun(t *testing.T) {
	daemon := `
import os, signal, sys, time
pids = sys.argv[1]
def note():
    with open(pids, "a") as f: f.write(str(os.getpid()) + "\n")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note()
        while True: time.sleep(1)
    os._exit(0)
while not os.path.exists(pids): time.sleep(0.01)
note()
`
	for name, end := range map[string]string{
		"success":   "",
		"timeout":   "time.sleep(600)",
		"interrupt": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up')\ntime.sleep(600)",
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, nil)
			s := open(t, e, Task{})
			pids := filepath.Join(t.TempDir(), "pids")
			ctx, cancel := context.WithCancel(t.Context())
			script := Script{Code: daemon + end, Args: []string{pids}, Limits: Limits{Timeout: time.Minute, Grace: 100 * time.Millisecond}}
			switch name {
			case "timeout":
				script.Limits.Timeout = time.Second
			case "interrupt":
				script.Stdout = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
			}
			_, err := s.Run(ctx, script)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(pids)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Fields(string(data)) {
				pid, _ := strconv.Atoi(line)
				if err := syscall.Kill(pid, 0); err == nil {
					t.Errorf("process %d lives after the run", pid)
				}
			}
		})
	}
}

// W6: a timeout left the reference's tool call running, which then still
// changed things. Here its context ends with the run.
func TestFaultW6ToolCallEndsWithTheRun(t *testing.T) {
	// testTools' terminal blocks until its context ends: if it were left
	// running, the run would return all the same, but Close would wait for
	// ever for the call.
	r := run(t, "import hermes_tools\nhermes_tools.terminal()", func(_ *Config, _ *Task, s *Script) {
		s.Limits.Timeout = time.Second
		s.Limits.Grace = 100 * time.Millisecond
	})
	if r.Status != TimedOut || r.ToolCallsMade != 1 {
		t.Errorf("got %s", r.JSON())
	}
}

// W17 in part, W18: limits are what was configured, and the model is told so.
func TestFaultW18LimitsAreToldAsConfigured(t *testing.T) {
	e := newEngine(t, func(c *Config) {
		c.Limits = Limits{Timeout: 90 * time.Second, MaxToolCalls: 7, Stdout: 1234}
	})
	const fault = "5-minute timeout, 50KB stdout cap, max 50 tool calls"
	text := e.ExecuteCode([]string{"read_file", "terminal"}, nil).Doc
	if strings.Contains(text, fault) || !strings.Contains(text, "90-second timeout, 1234-byte stdout cap, max 7 tool calls") {
		t.Error(text)
	}
	for _, word := range []string{"sandbox", "isolated", "cloud"} { // models then refuse network work
		if strings.Contains(strings.ToLower(text), word) {
			t.Errorf("the description says %q", word)
		}
	}
	if strings.Contains(text, "no import needed") || !strings.Contains(text, "Import from hermes_tools as well: json_parse") {
		t.Error("the helpers' import is told wrong")
	}
	if strings.Contains(e.ExecuteCode([]string{"read_file"}, nil).Doc, "foreground-only") {
		t.Error("a tool that is not granted is described")
	}
	for want, granted := range map[string][]string{
		"import web_search, terminal, ...": {"terminal", "web_search", "read_file"},
		"import terminal, ...":             {"read_file", "terminal"},
		"import patch, read_file, ...":     {"patch", "read_file", "write_file"},
		"Python code to execute. Print":    {},
	} {
		if doc := e.ExecuteCode(granted, nil).Params[0].Doc; !strings.Contains(doc, want) {
			t.Errorf("granted %v: %q", granted, doc)
		}
	}
}

// S2, in part: the engine's own environment is not the script's, and the
// script's parent is a supervisor that has none of it.
func TestFaultS2ParentHasNoSecrets(t *testing.T) {
	t.Setenv("HX_TEST_SECRET_KEY", "planted-0451")
	r := run(t, `
import os
for pid in (os.getpid(), os.getppid()):
    try:
        print(pid == os.getpid(), b"planted-0451" in open("/proc/%d/environ" % pid, "rb").read())
    except PermissionError:
        print(False, False)
`, func(c *Config, _ *Task, _ *Script) {
		c.Environ = append(testEnviron(), "HX_TEST_SECRET_KEY=planted-0451")
	})
	if r.Output != "True False\nFalse False\n" {
		t.Errorf("got %q %s", r.Output, r.Stderr)
	}
}
