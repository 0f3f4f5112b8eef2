package guards

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// errNeedsName tells that files have names here from the start.
var errNeedsName = errors.New("no files without a name")

// openNameless makes a file without a name in a directory.
func openNameless(dir int) (int, error) {
	fd, err := unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o444)
	switch err {
	case nil:
	case unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL, unix.ENOSYS:
		return -1, errNeedsName
	default:
		return -1, err
	}
	var st unix.Stat_t
	if unix.Lstat(magicLink(fd), &st) != nil { // without /proc it would get no name
		unix.Close(fd)
		return -1, errNeedsName
	}
	return fd, nil
}

func magicLink(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// linkNameless gives a file without a name one that nothing has.
func linkNameless(fd, dir int, name string) error {
	return unix.Linkat(unix.AT_FDCWD, magicLink(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// rename renames within a directory and replaces nothing.
func rename(dir int, from, to string) error {
	err := unix.Renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP {
		return renameByLink(dir, from, to)
	}
	return err
}
