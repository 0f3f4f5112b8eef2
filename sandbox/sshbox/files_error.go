package sshbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// statusError is the error a status means. A guest names what its error wraps;
// of a stock server's codes some stand for several errors.
func statusError(code uint32, f *sshwire.Failure, guest bool) error {
	switch {
	case code == sshwire.StatusOK:
		return nil
	case code == sshwire.StatusEOF:
		return io.EOF
	case guest:
		return f
	case code == sshwire.StatusNoFile:
		return syscall.ENOENT
	case code == sshwire.StatusPermission:
		return syscall.EACCES
	case code == sshwire.StatusBadMessage:
		return syscall.EINVAL
	case code == sshwire.StatusUnsupported:
		return syscall.ENOSYS
	}
	return errRefused{strings.ToLower(f.Text)}
}

// errRefused is a stock server's answer to everything else.
type errRefused struct{ text string }

func (e errRefused) Error() string {
	if len(e.text) > 200 {
		e.text = e.text[:200]
	}
	return fmt.Sprintf("the sftp server says %q", e.text)
}

// isRefused tells that a server gave no reason.
func isRefused(err error) bool { return errors.As(err, new(errRefused)) }

// checkName returns name in its shortest form. It refuses what no method can
// mean: relative names, NUL, names that are too long, and "..", which only
// Resolve may interpret, because its meaning depends on links.
func checkName(ctx context.Context, op, name string) (string, error) {
	if err := checkRaw(ctx, op, name); err != nil {
		return "", err
	}
	if hasDotDot(name) {
		return "", pathError(op, name, fs.ErrInvalid)
	}
	return path.Clean(name), nil
}

func checkRaw(ctx context.Context, op, name string) error {
	switch {
	case ctx.Err() != nil:
		return pathError(op, name, context.Cause(ctx))
	case strings.IndexByte(name, 0) >= 0 || !path.IsAbs(name):
		return pathError(op, name, fs.ErrInvalid)
	case len(name) > maxSFTPPath:
		return pathError(op, name[:64]+"…", syscall.ENAMETOOLONG)
	}
	return nil
}

func hasDotDot(name string) bool {
	for c := range strings.SplitSeq(name, "/") {
		if c == ".." {
			return true
		}
	}
	return false
}

// pathError names the file in err, once.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if pe, ok := err.(*fs.PathError); ok { // not one that an ErrLost wraps
		err = pe.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
