package rpc

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The codes of protocol errors; doc.go says what each means.
const (
	codeInvalid      = "invalid"
	codeUnauthorized = "unauthorized"
	codeTooLarge     = "too_large"
	codeClosed       = "closed"
	codeBusy         = "busy"
)

const (
	closedMessage  = "the run has ended; calls are no longer served"
	invalidMessage = "Invalid RPC request: "

	maxJunk = 8 // invalid lines answered before the token was shown once
)

// conn is one connection. At any time at most one goroutine has its reading
// role: it takes in requests, and handles them itself when nothing else waits,
// which spares a hand-over between goroutines for the common caller, who
// sends a request and waits. When such a call takes long, the lookout
// gives the reading role to a new goroutine.
type conn struct {
	s      *Server
	nc     net.Conn
	ctx    context.Context // of every call; done when the peer is gone or the server closes
	cancel context.CancelCauseFunc
	slots  chan struct{} // a place for each call in flight

	// Owned by whoever has the reading role.
	in      lines
	holds   bool // a place in s.big, for the line being read
	trusted bool // has shown the token
	junk    int

	// turn is odd while the reader handles a call itself. Whoever makes it even
	// again, reader or lookout, decides who goes on reading.
	turn atomic.Uint64
	seen uint64 // turn at the last look; under s.mu

	writing sync.Mutex
	out     []byte // scratch for one answer, reused
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, slots: make(chan struct{}, s.cfg.MaxInFlight)}
	c.ctx, c.cancel = context.WithCancelCause(s.ctx)
	c.in = lines{src: nc, max: s.cfg.MaxFrame, grow: c.hold}
	return c
}

// read takes in requests until the connection ends or the role is taken away.
func (c *conn) read() {
	defer c.s.running.Done()
	for {
		line, owned, err := c.in.next()
		if err != nil {
			c.end(err)
			return
		}
		free := func() {}
		if owned {
			free, c.holds = c.unhold, false
		}
		r, ok, end := c.admit(line)
		if end {
			free()
			c.end(nil)
			return
		}
		if !ok {
			free()
			continue
		}
		call := Call{ID: r.id, Tool: r.tool, Args: r.args}
		if !owned {
			call.Args = bytes.Clone(call.Args)
		}
		alone := !c.in.buffered() && len(c.slots) == 0
		c.slots <- struct{}{}
		if !alone {
			c.s.running.Add(1)
			go func() {
				defer c.s.running.Done()
				c.serve(call, free)
			}()
			continue
		}
		turn := c.turn.Add(1)
		c.s.watch()
		c.serve(call, free)
		if !c.turn.CompareAndSwap(turn, turn+1) {
			return // somebody else reads now
		}
	}
}

// admit judges a line. It answers what is refused, and tells whether the
// request is to be served and whether the connection must end.
func (c *conn) admit(line []byte) (r request, ok, end bool) {
	if skipSpace(line, 0) == len(line) {
		return r, false, false
	}
	r, err := parseRequest(line)
	switch {
	case err != nil:
		c.refuse(request{}, codeInvalid, invalidMessage+err.Error())
	case subtle.ConstantTimeCompare(r.token, c.s.token) != 1:
		c.s.untrusted.Do(func() { c.s.cfg.Log.Warn("rpc: request without the run's token refused") })
		c.refuse(r, codeUnauthorized, "missing or wrong token")
		return r, false, true
	case c.s.ctx.Err() != nil:
		c.refuse(r, codeClosed, closedMessage)
		return r, false, true
	case r.fault != "":
		c.trusted = true
		c.refuse(r, codeInvalid, invalidMessage+r.fault)
	default:
		c.trusted = true
		if r.args == nil {
			r.args = json.RawMessage("{}")
		}
		return r, true, false
	}
	if !c.trusted {
		c.junk++
	}
	return r, false, c.junk >= maxJunk
}

// end delivers what is still owed, if there is somebody to take it, and closes.
// It is called with the reading role.
func (c *conn) end(err error) {
	switch {
	case err == nil: // the peer has been told why
	case errors.Is(err, errTooLong):
		c.refuse(request{}, codeTooLarge, fmt.Sprintf("request exceeds the frame limit of %d bytes", c.s.cfg.MaxFrame))
	case errors.Is(err, io.EOF) && !hungUp(c.nc): // half closed: no more requests, answers wanted
	default:
		c.cancel(errGone)
	}
	if c.holds {
		c.unhold()
	}
	c.in.buf = nil
	for range cap(c.slots) { // all calls answered
		c.slots <- struct{}{}
	}
	c.cancel(errGone)
	c.nc.Close()
	c.s.forget(c)
}

// hold waits for a place for a big frame.
func (c *conn) hold() error {
	select {
	case c.s.big <- struct{}{}:
		c.holds = true
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

func (c *conn) unhold() { <-c.s.big }

// serve handles a call that has a place in slots, and answers it.
func (c *conn) serve(call Call, free func()) {
	defer func() { <-c.slots }()
	result := c.invoke(call)
	free()
	c.answer(call.ID, fit(result, c.s.cfg.MaxFrame))
}

func (c *conn) invoke(call Call) (result json.RawMessage) {
	defer func() {
		if p := recover(); p != nil {
			c.s.cfg.Log.Error("rpc: handler panicked", "tool", call.Tool, "panic", p, "stack", string(debug.Stack()))
			result = errorResult("internal error: the tool panicked")
		}
	}()
	return c.s.cfg.Handler(c.ctx, call)
}

// answer writes a result that fits: one system call for a small one, no copy
// of a large one.
func (c *conn) answer(id uint64, result json.RawMessage) {
	c.writing.Lock()
	defer c.writing.Unlock()
	b := append(c.out[:0], `{"id":`...)
	b = strconv.AppendUint(b, id, 10)
	b = append(b, `,"result":`...)
	if len(result) > smallBuffer {
		parts := net.Buffers{b, result, []byte("}\n")}
		_, err := parts.WriteTo(c.nc)
		c.wrote(err)
		return
	}
	b = append(b, result...)
	b = append(b, "}\n"...)
	c.out = b
	_, err := c.nc.Write(b)
	c.wrote(err)
}

// refuse writes a protocol error.
func (c *conn) refuse(r request, code, message string) {
	c.s.cfg.Log.Debug("rpc: refused", "code", code, "message", message)
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.nc.Write(appendRefusal(nil, r, code, message))
	c.wrote(err)
}

// wrote ends everything on the connection when an answer could not be written:
// the reader will notice too.
func (c *conn) wrote(err error) {
	if err != nil {
		c.cancel(errGone)
		c.nc.Close()
	}
}

func appendRefusal(b []byte, r request, code, message string) []byte {
	b = append(b, `{"id":`...)
	if r.hasID {
		b = strconv.AppendUint(b, r.id, 10)
	} else {
		b = append(b, "null"...)
	}
	text, err := json.Marshal(message)
	if err != nil { // a string always marshals
		text = []byte(`""`)
	}
	b = append(b, `,"error":{"code":"`...)
	b = append(b, code...)
	b = append(b, `","message":`...)
	b = append(b, text...)
	return append(b, "}}\n"...)
}

// lookAfter is how often the lookout looks while calls are handled by readers:
// within two of it another request on such a connection is read.
const lookAfter = time.Millisecond

// watch sees to it that the lookout is about.
func (s *Server) watch() {
	if !s.looking.Load() && s.looking.CompareAndSwap(false, true) {
		s.lookout.Reset(lookAfter)
	}
}

// look relieves every reader that has been handling the same call since the
// last look. It goes on looking as long as something moves.
func (s *Server) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	moving := false
	for c := range s.conns {
		turn := c.turn.Load()
		switch {
		case turn != c.seen:
			moving = true
		case turn%2 == 1 && c.turn.CompareAndSwap(turn, turn+1):
			s.running.Add(1)
			go c.read()
		}
		c.seen = turn
	}
	if moving {
		s.lookout.Reset(lookAfter)
		return
	}
	s.looking.Store(false)
	for c := range s.conns { // a call that began meanwhile saw the lookout still about
		if turn := c.turn.Load(); turn%2 == 1 && turn != c.seen {
			s.watch()
		}
	}
}
