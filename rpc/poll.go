package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// A poll waits for the eighth part of the time for which nothing has come,
	// within these bounds, and no less than listing takes.
	fastPoll = time.Millisecond
	slowPoll = 200 * time.Millisecond

	beatEvery = 5 * time.Second
	// deadAfter is how long clients believe in an engine that gives no sign, and
	// the engine in a directory that cannot be read or written.
	deadAfter = 30 * time.Second

	opTimeout   = 10 * time.Second // of one look at the directory
	lastTimeout = 2 * time.Second  // of saying that it is over

	maxEntries = 1 << 16 // names in the directory
	maxClients = 1 << 16 // that have asked for something
)

// ServePoll serves calls that come and are answered as files in dir, until
// Close or the end of ctx: the same calls as Serve, within the same bounds. It
// returns nil after Close, also when the server was closed before. Otherwise
// the error is the cause of ctx or says what is wrong with the directory, and
// the clients have been told or will find out within half a minute.
func (s *Server) ServePoll(ctx context.Context, dir Dir) error {
	return s.servePoll(ctx, newPoll(s, dir))
}

func (s *Server) servePoll(ctx context.Context, p *poll) error {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.running.begin()
	}
	s.mu.Unlock()
	if closed {
		return nil
	}
	defer s.running.end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(s.ctx, func() { cancel(ErrClosed) })()
	p.end = cancel
	p.serve(ctx)
	p.sayLast(ctx)
	if err := context.Cause(ctx); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// poll is the service of one directory.
type poll struct {
	s   *Server
	dir Dir
	end context.CancelCauseFunc // ends it all

	beatEvery, deadAfter time.Duration
	beat                 int // the number of the last one

	slots   chan struct{}      // a place for each call that has been taken
	wake    chan struct{}      // one is free, and its client may ask again
	clients map[uint64]*window // of the polling goroutine

	mu    sync.Mutex
	calls map[callName]*pollCall // that have been taken and not answered
}

// pollCall is a call whose request is in the directory. A client that takes it
// away has given up.
type pollCall struct {
	cancel context.CancelCauseFunc
	missed int // listings without it, one after the other
}

func newPoll(s *Server, dir Dir) *poll {
	return &poll{
		s: s, dir: dir, beatEvery: beatEvery, deadAfter: deadAfter,
		slots: make(chan struct{}, s.cfg.MaxRunning), wake: make(chan struct{}, 1),
		clients: map[uint64]*window{}, calls: map[callName]*pollCall{},
	}
}

// serve takes calls until ctx is done, and sees to that if the directory fails.
func (p *poll) serve(ctx context.Context) {
	var beating sync.WaitGroup
	if err := p.sayAlive(ctx); err != nil {
		p.end(fmt.Errorf("rpc: poll: %w", err))
	} else {
		beating.Go(func() { p.keepAlive(ctx) })
	}
	defer beating.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	now := time.Now()
	active, good := now, now
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			active = time.Now()
		case <-timer.C:
		}
		began := time.Now()
		names, err := p.list(ctx)
		now := time.Now()
		switch {
		case err == nil:
			good = now
			some, err := p.take(ctx, names)
			if err != nil {
				p.end(err)
				return
			}
			if some {
				active = now
			}
		case now.Sub(good) >= p.deadAfter:
			p.end(fmt.Errorf("rpc: poll: list: %w", err))
			return
		default:
			p.s.cfg.Log.Debug("rpc: poll: list, will try again", "err", err)
		}
		timer.Reset(max(min(now.Sub(active)/8, slowPoll), fastPoll, now.Sub(began)))
	}
}

func (p *poll) list(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	return p.dir.List(ctx)
}

// take begins the calls that are new among the names, the oldest of each client
// first, as far as there are places for them; and cancels those at work whose
// request is gone for the second time, as one listing may have missed it.
func (p *poll) take(ctx context.Context, names []string) (some bool, err error) {
	if len(names) > maxEntries {
		return false, fmt.Errorf("rpc: poll: more than %d files in the directory of the tools", maxEntries)
	}
	var asked []callName
	for _, name := range names {
		if n, ok := parseRequestName(name); ok {
			asked = append(asked, n)
		}
	}
	p.cancelMissing(asked)
	asked = slices.DeleteFunc(asked, func(n callName) bool {
		w := p.clients[n.client]
		return w != nil && w.taken(n.id)
	})
	slices.SortFunc(asked, func(a, b callName) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.client, b.client))
	})
	for _, n := range asked {
		select {
		case p.slots <- struct{}{}:
		default:
			return some, nil // it is taken when another one is done
		}
		w := p.clients[n.client]
		if w == nil {
			if len(p.clients) == maxClients {
				return some, fmt.Errorf("rpc: poll: more than %d clients have called tools", maxClients)
			}
			w = &window{}
			p.clients[n.client] = w
		}
		w.take(n.id)
		p.begin(ctx, n)
		some = true
	}
	return some, nil
}

func (p *poll) cancelMissing(asked []callName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) == 0 {
		return
	}
	for _, c := range p.calls {
		c.missed++
	}
	for _, n := range asked {
		if c := p.calls[n]; c != nil {
			c.missed = 0
		}
	}
	for _, c := range p.calls {
		if c.missed > 1 {
			c.cancel(errGone)
		}
	}
}

// sayAlive writes the file by which clients know that the engine lives.
func (p *poll) sayAlive(ctx context.Context) error {
	p.beat++
	return p.write(ctx, beatName, fmt.Appendf(nil, `{"beat":%d,"dead_after":%g}`+"\n", p.beat, p.deadAfter.Seconds()))
}

func (p *poll) keepAlive(ctx context.Context) {
	ticker := time.NewTicker(p.beatEvery)
	defer ticker.Stop()
	good := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		switch err := p.sayAlive(ctx); {
		case err == nil:
			good = time.Now()
		case time.Since(good) >= p.deadAfter: // nobody believes in us any more
			p.end(fmt.Errorf("rpc: poll: %w", err))
			return
		default:
			p.s.cfg.Log.Debug("rpc: poll: sign of life, will try again", "err", err)
		}
	}
}

// sayLast tells the clients that there will be no more answers, if it can.
func (p *poll) sayLast(ctx context.Context) {
	message := closedMessage
	if err := context.Cause(ctx); !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
		message = err.Error()
		p.s.cfg.Log.Warn("rpc: tools are no longer served", "err", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	line := append(appendText(fmt.Appendf(nil, `{"beat":%d,"closed":`, p.beat+1), message), answerTail...)
	if err := p.write(ctx, beatName, line); err != nil {
		p.s.cfg.Log.Debug("rpc: poll: last words", "err", err)
	}
}

// write writes a file of the parts.
func (p *poll) write(ctx context.Context, name string, parts ...[]byte) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	content := net.Buffers(parts)
	return p.dir.Write(ctx, name, &content)
}
