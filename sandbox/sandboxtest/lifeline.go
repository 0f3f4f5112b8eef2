package sandboxtest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

//go:embed probe.py
var probe string

// Probe returns a command that runs a part of probe.py, for tests of a backend's
// own. What the parts do is said there.
func Probe(part string, args ...string) []string {
	return append([]string{"python3", "-c", probe, part}, args...)
}

// socket is where processes in the box connect their life lines.
type socket struct {
	b    *bench
	l    net.Listener
	path string
}

// socket opens a socket in the box.
func (b *bench) socket(box sandbox.Sandbox) *socket {
	b.Helper()
	l, path, err := box.Listen(context.Background())
	if err != nil {
		b.Fatalf("Listen: %v", err)
	}
	b.Cleanup(func() { l.Close() })
	return &socket{b, l, path}
}

// lifeline is a connection one process holds.
type lifeline struct {
	b    *bench
	conn net.Conn
	// stops: the process stops itself and will not answer.
	stops bool
}

// accept waits for a process to connect.
func (s *socket) accept() *lifeline {
	s.b.Helper()
	type result struct {
		conn net.Conn
		err  error
	}
	got := make(chan result, 1)
	go func() {
		conn, err := s.l.Accept()
		got <- result{conn, err}
	}()
	select {
	case r := <-got:
		if r.err != nil {
			s.b.Fatalf("Accept: %v", r.err)
		}
		s.b.Cleanup(func() { r.conn.Close() })
		hello := make([]byte, 1)
		_ = r.conn.SetReadDeadline(time.Now().Add(Bound))
		if _, err := io.ReadFull(r.conn, hello); err != nil {
			s.b.Fatalf("a life line's first byte: %v", err)
		}
		return &lifeline{s.b, r.conn, hello[0] == '-'}
	case <-time.After(Bound):
		s.l.Close()
		s.b.Fatalf("no process has connected within %v", Bound)
		panic("unreachable")
	}
}

// lives checks that the process answers.
func (l *lifeline) lives() {
	l.b.Helper()
	if _, err := l.conn.Write([]byte{'?'}); err != nil {
		l.b.Fatalf("the process is dead: %v", err)
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(Bound))
	if _, err := io.ReadFull(l.conn, make([]byte, 1)); err != nil {
		l.b.Fatalf("the process is dead: %v", err)
	}
}

// dies checks that the process is dead, or will be within the bound.
func (l *lifeline) dies() {
	l.b.Helper()
	_ = l.conn.SetReadDeadline(time.Now().Add(Bound))
	if _, err := io.Copy(io.Discard, l.conn); errors.Is(err, os.ErrDeadlineExceeded) {
		l.b.Fatalf("a process lives on")
	}
}

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
