//go:build unix && !linux

package guest

import (
	"os"
	"syscall"

	"github.com/creack/pty"
)

// OpenTerminal makes a terminal of this machine's: the end that is ours, which
// can be waited on with a deadline, and the one a command gets.
func OpenTerminal() (ours, theirs *os.File, err error) {
	ours, theirs, err = pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer ours.Close()
	fd, err := syscall.Dup(int(ours.Fd()))
	if err == nil {
		syscall.CloseOnExec(fd)
		if err = syscall.SetNonblock(fd, true); err == nil {
			return os.NewFile(uintptr(fd), "terminal"), theirs, nil
		}
		syscall.Close(fd)
	}
	theirs.Close()
	return nil, nil, os.NewSyscallError("terminal", err)
}
