package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/rpc"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Session is one task: one sandbox, one set of tools bound to it. Several runs
// and calls may be under way at once. All methods are safe for concurrent use.
//
// A sandbox that is lost (sandbox.Losable: a container that somebody removes, a
// connection that drops) fails what is under way in it, which is never begun
// again; the next Run or Call has a new sandbox, made as the first was. The
// first Result after that has a warning that says what is gone.
type Session struct {
	engine  *Engine
	spec    sandbox.Spec // of its boxes
	backend string
	mode    Mode
	policy  string
	caller  registry.CallerKind
	granted []string // what scripts may call, sorted

	elsewhere bool // the box does not see this machine
	warnings  []string
	explain   func(name string) string // may be nil

	ctx    context.Context // the session's lifetime
	cancel context.CancelCauseFunc
	runs   atomic.Int64

	mu       sync.Mutex
	closed   bool
	place    *place
	renewing *renewal       // nil when none is under way
	busy     sync.WaitGroup // runs, calls and renewals under way
}

// Info describes the session's sandbox, as long as it is not replaced.
func (s *Session) Info() sandbox.Info { return s.current().info }

// Granted names the tools scripts of this session may call, sorted.
func (s *Session) Granted() []string { return append([]string(nil), s.granted...) }

// Warnings are what the user should know about the session: that it runs
// unconfined, for one. Every Result repeats them.
func (s *Session) Warnings() []string { return append([]string(nil), s.warnings...) }

// Tools is the session's set of tools, bound to the sandbox it has now: unlike
// Call, they do not follow it to another.
func (s *Session) Tools() *registry.Registry { return s.current().tools() }

// Call calls one tool of the session on behalf of the task's caller and always
// answers with JSON; a failure is {"error": …}.
func (s *Session) Call(ctx context.Context, c rpc.Call) json.RawMessage {
	done, err := s.enter()
	if err != nil {
		return ErrorJSON(err.Error())
	}
	defer done()
	p, err := s.take(ctx)
	if err != nil {
		return ErrorJSON(s.engine.redact(err.Error()))
	}
	return p.tools().Dispatch(ctx, registry.Caller{
		Kind:     s.caller,
		Session:  p.info.ID,
		Call:     strconv.FormatUint(c.ID, 10),
		Lifetime: s.ctx,
	}, c.Tool, c.Args)
}

// enter marks a run or call as under way, so that Close can wait for it.
func (s *Session) enter() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("session: %w", ErrClosed)
	}
	s.busy.Add(1)
	return s.busy.Done, nil
}

// Close interrupts what runs, ends every process of the session, background
// ones included, and removes its files. It may be repeated; the context bounds
// how long a graceful end may take.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	p := s.place
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.cancel(fmt.Errorf("session: %w", ErrClosed))
	err := p.box.Close(ctx)
	s.busy.Wait()
	s.engine.mu.Lock()
	delete(s.engine.sessions, s)
	s.engine.mu.Unlock()
	if err != nil && !errors.Is(err, sandbox.ErrClosed) && !(p.isLost() && isGone(err)) {
		return fmt.Errorf("session: %w", err)
	}
	return nil
}

// ErrorJSON is a failure as a script or model sees it.
func ErrorJSON(msg string) json.RawMessage {
	return marshal(struct {
		Error string `json:"error"`
	}{msg})
}
