package engine

import (
	"context"
	"errors"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// processRows are those of section 1.7.
func processRows() []row {
	return []row{
		{id: "1.7/1 session and group", test: prints("import os; print(os.getsid(0) == os.getpid() == os.getpgrp())", "True\n")},

		{id: "1.7/2 the wait: interrupt, deadline, heartbeat", beaten: "an interrupt is of one run, by its context, not of a thread",
			test: func(t *testing.T) {
				s := open(t, newEngine(t, nil), Task{})
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				both := make(chan struct{}, 2)
				up := writerFunc(func(p []byte) (int, error) { both <- struct{}{}; return len(p), nil })
				go func() { <-both; <-both; interrupt() }()
				wait := filepath.Join(t.TempDir(), "go on")
				other := make(chan Result, 1)
				go func() {
					r, _ := s.Run(t.Context(), Script{Stdout: up, Args: []string{wait}, Code: "import os, sys, time\nprint('up', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"})
					other <- r
				}()
				r, err := s.Run(ctx, Script{Stdout: up, Code: "import time\nprint('up', flush=True)\ntime.sleep(600)"})
				if err != nil || r.Status != Interrupted {
					t.Errorf("%s, %v", r.JSON(), err)
				}
				if err := os.WriteFile(wait, nil, 0o644); err != nil {
					t.Fatal(err)
				}
				wantStatus(t, <-other, Success)
				// The deadline of one run, whatever the other runs' are.
				r, err = s.Run(t.Context(), Script{Code: "import time; time.sleep(600)", Limits: Limits{Timeout: time.Second}})
				if err != nil || r.Status != TimedOut {
					t.Errorf("%s, %v", r.JSON(), err)
				}
			}},

		{id: "1.7/3 kill", beaten: "the whole tree: also who left the session, was adopted, or ignores SIGTERM", test: func(t *testing.T) {
			pids := filepath.Join(t.TempDir(), "pids")
			r := run(t, `
import os, signal, sys, time
def note():
    with open(sys.argv[1], "a") as f: f.write("%d\n" % os.getpid())
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN); note()
        while True: time.sleep(1)
    os._exit(0)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN); note()
    while True: time.sleep(1)
note()
time.sleep(600)
`, func(_ *Config, _ *Task, s *Script) {
				s.Args, s.Limits = []string{pids}, Limits{Timeout: 2 * time.Second, Grace: 100 * time.Millisecond}
			})
			wantStatus(t, r, TimedOut)
			data, err := os.ReadFile(pids)
			if err != nil || strings.Count(string(data), "\n") != 3 {
				t.Fatalf("%q, %v", data, err)
			}
			for pid := range strings.FieldsSeq(string(data)) {
				n, _ := strconv.Atoi(pid)
				if p, err := os.FindProcess(n); err == nil && p.Signal(syscall.Signal(0)) == nil {
					t.Errorf("process %s lives after the run", pid)
				}
			}
		}},

		{id: "1.7/4 after the exit", test: leavesNothing(`
import os, sys
sys.stdout.buffer.write(b"a\xff\xfeb\x00c\n"); sys.stderr.buffer.write(b"\xe4\xb8\n"); sys.stdout.flush()
print(os.environ["HERMES_RPC_SOCKET"])
`, "a\ufffd\ufffdb\x00c\n")},
	}
}

// buildsForWindows: there a backend that answers "unavailable" stands in for
// the local one, which execute_code tells in the words of 1.3/8.
func buildsForWindows(t *testing.T) {
	windows := build.Default
	windows.GOOS, windows.CgoEnabled = "windows", false
	pkg, err := windows.ImportDir("../backends/local", 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(pkg.GoFiles, "box_windows.go") || slices.Contains(pkg.GoFiles, "box_unix.go") {
		t.Errorf("on Windows package local is %v", pkg.GoFiles)
	}
	text, err := os.ReadFile("../backends/local/box_windows.go")
	if err != nil || !strings.Contains(string(text), "sandbox.ErrUnavailable") {
		t.Errorf("the box on Windows does not refuse: %v", err)
	}
	t.Run("build", windowsBuild)
}

func windowsBuild(t *testing.T) {
	goTool := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "GOOS=windows", "CGO_ENABLED=0", "GOPROXY=off", "GOFLAGS=-mod=readonly")
		return cmd.CombinedOutput()
	}
	if out, err := goTool("list", "-deps", "./cmd/hermes-exec"); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || strings.Contains(string(out), "module lookup disabled") {
			t.Skipf("no go tool with the modules at hand: %v", err)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := goTool("build", "-o", os.DevNull, "./cmd/hermes-exec"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
