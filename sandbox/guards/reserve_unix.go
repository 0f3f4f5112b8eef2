//go:build unix

package guards

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// reserve makes the names that are missing and says what is with the others.
func (h *Hold) reserve(j *journal, out, size int, names []string) error {
	h.reserved, h.existing, h.skipped = nil, nil, nil
	h.unpin()
	t := newTree(h.root)
	defer t.close()

	missing, found, err := h.survey(t, j, names) // before anything is made
	if err != nil {
		return err
	}
	if err := h.make(t, &pen{out, size}, missing, names); err != nil {
		return err
	}
	for _, name := range found {
		if err := h.share(t, j, name); err != nil {
			return err
		}
	}
	slices.Sort(h.reserved)
	return nil
}

// survey returns what is missing, parents first, and which names are
// directories or files. It notes the others.
func (h *Hold) survey(t *tree, j *journal, names []string) (missing, found []string, err error) {
	absent := map[string]bool{}
	whole := map[string]bool{} // reserved, and with it all that is below
	for _, name := range names {
		var steps []string
		for at := name; at != "."; at = path.Dir(at) {
			steps = append(steps, at)
		}
	steps:
		for _, at := range slices.Backward(steps) {
			if whole[at] {
				break
			}
			if absent[at] {
				continue
			}
			var n node
			err := fs.ErrNotExist
			if !absent[path.Dir(at)] {
				n, err = t.stat(at)
			}
			switch {
			case errors.Is(err, fs.ErrNotExist):
				absent[at], missing = true, append(missing, at)
				continue
			case errors.Is(err, fs.ErrPermission): // in a directory that we may not search
				h.refuse(t, at, err)
				break steps
			case err != nil:
				return nil, nil, err
			case at != name && n.isDir():
				continue
			case at != name && n.isLink():
				return nil, nil, &fs.PathError{Op: "reserve", Path: h.path(at), Err: ErrSymlink}
			case at != name || !n.isDir() && !n.isFile():
				h.exists(at, n)
				break steps
			}
			found = append(found, name)
			f, ours := j.ours(name, n)
			whole[name] = ours && t.untouched(name, f)
		}
		whole[name] = whole[name] || absent[name]
	}
	return missing, found, nil
}

// pen is where a journal ends.
type pen struct{ out, size int }

func (p *pen) write(lines []byte) (err error) {
	if len(lines) > 0 {
		p.size, err = write(p.out, p.size, lines)
	}
	return err
}

// make makes directories, announced first and noted when made, and files, noted
// before they get their names.
func (h *Hold) make(t *tree, p *pen, missing, names []string) error {
	forms := map[string]form{}
	var lines []byte
	for _, name := range missing {
		if slices.Contains(names, name) {
			forms[name] = h.formOf(t, name)
		}
		if !forms[name].file {
			lines = appendWant(lines, name)
		}
	}
	if err := p.write(lines); err != nil {
		return err
	}
	var all []*made
	defer func() {
		for _, m := range all {
			m.drop(t)
		}
	}()
	var refused []string
	var err error
	lines = lines[:0]
	for _, name := range missing {
		if slices.Contains(refused, path.Dir(name)) {
			refused = append(refused, name)
			continue
		}
		var m made
		if f := forms[name]; f.file {
			m, err = h.draft(t, name, f, func(temp string) error { return p.write(appendTemp(nil, temp)) })
		} else {
			m, err = h.mkdir(t, name)
		}
		if err == errRefused {
			refused, err = append(refused, name), nil
			continue
		}
		if err != nil {
			break
		}
		all = append(all, &m)
		lines = appendMade(lines, name, record{m.identity, m.form})
	}
	if err = errors.Join(err, p.write(lines)); err != nil {
		return err
	}
	for _, m := range all {
		if m.file {
			if err := h.publish(t, m); err != nil {
				return err
			}
		} else {
			unix.Fchmod(m.fd, m.mode&0o7777&^unix.S_ISVTX) // noted: it needs no mark any more
		}
		if !slices.Contains(names, m.name) {
			continue
		}
		if err := h.pin(t, m.name, m.fd); err != nil {
			return err
		}
		h.reserved = append(h.reserved, h.path(m.name))
	}
	return nil
}

// made is a directory or file that was just made.
type made struct {
	node
	form
	name string
	fd   int
	temp string // the name that a file bears before its own
}

// errRefused tells that nothing can be made in a place; it is noted already.
var errRefused = errors.New("nothing can be made there")

func (h *Hold) mkdir(t *tree, name string) (made, error) {
	parent, err := t.dir(path.Dir(name))
	if err == nil {
		err = unix.Mkdirat(parent, path.Base(name), 0o755|unix.S_ISVTX)
	}
	if err != nil {
		return made{}, h.notMade(t, name, err)
	}
	fd, err := unix.Openat(parent, path.Base(name), dirFlags, 0)
	if err != nil {
		return made{}, errAgain // it was swapped
	}
	n, err := identify(fd, "")
	if err != nil {
		unix.Close(fd)
	}
	return made{node: n, name: name, fd: fd}, err
}

// notMade says what to do when err is why name could not be made.
func (h *Hold) notMade(t *tree, name string, err error) error {
	switch {
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		h.refuse(t, name, err)
		return errRefused
	case errors.Is(err, fs.ErrExist), isGone(err):
		return errAgain
	}
	return &fs.PathError{Op: "make", Path: h.path(name), Err: err}
}

// refuse notes that nothing can be made at name. What a script may not write
// but owns it can make writable: then the guard is the directory itself.
func (h *Hold) refuse(t *tree, name string, err error) {
	uid := unix.Geteuid()
	if uid == 0 {
		uid = int(h.owner.uid)
	}
	parent, dir := h.owner, path.Dir(name)
	if dir != "." {
		var err2 error
		if parent, err2 = t.stat(dir); err2 != nil {
			h.skip(name, err)
			return
		}
	}
	if errors.Is(err, unix.EACCES) && int(parent.uid) == uid {
		h.exists(dir, parent)
		return
	}
	h.skip(name, err)
}

// share holds on to a directory or file that is there already.
func (h *Hold) share(t *tree, j *journal, name string) error {
	n, err := t.stat(name)
	if isGone(err) {
		return errAgain
	}
	if err != nil {
		return err
	}
	parent, err := t.dir(path.Dir(name))
	if err != nil {
		return err
	}
	f, ours := j.ours(name, n)
	if !ours && n.isFile() {
		if f = h.formOf(t, name); !f.file || n.nlink != 1 {
			h.exists(name, n) // nobody's reservation
			return nil
		}
	}
	fd, err := unix.Openat(parent, path.Base(name), f.openFlags(), 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		h.exists(name, n) // of another user, and not ours to look at
		return nil
	case isGone(err), errors.Is(err, unix.ELOOP):
		return errAgain
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	untouched := f.untouched(fd)
	if f.file && !untouched {
		h.exists(name, n)
		return nil
	}
	if err := h.pin(t, name, fd); err != nil {
		return err
	}
	if ours && untouched {
		h.reserved = append(h.reserved, h.path(name))
		return nil
	}
	h.exists(name, n)
	return nil
}

// pin keeps a copy of fd, locked so that another user's engine does not remove
// what it is, which must still bear the name.
func (h *Hold) pin(t *tree, name string, fd int) error {
	locked, err := flock(fd, unix.LOCK_SH)
	if err == nil && !locked {
		return errAgain // it is being removed
	}
	mine, err := identify(fd, "")
	if err != nil {
		return err
	}
	if there, err := t.stat(name); err != nil || !there.same(mine.identity) {
		return errAgain
	}
	keep, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		h.pins = append(h.pins, keep)
	}
	return err
}
