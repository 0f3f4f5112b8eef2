package policy

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"syscall"
)

// read reads the directory. It takes the kernel's word for what an entry is,
// where there is one, and makes nothing of files.
func (s *search) read() error {
	fd, err := again(func() (int, error) {
		return syscall.Open(s.dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return &fs.PathError{Op: "open", Path: s.dir, Err: err}
	}
	defer syscall.Close(fd)
	if s.buf == nil {
		s.buf = make([]byte, 32<<10)
	}
	for s.entries > 0 {
		n, err := again(func() (int, error) { return syscall.Getdents(fd, s.buf) })
		if err == nil && !s.records(s.buf[:max(n, 0)]) {
			err = syscall.EBADMSG
		}
		if err != nil {
			return &fs.PathError{Op: "getdents", Path: s.dir, Err: err}
		}
		if n <= 0 {
			return nil
		}
	}
	return nil
}

// records goes through what the kernel gave: inode 8, offset 8, length 2, type 1,
// the name with a NUL.
func (s *search) records(rest []byte) bool {
	for len(rest) > 0 {
		if len(rest) < 20 {
			return false
		}
		size := int(binary.NativeEndian.Uint16(rest[16:]))
		if size < 20 || size > len(rest) {
			return false
		}
		name, kind := rest[19:size], rest[18]
		end := bytes.IndexByte(name, 0)
		if end < 0 {
			return false
		}
		name, rest = name[:end], rest[size:]
		if string(name) != "." && string(name) != ".." {
			s.entry(name, s.mode(name, kind))
		}
	}
	return true
}

func (s *search) mode(name []byte, kind byte) fs.FileMode {
	switch kind {
	case syscall.DT_DIR:
		return fs.ModeDir
	case syscall.DT_LNK:
		return fs.ModeSymlink
	case syscall.DT_UNKNOWN:
		info, err := os.Lstat(join(s.dir, string(name)))
		if err != nil {
			return fs.ModeDir // opening it tells
		}
		return info.Mode().Type()
	}
	return 0
}

// again calls f until no signal interrupts it.
func again(f func() (int, error)) (n int, err error) {
	for {
		if n, err = f(); err != syscall.EINTR {
			return n, err
		}
	}
}
