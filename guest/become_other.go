//go:build linux && !amd64

package guest

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// startMain makes the copy that becomes the command, and needs no stack for it.
// A negative pid is an errno.
//
//go:norace
//go:nosplit
//go:nocheckptr
func startMain(l *launch, stack uintptr) (pid uintptr) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return -uintptr(errno)
	}
	if pid == 0 {
		become(l)
	}
	return pid
}
