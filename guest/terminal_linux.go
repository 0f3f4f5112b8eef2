package guest

import (
	"context"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenTerminal makes a terminal of this machine's: the end that is ours, which
// can be waited on with a deadline, and the one a command gets.
func OpenTerminal() (ours, theirs *os.File, err error) {
	fds, err := openTerminal("/dev/ptmx")
	if err != nil {
		return nil, nil, os.NewSyscallError("terminal", err)
	}
	return os.NewFile(uintptr(fds[0]), "terminal"), os.NewFile(uintptr(fds[1]), "tty"), nil
}

// openTerminal needs no name of the other end, which may be of a tree of mounts
// that is not ours.
func openTerminal(multiplexer string) (fds [2]int, err error) {
	ours, err := unix.Open(multiplexer, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fds, err
	}
	if err = unix.IoctlSetPointerInt(ours, unix.TIOCSPTLCK, 0); err == nil {
		var theirs uintptr
		var errno syscall.Errno
		theirs, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(ours), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno == 0 {
			return [2]int{ours, int(theirs)}, nil
		}
		err = errno
	}
	unix.Close(ours)
	return fds, err
}

// terminal makes a terminal of the box's own and passes both ends to the
// engine, which gives one to a command.
func (g *inside) terminal() {
	fds, err := openTerminal("/dev/pts/ptmx")
	if err != nil {
		errno, _ := err.(syscall.Errno)
		_ = unix.Sendmsg(control, []byte("!"+strconv.Itoa(int(errno))), nil, nil, unix.MSG_NOSIGNAL)
		return
	}
	_ = unix.Sendmsg(control, []byte{orderTerminal}, unix.UnixRights(fds[:]...), nil, unix.MSG_NOSIGNAL)
	unix.Close(fds[0])
	unix.Close(fds[1])
}

// Terminal makes a terminal of the box's, as OpenTerminal makes one.
func (s *Session) Terminal() (ours, theirs *os.File, err error) {
	a, err := s.ask(context.Background(), []byte{orderTerminal})
	if err == nil {
		err = a.carries(2, "terminal in the box")
	}
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(a.fds[0]), "terminal"), os.NewFile(uintptr(a.fds[1]), "tty"), nil
}
