//go:build linux && (!amd64 || race)

package guest

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// startReaper makes a reaper in the namespaces the flags ask for, which needs no
// stack of its own. A negative pid is an errno.
//
//go:noinline
//go:norace
//go:nosplit
//go:nocheckptr
func startReaper(l *launch, flags, _ uintptr) (pid uintptr) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return -uintptr(errno)
	}
	if pid == 0 {
		reap(l)
	}
	return pid
}

// startMain makes the copy that becomes the command. A negative pid is an errno.
//
//go:norace
//go:nosplit
//go:nocheckptr
func startMain(l *launch, _ uintptr) (pid uintptr) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return -uintptr(errno)
	}
	if pid == 0 {
		become(l)
	}
	return pid
}
