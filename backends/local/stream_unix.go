//go:build unix

package local

import (
	"errors"
	"io"
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"
)

const (
	smallBuffer = 64 << 10  // a pipe's usual capacity
	largeBuffer = 256 << 10 // for a command that writes faster than it is read
	largePipe   = 1 << 20
)

// buffers are shared by all streams of a backend.
type buffers struct{ small, large sync.Pool }

func (b *buffers) get(size int) *[]byte {
	pool := &b.small
	if size == largeBuffer {
		pool = &b.large
	}
	if buf, ok := pool.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, size)
	return &buf
}

func (b *buffers) put(buf *[]byte) {
	if len(*buf) == largeBuffer {
		b.large.Put(buf)
	} else {
		b.small.Put(buf)
	}
}

// stream copies what a command writes into one pipe to a writer.
type stream struct {
	r       *os.File
	w       io.Writer // nil: discard
	buffers *buffers
	done    chan struct{} // closed when w will not be called again
}

// newStream returns a stream and the end of the pipe the command gets.
func newStream(w io.Writer, b *buffers) (*stream, *os.File, error) {
	r, theirs, err := pipe(0)
	if err != nil {
		return nil, nil, err
	}
	return &stream{r: r, w: w, buffers: b, done: make(chan struct{})}, theirs, nil
}

// inPipe returns the two ends of a pipe a command reads from.
func inPipe() (theirs, ours *os.File, err error) {
	ours, theirs, err = pipe(1)
	return theirs, ours, err
}

// pipe returns the end of a new pipe that is ours, which can be waited on with
// a deadline, and the other, which blocks as a process expects.
func pipe(our int) (ours, theirs *os.File, err error) {
	var fds [2]int
	if err := pipe2(&fds); err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	if err := syscall.SetNonblock(fds[our], true); err != nil {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[our]), "pipe"), os.NewFile(uintptr(fds[1-our]), "pipe"), nil
}

// copy delivers until the end of the stream or until stop.
func (s *stream) copy() {
	buf := s.buffers.get(smallBuffer)
	for {
		n, err := s.r.Read(*buf)
		s.deliver((*buf)[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.rest(*buf)
			break
		}
		if err != nil {
			break
		}
		if n == smallBuffer && len(*buf) == smallBuffer {
			// The command is fast: fewer, larger steps. The kernel may refuse.
			setPipeSize(s.r, largePipe)
			s.buffers.put(buf)
			buf = s.buffers.get(largeBuffer)
		}
	}
	close(s.done)
	// Whoever is kept may write on, but to nobody: neither SIGPIPE nor a full
	// pipe shall disturb it.
	for {
		if _, err := s.r.Read(*buf); err != nil {
			break
		}
	}
	s.buffers.put(buf)
}

// deliver hands on a piece. A writer that fails is not called again, but the
// command is not disturbed.
func (s *stream) deliver(b []byte) {
	if len(b) == 0 || s.w == nil {
		return
	}
	if _, err := s.w.Write(b); err != nil {
		s.w = nil
	}
}

// rest delivers what is in the pipe now: at least all that was in it when the
// deadline passed, at most what it can hold, as somebody may go on writing.
func (s *stream) rest(buf []byte) {
	_ = s.r.SetReadDeadline(time.Time{})
	raw, err := s.r.SyscallConn()
	if err != nil {
		return
	}
	for left := pipeSize(s.r); left > 0; {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			for {
				n, err = syscall.Read(int(fd), buf[:min(len(buf), left)])
				if err != syscall.EINTR {
					return true // never waits
				}
			}
		})
		if err != nil || n <= 0 {
			return
		}
		s.deliver(buf[:n])
		left -= n
	}
}

// stop ends the delivery at a time.
func (s *stream) stop(at time.Time) { _ = s.r.SetReadDeadline(at) }

func (s *stream) close() { s.r.Close() }

// same reports whether two writers are one. Writers need not be comparable.
func same(a, b io.Writer) bool {
	if a == nil || reflect.TypeOf(a) != reflect.TypeOf(b) || !reflect.ValueOf(a).Comparable() {
		return false
	}
	return a == b
}
