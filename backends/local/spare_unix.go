//go:build unix

package local

import (
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/guest"
)

// spareAfter is when, after a Start, the next guest is made if no command has
// ended before: not while the command itself is starting.
const spareAfter = 250 * time.Millisecond

// afterEnd is what a command's end gets to be told and tidied up after before the
// next guest is made.
const afterEnd = 5 * time.Millisecond

// spare keeps one guest in waiting for the boxes that are not confined, so that
// the next Start need not wait for one. It is there from the first box on, and
// again once it was used.
type spare struct {
	program string

	mu     sync.Mutex
	closed bool
	busy   bool // one is being made
	making sync.WaitGroup
	ready  *guest.Supervisor
	taken  int
	timer  *time.Timer
}

// make makes a guest in the background unless there is one.
func (s *spare) make() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.busy || s.ready != nil {
		return
	}
	s.busy = true
	s.making.Go(func() {
		sup, _ := guest.Spawn(s.program) // Start will tell what is wrong
		s.mu.Lock()
		s.busy, s.ready = false, sup
		s.mu.Unlock()
	})
}

// take returns a guest: the one in waiting, else a new one.
func (s *spare) take() (sup *guest.Supervisor, spare bool, err error) {
	s.mu.Lock()
	sup, s.ready = s.ready, nil
	s.taken++
	if s.timer == nil {
		s.timer = time.AfterFunc(spareAfter, s.make)
	} else if !s.closed {
		s.timer.Reset(spareAfter)
	}
	s.mu.Unlock()
	if sup != nil {
		return sup, true, nil
	}
	sup, err = guest.Spawn(s.program)
	return sup, false, err
}

// again is called when a command has ended: who has run two will run more.
func (s *spare) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken > 1 && !s.closed && s.timer.Stop() {
		s.timer.Reset(afterEnd)
	}
}

// close ends the guest in waiting.
func (s *spare) close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.making.Wait()
	s.mu.Lock()
	sup := s.ready
	s.ready = nil
	s.mu.Unlock()
	if sup != nil {
		sup.Kill() // it has nothing to supervise
		_, _ = sup.Close()
	}
}
