package sshbox

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// backlog is how many connections to one socket may wait to be accepted; more
// are refused.
const backlog = 512

// socketName tells one socket of a Link from another.
type socketName = sshwire.SocketID

// listener is a socket in a box, as seen from here.
type listener struct {
	box  *box
	name socketName
	conn chan *channelConn
	done chan struct{}
	stop []func() bool

	once sync.Once
	err  error
}

// serve takes what the server forwards, from the first box on.
func (l *Link) serve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.serving {
		return
	}
	l.serving = true
	channels := l.client.HandleChannelOpen(sshwire.ChannelSocket)
	go func() {
		for c := range channels {
			l.forwarded(c)
		}
	}()
}

// forwarded takes one connection. It does not wait: the loop that reads the
// connection is behind it.
func (l *Link) forwarded(c ssh.NewChannel) {
	var name socketName
	if err := ssh.Unmarshal(c.ExtraData(), &name); err != nil {
		_ = c.Reject(ssh.ConnectionFailed, "malformed")
		return
	}
	l.mu.Lock()
	to := l.listeners[name]
	l.mu.Unlock()
	if to == nil || len(to.conn) == cap(to.conn) { // there is one sender: this
		_ = c.Reject(ssh.ConnectionFailed, "nobody listens")
		return
	}
	ch, requests, err := c.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	to.conn <- &channelConn{Channel: ch, room: l.room, name: name.Path}
	select {
	case <-to.done: // in the meantime
		to.drop()
	default:
	}
}

// Listen implements sandbox.Sandbox.
func (b *box) Listen(ctx context.Context) (net.Listener, string, error) {
	l, err := b.listen(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("%s: listen: %w", b.link.config.Name, err)
	}
	return l, l.name.Path, nil
}

func (b *box) listen(ctx context.Context) (*listener, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := b.use(); err != nil {
		return nil, err
	}
	defer b.using.Done()
	answer, err := b.send(sshwire.Order{Op: sshwire.OrderListen})
	if err != nil {
		return nil, err
	}
	a, err := b.await(ctx, answer, b.link.config.Patience)
	if err != nil {
		if ctx.Err() != nil { // it may be made all the same
			go func() {
				if a, err := b.await(b.ctx, answer, b.link.config.Patience); err == nil {
					_, _ = b.send(sshwire.Order{Op: sshwire.OrderUnlisten, Path: a.Path})
				}
			}()
		}
		return nil, err
	}
	l := &listener{box: b, name: socketName{Path: a.Path, Box: b.info.ID}, conn: make(chan *channelConn, backlog), done: make(chan struct{})}
	b.link.mu.Lock()
	taken := b.link.listeners[l.name] != nil || a.Path == ""
	if !taken {
		b.link.listeners[l.name] = l
	}
	b.link.mu.Unlock()
	if taken {
		return nil, fmt.Errorf("the guest names a socket %.100q: %w", a.Path, sandbox.ErrLost)
	}
	end := func() { _ = l.Close() }
	stop := []func() bool{context.AfterFunc(ctx, end), context.AfterFunc(b.ctx, end)}
	b.link.mu.Lock()
	l.stop = stop
	b.link.mu.Unlock()
	return l, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	closed := &net.OpError{Op: "accept", Net: "unix", Addr: l.Addr(), Err: net.ErrClosed}
	select {
	case <-l.done:
		return nil, closed
	default:
	}
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, closed
	case <-l.box.gone:
		return nil, closed
	case <-l.box.link.done:
		return nil, closed
	}
}

// Close removes the socket with its directory. Connections stay.
func (l *listener) Close() error {
	l.once.Do(func() {
		link := l.box.link
		link.mu.Lock()
		delete(link.listeners, l.name)
		stop := l.stop
		link.mu.Unlock()
		close(l.done)
		for _, s := range stop {
			s()
		}
		l.drop()
		if l.box.ctx.Err() != nil {
			return // the box closes: all its sockets go
		}
		if _, err := l.box.order(context.Background(), sshwire.Order{Op: sshwire.OrderUnlisten, Path: l.name.Path}); err != nil && link.Err() == nil {
			l.err = fmt.Errorf("%s: close socket: %w", link.config.Name, err)
		}
	})
	return l.err
}

// drop closes the connections nobody has accepted.
func (l *listener) drop() {
	for {
		select {
		case c := <-l.conn:
			c.Close()
		default:
			return
		}
	}
}

// Addr is the path inside the box.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.name.Path, Net: "unix"} }

// channelConn makes a net.Conn of a channel.
type channelConn struct {
	ssh.Channel
	room func()
	name string

	mu    sync.Mutex
	timer *time.Timer
	late  bool
}

var _ net.Conn = (*channelConn)(nil)

func (c *channelConn) Read(b []byte) (int, error) {
	n, err := c.Channel.Read(b)
	if err != nil {
		err = c.why(err)
	}
	return n, err
}

func (c *channelConn) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		c.room()
		var m int
		m, err = c.Channel.Write(b[n:min(len(b), n+piece)])
		n += m
	}
	if err != nil {
		err = c.why(err)
		if err == io.EOF {
			err = io.ErrClosedPipe
		}
	}
	return n, err
}

// why is os.ErrDeadlineExceeded when that ended the connection.
func (c *channelConn) why(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late {
		return os.ErrDeadlineExceeded
	}
	return err
}

func (c *channelConn) Close() error {
	_ = c.SetDeadline(time.Time{})
	if err := c.Channel.Close(); err != nil && err != io.EOF {
		return err
	}
	return nil
}

func (c *channelConn) LocalAddr() net.Addr  { return &net.UnixAddr{Name: c.name, Net: "unix"} }
func (c *channelConn) RemoteAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// SetDeadline ends the connection when the time has come: a channel cannot stop
// to wait and go on later.
func (c *channelConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if t.IsZero() {
		return nil
	}
	c.timer = time.AfterFunc(time.Until(t), func() {
		c.mu.Lock()
		c.late = true
		c.mu.Unlock()
		_ = c.Channel.Close()
	})
	return nil
}

// SetReadDeadline is SetDeadline.
func (c *channelConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline is SetDeadline.
func (c *channelConn) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }
