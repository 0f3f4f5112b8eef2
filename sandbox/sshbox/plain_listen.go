package sshbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// plainListener is a socket that sshd forwards.
type plainListener struct {
	box   *plainBox
	inner *listener
	dir   string // its directory's name, below the keeper's
	stop  []func() bool

	once sync.Once
	err  error
}

// listen makes a directory of 0700 and lets sshd make a socket there. The name
// is never used again: sshd leaves its sockets behind and then refuses theirs.
func (b *plainBox) listen(ctx context.Context) (*plainListener, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := b.use(); err != nil {
		return nil, err
	}
	defer b.using.Done()
	b.mu.Lock()
	b.last++
	dir := fmt.Sprintf("s%d", b.last)
	b.mu.Unlock()
	if n, err := b.keeper.order(ctx, "mkdir "+dir); err != nil {
		return nil, err
	} else if n != 0 {
		return nil, errors.New("no directory can be made in the scratch directory")
	}
	name := b.info.ScratchDir + "/.keeper/" + dir + "/s"
	l := &plainListener{box: b, dir: dir}
	l.inner = &listener{name: socketName{Path: name}, conn: make(chan *channelConn, backlog), done: make(chan struct{})}
	b.link.mu.Lock()
	b.link.listeners[l.inner.name] = l.inner
	b.link.mu.Unlock()
	ok, err := ask(ctx, b.link, func() (bool, error) {
		ok, _, err := b.link.client.SendRequest("streamlocal-forward@openssh.com", true, ssh.Marshal(struct{ Path string }{name}))
		return ok, err
	}, func(bool) { l.Close() })
	if err != nil {
		if ctx.Err() == nil {
			l.Close()
		}
		return nil, err
	}
	if !ok {
		l.Close()
		return nil, fmt.Errorf("the host's sshd forwards no Unix sockets (sshd_config: AllowStreamLocalForwarding): %w", sandbox.ErrUnsupported)
	}
	end := func() { _ = l.Close() }
	stop := []func() bool{context.AfterFunc(ctx, end), context.AfterFunc(b.ctx, end)}
	b.link.mu.Lock()
	l.stop = stop
	b.link.mu.Unlock()
	return l, nil
}

// Accept implements net.Listener.
func (l *plainListener) Accept() (net.Conn, error) {
	closed := &net.OpError{Op: "accept", Net: "unix", Addr: l.Addr(), Err: net.ErrClosed}
	select {
	case <-l.inner.done:
		return nil, closed
	default:
	}
	select {
	case c := <-l.inner.conn:
		return c, nil
	case <-l.inner.done:
	case <-l.box.keeper.gone:
	case <-l.box.link.done:
	}
	return nil, closed
}

// Close removes the socket with its directory. Connections stay.
func (l *plainListener) Close() error {
	l.once.Do(func() {
		link := l.box.link
		link.mu.Lock()
		delete(link.listeners, l.inner.name)
		stop := l.stop
		link.mu.Unlock()
		close(l.inner.done)
		for _, s := range stop {
			s()
		}
		l.inner.drop()
		_, _, _ = link.client.SendRequest("cancel-streamlocal-forward@openssh.com", false, ssh.Marshal(struct{ Path string }{l.inner.name.Path}))
		if l.box.ctx.Err() != nil {
			return // the box closes: all its sockets go
		}
		n, err := l.box.keeper.order(context.Background(), "rmdir "+l.dir)
		if n != 0 && err == nil {
			err = errors.New("it cannot be removed")
		}
		if err != nil && link.Err() == nil && !errors.Is(err, sandbox.ErrClosed) {
			l.err = fmt.Errorf("%s: close socket: %w", link.config.Name, err)
		}
	})
	return l.err
}

// Addr is the path on the host.
func (l *plainListener) Addr() net.Addr { return l.inner.Addr() }
