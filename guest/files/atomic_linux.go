package files

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// atomicFile is a file being written under a temporary name, or none, in the
// directory it will appear in.
type atomicFile struct {
	name string
	opt  sandbox.CreateOptions
	dir  int // O_PATH, or readable when it will be synced
	base string
	temp string // "" while the file has no name at all (O_TMPFILE)
	file *os.File
	old  unix.Stat_t // of the file to replace; zero Mode when there was none
	err  error       // of the first failed Write
	done bool
}

func (f *Files) Create(ctx context.Context, name string, opt sandbox.CreateOptions) (sandbox.AtomicFile, error) {
	a, err := f.create(ctx, name, opt)
	if err != nil {
		return nil, err // not a nil *atomicFile
	}
	return a, nil
}

func (f *Files) create(ctx context.Context, name string, opt sandbox.CreateOptions) (*atomicFile, error) {
	name, err := checkName(ctx, "create", name)
	if err != nil {
		return nil, err
	}
	if opt.Perm == 0 {
		opt.Perm = 0o666
	}
	a := &atomicFile{name: name, opt: opt}
	if a.dir, a.base, err = f.parent(name); err != nil {
		if name == "/" {
			err = sandbox.ErrNotRegular
		}
		return nil, pathError("create", name, err)
	}
	if err := a.begin(); err != nil {
		unix.Close(a.dir)
		return nil, pathError("create", name, err)
	}
	return a, nil
}

// begin makes the file that will be written to.
func (a *atomicFile) begin() error {
	if err := a.look(); err != nil {
		return err
	}
	if a.opt.Sync { // a directory is synced through a descriptor that can read
		readable, err := unix.Openat(a.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		unix.Close(a.dir)
		a.dir = readable
	}
	// The kernel takes the umask off what is asked for here: asking the umask
	// itself would mean to change it for all threads.
	perm := uint32(a.opt.Perm.Perm())
	if a.old.Mode != 0 && !a.opt.New {
		perm = 0o600 // until Commit gives it the old file's
	}
	if a.opt.New {
		fd, err := retry(func() (int, error) {
			return unix.Openat(a.dir, ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, perm)
		})
		if err == nil {
			a.file = os.NewFile(uintptr(fd), a.name)
			return nil
		} // some file systems have no nameless files
	}
	for range 100 {
		temp := tempName()
		fd, err := retry(func() (int, error) {
			return unix.Openat(a.dir, temp, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		})
		if err == nil {
			a.temp, a.file = temp, os.NewFile(uintptr(fd), a.name)
			return nil
		}
		if err != unix.EEXIST {
			return err
		}
	}
	return unix.EEXIST
}

// look sees what is under the name now and refuses what cannot be replaced.
func (a *atomicFile) look() error {
	var st unix.Stat_t
	err := unix.Fstatat(a.dir, a.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return sandbox.ErrSymlink
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return sandbox.ErrNotRegular
	}
	a.old = st
	if a.opt.New {
		return nil // Commit tells
	}
	// Renaming over a file asks nothing of its mode; writing to it would.
	return unix.Faccessat(a.dir, a.base, unix.W_OK, unix.AT_EACCESS)
}

func (a *atomicFile) Write(p []byte) (int, error) {
	if a.done {
		return 0, pathError("write", a.name, fs.ErrClosed)
	}
	n, err := a.file.Write(p)
	if err != nil && a.err == nil {
		a.err = err
	}
	return n, err
}

// WriteAt writes at a place of the file, for who gets its pieces in any order.
// It is not safe for concurrent use.
func (a *atomicFile) WriteAt(p []byte, off int64) (int, error) {
	if a.done {
		return 0, pathError("write", a.name, fs.ErrClosed)
	}
	n, err := a.file.WriteAt(p, off)
	if err != nil && a.err == nil {
		a.err = err
	}
	return n, err
}

func (a *atomicFile) Commit() error {
	if a.done {
		return pathError("commit", a.name, fs.ErrClosed)
	}
	err := a.commit()
	if err != nil {
		a.Discard()
	}
	a.close()
	return pathError("commit", a.name, err)
}

func (a *atomicFile) commit() error {
	if a.err != nil {
		return a.err
	}
	if err := a.look(); err != nil {
		return err
	}
	fd := int(a.file.Fd())
	if a.old.Mode != 0 && !a.opt.New {
		if err := a.inherit(fd); err != nil {
			return err
		}
	}
	if a.opt.Sync {
		if err := a.file.Sync(); err != nil {
			return err
		}
	}
	if a.temp == "" {
		return a.link(fd)
	}
	if err := a.file.Close(); err != nil { // some file systems tell only here that the disk is full
		return err
	}
	var flags uint
	if a.opt.New {
		flags = unix.RENAME_NOREPLACE
	}
	err := unix.Renameat2(a.dir, a.temp, a.dir, a.base, flags)
	if a.opt.New && (err == unix.EINVAL || err == unix.ENOSYS) {
		// No such rename on this file system: a link does not replace either.
		if err = unix.Linkat(a.dir, a.temp, a.dir, a.base, 0); err == nil {
			err = unix.Unlinkat(a.dir, a.temp, 0)
		}
	}
	switch err {
	case nil:
		a.temp = ""
	case unix.EISDIR:
		return sandbox.ErrNotRegular
	default:
		return err
	}
	return a.syncDir()
}

// link gives the nameless file its name.
func (a *atomicFile) link(fd int) error {
	err := unix.Linkat(unix.AT_FDCWD, procFD(fd), a.dir, a.base, unix.AT_SYMLINK_FOLLOW)
	if err == unix.ENOENT || err == unix.ENOTDIR { // no /proc here
		err = unix.Linkat(fd, "", a.dir, a.base, unix.AT_EMPTY_PATH)
	}
	if err != nil {
		return err
	}
	return a.syncDir()
}

func (a *atomicFile) syncDir() error {
	if !a.opt.Sync {
		return nil
	}
	return unix.Fsync(a.dir)
}

// inherit gives the new file the old one's owner, where we may, and mode. The
// set-id bits go, as they do when a file is written to: what somebody else
// wrote must not run with the owner's rights.
func (a *atomicFile) inherit(fd int) error {
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return err
	}
	if now.Uid != a.old.Uid || now.Gid != a.old.Gid {
		if err := unix.Fchown(fd, int(a.old.Uid), int(a.old.Gid)); err != nil {
			_ = unix.Fchown(fd, -1, int(a.old.Gid))
		}
	}
	return unix.Fchmod(fd, a.old.Mode&0o1777)
}

func (a *atomicFile) Discard() error {
	if a.done {
		return nil
	}
	var err error
	if a.temp != "" {
		if err = unix.Unlinkat(a.dir, a.temp, 0); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	a.close()
	return pathError("discard", a.name, err)
}

func (a *atomicFile) close() {
	if !a.done {
		a.done = true
		a.file.Close()
		unix.Close(a.dir)
	}
}
