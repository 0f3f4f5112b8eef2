//go:build unix && !linux

package local

import (
	"os"
	"syscall"
)

func pipe2(fds *[2]int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(fds[:]); err != nil {
		return err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return nil
}

// The size of a pipe cannot be changed or asked for here; it is at most this.
func setPipeSize(*os.File, int) {}

func pipeSize(*os.File) int { return smallBuffer }
