//go:build unix

package local

import (
	"context"
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
	dir  *lockedDir
	box  *box
	once sync.Once

	mu   sync.Mutex
	stop []func() bool
	err  error
}

// Listen implements sandbox.Sandbox.
func (b *box) Listen(ctx context.Context) (net.Listener, string, error) {
	if err := b.use(); err != nil {
		return nil, "", fmt.Errorf("local: listen: %w", err)
	}
	l, path, err := b.listen(ctx)
	if err != nil {
		b.using.Done()
		return nil, "", fmt.Errorf("local: listen: %w", err)
	}
	return l, path, nil
}

func (b *box) listen(ctx context.Context) (*listener, string, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, "", err
	}
	dir, err := b.listenDir()
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(dir.path, socketName)
	inner, err := net.Listen("unix", path)
	if err != nil {
		_ = dir.remove()
		return nil, "", err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		inner.Close()
		_ = dir.remove()
		return nil, "", err
	}
	l := &listener{Listener: inner, dir: dir, box: b}
	end := func() { l.Close() }
	l.mu.Lock()
	l.stop = []func() bool{context.AfterFunc(ctx, end), context.AfterFunc(b.closing, end)}
	l.mu.Unlock()
	return l, path, nil
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
		if err := l.dir.remove(); l.err == nil {
			l.err = err
		}
		l.box.using.Done()
	})
	return l.err
}
