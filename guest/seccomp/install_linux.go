package seccomp

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Install puts the calling thread, and what it starts from then on, under the
// filter for good, after setting no_new_privs, without which an unprivileged
// thread may not. Other threads are not touched: the caller has locked its
// goroutine to the thread and never unlocks it.
//
// A child forked by hand does the same with two raw calls:
// prctl(PR_SET_NO_NEW_PRIVS, 1) and seccomp(SECCOMP_SET_MODE_FILTER, 0, &prog),
// where prog is the unix.SockFprog that its parent made before the fork.
func Install(filter []unix.SockFilter) error {
	if len(filter) == 0 || len(filter) > unix.BPF_MAXINSNS {
		return fmt.Errorf("seccomp: install: a filter of %d instructions", len(filter))
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("seccomp: set no_new_privs: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno == unix.ENOSYS || errno == unix.EINVAL {
		return fmt.Errorf("seccomp: install: %w: %w", errno, errors.ErrUnsupported)
	}
	if errno != 0 {
		return fmt.Errorf("seccomp: install: %w", errno)
	}
	return nil
}
