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

func tooLarge(max int) string {
	return fmt.Sprintf("request exceeds the frame limit of %d bytes", max)
}

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

	unread int // answers not yet written; the room's

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
	defer c.s.running.end()
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
		stay, waited, err := c.s.room.enter(c.ctx, c.s.need(call.Tool), &c.unread)
		if waited && err == nil && hungUp(c.nc) {
			stay.leave()
			err = errGone
		}
		if err != nil {
			<-c.slots
			free()
			if errors.Is(err, ErrClosed) {
				c.refuse(r, codeClosed, closedMessage)
			}
			c.end(err)
			return
		}
		if !alone {
			c.s.running.begin()
			go func() {
				defer c.s.running.end()
				c.serve(call, free, stay)
			}()
			continue
		}
		turn := c.turn.Add(1)
		c.s.watch()
		c.serve(call, free, stay)
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
	r, code, message := c.s.judge(line)
	switch code {
	case "":
		c.trusted = true
		return r, true, false
	case codeInvalid:
		c.refuse(r, code, message)
		if c.trusted = c.trusted || r.fault != ""; c.trusted {
			return r, false, false
		}
		c.junk++
		return r, false, c.junk >= maxJunk
	}
	c.refuse(r, code, message)
	return r, false, true
}

// judge tells why a line is not a request to be served: by a code, "" if it is
// one. Only who has shown the token is told of a fault.
func (s *Server) judge(line []byte) (r request, code, message string) {
	r, err := parseRequest(line)
	switch {
	case err != nil:
		return request{}, codeInvalid, invalidMessage + err.Error()
	case subtle.ConstantTimeCompare(r.token, s.token) != 1:
		s.untrusted.Do(func() { s.cfg.Log.Warn("rpc: request without the run's token refused") })
		return r, codeUnauthorized, "missing or wrong token"
	case s.ctx.Err() != nil:
		return r, codeClosed, closedMessage
	case r.fault != "":
		return r, codeInvalid, invalidMessage + r.fault
	}
	if r.args == nil {
		r.args = json.RawMessage("{}")
	}
	return r, "", ""
}

// end delivers what is still owed, if there is somebody to take it, and closes.
// It is called with the reading role.
func (c *conn) end(err error) {
	switch {
	case err == nil: // the peer has been told why
	case errors.Is(err, errTooLong):
		c.refuse(request{}, codeTooLarge, tooLarge(c.s.cfg.MaxFrame))
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

// serve handles a call that has a place in slots and was let in, and answers
// it. While an answer waits to be written, nothing but it is held.
func (c *conn) serve(call Call, free func(), stay *stay) {
	defer func() {
		stay.leave()
		<-c.slots
	}()
	id := call.ID
	result := fit(c.s.invoke(c.ctx, call), c.s.cfg.MaxFrame)
	free()
	stay.answered(cap(result))
	c.answer(id, result)
}

func (s *Server) invoke(ctx context.Context, call Call) (result json.RawMessage) {
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.Error("rpc: handler panicked", "tool", call.Tool, "panic", p, "stack", string(debug.Stack()))
			result = errorResult("internal error: the tool panicked")
		}
	}()
	return s.cfg.Handler(ctx, call)
}

// answer writes a result that fits: one system call for a small one, no copy
// of a large one.
func (c *conn) answer(id uint64, result json.RawMessage) {
	c.writing.Lock()
	defer c.writing.Unlock()
	b := appendHead(c.out[:0], id)
	if len(result) > smallBuffer {
		parts := net.Buffers{b, result, []byte(answerTail)}
		_, err := parts.WriteTo(c.nc)
		c.wrote(err)
		return
	}
	b = append(b, result...)
	b = append(b, answerTail...)
	c.out = b
	_, err := c.nc.Write(b)
	c.wrote(err)
}

// An answer is a head, a result and this.
const answerTail = "}\n"

func appendHead(b []byte, id uint64) []byte {
	b = append(b, `{"id":`...)
	b = strconv.AppendUint(b, id, 10)
	return append(b, `,"result":`...)
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
	b = append(b, `,"error":{"code":"`...)
	b = append(b, code...)
	b = append(b, `","message":`...)
	b = appendText(b, message)
	return append(b, "}}\n"...)
}

func appendText(b []byte, text string) []byte {
	raw, err := json.Marshal(text)
	if err != nil { // a string always marshals
		raw = []byte(`""`)
	}
	return append(b, raw...)
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
			s.running.begin()
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
