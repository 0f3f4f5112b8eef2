//go:build unix

package guards

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// outcome is what became of a journal's reservations, by relative names.
type outcome struct {
	removed []string
	kept    []string // somebody uses them
	err     error    // what could not be removed although it is nobody's
	again   bool     // the next sweep must look at them again
}

// clear removes the directories and files of the journal, those that are still
// the same and as they were made, and forgets the journal unless something is
// left to do. It needs the gate and the journal's exclusive lock.
func (l *ledger) clear(j *journal, root int, owner node) outcome {
	var out outcome
	out.err = asOwner(owner, func() error {
		t := newTree(root)
		defer t.close()
		var errs []error
		for name := range j.temps { // first: with one of these a file has two names
			errs = append(errs, t.removeTemp(name))
		}
		for _, name := range j.deepestFirst() {
			errs = append(errs, out.remove(t, j, name))
		}
		return errors.Join(errs...)
	})
	if out.err == nil && !out.again {
		l.discard()
	}
	return out
}

func (j *journal) deepestFirst() []string {
	all := maps.Clone(j.pending)
	for name := range j.made {
		all[name] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if d := strings.Count(b, "/") - strings.Count(a, "/"); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

func (out *outcome) remove(t *tree, j *journal, name string) error {
	n, err := t.stat(name)
	switch {
	case isGone(err):
		return nil
	case err != nil:
		return err
	}
	f, ours := j.ours(name, n)
	if !ours {
		if j.isFile(name) {
			out.kept = append(out.kept, name) // it was replaced
		}
		return nil
	}
	parent, err := t.dir(path.Dir(name))
	if err != nil {
		return err
	}
	fd, err := unix.Openat(parent, path.Base(name), f.openFlags(), 0)
	if isGone(err) {
		return nil
	}
	if err == nil {
		defer unix.Close(fd)
		defer unix.Flock(fd, unix.LOCK_UN)
		// Another user's engine holds on to what it found reserved by us. An
		// error is from a file system that cannot lock.
		if free, err := flock(fd, unix.LOCK_EX); err == nil && !free {
			out.kept, out.again = append(out.kept, name), true
			return nil
		}
	}
	flags := unix.AT_REMOVEDIR // of what is empty
	if f.file {
		flags = 0
		if err != nil || !f.untouched(fd) || !t.bears(name, fd, n) {
			out.kept = append(out.kept, name)
			return nil
		}
	}
	switch err := unix.Unlinkat(parent, path.Base(name), flags); err {
	case nil:
		out.removed = append(out.removed, name)
	case unix.ENOTEMPTY, unix.EEXIST:
		out.kept = append(out.kept, name)
	case unix.ENOENT, unix.ENOTDIR:
	default:
		return fmt.Errorf("remove the reservation %s: %w", name, err)
	}
	return nil
}

// bears reports whether name is still n, and fd as well.
func (t *tree) bears(name string, fd int, n node) bool {
	open, err1 := identify(fd, "")
	there, err2 := t.stat(name)
	return err1 == nil && err2 == nil && open.same(n.identity) && there.same(n.identity)
}

// removeTemp removes the name that a file bore for a while. It is random: what
// bears it is ours.
func (t *tree) removeTemp(name string) error {
	n, err := t.stat(name)
	if err != nil || !n.isFile() {
		if isGone(err) {
			err = nil
		}
		return err
	}
	parent, err := t.dir(path.Dir(name))
	if err == nil {
		err = unix.Unlinkat(parent, path.Base(name), 0)
	}
	if isGone(err) {
		err = nil
	}
	return err
}

// isGone reports whether err says that something else is in the place by now.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, ErrSymlink)
}
