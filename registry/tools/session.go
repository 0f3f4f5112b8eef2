package tools

import (
	"context"
	"errors"
	"sync"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// ErrNoSandbox is what a call of a tool gets that was made without a box.
var ErrNoSandbox = errors.New("no sandbox: these tools are declarations only")

// session is what the tools of one set share. All methods are safe for
// concurrent use.
type session struct {
	box sandbox.Sandbox // nil: declarations only
	cfg Config          // defaults filled in

	mu  sync.Mutex
	dir string // live working directory, absolute inside the box

	rules func() rules // what no tool touches; made at the first use
	reads reads        // what was read, for dedup and staleness
	locks pathLocks    // one writer a path
}

func newSession(box sandbox.Sandbox, cfg Config) *session {
	s := &session{box: box, cfg: cfg.withDefaults()}
	if box != nil {
		s.dir = box.Info().WorkDir
	}
	s.rules = sync.OnceValue(func() rules { return rulesFor(box, s.cfg) })
	return s
}

// cwd is the session's working directory: where relative paths start and the
// next command runs.
func (s *session) cwd() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dir
}

// setCwd changes it. dir is absolute inside the box.
func (s *session) setCwd(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir = dir
}

// pathLocks serialises the writers of one path. The zero value is ready.
type pathLocks struct {
	mu   sync.Mutex
	held map[string]*pathLock
}

type pathLock struct {
	turn  chan struct{} // holds one token while the path is locked
	users int           // who holds or wants it; at 0 the entry goes
}

// lock waits for path's turn, or for ctx, and returns what ends it.
func (l *pathLocks) lock(ctx context.Context, path string) (unlock func(), err error) {
	l.mu.Lock()
	p := l.held[path]
	if p == nil {
		if l.held == nil {
			l.held = map[string]*pathLock{}
		}
		p = &pathLock{turn: make(chan struct{}, 1)}
		l.held[path] = p
	}
	p.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(l.held, path)
		}
	}
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
