package guards

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// openSearch opens a directory to reach what is in it: that needs no right to
// read it.
func openSearch(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// openReal opens a directory by an absolute path without links.
func openReal(name string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openat2(unix.AT_FDCWD, name, flags, unix.RESOLVE_NO_SYMLINKS)
	if err == unix.ENOSYS || err == unix.EPERM {
		return openSteps(unix.AT_FDCWD, name)
	}
	return fd, err
}

// openBeneath opens a directory below dir for reading.
func openBeneath(dir int, name string) (int, error) {
	if name == "." {
		return unix.Openat(dir, ".", dirFlags, 0)
	}
	fd, err := openat2(dir, name, dirFlags, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err == unix.ENOSYS || err == unix.EPERM {
		return openSteps(dir, name)
	}
	return fd, err
}

func openat2(dir int, name string, flags, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: flags, Resolve: resolve}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, name, &how)
		// EAGAIN: a rename was under way while the kernel looked.
		if err != unix.EINTR && err != unix.EAGAIN || try == 16 {
			return fd, err
		}
	}
}

// identify returns the entry name in dir, or dir itself for "".
func identify(dir int, name string) (node, error) {
	var x unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT
	err := unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &x)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		var st unix.Stat_t
		err := unix.Fstatat(dir, name, &st, flags)
		return node{identity{st.Dev, st.Ino, 0}, st.Mode, st.Uid, st.Gid, uint64(st.Nlink)}, err
	}
	n := node{identity{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino, 0}, uint32(x.Mode), x.Uid, x.Gid, uint64(x.Nlink)}
	if x.Mask&unix.STATX_BTIME != 0 {
		n.birth = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return n, err
}

// asOwner calls f with the rights of a workspace's owner where this process is
// root: then nothing that is swapped in there lends it more. It is a no-op for
// others, and for a root that may not become anybody else.
func asOwner(owner node, f func() error) error {
	if unix.Geteuid() != 0 || owner.uid == 0 {
		return f()
	}
	// These two are a thread's own. The Go runtime starts no thread from a
	// locked one, so none inherits them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	gid, _ := unix.SetfsgidRetGid(int(owner.gid))
	uid, _ := unix.SetfsuidRetUid(int(owner.uid))
	defer func() {
		unix.SetfsuidRetUid(uid)
		unix.SetfsgidRetGid(gid)
		if now, _ := unix.SetfsuidRetUid(-1); now != uid {
			runtime.LockOSThread() // never to be used again: it ends with its goroutine
		}
	}()
	return f()
}
