package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// idle ends a box that nobody uses for a while: in which no command runs, and of
// which nothing else is asked. The zero value never does.
type idle struct {
	after time.Duration
	end   func()

	mu    sync.Mutex
	using int
	timer *time.Timer // nil while it is used, or not watched
	over  bool        // it has ended
}

// enter begins a use; false when the box has ended.
func (i *idle) enter() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return false
	}
	if i.using++; i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
	return true
}

// leave ends a use.
func (i *idle) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.using--; i.using > 0 || i.after <= 0 || i.over {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(i.after, func() {
		i.mu.Lock()
		mine := i.timer == timer // it may have been used at the last moment
		i.over = i.over || mine
		i.mu.Unlock()
		if mine {
			i.end()
		}
	})
	i.timer = timer
}

// touch is a use that is over at once.
func (i *idle) touch() {
	if i.enter() {
		i.leave()
	}
}

// stop ends the watch.
func (i *idle) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.after = 0; i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
}

// lapse ends the container of a box nobody has used.
func (m *machine) lapse() {
	m.fate.mu.Lock()
	m.fate.lost = m.unused()
	m.fate.mu.Unlock()
	// The container goes first: a connection that is closed on this side is no
	// loss to those who have it.
	ctx, cancel := context.WithTimeout(context.Background(), goAway)
	defer cancel()
	if err := errors.Join(m.remove(ctx), m.end()); err != nil {
		m.b.log.Warn("ending a container that nobody uses", "container", m.id, "err", err)
	}
}

func (m *machine) unused() error {
	return fmt.Errorf("nobody used it for %v (terminal.lifetime_seconds)", m.b.config.Lifetime)
}
