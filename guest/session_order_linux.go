package guest

import (
	"encoding/json"
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

// answer is one that the guest owes, or has given.
type answer struct {
	packet   []byte
	fds      []int // who asked closes them
	came     bool
	unwanted bool // nobody will
}

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

// ask sends an order that will be answered. The guest obeys and answers one
// order after the other; who asks may do something else meanwhile.
func (s *Session) ask(order []byte, files ...*os.File) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return nil, s.broken
	}
	if err := s.send(order, files...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	a := &answer{}
	s.owed = append(s.owed, a)
	return a, nil
}

// carries tells whether an answer has as many descriptors as it must; if not,
// they are closed. The guest may have told why.
func (a *answer) carries(n int, what string) error {
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

// await waits for an answer, and receives those that come before it. A guest
// that does not answer is ended: it could not be told what its next answer is to.
func (s *Session) await(a *answer) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	_ = s.conn.SetReadDeadline(time.Now().Add(greetWithin))
	defer func() { _ = s.conn.SetReadDeadline(time.Time{}) }()
	for {
		s.mu.Lock()
		came, broken := a.came, s.broken
		s.mu.Unlock()
		if came || broken != nil {
			return broken
		}
		packet, fds, err := s.receiveAll()
		if err == nil && len(packet) == 0 {
			err = io.EOF
		}
		s.mu.Lock()
		if err != nil {
			s.broken = fmt.Errorf("%w: it did not answer: %w", ErrGone, err)
			s.Kill()
		} else {
			next := s.owed[0]
			s.owed = s.owed[1:]
			next.packet, next.fds, next.came = packet, fds, true
			if next.unwanted {
				closeAll(fds)
			}
		}
		s.mu.Unlock()
	}
}

// Mount makes more mounts in the tree the box sees: of the kinds that need
// nothing of this machine's. Commands that run already do not see them. The
// guest keeps the descriptors open as long as it lives.
func (s *Session) Mount(mounts []Mount, keep ...*os.File) error {
	s.mu.Lock()
	more := s.more
	s.more = false
	s.mu.Unlock()
	if len(mounts)+len(keep) == 0 && !more {
		return nil
	}
	list, err := json.Marshal(mounts)
	if err != nil {
		return err
	}
	if len(list) >= maxPacket {
		return fmt.Errorf("guest: %d mounts are too many", len(mounts))
	}
	a, err := s.ask(append([]byte{orderMount}, list...), keep...)
	if err == nil {
		err = s.await(a)
	}
	if err != nil {
		return err
	}
	closeAll(a.fds)
	var said Setup
	if err := json.Unmarshal(a.packet, &said); err != nil {
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

// Socket is a socket in a box that is being opened.
type Socket struct {
	session *Session
	answer  *answer
}

// Listen opens a socket in a new directory of the scratch directory that has
// the given name. Its path inside is scratch/name/s. It does not wait: either
// Listener or Close of the Socket is to be called, once.
func (s *Session) Listen(name string) (*Socket, error) {
	a, err := s.ask(append([]byte{orderListen}, name...))
	if err != nil {
		return nil, err
	}
	return &Socket{s, a}, nil
}

// Listener waits for the socket.
func (l *Socket) Listener() (net.Listener, error) {
	if err := l.session.await(l.answer); err != nil {
		return nil, err
	}
	if err := l.answer.carries(1, "socket in the box"); err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(l.answer.fds[0]), "socket")
	defer file.Close()
	return net.FileListener(file)
}

// Close lets go of a socket nobody has asked for.
func (l *Socket) Close() {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	l.answer.unwanted = true
	closeAll(l.answer.fds)
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
