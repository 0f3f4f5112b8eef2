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

// outcome is what became of a journal's directories, by relative names.
type outcome struct {
	removed []string
	kept    []string // somebody uses them
	err     error    // what could not be removed although it is nobody's
	again   bool     // the next sweep must look at them again
}

// clear removes the directories of the journal, those that are empty and still
// the same, and forgets the journal unless something is left to do. It needs
// the gate and the journal's exclusive lock.
func (l *ledger) clear(j *journal, root int, owner node) outcome {
	var out outcome
	out.err = asOwner(owner, func() error {
		t := newTree(root)
		defer t.close()
		var errs []error
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
	case !j.ours(name, n):
		return nil
	}
	parent, err := t.dir(path.Dir(name))
	if err != nil {
		return err
	}
	// Another user's engine holds on to what it found reserved by us.
	if fd, err := unix.Openat(parent, path.Base(name), dirFlags, 0); err == nil {
		defer unix.Close(fd)
		defer unix.Flock(fd, unix.LOCK_UN)
		// An error is from a file system that cannot lock.
		if free, err := flock(fd, unix.LOCK_EX); err == nil && !free {
			out.kept, out.again = append(out.kept, name), true
			return nil
		}
	}
	switch err := unix.Unlinkat(parent, path.Base(name), unix.AT_REMOVEDIR); err {
	case nil:
		out.removed = append(out.removed, name)
	case unix.ENOTEMPTY, unix.EEXIST:
		out.kept = append(out.kept, name)
	case unix.ENOENT, unix.ENOTDIR:
	default:
		return fmt.Errorf("remove the reserved directory %s: %w", name, err)
	}
	return nil
}

// isGone reports whether err says that something else is in the place by now.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, ErrSymlink)
}
