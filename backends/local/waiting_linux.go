package local

import (
	"bytes"
	"os"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/guest"
)

// waiting keeps one session guest that has started, laid the foundation of a box
// and waits to be told the rest: most of what a box costs is the start of its
// process. There is one from the second box of a kind on.
type waiting struct {
	mu      sync.Mutex
	closed  bool
	making  sync.WaitGroup
	timer   *time.Timer
	session *guest.Session
	last    identity // of the last box that was made
	who     identity
	mounts  []byte // this machine's, as the guest has them
}

// identity is what a guest in waiting is.
type identity struct {
	uid, gid                 int
	mapped, networkOff, base bool
	size                     int64
}

func identityOf(c guest.Confinement) identity {
	return identity{c.UID, c.GID, c.Mapped, c.NetworkOff, c.Base, c.Size}
}

// take returns the guest in waiting if it is of the kind asked for and sees
// this machine's mounts as they are now; a new mount need not reach it.
func (w *waiting) take(who guest.Confinement) *guest.Session {
	w.mu.Lock()
	s, is, mounts := w.session, w.who, w.mounts
	w.session = nil
	w.mu.Unlock()
	if s == nil {
		return nil
	}
	select {
	case <-s.Done():
	default:
		if is == identityOf(who) && bytes.Equal(mounts, hostMounts()) {
			return s
		}
	}
	drop(s)
	return nil
}

// drop ends a guest that waits.
func drop(s *guest.Session) {
	s.Kill()
	_ = s.Close()
}

// again makes another guest of a kind, soon: when a command has ended, and not
// while the box that took the last one is starting.
func (w *waiting) again(spawner *guest.Spawner, program string, who guest.Confinement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first := w.last != identityOf(who); w.closed || w.session != nil || first {
		w.last = identityOf(who)
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	w.timer = time.AfterFunc(spareAfter, func() {
		w.mu.Lock()
		if w.closed || w.session != nil {
			w.mu.Unlock()
			return
		}
		w.making.Add(1)
		w.mu.Unlock()
		defer w.making.Done()
		mounts := hostMounts()
		s, err := spawner.Spawn(program, who)
		if err == nil {
			if err = s.Found(who); err != nil {
				drop(s)
			}
		}
		if err != nil {
			return // who needs one will be told
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.closed || w.session != nil {
			drop(s)
			return
		}
		w.session, w.who, w.mounts = s, identityOf(who), mounts
	})
}

// soon makes the guest that is to be made, if one is: a command has ended.
func (w *waiting) soon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil && w.timer.Stop() {
		w.timer.Reset(afterEnd)
	}
}

func (w *waiting) close() {
	w.mu.Lock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.making.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session != nil {
		drop(w.session)
		w.session = nil
	}
}

// hostMounts are this machine's mounts as this process sees them.
func hostMounts() []byte {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	return b
}
