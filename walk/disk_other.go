//go:build !linux

package walk

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadDir implements FS.
func (Disk) ReadDir(_ context.Context, name string) ([]fs.DirEntry, error) {
	dir, err := openSame(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return list(dir)
}

// Open implements FS.
func (Disk) Open(_ context.Context, name string) (io.ReadCloser, error) {
	f, err := openSame(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return f, nil
}

// Resolve implements FS.
func (Disk) Resolve(_ context.Context, name string) (string, error) {
	p, err := filepath.EvalSymlinks(filepath.FromSlash(name))
	return filepath.ToSlash(p), err
}

// openSame opens a file or directory that is not a link: what was looked at
// must be what is open.
func openSame(name string) (*os.File, error) {
	name = filepath.FromSlash(name)
	before, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() && !before.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil || !os.SameFile(before, after) {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return f, nil
}
