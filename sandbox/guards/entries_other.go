//go:build unix && !linux

package guards

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// entries calls f with what is in a directory until it returns false.
func entries(fd int, _ []byte, f func(name []byte, kind entryKind) bool) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(own), "directory")
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if !f([]byte(name), entryUnknown) {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// statEntry returns mode and ctime of a name that entries gave.
func statEntry(dir int, name []byte) (mode uint32, ctime int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, string(name), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, 0, &fs.PathError{Op: "stat", Path: string(name), Err: err}
	}
	return uint32(st.Mode), unix.TimespecToNsec(st.Ctim), nil
}
