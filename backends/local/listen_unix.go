//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// socketName is short, as the whole path must be.
const socketName = "s"

func fits(dir string) bool { return len(filepath.Join(dir, socketName)) <= maxSocketPath }

// listener is a socket with the directory made for it.
type listener struct {
	net.Listener
	dir  *lockedDir // nil when it is in the scratch directory of a confined box
	box  *box
	once sync.Once

	mu   sync.Mutex
	stop []func() bool
	err  error
}

// Listen implements sandbox.Sandbox.
func (b *box) Listen(ctx context.Context) (net.Listener, string, error) { return b.BeginListen(ctx)() }

// BeginListen implements sandbox.Listening. Where the box is not confined there is
// nobody to do it meanwhile.
func (b *box) BeginListen(ctx context.Context) (wait func() (net.Listener, string, error)) {
	err := b.use()
	if err == nil {
		if err = context.Cause(ctx); err != nil {
			b.using.Done()
		}
	}
	var listening func(context.Context) (net.Listener, string, error)
	if err == nil && b.inside != nil {
		listening = b.inside.listen()
	}
	return func() (net.Listener, string, error) {
		if err != nil {
			return nil, "", fmt.Errorf("local: listen: %w", err)
		}
		var inner net.Listener
		var dir *lockedDir
		var path string
		var err error
		if listening != nil {
			inner, path, err = listening(ctx)
		} else {
			inner, dir, path, err = b.listen()
		}
		if err != nil {
			b.using.Done()
			return nil, "", fmt.Errorf("local: listen: %w", err)
		}
		return b.listener(ctx, inner, dir), path, nil
	}
}

// listen makes a socket, and on this machine its directory.
func (b *box) listen() (inner net.Listener, dir *lockedDir, path string, err error) {
	if dir, err = b.listenDir(); err != nil {
		return nil, nil, "", err
	}
	path = filepath.Join(dir.path, socketName)
	if inner, err = net.Listen("unix", path); err != nil {
		_ = dir.remove()
		return nil, nil, "", err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		inner.Close()
		_ = dir.remove()
		return nil, nil, "", err
	}
	return inner, dir, path, nil
}

// listener closes a socket when ctx is done or the box closes.
func (b *box) listener(ctx context.Context, inner net.Listener, dir *lockedDir) *listener {
	l := &listener{Listener: inner, dir: dir, box: b}
	end := func() { l.Close() }
	l.mu.Lock()
	l.stop = []func() bool{context.AfterFunc(ctx, end), context.AfterFunc(b.closing, end)}
	l.mu.Unlock()
	return l
}

// Close closes the socket and removes it with its directory.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.mu.Lock()
		for _, stop := range l.stop {
			stop()
		}
		l.mu.Unlock()
		l.err = l.Listener.Close()
		if l.dir != nil {
			l.err = errors.Join(l.err, l.dir.remove())
		}
		l.box.using.Done()
	})
	return l.err
}
