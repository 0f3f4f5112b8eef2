package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// listen makes a socket in the box. Each connection to it becomes a channel.
func (b *box) listen() (string, error) {
	l, path, err := b.inner.Listen(b.hurry)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	b.listeners[path] = l
	b.mu.Unlock()
	b.using.Go(func() {
		defer b.unlisten(path)
		b.accept(l, path)
	})
	return path, nil
}

func (b *box) unlisten(path string) error {
	b.mu.Lock()
	l := b.listeners[path]
	delete(b.listeners, path)
	b.mu.Unlock()
	if l == nil {
		return fmt.Errorf("no socket %q: %w", path, fs.ErrNotExist)
	}
	return l.Close()
}

// accept takes connections until the socket is closed. A burst of them waits
// in the kernel's queue.
func (b *box) accept(l net.Listener, path string) {
	for {
		select {
		case b.sockets <- struct{}{}:
		case <-b.hurry.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			<-b.sockets
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() { // out of descriptors
				time.Sleep(10 * time.Millisecond)
				continue
			}
			return
		}
		opened := make(chan struct{})
		b.using.Go(func() {
			defer func() { <-b.sockets }()
			defer conn.Close()
			if err := samePeer(conn, b.info.UID); err != nil {
				b.v.log.Warn("a connection to a socket of a box was refused", "err", err)
				close(opened)
				return
			}
			b.forward(conn, path, opened)
		})
		select {
		case <-opened:
		case <-time.After(inOrder):
		}
	}
}

// inOrder is how long the next connection waits for this one to be taken, so
// that they arrive in the order they were made; far away, only until it is asked
// for.
const inOrder = 5 * time.Millisecond

// forward carries one connection to the engine.
func (b *box) forward(conn net.Conn, path string, opened chan<- struct{}) {
	ch, requests, err := b.v.conn.OpenChannel(sshwire.ChannelSocket, ssh.Marshal(sshwire.SocketID{Path: path, Box: b.info.ID}))
	close(opened)
	if err != nil {
		return
	}
	defer ch.Close()
	defer context.AfterFunc(b.hurry, func() { conn.Close(); ch.Close() })()
	inward := make(chan struct{})
	go func() {
		defer close(inward)
		_, err := io.Copy(conn, ch)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil {
			_ = half.CloseWrite()
			return
		}
		conn.Close() // the process does not read any more
		ch.Close()
	}()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		ssh.DiscardRequests(requests) // ends when the engine has closed the channel
		<-inward                      // the rest of what it had written
		conn.Close()
	}()
	_ = b.v.relay(ch, conn)
	_ = ch.CloseWrite()
	<-inward
	ch.Close()
	<-closed
}

// relay copies bulk data to the engine.
func (v *server) relay(dst io.Writer, src io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			v.room()
			if _, werr := dst.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if err != nil {
			return err
		}
	}
}
