package sshwire

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// enough is how much may be queued before bulk data has to wait.
	enough = 256 << 10
	// most is how much may be queued at all: a peer that reads nothing, and
	// still makes this end write, is given up.
	most = 16 << 20
)

var errNotRead = errors.New("the other end does not read")

// Stream makes of a byte stream what an SSH connection can run on. What is
// written is queued, and written by a goroutine of the Stream's own. So the one
// loop that reads a connection, and has to answer some of what it reads, never
// waits until the peer reads: two ends that both did would wait for ever. Bulk
// data is to ask for Room first. All methods are safe for concurrent use.
type Stream struct {
	rw io.ReadWriteCloser

	mu     sync.Mutex
	change *sync.Cond
	queue  []byte
	err    error // why nothing more is written
	once   sync.Once
}

var _ net.Conn = (*Stream)(nil)

// NewStream takes over a byte stream: Close closes it.
func NewStream(rw io.ReadWriteCloser) *Stream {
	s := &Stream{rw: rw}
	s.change = sync.NewCond(&s.mu)
	go s.deliver()
	return s
}

// deliver writes what is queued.
func (s *Stream) deliver() {
	var spare []byte
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && s.err == nil {
			s.change.Wait()
		}
		if s.err != nil {
			s.mu.Unlock()
			return
		}
		batch := s.queue
		s.queue = spare[:0]
		s.change.Broadcast()
		s.mu.Unlock()
		if _, err := s.rw.Write(batch); err != nil {
			s.fail(err)
			return
		}
		if spare = batch; cap(spare) > 4*enough {
			spare = nil
		}
	}
}

// fail ends the stream.
func (s *Stream) fail(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.queue = nil
	s.change.Broadcast()
	s.mu.Unlock()
	s.once.Do(func() { _ = s.rw.Close() })
}

// Room waits until the stream takes more bulk data, or has ended.
func (s *Stream) Room() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > enough && s.err == nil {
		s.change.Wait()
	}
}

func (s *Stream) Read(b []byte) (int, error) { return s.rw.Read(b) }

// Write queues b; it does not wait.
func (s *Stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	if s.err == nil && len(s.queue)+len(b) > most {
		s.mu.Unlock()
		s.fail(errNotRead)
		return 0, errNotRead
	}
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	s.queue = append(s.queue, b...)
	s.change.Broadcast()
	return len(b), nil
}

// Close ends the stream; what is still queued is dropped. It may be repeated.
func (s *Stream) Close() error {
	s.fail(net.ErrClosed)
	return nil
}

type address struct{}

func (address) Network() string { return "stream" }
func (address) String() string  { return "stream" }

// LocalAddr says nothing: a stream has no addresses.
func (s *Stream) LocalAddr() net.Addr { return address{} }

// RemoteAddr says nothing.
func (s *Stream) RemoteAddr() net.Addr { return address{} }

// SetDeadline cannot be kept: Close is what ends a wait.
func (s *Stream) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// SetReadDeadline is like SetDeadline.
func (s *Stream) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline is like SetDeadline.
func (s *Stream) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }
