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
	in.soon.Go(func() { _ = in.keepCovered() }) // a command comes next, and would have to wait for it
	in.mu.Lock()
	next := in.listens
	in.listens = nil
	in.mu.Unlock()
	var l net.Listener
	var err error
	if next != nil {
		l, err = next.socket.Listener()
	}
	if next == nil || err != nil { // what stood in its way, as a full disk, may be gone
		if next, err = in.newSocket(); err == nil {
			l, err = next.socket.Listener()
		}
	}
	if err != nil {
		return nil, "", err
	}
	return &inner{l, func() { in.remove(next) }}, path.Join(in.scratch, next.dir, socketName), nil
}

// ahead is a socket that the guest was asked for.
type ahead struct {
	dir    string // in scratch
	socket *guest.Socket
}

func (in *confined) newSocket() (*ahead, error) {
	dir := strings.ToLower(rand.Text()[:nameLength])
	socket, err := in.session.Listen(dir)
	if err != nil {
		return nil, err
	}
	return &ahead{dir, socket}, nil
}

// remove removes the directory of a socket, soon.
func (in *confined) remove(a *ahead) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed { // else it goes with the box
		in.soon.Go(func() { _ = in.files.RemoveAll(context.Background(), path.Join(in.scratch, a.dir)) })
	}
}

// askSocket asks for the socket of the next Listen, if there is none and no
// command that could spoil it. Who could not ask is told by Listen.
func (in *confined) askSocket() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.listens != nil || in.closed || in.running > 0 {
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
