//go:build unix && !linux

package guards

import "golang.org/x/sys/unix"

func openSearch(dir int, name string) (int, error) { return unix.Openat(dir, name, dirFlags, 0) }

func openReal(name string) (int, error) { return openSteps(unix.AT_FDCWD, name) }

func openBeneath(dir int, name string) (int, error) { return openSteps(dir, name) }

func identify(dir int, name string) (node, error) {
	var st unix.Stat_t
	var err error
	if name == "" {
		err = unix.Fstat(dir, &st)
	} else {
		err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	return node{identity{uint64(st.Dev), uint64(st.Ino), 0}, uint32(st.Mode), st.Uid, st.Gid, uint64(st.Nlink)}, err
}

func asOwner(_ node, f func() error) error { return f() }
