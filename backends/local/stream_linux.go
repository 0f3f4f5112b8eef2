package local

import (
	"os"

	"golang.org/x/sys/unix"
)

func pipe2(fds *[2]int) error { return unix.Pipe2(fds[:], unix.O_CLOEXEC) }

func setPipeSize(f *os.File, size int) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
	}
}

func pipeSize(f *os.File) int {
	size := largePipe
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
				size = n
			}
		})
	}
	return size
}
