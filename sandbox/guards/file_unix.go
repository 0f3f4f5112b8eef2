//go:build unix

package guards

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// draft makes a file that is complete and does not bear its name yet. Where the
// file system has none without a name, note is told the one it bears meanwhile,
// before that.
func (h *Hold) draft(t *tree, name string, f form, note func(temp string) error) (made, error) {
	m := made{name: name, form: f}
	parent, err := t.dir(path.Dir(name))
	if err == nil {
		if err = errNeedsName; !h.named {
			m.fd, err = openNameless(parent)
		}
	}
	if err == errNeedsName {
		m.temp = path.Join(path.Dir(name), tempPrefix+strings.ToLower(rand.Text()))
		if err := note(m.temp); err != nil {
			return made{}, err
		}
		const flags = unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
		m.fd, err = unix.Openat(parent, path.Base(m.temp), flags, 0o444)
	}
	if err != nil {
		return made{}, h.notMade(t, name, err)
	}
	err = unix.Fchmod(m.fd, 0o444) // who works in the repository has to read it
	if err == nil {
		var n int
		if n, err = unix.Write(m.fd, []byte(f.content)); err == nil && n < len(f.content) {
			err = unix.ENOSPC
		}
	}
	if err == nil {
		m.node, err = identify(m.fd, "")
	}
	if err != nil {
		m.drop(t)
		return made{}, &fs.PathError{Op: "write", Path: h.path(name), Err: err}
	}
	return m, nil
}

// tempPrefix begins the names that files bear until they are complete.
const tempPrefix = ".hermes-exec-"

// publish gives a file its name, if nothing has it. It leaves m open for
// reading alone.
func (h *Hold) publish(t *tree, m *made) error {
	parent, err := t.dir(path.Dir(m.name))
	if err == nil {
		if m.temp == "" {
			err = linkNameless(m.fd, parent, path.Base(m.name))
		} else if err = rename(parent, path.Base(m.temp), path.Base(m.name)); err == nil {
			m.temp = ""
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist), isGone(err):
		return errAgain
	case err != nil:
		return &fs.PathError{Op: "link", Path: h.path(m.name), Err: err}
	}
	fd, err := unix.Openat(parent, path.Base(m.name), fileFlags, 0)
	if err != nil {
		return errAgain
	}
	unix.Close(m.fd)
	m.fd = fd
	if n, err := identify(fd, ""); err != nil || !n.same(m.identity) {
		return errAgain // it was swapped
	}
	return nil
}

// renameByLink renames within a directory and replaces nothing.
func renameByLink(dir int, from, to string) error {
	if err := unix.Linkat(dir, from, dir, to, 0); err != nil {
		return err
	}
	return unix.Unlinkat(dir, from, 0)
}

// drop closes what was made, and removes a name that it bears for the while.
func (m *made) drop(t *tree) {
	unix.Close(m.fd)
	if m.temp == "" {
		return
	}
	if parent, err := t.dir(path.Dir(m.temp)); err == nil {
		unix.Unlinkat(parent, path.Base(m.temp), 0)
	}
}
