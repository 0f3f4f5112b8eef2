package rpc

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Call is one request that has been let in.
type Call struct {
	ID   uint64          // the client's own number, unique on its connection if the client is sane
	Tool string          // as sent; nothing says that there is such a tool
	Args json.RawMessage // a valid JSON object; the handler may keep it
}

// Handler answers a call with one JSON value; a failure is {"error": …}. It is
// called from many goroutines at once and should return soon after ctx is done,
// which happens when the server closes or the caller hangs up. A panic, invalid
// JSON, nothing at all and a result that does not fit a frame reach the script
// as an {"error": …} result.
type Handler func(ctx context.Context, c Call) json.RawMessage

// AnyPeer as Config.PeerUID says that the socket cannot tell who connects.
const AnyPeer = -1

// Config is what a Server needs to know. Token and Handler are required.
type Config struct {
	// Token is the secret every request must carry; use NewToken, once a run.
	Token   string
	Handler Handler

	// PeerUID is the only user id whose processes may connect, as the engine's
	// side of the socket sees it. The zero value lets in root alone, so that
	// forgetting it shuts others out; AnyPeer lets in whoever has the token.
	PeerUID int

	// MaxFrame bounds one line in either direction, in bytes, newline included:
	// 0 means 16 MiB, the least is 4 KiB.
	MaxFrame int
	// MaxConns bounds the connections at one time; 0 means 256.
	MaxConns int
	// MaxInFlight bounds the unanswered calls of one connection; 0 means 64.
	// Further requests wait in the socket.
	MaxInFlight int
	// MaxRunning bounds the handlers that run at one time; 0 means 64.
	MaxRunning int
	// MaxPending bounds the bytes of answers that wait to be read, over all
	// connections; doc.go says how. 0 means four times MaxFrame and 4 MiB.
	MaxPending int
	// Bulky names the tools whose calls are quick and whose answers may be as
	// long as a frame: MaxPending counts a frame for each that runs. Of others
	// it counts the answer, once there is one. It is called from many goroutines
	// and with any name; nil means that there are none.
	Bulky func(tool string) bool

	Log *slog.Logger // nil discards
}

// ErrClosed is the cause of the contexts of calls that were in flight when the
// server closed.
var ErrClosed = errors.New("rpc: server is closed")

// errGone is the cause when the caller hung up.
var errGone = errors.New("rpc: the caller hung up")

const (
	leastFrame = 4 << 10
	// bigFrames is how many frames past freeBuffer the server holds at once,
	// over all connections; others wait in their sockets. It bounds what peers,
	// also those without a token, can make the engine buffer.
	bigFrames = 16
	// closeWait bounds how long Close waits for handlers.
	closeWait = 5 * time.Second
)

// Server serves the calls of one run. All methods are safe for concurrent use.
type Server struct {
	cfg    Config
	token  []byte
	ctx    context.Context // done when closed
	cancel context.CancelCauseFunc
	big    chan struct{} // a place for each big frame held
	room   *room

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	running   tally // readers and calls; added to before closed, or by one that is counted

	// Warned of once each: a script could fill a log with them.
	stranger, untrusted, tooMany sync.Once

	lookout  *time.Timer // see look
	looking  atomic.Bool
	close    sync.Once
	closeErr error
}

// NewServer makes a server; it fails when cfg has no token or handler, or a
// bound that makes no sense.
func NewServer(cfg Config) (*Server, error) {
	cfg.MaxFrame = orDefault(cfg.MaxFrame, 16<<20)
	cfg.MaxConns = orDefault(cfg.MaxConns, 256)
	cfg.MaxInFlight = orDefault(cfg.MaxInFlight, 64)
	cfg.MaxRunning = orDefault(cfg.MaxRunning, 64)
	cfg.MaxPending = orDefault(cfg.MaxPending, 4*cfg.MaxFrame+4<<20)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case cfg.Token == "":
		return nil, errors.New("rpc: a token is required")
	case cfg.Handler == nil:
		return nil, errors.New("rpc: a handler is required")
	case cfg.MaxFrame < leastFrame:
		return nil, fmt.Errorf("rpc: MaxFrame %d is less than %d", cfg.MaxFrame, leastFrame)
	case cfg.MaxConns < 0 || cfg.MaxInFlight < 0:
		return nil, fmt.Errorf("rpc: negative bound: MaxConns %d, MaxInFlight %d", cfg.MaxConns, cfg.MaxInFlight)
	case cfg.MaxRunning < 0 || cfg.MaxPending < 0:
		return nil, fmt.Errorf("rpc: negative bound: MaxRunning %d, MaxPending %d", cfg.MaxRunning, cfg.MaxPending)
	case cfg.PeerUID < AnyPeer:
		return nil, fmt.Errorf("rpc: PeerUID %d is no user id", cfg.PeerUID)
	}
	s := &Server{
		cfg:       cfg,
		token:     []byte(cfg.Token),
		big:       make(chan struct{}, bigFrames),
		room:      &room{max: cfg.MaxPending, most: cfg.MaxRunning, patience: standstill},
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.lookout = time.AfterFunc(time.Hour, s.look)
	s.lookout.Stop()
	return s, nil
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}

// NewToken returns a token nobody can guess, of letters and digits.
func NewToken() string { return rand.Text() }

// Serve accepts connections from l until Close, which closes l; then it returns
// nil, at once if the server was closed before. It may be called for several
// listeners. Any other end of l is an error.
func (s *Server) Serve(l net.Listener) error {
	if !s.track(l) {
		l.Close()
		return nil
	}
	defer s.untrack(l)
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			s.accept(nc)
		case s.ctx.Err() != nil:
			return nil
		case isPassing(err):
			s.cfg.Log.Warn("rpc: accept, will try again", "err", err)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-s.ctx.Done():
				return nil
			}
		default:
			return fmt.Errorf("rpc: accept: %w", err)
		}
	}
}

// isPassing reports whether accepting may succeed a little later.
func isPassing(err error) bool {
	for _, passing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.listeners[l] = struct{}{}
	}
	return !s.closed
}

func (s *Server) untrack(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

// accept lets a connection in or turns it away.
func (s *Server) accept(nc net.Conn) {
	if err := checkPeer(nc, s.cfg.PeerUID); err != nil {
		s.stranger.Do(func() { s.cfg.Log.Warn("rpc: connection refused", "err", err) })
		turnAway(nc, codeUnauthorized, err.Error())
		return
	}
	c := newConn(s, nc)
	s.mu.Lock()
	closed, full := s.closed, len(s.conns) >= s.cfg.MaxConns
	if !closed && !full {
		s.conns[c] = struct{}{}
		s.running.begin()
		go c.read()
	}
	s.mu.Unlock()
	if closed || full {
		c.cancel(errGone)
	}
	switch {
	case closed:
		turnAway(nc, codeClosed, closedMessage)
	case full:
		s.tooMany.Do(func() { s.cfg.Log.Warn("rpc: connection refused: too many", "limit", s.cfg.MaxConns) })
		turnAway(nc, codeBusy, fmt.Sprintf("too many connections (limit %d)", s.cfg.MaxConns))
	}
}

// turnAway says why and hangs up. It is called by the accepting goroutine, so a
// peer must not be able to hold it.
func turnAway(nc net.Conn, code, message string) {
	nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	nc.Write(appendRefusal(nil, request{}, code, message)) // what for it must be said to nobody
	nc.Close()
}

// need is what a call of a tool is taken to need in the room.
func (s *Server) need(tool string) int {
	if s.cfg.Bulky != nil && s.cfg.Bulky(tool) {
		return callSize + s.cfg.MaxFrame
	}
	return callSize
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Stop ends the service: nothing more is accepted, no further call is let in,
// the contexts of those in flight are cancelled with ErrClosed and all
// connections are closed. It does not wait, and may be repeated.
func (s *Server) Stop() {
	s.cancel(ErrClosed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.lookout.Stop()
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.nc.Close()
	}
}

// Close stops the service and waits for the handlers, but no longer than five
// seconds; it returns an error if some still run then. It may be repeated.
func (s *Server) Close() error {
	s.Stop()
	s.close.Do(func() {
		if !s.running.wait(closeWait) {
			s.closeErr = fmt.Errorf("rpc: close: a handler did not return within %v", closeWait)
		}
	})
	return s.closeErr
}
