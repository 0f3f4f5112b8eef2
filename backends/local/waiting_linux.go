package local

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

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
	mounts  *mountTable // as it was before the guest got its copy
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
	defer mounts.close()
	select {
	case <-s.Done():
	default:
		if is == identityOf(who) && !mounts.changed() {
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
		mounts, err := watchMounts()
		if err != nil {
			return
		}
		s, err := spawner.Spawn(program, who)
		if err == nil {
			if err = s.Found(who); err != nil {
				drop(s)
			}
		}
		if err != nil {
			mounts.close()
			return // who needs one will be told
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.closed || w.session != nil {
			drop(s)
			mounts.close()
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
		w.mounts.close()
		w.session = nil
	}
}

// mountTable tells whether this process's mounts have changed since it was made.
type mountTable struct{ fd int }

func watchMounts() (*mountTable, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return &mountTable{fd}, err
}

// changed asks the kernel, which tells it as an exceptional condition: see
// proc_pid_mountinfo(5).
func (m *mountTable) changed() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}, 0)
	return n != 0 || err != nil
}

func (m *mountTable) close() { unix.Close(m.fd) }
