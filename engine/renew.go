package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// renewal is the making of a new place for one that was lost. All who need one
// meanwhile wait for the same.
type renewal struct {
	cancel    context.CancelCauseFunc
	waiting   int  // under Session.mu; when all have left it is cancelled
	abandoned bool // they have; under Session.mu

	done  chan struct{}
	place *place // once done
	err   error
}

// current is the place the session has, lost or not.
func (s *Session) current() *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place
}

// take returns the place to be in, a new one when the session's was lost. After
// an error it may be tried again.
func (s *Session) take(ctx context.Context) (*place, error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, fmt.Errorf("session: %w", ErrClosed)
		}
		if p := s.place; !p.isLost() {
			s.mu.Unlock()
			return p, nil
		}
		if s.renewing == nil {
			s.renewing = s.renew(ctx, s.place)
		}
		r := s.renewing
		r.waiting++
		s.mu.Unlock()
		select {
		case <-r.done:
			if r.err != nil && r.abandoned { // by those before, for reasons of theirs
				continue
			}
			return r.place, r.err
		case <-ctx.Done():
			s.mu.Lock()
			if r.waiting--; r.waiting == 0 {
				r.abandoned = true
				r.cancel(context.Cause(ctx))
			}
			s.mu.Unlock()
			return nil, context.Cause(ctx)
		}
	}
}

// renew begins to replace a place. The caller holds the lock, and is a run or
// call that Close waits for.
func (s *Session) renew(ctx context.Context, old *place) *renewal {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &renewal{cancel: cancel, done: make(chan struct{})}
	s.busy.Go(func() {
		defer close(r.done)
		defer cancel(nil)
		defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
		fresh, err := s.replace(ctx, old)
		s.mu.Lock()
		s.renewing = nil
		closed := s.closed
		if !closed && err == nil {
			s.place = fresh
		}
		s.mu.Unlock()
		if closed {
			if err == nil { // nobody else knows of the new place
				s.closeBox(ctx, fresh)
			}
			err = fmt.Errorf("session: %w", ErrClosed)
		}
		r.place, r.err = fresh, err
	})
	return r
}

// replace closes a lost place and makes another. One renewal at a time does it.
func (s *Session) replace(ctx context.Context, old *place) (*place, error) {
	if old.cause == nil {
		old.cause = old.box.(sandbox.Losable).WhyLost() // which a closed box does not tell
		s.closeBox(ctx, old)
	}
	fresh, err := s.newPlace(ctx)
	if err != nil {
		return nil, fmt.Errorf("session: its sandbox was lost (%w), and a new one cannot be made: %w", old.cause, err)
	}
	s.engine.cfg.Log.Warn("a lost sandbox was replaced", "sandbox", old.info.ID, "by", fresh.info.ID, "error", old.cause)
	fresh.news = []string{"the sandbox was lost (" + oneLine(s.engine.redact(old.cause.Error()), maxHint) + ") and this ran in a new one: " +
		"gone are files outside the work directory that were the sandbox's own (scratch, /tmp, a container's), " +
		"the shell's directory and exports, and background processes"}
	return fresh, nil
}

// closeBox closes a box that nobody waits for.
func (s *Session) closeBox(ctx context.Context, p *place) {
	if err := p.box.Close(ctx); err != nil && !isGone(err) {
		s.engine.cfg.Log.Warn("closing a sandbox", "sandbox", p.info.ID, "error", err)
	}
}

// tell returns what the next Result is to tell of the place, once.
func (p *place) tell() []string {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	news := p.news
	p.news = nil
	return news
}

// isGone tells whether an error only says that there is nothing any more.
func isGone(err error) bool {
	return errors.Is(err, sandbox.ErrClosed) || errors.Is(err, sandbox.ErrLost)
}
