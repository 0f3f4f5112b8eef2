package files

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

const (
	rmOpenLevels = 32 // directories of the path down that stay open
	rmMaxErrors  = 16 // refusals reported
)

// level is a directory on the way down.
type level struct {
	name     string
	fd       int // -1 below rmOpenLevels, while a child is being emptied
	dev, ino uint64
	dirs     []string        // to be emptied, from the batch of entries read last
	stuck    map[string]bool // could not be removed
	opened   bool            // we have given ourselves the right to change it
}

// remover removes one tree. It never follows a name twice: it goes down
// through descriptors and comes back through "..", where it checks that it has
// arrived where it came from, so that neither the depth of a tree nor somebody
// moving its directories can lead it elsewhere.
type remover struct {
	ctx   context.Context
	root  string
	stack []*level
	errs  []error
	buf   []byte
}

func (f *Files) RemoveAll(ctx context.Context, name string) error {
	name, err := checkName(ctx, "removeall", name)
	if err != nil {
		return err
	}
	dir, base, err := f.parent(name)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return nil
	}
	if err != nil {
		return pathError("removeall", name, err)
	}
	defer unix.Close(dir)
	switch err := unlink(dir, base); err {
	case nil, unix.ENOENT:
		return nil
	case unix.ENOTEMPTY, unix.EEXIST:
	default:
		return pathError("removeall", name, err)
	}
	r := &remover{ctx: ctx, root: path.Dir(name), buf: make([]byte, 8192)}
	defer r.close()
	switch err := r.enter(dir, base); err {
	case nil:
	case unix.ENOENT: // somebody else removed it meanwhile
		return nil
	default:
		return pathError("removeall", name, err)
	}
	if err := r.run(); err != nil {
		return errors.Join(append(r.errs, pathError("removeall", name, err))...)
	}
	if err := unix.Unlinkat(dir, base, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT && len(r.errs) == 0 {
		return pathError("removeall", name, err)
	}
	return errors.Join(r.errs...)
}

func (r *remover) run() error {
	for len(r.stack) > 0 {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		top := r.stack[len(r.stack)-1]
		if n := len(top.dirs); n > 0 {
			name := top.dirs[n-1]
			top.dirs = top.dirs[:n-1]
			if err := r.enter(top.fd, name); err != nil && err != unix.ENOENT {
				r.fail(top, name, err)
			}
			continue
		}
		progress, err := r.empty(top)
		if err != nil {
			return err
		}
		if progress {
			continue
		}
		if err := r.leave(); err != nil {
			return err
		}
	}
	return nil
}

// enter goes down into a directory.
func (r *remover) enter(dir int, name string) error {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	open := func() (int, error) { return unix.Openat(dir, name, flags, 0) }
	fd, err := retry(open)
	if err == unix.EACCES { // its mode keeps us out; if it is ours, let us in
		if look, lerr := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); lerr == nil {
			if unix.Chmod(procFD(look), 0o700) == nil {
				fd, err = retry(open)
			}
			unix.Close(look)
		}
	}
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	if n := len(r.stack); n > rmOpenLevels {
		above := r.stack[n-1]
		unix.Close(above.fd)
		above.fd = -1
	}
	r.stack = append(r.stack, &level{name: name, fd: fd, dev: st.Dev, ino: st.Ino})
	return nil
}

// empty removes a batch of a directory's entries and notes those that must be
// emptied first. It reports false when there is nothing left to try.
func (r *remover) empty(l *level) (progress bool, err error) {
	for rewound := false; ; {
		n, err := retry(func() (int, error) { return unix.ReadDirent(l.fd, r.buf) })
		if err == unix.ENOENT { // the directory itself was removed meanwhile
			return false, nil
		}
		if err != nil {
			return false, r.fail(l, "", err)
		}
		if n <= 0 {
			if rewound {
				return false, nil
			}
			rewound = true // from the start: reading and removing at once may skip entries
			if _, err := unix.Seek(l.fd, 0, 0); err != nil {
				return false, r.fail(l, "", err)
			}
			continue
		}
		_, _, names := unix.ParseDirent(r.buf[:n], -1, nil)
		for _, name := range names {
			if l.stuck[name] {
				continue
			}
			progress = true
			err := unlink(l.fd, name)
			if (err == unix.EACCES || err == unix.EPERM) && !l.opened {
				l.opened = true
				if unix.Fchmod(l.fd, 0o700) == nil {
					err = unlink(l.fd, name)
				}
			}
			switch err {
			case nil, unix.ENOENT:
			case unix.ENOTEMPTY, unix.EEXIST:
				l.dirs = append(l.dirs, name)
			default:
				r.fail(l, name, err)
			}
		}
		if progress {
			return true, nil
		}
	}
}

// leave goes back up and removes the directory it came from.
func (r *remover) leave() error {
	n := len(r.stack) - 1
	top := r.stack[n]
	if n == 0 {
		unix.Close(top.fd)
		r.stack = nil
		return nil
	}
	up := r.stack[n-1]
	if up.fd < 0 {
		fd, err := retry(func() (int, error) {
			return unix.Openat(top.fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Dev != up.dev || st.Ino != up.ino {
			unix.Close(fd)
			return errMoved
		}
		up.fd = fd
	}
	unix.Close(top.fd)
	r.stack = r.stack[:n]
	err := unix.Unlinkat(up.fd, top.name, unix.AT_REMOVEDIR)
	switch {
	case err == nil || err == unix.ENOENT:
	case len(top.stuck) > 0: // told already
		up.stick(top.name)
	default:
		r.fail(up, top.name, err)
	}
	return nil
}

var errMoved = errors.New("directory was moved while it was being removed")

// fail notes an entry that cannot be removed; the rest goes on.
func (r *remover) fail(l *level, name string, err error) error {
	l.stick(name)
	if len(r.errs) < rmMaxErrors {
		at := r.root
		for _, up := range r.stack {
			if len(at) > maxName {
				at += "/…"
				break
			}
			at = path.Join(at, up.name)
			if up == l {
				break
			}
		}
		r.errs = append(r.errs, &fs.PathError{Op: "removeall", Path: path.Join(at, name), Err: err})
	}
	return nil
}

func (l *level) stick(name string) {
	if l.stuck == nil {
		l.stuck = map[string]bool{}
	}
	l.stuck[name] = true
}

func (r *remover) close() {
	for _, l := range r.stack {
		if l.fd >= 0 {
			unix.Close(l.fd)
		}
	}
}
