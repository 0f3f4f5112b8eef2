package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Files are this machine's files, opened by this process itself. The kernel
// refuses links while it walks a name (openat2), so there is no moment between
// a check and its use; where openat2 is missing, every component is opened by
// itself below the one before.
type Files struct {
	walk atomic.Bool // openat2 is missing: walk by components
}

// New returns the files of this machine, as this process may touch them.
func New() *Files { return &Files{} }

// open opens name, which is clean. A link as the last component is an error
// too, unless flags has both O_PATH and O_NOFOLLOW.
func (f *Files) open(name string, flags int) (int, error) {
	if f.walk.Load() {
		return f.openWalk(name, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := retry(func() (int, error) { return unix.Openat2(unix.AT_FDCWD, name, &how) })
	switch err {
	case unix.ELOOP:
		err = sandbox.ErrSymlink
	case unix.ENOSYS:
		f.walk.Store(true)
		return f.openWalk(name, flags)
	case unix.EPERM: // a seccomp filter that does not know openat2; or the file's own refusal, which the walk repeats
		return f.openWalk(name, flags)
	}
	return fd, err
}

// openWalk is open without openat2.
func (f *Files) openWalk(name string, flags int) (int, error) {
	dir, err := retry(func() (int, error) { return unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, err
	}
	rest := strings.TrimPrefix(name, "/")
	for {
		comp, tail, more := strings.Cut(rest, "/")
		if comp == "" {
			comp = "."
		}
		if !more {
			fd, err := retry(func() (int, error) {
				return unix.Openat(dir, comp, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			})
			if err == unix.ELOOP || err == unix.ENOTDIR && isLink(dir, comp) {
				err = sandbox.ErrSymlink
			}
			unix.Close(dir)
			if err == nil && flags&unix.O_PATH != 0 && flags&unix.O_NOFOLLOW == 0 {
				return refuseLink(fd)
			}
			return fd, err
		}
		next, err := retry(func() (int, error) {
			return unix.Openat(dir, comp, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
		unix.Close(dir)
		if err != nil {
			return -1, err
		}
		if dir, err = refuseLink(next); err != nil {
			return -1, err
		}
		rest = tail
	}
}

// refuseLink closes fd and fails if it is a symbolic link.
func refuseLink(fd int) (int, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = sandbox.ErrSymlink
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func isLink(dir int, base string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// parent opens the directory name is in. What happens beneath it happens there,
// wherever the directory is moved to in the meantime.
func (f *Files) parent(name string) (dir int, base string, err error) {
	if name == "/" {
		return -1, "", unix.EBUSY
	}
	dir, err = f.open(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	return dir, path.Base(name), err
}

func (f *Files) Resolve(ctx context.Context, name string) (string, error) {
	if err := checkRaw(ctx, "resolve", name); err != nil {
		return "", err
	}
	// One look suffices for a name without links, or one that is missing in a
	// directory without links.
	if !hasDotDot(name) {
		clean := path.Clean(name)
		fd, err := f.open(clean, unix.O_PATH)
		if err == unix.ENOENT {
			fd, err = f.open(path.Dir(clean), unix.O_PATH|unix.O_DIRECTORY)
			if err == nil && isLink(fd, path.Base(clean)) { // dangling, or new this moment
				unix.Close(fd)
				err = sandbox.ErrSymlink
			}
		}
		if err == nil {
			unix.Close(fd)
			return clean, nil
		}
	}
	resolved, err := follow(ctx, name)
	return resolved, pathError("resolve", name, err)
}

// follow resolves name component by component, as the kernel would: ".." is
// the parent of where a link led. Components that do not exist are kept.
func follow(ctx context.Context, name string) (string, error) {
	resolved, rest, links := "/", name, 0
	buf := make([]byte, maxName+1)
	for rest != "" {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		var comp string
		comp, rest, _ = strings.Cut(rest, "/")
		switch comp {
		case "", ".":
			continue
		case "..":
			var st unix.Stat_t
			if unix.Lstat(resolved, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
				return "", unix.ENOTDIR
			}
			resolved = path.Dir(resolved)
			continue
		}
		next := path.Join(resolved, comp)
		if len(next) > maxName {
			return "", unix.ENAMETOOLONG
		}
		n, err := retry(func() (int, error) { return unix.Readlink(next, buf) })
		switch err {
		case unix.EINVAL, unix.ENOENT: // not a link, or nothing there
			resolved = next
		case nil:
			if links++; links > maxLinks {
				return "", unix.ELOOP
			}
			target := string(buf[:n])
			if strings.HasPrefix(target, "/") {
				resolved = "/"
			}
			rest = target + "/" + rest
		default:
			return "", err
		}
	}
	return resolved, nil
}

func (f *Files) Open(ctx context.Context, name string) (sandbox.File, error) {
	name, err := checkName(ctx, "open", name)
	if err != nil {
		return nil, err
	}
	fd, err := f.openRegular(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openRegular looks at the file before it opens it, because opening a device
// can have effects, and opens what it looked at. O_NONBLOCK is for a file
// somebody holds a lease on.
func (f *Files) openRegular(name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	look, err := f.open(name, unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer unix.Close(look)
	if err := regular(look); err != nil {
		return -1, err
	}
	fd, err := retry(func() (int, error) { return unix.Open(procFD(look), flags|unix.O_CLOEXEC, 0) })
	if err == unix.ENOENT || err == unix.ENOTDIR { // no /proc here
		if fd, err = f.open(name, flags|unix.O_NOFOLLOW); err == nil {
			err = regular(fd)
		}
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0) // it is no pipe: plain blocking reads from here
	}
	if err != nil && fd >= 0 {
		unix.Close(fd)
	}
	return fd, err
}

func regular(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return sandbox.ErrNotRegular
	}
	return nil
}

// procFD names what fd is open on, for calls that want a name.
func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func (f *Files) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	name, err := checkName(ctx, "stat", name)
	if err != nil {
		return nil, err
	}
	i := &info{name: path.Base(name)}
	if err := f.lstat(name, &i.stat); err != nil {
		return nil, pathError("stat", name, err)
	}
	return i, nil
}

func (f *Files) lstat(name string, st *syscall.Stat_t) error {
	fd, err := f.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return syscall.Fstat(fd, st)
}

func (f *Files) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	name, err := checkName(ctx, "readdir", name)
	if err != nil {
		return nil, err
	}
	var list []fs.DirEntry
	err = f.list(ctx, name, func(batch []fs.DirEntry) error {
		for _, e := range batch {
			list = append(list, entry{e, f, path.Join(name, e.Name())})
		}
		return nil
	})
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	sortEntries(list)
	return list, nil
}

func sortEntries(list []fs.DirEntry) {
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
}

// list calls add with the entries of the directory name, which is clean, batch
// by batch, in the order the kernel has them.
func (f *Files) list(ctx context.Context, name string, add func([]fs.DirEntry) error) error {
	fd, err := f.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	// os asks for an entry's type by name where the file system does not tell
	// it; under this name it asks below the descriptor.
	dir := os.NewFile(uintptr(fd), procFD(fd))
	defer dir.Close()
	for total := 0; ; {
		batch, err := dir.ReadDir(1024)
		if total += len(batch); total > maxEntries {
			return errEntries
		}
		if aerr := add(batch); aerr != nil {
			return aerr
		}
		if err == io.EOF {
			return nil
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

func (f *Files) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	name, err := checkName(ctx, "mkdir", name)
	if err != nil {
		return err
	}
	dir, base, err := f.parent(name)
	if err != nil {
		if name == "/" {
			err = fs.ErrExist
		}
		return pathError("mkdir", name, err)
	}
	defer unix.Close(dir)
	return pathError("mkdir", name, unix.Mkdirat(dir, base, uint32(perm.Perm())))
}

// Stage implements sandbox.Stager.
func (f *Files) Stage(ctx context.Context, dir string, files []sandbox.StagedFile, look []string) (found sandbox.Found, err error) {
	if err := f.stage(ctx, dir, files); err != nil || len(look) == 0 {
		return found, err
	}
	return find(ctx, f, look), nil
}

func (f *Files) stage(ctx context.Context, dir string, files []sandbox.StagedFile) error {
	return stage(ctx, f, dir, files, func(name string, perm, dir fs.FileMode) (*os.File, error) {
		fd, err := f.make(ctx, name, perm, dir)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), name), nil
	})
}

// make makes a file. With a dir other than 0 its directory is made first, with
// these permissions, and is not to exist either: after an error there is neither.
func (f *Files) make(ctx context.Context, name string, perm, dir fs.FileMode) (fd int, err error) {
	name, err = checkName(ctx, "make", name)
	if err != nil {
		return -1, err
	}
	if dir != 0 {
		if err := f.Mkdir(ctx, path.Dir(name), dir); err != nil {
			return -1, err
		}
		defer func() {
			if err != nil {
				_ = f.Remove(context.WithoutCancel(ctx), path.Dir(name))
			}
		}()
	}
	in, base, err := f.parent(name)
	if err == nil {
		defer unix.Close(in)
		fd, err = retry(func() (int, error) {
			return unix.Openat(in, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
		})
	}
	if err != nil {
		return -1, pathError("make", name, err)
	}
	return fd, nil
}

func (f *Files) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	name, err := checkName(ctx, "mkdirall", name)
	if err != nil {
		return err
	}
	// Up to the first directory that exists, then down again.
	var missing []string
	for at := name; ; at = path.Dir(at) {
		fd, err := f.open(at, unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			unix.Close(fd)
			break
		}
		if err != unix.ENOENT {
			return pathError("mkdirall", at, err)
		}
		missing = append(missing, at)
	}
	for _, at := range slices.Backward(missing) {
		if err := f.Mkdir(ctx, at, perm); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	fd, err := f.open(name, unix.O_PATH|unix.O_DIRECTORY) // what was there first may be no directory
	if err == nil {
		unix.Close(fd)
	}
	return pathError("mkdirall", name, err)
}

func (f *Files) Rename(ctx context.Context, oldName, newName string) error {
	oldName, err := checkName(ctx, "rename", oldName)
	if err != nil {
		return err
	}
	newName, err = checkName(ctx, "rename", newName)
	if err != nil {
		return err
	}
	oldDir, oldBase, err := f.parent(oldName)
	if err != nil {
		return pathError("rename", oldName, err)
	}
	defer unix.Close(oldDir)
	newDir, newBase, err := f.parent(newName)
	if err != nil {
		return pathError("rename", newName, err)
	}
	defer unix.Close(newDir)
	// rename(2) itself never follows these two; the check is for the contract.
	if isLink(oldDir, oldBase) {
		return pathError("rename", oldName, sandbox.ErrSymlink)
	}
	if isLink(newDir, newBase) {
		return pathError("rename", newName, sandbox.ErrSymlink)
	}
	if err := unix.Renameat(oldDir, oldBase, newDir, newBase); err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	return nil
}

func (f *Files) Remove(ctx context.Context, name string) error {
	name, err := checkName(ctx, "remove", name)
	if err != nil {
		return err
	}
	dir, base, err := f.parent(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	defer unix.Close(dir)
	return pathError("remove", name, unlink(dir, base))
}

// unlink removes an entry: whatever it is, but not what is in it.
func unlink(dir int, base string) error {
	err := unix.Unlinkat(dir, base, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		if derr := unix.Unlinkat(dir, base, unix.AT_REMOVEDIR); derr != unix.ENOTDIR {
			return derr
		}
	}
	return err
}

// retry repeats a call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
