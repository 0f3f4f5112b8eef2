package walk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// open opens name without following a link anywhere, by one openat2 where the
// kernel has it.
func open(name string, flags int) (int, error) {
	flags |= unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NOCTTY | unix.O_NONBLOCK
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(unix.AT_FDCWD, name, &how)
		switch {
		case err == nil:
			return fd, nil
		case try < 16 && (errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN)):
			continue // a rename was under way while the kernel looked
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			// An old kernel, or a filter that does not know the call.
			if fd, err = unix.Open(name, flags, 0); err == nil {
				return fd, nil
			}
		}
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
}

// ReadDir implements FS.
func (Disk) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	fd, err := open(name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	return list(dir)
}

// Open implements FS.
func (Disk) Open(_ context.Context, name string) (io.ReadCloser, error) {
	fd, err := open(name, 0)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return rawFile(fd), nil
}

// Resolve implements FS.
func (Disk) Resolve(_ context.Context, name string) (string, error) {
	return filepath.EvalSymlinks(name)
}

// rawFile reads a descriptor without os.File's bookkeeping, which costs more
// than reading a small file does.
type rawFile int

func (f rawFile) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(f), p)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (f rawFile) Close() error { return unix.Close(int(f)) }
