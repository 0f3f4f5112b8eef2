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
type Session struct {
	engine  *Engine
	box     sandbox.Sandbox
	info    sandbox.Info
	tools   *registry.Registry
	backend string
	mode    Mode
	policy  string
	caller  registry.CallerKind
	granted []string // what scripts may call, sorted
	env     []string // the scrubbed environment
	environ []string // what it was made from: says which interpreter the user has chosen

	elsewhere bool   // the box does not see this machine
	image     string // what the task asked for
	chosen    atomic.Pointer[interpreter]

	warnings []string

	confinement sandbox.Policy
	resources   sandbox.Resources
	explain     func(name string) string // may be nil

	ctx    context.Context // the session's lifetime
	cancel context.CancelCauseFunc
	runs   atomic.Int64

	moduleOnce sync.Once
	moduleText string

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup // runs and calls under way
}

// Info describes the session's sandbox.
func (s *Session) Info() sandbox.Info { return s.info }

// Granted names the tools scripts of this session may call, sorted.
func (s *Session) Granted() []string { return append([]string(nil), s.granted...) }

// Warnings are what the user should know about the session: that it runs
// unconfined, for one. Every Result repeats them.
func (s *Session) Warnings() []string { return append([]string(nil), s.warnings...) }

// Tools is the session's set of tools, bound to its sandbox.
func (s *Session) Tools() *registry.Registry { return s.tools }

// Call calls one tool of the session on behalf of the task's caller and always
// answers with JSON; a failure is {"error": …}.
func (s *Session) Call(ctx context.Context, c rpc.Call) json.RawMessage {
	done, err := s.enter()
	if err != nil {
		return ErrorJSON(err.Error())
	}
	defer done()
	return s.tools.Dispatch(ctx, registry.Caller{
		Kind:     s.caller,
		Session:  s.info.ID,
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
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.cancel(fmt.Errorf("session: %w", ErrClosed))
	err := s.box.Close(ctx)
	s.busy.Wait()
	s.engine.mu.Lock()
	delete(s.engine.sessions, s)
	s.engine.mu.Unlock()
	if err != nil && !errors.Is(err, sandbox.ErrClosed) {
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
