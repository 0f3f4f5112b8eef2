package local_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// TestSoakStormOfSessions: a thousand processes, each in a session and so in a
// scheduling group of its own, leave the guest next to no time. It ends them all
// the same, and the box lives on.
func TestSoakStormOfSessions(t *testing.T) {
	if os.Getenv("HERMES_EXEC_SOAK") == "" {
		t.Skip("takes all cores for seconds, from other tests too: HERMES_EXEC_SOAK=1")
	}
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	box, err := backend(t, local.Config{}).Create(t.Context(), sandbox.Spec{
		WorkDir: dir, Resources: sandbox.Resources{PIDs: 1000},
		Policy: sandbox.Policy{Name: "confined", Read: []string{"/"}, Write: []string{dir}, Network: sandbox.NetworkHost,
			BestEffort: []sandbox.ClauseName{sandbox.ClauseResources}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	up := &firstWrite{seen: make(chan struct{})}
	p, err := box.Start(ctx, sandbox.Cmd{Grace: 500 * time.Millisecond, Stdout: up, Args: []string{"/usr/bin/python3", "-c", `
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
first = os.getpid()
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        if os.getpid() == first:
            os.write(1, b"full")
`}})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-up.seen:
	case <-p.Exited():
		t.Fatal(p.Wait())
	}
	cancel(errors.New("enough"))
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	p, err = box.Start(t.Context(), sandbox.Cmd{Args: []string{"/bin/echo", "next"}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil || out.String() != "next\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// firstWrite closes seen when something is written.
type firstWrite struct {
	once sync.Once
	seen chan struct{}
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.seen) })
	return len(p), nil
}
