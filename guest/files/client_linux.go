package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// maxConns bounds the connections a client uses at once, and so the calls
// under way.
const maxConns = 4

// Client is a sandbox.Files whose every access is made by Serve, elsewhere,
// with the rights it has there; only the content of files is read and written
// through descriptors that come back. Nothing the server says is trusted.
//
// A call whose context is done returns the context's cause at once; what the
// server was doing for it is broken off where it can be. A file being created
// is bound by the context Create was given until it is committed.
//
// When the server has gone, calls fail with sandbox.ErrLost; after Close with
// sandbox.ErrClosed. All methods are safe for concurrent use.
type Client struct {
	dial func(context.Context) (*os.File, error)
	done chan struct{}

	mu     sync.Mutex
	closed bool
	conns  [maxConns]*conn    // in use, from the first on
	all    map[*conn]struct{} // and those that are retired, for the files created there
}

var _ sandbox.Files = (*Client)(nil)

// NewClient returns a client that gets its connections from dial, when it
// first needs them and at most four for use at once. A connection is the client
// end of a Pair; the client closes it.
func NewClient(dial func(ctx context.Context) (*os.File, error)) *Client {
	return &Client{dial: dial, done: make(chan struct{}), all: map[*conn]struct{}{}}
}

// Close ends every call under way and discards what is not committed. It may
// be repeated.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	close(c.done)
	for k := range c.all {
		select {
		case k.sem <- struct{}{}:
			c.close(k)
			<-k.sem
		default: // somebody waits for an answer there; he closes it
			if k.sock != nil {
				_ = unix.Shutdown(k.fd, unix.SHUT_RDWR)
			}
		}
	}
	return nil
}

// close closes a connection; c.mu and k.sem are held.
func (c *Client) close(k *conn) {
	c.retire(k)
	delete(c.all, k)
	if !k.closed && k.sock != nil {
		k.sock.Close()
		unix.Close(k.wake)
	}
	k.closed = true
}

// retire makes room for another connection; c.mu is held.
func (c *Client) retire(k *conn) {
	k.retired = true
	if c.conns[k.slot] == k {
		c.conns[k.slot] = nil
	}
}

// acquire returns a connection that is nobody else's until release. alone asks for
// one without files that were begun there, which can be shut when the context is
// done: the server then undoes what it did; there may be none.
func (c *Client) acquire(ctx context.Context, alone bool) (*conn, error) {
	for {
		k, busy, err := c.free(alone)
		if k != nil || err != nil {
			return k, err
		}
		select {
		case busy[0].sem <- struct{}{}:
			k = busy[0]
		case busy[1].sem <- struct{}{}:
			k = busy[1]
		case busy[2].sem <- struct{}{}:
			k = busy[2]
		case busy[3].sem <- struct{}{}:
			k = busy[3]
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.done:
			return nil, sandbox.ErrClosed
		}
		c.mu.Lock()
		retired := k.retired
		c.mu.Unlock()
		if !retired {
			return k, nil
		}
		<-k.sem
	}
}

// free returns a connection that nobody uses, or else all four.
func (c *Client) free(alone bool) (*conn, [maxConns]*conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, c.conns, sandbox.ErrClosed
	}
	for _, k := range c.conns {
		if k == nil {
			continue
		}
		select {
		case k.sem <- struct{}{}:
			if !alone || k.handles == 0 {
				return k, c.conns, nil
			}
			<-k.sem
		default:
		}
	}
	for i, k := range c.conns {
		if k == nil {
			k = &conn{client: c, slot: i, sem: make(chan struct{}, 1)}
			k.sem <- struct{}{}
			c.conns[i], c.all[k] = k, struct{}{}
			return k, c.conns, nil
		}
	}
	return nil, c.conns, nil // with files or without
}

// reacquire returns the connection k itself, for a file created there.
func (c *Client) reacquire(ctx context.Context, k *conn) error {
	select {
	case k.sem <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !k.closed && !c.closed {
		return nil
	}
	<-k.sem
	if c.closed {
		return sandbox.ErrClosed
	}
	return fmt.Errorf("%w: %w", sandbox.ErrLost, errGone)
}

// release gives k back after a call that ended with err: nil, unless the
// connection or the context failed.
func (c *Client) release(k *conn, ctx context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed || k.shut || err != nil && !isCause(ctx, err):
		c.close(k)
	case err != nil: // the server may still be at it
		k.stale = true
		c.retire(k)
	}
	if k.retired && k.handles == 0 {
		c.close(k)
	}
	<-k.sem
}

func isCause(ctx context.Context, err error) bool {
	return ctx.Err() != nil && err == context.Cause(ctx)
}

// exchange sends r over k and receives the first message of the answer. err is
// about the connection or the context; refused is the server's own.
func (k *conn) exchange(ctx context.Context, r *request) (kind byte, b body, fd int, refused, err error) {
	if err := k.send(r); err != nil {
		return 0, body{}, -1, nil, err
	}
	return k.next(ctx)
}

// next receives another message of the answer.
func (k *conn) next(ctx context.Context) (kind byte, b body, fd int, refused, err error) {
	kind, b, fd, err = k.receive(ctx)
	if err != nil || kind != replyError {
		return kind, b, fd, nil, err
	}
	if fd >= 0 {
		unix.Close(fd)
		return 0, body{}, -1, nil, errReply
	}
	if refused = b.error(); refused == nil {
		err = errReply
	}
	return kind, b, -1, refused, err
}

// call does r on any connection and hands the answer, if there is one, to
// take, which ends with b.end() or an error about the connection. take owns
// the descriptor.
func (c *Client) call(ctx context.Context, op string, r *request, take func(k *conn, kind byte, b *body, fd int) error) error {
	for tries := 0; ; tries++ {
		k, err := c.acquire(ctx, r.op == opStage || r.op == opMake)
		if err != nil {
			return &fs.PathError{Op: op, Path: r.name, Err: err}
		}
		refused, err := k.do(ctx, r, take)
		c.release(k, ctx, err)
		var notSent notSentError
		if errors.As(err, &notSent) && tries < maxConns {
			continue // it was closed while nobody used it
		}
		switch {
		case err != nil:
			return c.failed(ctx, op, r.name, err)
		case refused != nil:
			return refused
		}
		return nil
	}
}

// failed is the error of a call whose connection or context failed.
func (c *Client) failed(ctx context.Context, op, name string, err error) error {
	select {
	case <-c.done:
		err = sandbox.ErrClosed
	default:
		if !isCause(ctx, err) && !errors.Is(err, sandbox.ErrClosed) && !errors.Is(err, sandbox.ErrLost) {
			err = fmt.Errorf("%w: %w", sandbox.ErrLost, err)
		}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (k *conn) do(ctx context.Context, r *request, take func(k *conn, kind byte, b *body, fd int) error) (refused, err error) {
	if err := k.dial(ctx); err != nil {
		return nil, err
	}
	kind, b, fd, refused, err := k.exchange(ctx, r)
	if err != nil || refused != nil {
		return refused, err
	}
	if take != nil {
		return nil, take(k, kind, &b, fd)
	}
	if fd >= 0 {
		unix.Close(fd)
		return nil, errReply
	}
	if kind != replyDone || !b.end() {
		return nil, errReply
	}
	return nil, nil
}
