package engine

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// soak picks the size of a long test: HERMES_EXEC_SOAK=1 asks for all of it.
func soak(short, long int) int {
	if os.Getenv("HERMES_EXEC_SOAK") != "" {
		return long
	}
	return short
}

// footprint counts what a leak would show in.
func footprint(t *testing.T) (fds, goroutines int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc to count descriptors")
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { // the Go runtime's, which looks how many processors it has
		name, _ := os.Readlink("/proc/self/fd/" + e.Name())
		return strings.HasPrefix(name, "/sys/fs/cgroup/") && strings.Contains(name, "/cpu.")
	})
	return len(entries), runtime.NumGoroutine()
}

// settled waits until descriptors and goroutines are back at what they were.
func settled(t *testing.T, fds, goroutines int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		runtime.GC() // closes what only a finalizer still holds
		f, g := footprint(t)
		if f <= fds && g <= goroutines {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("descriptors %d → %d, goroutines %d → %d", fds, f, goroutines, g)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

const soakScript = `
import hermes_tools, subprocess, threading
def work():
    for i in range(3):
        assert hermes_tools.read_file("x")["text"] == "x"
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
subprocess.Popen(["sleep", "300"], start_new_session=True)
print("done")
`

// atRest is the footprint once nothing comes any more: the backend makes a spare
// when there is time.
func atRest(t *testing.T) (fds, goroutines int) {
	fds, goroutines = footprint(t)
	for quiet := 0; quiet < 20; quiet++ {
		time.Sleep(50 * time.Millisecond)
		f, g := footprint(t)
		if f > fds || g > goroutines {
			quiet = 0
		}
		fds, goroutines = max(f, fds), max(g, goroutines)
	}
	return fds, goroutines
}

// One engine, one session, many runs in sequence.
func TestSoakRunsInSequence(t *testing.T) {
	e := newEngine(t, nil)
	s := open(t, e, Task{})
	once := func(code string) {
		t.Helper()
		r, err := s.Run(t.Context(), Script{Code: code})
		if err != nil || r.Status != Success {
			t.Fatalf("%s, %v", r.JSON(), err)
		}
	}
	once(soakScript) // warm: lazy tables, pools
	once(soakScript)
	fds, goroutines := atRest(t)
	for i := range soak(5, 1000) {
		if i%20 == 0 {
			once(soakScript)
		} else {
			once("print('done')")
		}
	}
	settled(t, fds, goroutines)
}

// Sessions side by side, each opened, used and closed, in several rounds.
func TestSoakSessionsAtOnce(t *testing.T) {
	e := newEngine(t, nil)
	s := open(t, e, Task{})
	for range 2 { // the backend's spare
		if r, err := s.Run(t.Context(), Script{Code: "pass"}); err != nil {
			t.Fatalf("%s, %v", r.JSON(), err)
		}
	}
	fds, goroutines := atRest(t)
	for round := range soak(1, 5) {
		var wg sync.WaitGroup
		for i := range soak(8, 64) {
			wg.Go(func() {
				s, err := e.Open(t.Context(), Task{WorkDir: os.TempDir(), Policy: unconfined()})
				if err != nil {
					t.Error(err)
					return
				}
				want := fmt.Sprintf("session %d.%d", round, i)
				r, err := s.Run(t.Context(), Script{Code: "import hermes_tools\nprint(hermes_tools.read_file(" + fmt.Sprintf("%q", want) + ")['text'])"})
				if err != nil || strings.TrimSpace(r.Output) != want {
					t.Errorf("%s: %s, %v", want, r.JSON(), err)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	settled(t, fds, goroutines)
}
