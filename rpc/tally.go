package rpc

import (
	"sync"
	"sync/atomic"
	"time"
)

// tally is a sync.WaitGroup that can be waited for with patience, and without
// another goroutine while it is at zero: most scripts hang up before they end.
type tally struct {
	n     atomic.Int64
	group sync.WaitGroup
}

func (t *tally) begin() {
	t.n.Add(1)
	t.group.Add(1)
}

func (t *tally) end() {
	t.n.Add(-1)
	t.group.Done()
}

// wait reports whether all have ended in time.
func (t *tally) wait(most time.Duration) bool {
	if t.n.Load() == 0 {
		return true
	}
	done := make(chan struct{})
	go func() {
		t.group.Wait()
		close(done)
	}()
	patience := time.NewTimer(most)
	defer patience.Stop()
	select {
	case <-done:
		return true
	case <-patience.C:
		return false
	}
}
