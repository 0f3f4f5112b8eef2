package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// guestsHere are the guests that are children of this process: those of
// sessions, and one that waits for the next.
func guestsHere(t *testing.T) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		status, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if bytes.HasPrefix(cmdline, []byte("hermes-exec-guest\x00")) && bytes.Contains(status, fmt.Appendf(nil, "\nPPid:\t%d\n", os.Getpid())) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killGuests kills them all, as the kernel does for want of memory.
func killGuests(t *testing.T) {
	t.Helper()
	pids := guestsHere(t)
	if len(pids) == 0 {
		t.Error("there is no guest")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
}

// A session guest that is killed in the middle of a run and between two: the
// next run works, and in the end nothing is left.
func TestKilledSessionGuest(t *testing.T) {
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	e := newEngine(t, nil)
	s := open(t, e, Task{WorkDir: dir, Policy: &sandbox.Policy{
		Name: "mine", Read: []string{"/usr", "/bin", "/lib", "/lib64", "/etc"}, Write: []string{dir}, DenyWrite: []string{filepath.Join(dir, ".envrc")}, Network: sandbox.NetworkHost,
	}})
	var once sync.Once
	r, err := s.Run(t.Context(), Script{
		Code: "import os, time, tempfile\nopen('count', 'a').write('x')\nopen(tempfile.gettempdir() + '/mine', 'w')\nprint('partial')\ntime.sleep(600)",
		Stdout: writerFunc(func(p []byte) (int, error) {
			once.Do(func() { killGuests(t) })
			return len(p), nil
		}),
	})
	if !errors.Is(err, sandbox.ErrLost) || r.Status != Failed || r.Output != "partial\n" || len(r.Warnings) != 0 {
		t.Errorf("%v: %s", err, r.JSON())
	}
	const look = "import os, tempfile\nfrom hermes_tools import read_file\nprint(os.listdir('.'), os.path.exists(tempfile.gettempdir() + '/mine'), read_file(text='served')['text'])"
	for range 2 {
		r, err = s.Run(t.Context(), Script{Code: look})
		if err != nil || news(r) != 1 || !strings.HasSuffix(r.Output, "] False served\n") {
			t.Errorf("%v: %s", err, r.JSON())
		}
		if r, err = s.Run(t.Context(), Script{Code: look}); err != nil || len(r.Warnings) != 0 {
			t.Errorf("%v: %s", err, r.JSON())
		}
		killGuests(t)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("closing a session whose box is lost: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "count")); err != nil || string(text) != "x" {
		t.Errorf("the script that was lost ran %q, %v", text, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	for stop := time.Now().Add(10 * time.Second); len(guestsHere(t)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(stop) {
			t.Fatalf("guests left: %v", guestsHere(t))
		}
	}
}
