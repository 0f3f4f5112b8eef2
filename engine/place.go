package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// place is one box with all that belongs to it. A run or call takes the
// session's place at its beginning and keeps to it, even if the session has
// another one before it ends.
type place struct {
	session *Session
	box     sandbox.Sandbox
	info    sandbox.Info
	tools   func() *registry.Registry // bound to the box; they are made once
	env     []string                  // the scrubbed environment
	environ []string                  // what it was made from: says which interpreter the user has chosen
	chosen  atomic.Pointer[interpreter]

	lost  <-chan struct{} // closed when the box is lost; nil when it cannot be
	cause error           // what became of it, once that was asked; for the renewal alone
	news  []string        // what the next Result is to tell; under Session.mu
}

// newPlace makes the session's box, and binds the tools to it.
func (s *Session) newPlace(ctx context.Context) (*place, error) {
	cfg := &s.engine.cfg
	box, err := cfg.Backends[s.backend].Create(ctx, s.spec)
	if err != nil {
		if errors.Is(err, sandbox.ErrPolicy) {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil, err
	}
	p := &place{session: s, box: box, info: box.Info(), env: s.spec.Env, environ: cfg.Environ}
	if s.elsewhere { // the engine's own environment says nothing there
		p.env, p.environ = p.info.Env, p.info.Env
	}
	if losable, ok := box.(sandbox.Losable); ok {
		p.lost = losable.Lost()
	}
	p.tools = sync.OnceValue(func() *registry.Registry {
		tools, err := registry.NewRegistry(cfg.Tools(box)...)
		if err != nil { // New has seen the same declarations to be right
			cfg.Log.Error("the tools of a box are declared otherwise than without one", "error", err)
			return s.engine.declared
		}
		return tools
	})
	return p, nil
}

// module is the hermes_tools.py of the place's scripts.
func (p *place) module() string {
	poll := p.session.elsewhere && p.info.Guest == "" // it may have no sockets
	return p.session.engine.module(poll, p.session.granted)
}

// describe says in a result where the run was.
func (p *place) describe(r *Result) {
	s := p.session
	r.Backend, r.Mode, r.Policy, r.Rung = s.backend, s.mode, s.policy, p.info.Rung
	r.Enforcement = map[string]string{}
	for _, c := range p.info.Enforcement {
		r.Enforcement[string(c.Clause)] = string(c.State)
	}
}

// unguarded says what a box that keeps guards leaves out of them, "" if nothing.
func (p *place) unguarded() string {
	for _, c := range p.info.Enforcement {
		if c.Clause == sandbox.ClauseGuards && c.State == sandbox.Partial {
			return c.Why
		}
	}
	return ""
}

// isLost tells whether the box is known to be gone.
func (p *place) isLost() bool {
	select {
	case <-p.lost:
		return true
	default:
		return false
	}
}

// lostNews is how long the news of a box's end may take after a call or
// process of it was lost, which learns of it by another way.
const lostNews = 250 * time.Millisecond

// lostWith tells whether an error came of the box's being gone.
func (p *place) lostWith(err error) bool {
	if p.lost == nil || !errors.Is(err, sandbox.ErrLost) {
		return p.isLost()
	}
	news := time.NewTimer(lostNews)
	defer news.Stop()
	select {
	case <-p.lost:
		return true
	case <-news.C: // one process alone, say: the box stands
		return false
	}
}
