package local

import (
	"context"
	"crypto/rand"
	"net"
	"path"
	"strings"

	"github.com/hermes-exec/hermes-exec/guest"
)

func (in *confined) listen() (net.Listener, string, error) {
	in.mu.Lock()
	next := in.listens
	in.listens = nil
	in.mu.Unlock()
	if next == nil {
		var err error
		if next, err = in.newSocket(); err != nil {
			return nil, "", err
		}
	}
	l, err := next.socket.Listener()
	if err != nil {
		return nil, "", err
	}
	dir := path.Join(in.scratch, next.dir)
	remove := func() { in.soon.Go(func() { _ = in.files.RemoveAll(context.Background(), dir) }) }
	return &inner{l, remove}, path.Join(dir, socketName), nil
}

// ahead is a socket that the guest was asked for.
type ahead struct {
	dir    string // in scratch
	socket *guest.Socket
}

func (in *confined) newSocket() (*ahead, error) {
	dir := strings.ToLower(rand.Text()[:nameLength])
	socket, err := in.session.Listen(dir)
	return &ahead{dir, socket}, err
}

// askSocket asks for the socket of the next Listen, if there is none. Who could
// not ask is told by Listen.
func (in *confined) askSocket() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.listens != nil || in.closed {
		return
	}
	if next, err := in.newSocket(); err == nil {
		in.listens = next
	}
}

// inner is a socket in a confined box.
type inner struct {
	net.Listener
	remove func() // its directory, soon
}

// Close closes the socket. Its directory is removed soon after: it is in the
// box's own file system, and gone with that.
func (l *inner) Close() error {
	err := l.Listener.Close()
	l.remove()
	return err
}
