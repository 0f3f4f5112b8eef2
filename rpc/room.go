package rpc

import (
	"context"
	"slices"
	"sync"
	"time"
)

// callSize is what a call is taken to need, and takes besides its answer: a
// goroutine, mostly.
const callSize = 8 << 10

// standstill is how long the first in the queue waits for room before it goes
// in without.
const standstill = time.Second

// room bounds the memory that the calls of a server take with their answers. A
// call goes in when what it is taken to need fits with what the others hold:
// that is, until they are answered, what they were taken to need themselves.
//
// A client that does not read the one answer before it has another would wait
// for ever, so who has waited long goes in all the same; but four times longer
// for each such call that is not yet read, so that they stay few, and nobody
// behind unread answers of its own connection, whom it would not help.
type room struct {
	max      int // bytes
	most     int // calls at their handlers
	patience time.Duration

	mu      sync.Mutex
	held    int // bytes of those who are in
	running int // those of them who are at their handlers
	over    int // those of them who went in without room
	waiting []*entrant
	first   *entrant    // for whom clock is set
	clock   *time.Timer // nil until somebody has waited
}

// entrant waits for room.
type entrant struct {
	stay
	in chan struct{} // closed when it may go in
}

// A stay is a call that is in, or is to go in. Its owner calls answered when
// the handler is done, and leave at last.
type stay struct {
	room    *room
	bytes   int  // held
	unread  *int // how many answers the connection has that are not written; under room.mu
	running bool
	over    bool
}

// enter waits until there is room for a call, or for the end of ctx. Calls of
// one connection pass the same unread, for the room to use.
func (r *room) enter(ctx context.Context, need int, unread *int) (s *stay, waited bool, err error) {
	e := &entrant{stay: stay{room: r, bytes: need, unread: unread}}
	r.mu.Lock()
	if len(r.waiting) == 0 && r.fits(e) {
		r.admit(e)
		r.mu.Unlock()
		return &e.stay, false, nil
	}
	e.in = make(chan struct{})
	r.waiting = append(r.waiting, e)
	r.letIn() // it may pass those who need more
	r.mu.Unlock()
	select {
	case <-e.in:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		return &e.stay, true, nil
	}
	r.mu.Lock()
	i := slices.Index(r.waiting, e)
	if i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		r.letIn()
	}
	r.mu.Unlock()
	if i < 0 { // too late
		e.leave()
	}
	return nil, true, context.Cause(ctx)
}

// fits tells whether a call may go in. One may when nobody else is, however
// small max is.
func (r *room) fits(e *entrant) bool {
	return r.running < r.most && (r.held == 0 || r.held+e.bytes <= r.max)
}

func (r *room) admit(e *entrant) {
	e.running = true
	r.running++
	r.held += e.bytes
	if e.in != nil {
		close(e.in)
	}
}

// letIn lets in those who fit, in the order in which they came, and sets the
// clock for who is first then.
func (r *room) letIn() {
	if len(r.waiting) == 0 && r.first == nil { // as mostly
		return
	}
	left := r.waiting[:0]
	for _, e := range r.waiting {
		if r.fits(e) {
			r.admit(e)
		} else {
			left = append(left, e)
		}
	}
	clear(r.waiting[len(left):])
	r.waiting = left
	switch {
	case len(r.waiting) == 0:
		r.first = nil
		r.clock.Stop()
	case r.first != r.waiting[0]:
		r.first = r.waiting[0]
		r.setClock()
	}
}

func (r *room) setClock() {
	patience := r.patience << min(2*r.over, 20) // 4^10 s are twelve days
	if r.clock == nil {
		r.clock = time.AfterFunc(patience, r.force)
		return
	}
	r.clock.Reset(patience)
}

// force lets in the first whom it may help, without room.
func (r *room) force() {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.waiting, func(e *entrant) bool { return *e.unread == 0 })
	if i >= 0 && r.running < r.most {
		e := r.waiting[i]
		r.waiting = slices.Delete(r.waiting, i, i+1)
		e.over = true
		r.over++
		r.admit(e)
	}
	r.first = nil // set the clock anew
	r.letIn()
}

// answered says that the handler is done, and that its answer takes n bytes.
func (s *stay) answered(n int) {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	*s.unread++
	s.settle(callSize + n)
}

// leave says that the answer was written, or that there will be none.
func (s *stay) leave() {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	if !s.running {
		*s.unread--
	}
	if s.over {
		s.over = false
		s.room.over--
		s.room.first = nil // wait less from now on
	}
	s.settle(0)
}

// settle makes the call hold so many bytes, away from its handler.
func (s *stay) settle(bytes int) {
	r := s.room
	r.held += bytes - s.bytes
	s.bytes = bytes
	if s.running {
		s.running = false
		r.running--
	}
	r.letIn()
}
