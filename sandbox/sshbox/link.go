package sshbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// Config says how a Link behaves. The zero value is ready to use.
type Config struct {
	// Name is what boxes call their backend, in Info and in errors; "" means
	// "ssh".
	Name string
	// Keepalive is how often the server is asked whether it is there; 0 means
	// 10 s, less than 0 never. One that does not answer within twice the time is
	// lost, with every box and process on it.
	Keepalive time.Duration
	// Patience bounds how long the server may take to answer anything else: a
	// channel, a box, a start, an end after its grace; 0 means 30 s.
	Patience time.Duration
	// Log gets what is worth knowing but no error; nil discards.
	Log *slog.Logger
}

// Link is one connection. All methods are safe for concurrent use.
type Link struct {
	client *ssh.Client
	config Config
	log    *slog.Logger
	room   func() // waits until the connection takes more bulk data
	done   chan struct{}
	why    atomic.Pointer[lost]

	mu        sync.Mutex
	listeners map[socketName]*listener
	serving   bool // forwarded sockets are being accepted

	buffers buffers
}

type lost struct{ err error }

// New makes a Link of a connection, which is then the Link's to close. It
// starts nothing on the server.
func New(client *ssh.Client, config Config) *Link {
	if config.Name == "" {
		config.Name = "ssh"
	}
	if config.Keepalive == 0 {
		config.Keepalive = 10 * time.Second
	}
	if config.Patience == 0 {
		config.Patience = 30 * time.Second
	}
	l := &Link{client: client, config: config, log: config.Log, room: func() {}, done: make(chan struct{}), listeners: map[socketName]*listener{}}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if c, ok := client.Conn.(*streamConn); ok {
		l.room = c.stream.Room
	}
	go l.watch()
	if config.Keepalive > 0 {
		go l.keepAlive()
	}
	return l
}

// Close ends the connection: every box of a serving guest ends with it. Boxes
// are better closed one by one before. It may be repeated.
func (l *Link) Close() error {
	l.lose(sandbox.ErrClosed)
	<-l.done
	return nil
}

// Done is closed when the connection has ended, for whatever reason.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err tells why the connection ended; nil while it stands. It wraps
// sandbox.ErrClosed after Close and sandbox.ErrLost otherwise.
func (l *Link) Err() error {
	select {
	case <-l.done:
	default:
		return nil
	}
	why := l.why.Load()
	switch {
	case why == nil:
		return fmt.Errorf("%s: the connection ended: %w", l.config.Name, sandbox.ErrLost)
	case errors.Is(why.err, sandbox.ErrClosed):
		return fmt.Errorf("%s: %w", l.config.Name, sandbox.ErrClosed)
	}
	return fmt.Errorf("%s: the connection ended: %w: %w", l.config.Name, sandbox.ErrLost, why.err)
}

// lose ends the connection; only the first reason counts.
func (l *Link) lose(why error) {
	l.why.CompareAndSwap(nil, &lost{why})
	_ = l.client.Close()
}

// watch notices the end of the connection.
func (l *Link) watch() {
	err := l.client.Wait()
	if err == nil {
		err = io.EOF
	}
	l.why.CompareAndSwap(nil, &lost{err})
	close(l.done)
}

// errSilent is why a Link is given up whose server does not answer.
var errSilent = errors.New("the server does not answer")

// keepAlive asks the server whether it is there.
func (l *Link) keepAlive() {
	tick := time.NewTicker(l.config.Keepalive)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
		}
		late := time.AfterFunc(2*l.config.Keepalive, func() { l.lose(errSilent) })
		_, _, err := l.client.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			return // watch knows why
		}
	}
}

// ask does what waits for an answer of the server's. When ctx is done first,
// its cause is returned and, should do succeed after all, undo is called; a
// server that does not answer in time loses the connection.
func ask[T any](ctx context.Context, l *Link, do func() (T, error), undo func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	answer := make(chan result, 1)
	late := time.AfterFunc(l.config.Patience, func() { l.lose(errSilent) })
	go func() {
		value, err := do()
		late.Stop()
		answer <- result{value, err}
	}()
	var none T
	select {
	case r := <-answer:
		if r.err != nil && l.Err() != nil {
			return none, l.Err()
		}
		return r.value, r.err
	case <-ctx.Done():
		go func() {
			if r := <-answer; r.err == nil && undo != nil {
				undo(r.value)
			}
		}()
		return none, context.Cause(ctx)
	}
}

// channel opens a channel. Its requests are to be read until they end.
func (l *Link) channel(ctx context.Context, kind string, extra []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	type opened struct {
		ch       ssh.Channel
		requests <-chan *ssh.Request
	}
	c, err := ask(ctx, l, func() (opened, error) {
		ch, requests, err := l.client.OpenChannel(kind, extra)
		return opened{ch, requests}, err
	}, func(c opened) {
		go ssh.DiscardRequests(c.requests)
		c.ch.Close()
	})
	return c.ch, c.requests, err
}

// Open asks a serving guest for a box. The error keeps the sentinels of what
// happened there: sandbox.ErrPolicy, fs.ErrNotExist for the work directory, …
func (l *Link) Open(ctx context.Context, request sshwire.BoxRequest) (sandbox.Losable, error) {
	b, err := l.open(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%s: create: %w", l.config.Name, err)
	}
	return b, nil
}
