package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest/files"
)

// hand passes one end of a connection to the guest, with the order it is for.
func (s *Session) hand(order byte, theirs *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer theirs.Close()
	if err := s.send([]byte{order}, theirs); err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil
}

// ask sends an order and waits for its answer.
func (s *Session) ask(ctx context.Context, order []byte, files ...*os.File) (a answer, err error) {
	wait, err := s.begin(order, files...)
	if err != nil {
		return a, err
	}
	return wait(ctx)
}

// pending is an order whose answer may not have been read. Its fields are under
// the session's lock.
type pending struct {
	answer
	err  error
	done bool
}

// begin sends an order; wait waits for its answer. When its context is done before,
// it returns the cause, and is to be called again by who lets go of what the answer
// brings. A guest that does not answer is ended.
func (s *Session) begin(order []byte, files ...*os.File) (wait func(context.Context) (answer, error), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.send(order, files...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	own := &pending{}
	s.pending = append(s.pending, own)
	return func(ctx context.Context) (answer, error) {
		if err := s.readUntil(ctx, own); err != nil {
			return answer{}, err
		}
		return own.answer, own.err
	}, nil
}

// readUntil reads answers, which come in the order of what was asked, up to that
// to own.
func (s *Session) readUntil(ctx context.Context, own *pending) error {
	select {
	case s.reading <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.reading }()
	for {
		s.mu.Lock()
		if own.done {
			s.mu.Unlock()
			return nil
		}
		first := s.pending[0]
		s.mu.Unlock()
		a, err := s.next(ctx)
		if err == errGivenUp {
			return context.Cause(ctx)
		}
		s.mu.Lock()
		s.pending = s.pending[1:]
		first.answer, first.err, first.done = a, err, true
		s.mu.Unlock()
	}
}

var errGivenUp = errors.New("given up")

// next reads an answer. A guest that does not answer in time is ended: nobody could
// tell what its next answer is to.
func (s *Session) next(ctx context.Context) (a answer, err error) {
	_ = s.conn.SetReadDeadline(time.Now().Add(greetWithin))
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.conn.SetReadDeadline(time.Unix(1, 0))
		close(fired)
	})
	a.packet, a.fds, err = s.receiveAll()
	if !stop() {
		<-fired // the next deadline is another's
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return a, errGivenUp
	}
	if err == nil && len(a.packet) == 0 {
		err = io.EOF
	}
	if err != nil {
		s.Kill()
		return a, fmt.Errorf("%w: it did not answer: %w", ErrGone, err)
	}
	return a, nil
}

// answer is what a guest answers; who asked closes the descriptors.
type answer struct {
	packet []byte
	fds    []int
}

// carries tells whether an answer has as many descriptors as it must; if not,
// they are closed. The guest may have told why.
func (a answer) carries(n int, what string) error {
	if len(a.fds) == n {
		return nil
	}
	closeAll(a.fds)
	if len(a.packet) > 1 && a.packet[0] == '!' {
		if errno, err := strconv.Atoi(string(a.packet[1:])); err == nil {
			return os.NewSyscallError(what, syscall.Errno(errno))
		}
	}
	return fmt.Errorf("%w: its answer is none", ErrGone)
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// Mount makes more mounts in the tree the box sees: of the kinds that need
// nothing of this machine's. Commands that run already do not see them. The
// guest keeps the descriptors open as long as it lives.
func (s *Session) Mount(mounts []Mount, keep ...*os.File) error {
	made, err := s.BeginMount(mounts, keep...)
	if err != nil {
		return err
	}
	return made()
}

// ErrMounts says that more is to be mounted than one order has room for.
var ErrMounts = errors.New("mounts are too many")

// BeginMount is the first half of Mount, which does not wait; what it returns
// does, and is to be called. The first mounts may be asked for between BeginConfine
// and Confined: the guest then makes them without waiting for anything.
func (s *Session) BeginMount(mounts []Mount, keep ...*os.File) (made func() error, err error) {
	s.mu.Lock()
	more := s.more
	s.more = false
	s.mu.Unlock()
	if len(mounts)+len(keep) == 0 && !more {
		return func() error { return nil }, nil
	}
	message := frame{orderMount}.mounts(mounts)
	if len(message) > maxPacket {
		return nil, fmt.Errorf("guest: %d: %w", len(mounts), ErrMounts)
	}
	answered, err := s.begin(message, keep...)
	if err != nil {
		return nil, err
	}
	return func() error {
		a, err := answered(context.Background()) // what became of them must be known
		if err != nil {
			return err
		}
		closeAll(a.fds)
		said, err := parseSetup(a.packet)
		if err != nil {
			return fmt.Errorf("guest: what it said: %w", err)
		}
		return setupError(said)
	}, nil
}

// Dial opens a connection to the box's file server, for a files.Client.
func (s *Session) Dial() (*os.File, error) {
	ours, theirs, err := files.Pair()
	if err != nil {
		return nil, err
	}
	if err := s.hand(orderFiles, theirs); err != nil {
		ours.Close()
		return nil, err
	}
	return ours, nil
}

// Listen opens a socket in a new directory of the scratch directory that has
// the given name. Its path inside is scratch/name/s. It does not wait: what it
// returns does, until its context is done; then it is to be called again, by who
// closes the socket.
func (s *Session) Listen(name string) (wait func(context.Context) (net.Listener, error)) {
	answered, err := s.begin(append([]byte{orderListen}, name...))
	return func(ctx context.Context) (net.Listener, error) {
		if err != nil {
			return nil, err
		}
		a, err := answered(ctx)
		if err == nil {
			err = a.carries(1, "socket in the box")
		}
		if err != nil {
			return nil, err
		}
		file := os.NewFile(uintptr(a.fds[0]), "socket")
		defer file.Close()
		return net.FileListener(file)
	}
}

// Command prepares to run one command.
func (s *Session) Command() (*Remote, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("guest: socket pair: %w", err)
	}
	if err = unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, err
	}
	ours := os.NewFile(uintptr(fds[0]), "command")
	return &Remote{line: newLine(ours), session: s, theirs: os.NewFile(uintptr(fds[1]), "guest")}, nil
}
