package engine

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"
)

// stuck is a live writer nobody reads from: it blocks until the test ends.
type stuck struct {
	entered func()
	end     chan struct{}
}

func (s stuck) Write([]byte) (int, error) {
	s.entered()
	<-s.end
	return 0, io.ErrClosedPipe
}

// TestLiveWriterStuck: a writer that blocks for ever holds up the script, but
// neither a timeout nor an interrupt.
func TestLiveWriterStuck(t *testing.T) {
	s := open(t, newEngine(t, nil), Task{})
	const flood = "import sys\nwhile True: print('x' * 1000); print('y' * 1000, file=sys.stderr)"
	for _, want := range []Status{TimedOut, Interrupted} {
		t.Run(string(want), func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			limits := Limits{Timeout: time.Second, Grace: 100 * time.Millisecond}
			var entered atomic.Bool
			w := stuck{func() { entered.Store(true) }, make(chan struct{})}
			defer close(w.end)
			if want == Interrupted {
				limits.Timeout = time.Hour
				w.entered = func() { entered.Store(true); cancel() }
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				r, err := s.Run(ctx, Script{Code: flood, Stdout: w, Limits: limits})
				if err != nil || r.Status != want {
					t.Errorf("%s, %v, want %s", r.Status, err, want)
				}
				if entered.Load() && !errors.Is(r.StdoutLost, errUnread) {
					t.Errorf("lost %v, want %v", r.StdoutLost, errUnread)
				}
			}()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("Run waits for a writer that blocks")
			}
		})
	}
}

// slow is a live writer that takes its time.
type slow struct{ n int }

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(5 * time.Millisecond)
	s.n += len(p)
	return len(p), nil
}

// TestLiveWriterSlow: one that is only slow gets everything, however long after
// the script's end.
func TestLiveWriterSlow(t *testing.T) {
	s := open(t, newEngine(t, nil), Task{})
	w := &slow{}
	r, err := s.Run(context.Background(), Script{Code: "print('z ' * 1_000_000)", Stdout: w})
	if err != nil || r.Status != Success || r.StdoutLost != nil {
		t.Fatalf("%s, %v, lost %v", r.Status, err, r.StdoutLost)
	}
	if w.n != 2_000_001 {
		t.Errorf("%d bytes arrived, want 2000001", w.n)
	}
}

// TestStoppedBeforeStart: a run that is ended before its script began is no
// failure of the engine.
func TestStoppedBeforeStart(t *testing.T) {
	s := open(t, newEngine(t, nil), Task{})
	r, err := s.Run(context.Background(), Script{Code: "pass", Limits: Limits{Timeout: 1}})
	if err != nil || r.Status != TimedOut || r.ExitCode != nil {
		t.Errorf("timeout: %s, exit code %v, %v", r.Status, r.ExitCode, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("changed my mind"))
	r, err = s.Run(ctx, Script{Code: "pass"})
	if err != nil || r.Status != Interrupted || r.Output != "\n[execution interrupted — changed my mind]" {
		t.Errorf("interrupt: %s, %q, %v", r.Status, r.Output, err)
	}
}
