package docker

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// TestIdle: what is in use is not ended, and what is not is, once.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends atomic.Int64
		i := &idle{after: time.Minute, end: func() { ends.Add(1) }}
		i.touch()
		time.Sleep(50 * time.Second)
		for range 2 {
			if !i.enter() {
				t.Fatal("it ended too early")
			}
		}
		time.Sleep(time.Hour)
		i.leave()
		time.Sleep(time.Hour)
		i.leave()
		time.Sleep(50 * time.Second)
		i.touch()
		time.Sleep(59 * time.Second)
		if ends.Load() != 0 {
			t.Fatal("it ended in use")
		}
		time.Sleep(2 * time.Second)
		if i.touch(); ends.Load() != 1 || i.enter() {
			t.Errorf("%d ends", ends.Load())
		}
		stopped := &idle{after: time.Minute, end: func() { ends.Add(1) }}
		stopped.touch()
		stopped.stop()
		never := &idle{}
		never.touch()
		time.Sleep(time.Hour)
		if ends.Load() != 1 || !stopped.enter() || !never.enter() {
			t.Errorf("%d ends", ends.Load())
		}
	})
}

// TestLifetime: a box that nobody uses is lost, and says why.
func TestLifetime(t *testing.T) {
	t.Parallel()
	w := docker(t)
	c := w.config(t)
	c.Lifetime = 500 * time.Millisecond
	box := create(t, backend(t, c), profile("workspace")).(sandbox.Losable)
	if got := sh(t, box, "sleep 1.5; echo done"); got != "done" {
		t.Errorf("a command longer than the lifetime: %q", got)
	}
	select {
	case <-box.Lost():
	case <-time.After(30 * time.Second):
		t.Fatal("it is still there")
	}
	if err := box.WhyLost(); !errors.Is(err, sandbox.ErrLost) || !strings.Contains(err.Error(), "lifetime_seconds") {
		t.Errorf("why: %v", err)
	}
	if _, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrLost) {
		t.Errorf("a command afterwards: %v", err)
	}
	eventually(t, 10*time.Second, "the container is removed", func() bool {
		_, err := w.api(t).ContainerInspect(t.Context(), containerOf(box), client.ContainerInspectOptions{})
		return cerrdefs.IsNotFound(err)
	})
	if err := box.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
}
