package guest

import (
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
func (s *Session) ask(order []byte, files ...*os.File) (a answer, err error) {
	wait, err := s.begin(order, files...)
	if err != nil {
		return a, err
	}
	return wait()
}

// begin sends an order; its answer is what wait, which is to be called, waits for.
// A guest that does not answer is ended: nobody could tell what its next answer
// is to.
func (s *Session) begin(order []byte, files ...*os.File) (wait func() (answer, error), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.send(order, files...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	own := &pending{}
	s.pending = append(s.pending, own)
	return func() (answer, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for !own.done { // those before it first: answers come in the order of what was asked
			next := s.pending[0]
			s.pending = s.pending[1:]
			next.answer, next.err = s.next()
			next.done = true
		}
		return own.answer, own.err
	}, nil
}

// pending is an order whose answer may not have been read.
type pending struct {
	answer
	err  error
	done bool
}

// next reads an answer; s.mu is held.
func (s *Session) next() (a answer, err error) {
	_ = s.conn.SetDeadline(time.Now().Add(greetWithin))
	a.packet, a.fds, err = s.receiveAll()
	_ = s.conn.SetDeadline(time.Time{})
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
	if len(mounts)+len(keep) == 0 && !s.more {
		return nil
	}
	s.more = false
	message := frame{orderMount}.mounts(mounts)
	if len(message) > maxPacket {
		return fmt.Errorf("guest: %d mounts are too many", len(mounts))
	}
	a, err := s.ask(message, keep...)
	if err != nil {
		return err
	}
	closeAll(a.fds)
	said, err := parseSetup(a.packet)
	if err != nil {
		return fmt.Errorf("guest: what it said: %w", err)
	}
	return setupError(said)
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
// returns does, and is to be called.
func (s *Session) Listen(name string) (wait func() (net.Listener, error)) {
	answered, err := s.begin(append([]byte{orderListen}, name...))
	return func() (net.Listener, error) {
		if err != nil {
			return nil, err
		}
		a, err := answered()
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
	if err := s.hand(orderCommand, os.NewFile(uintptr(fds[1]), "guest")); err != nil {
		ours.Close()
		return nil, err
	}
	return &Remote{line: newLine(ours), session: s}, nil
}
