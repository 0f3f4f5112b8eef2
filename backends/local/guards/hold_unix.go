//go:build unix

package guards

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Found is a guarded name that needs no reservation: something is there.
type Found struct {
	// Path is absolute: the name, or the parent that is no directory, or that
	// is the box's own but not writable until it makes it so.
	Path string
	Type fs.FileMode // its type bits
}

// Skipped is a guarded name where nothing can be made: not by us, and so not by
// a box of the same user.
type Skipped struct {
	Path string
	Err  error // EACCES, EROFS or EPERM
}

// Hold is a session's share in the reservations of a workspace. Its methods may
// be called concurrently.
type Hold struct {
	ledger
	name     string
	root     int
	owner    node
	reserved []string
	existing []Found
	skipped  []Skipped
	pins     []int // shared locks on the directories, for other users' engines

	mu       sync.Mutex
	released bool
}

// Hold reserves those names, which are clean paths relative to root, that do
// not exist. root is the real path of a workspace. A symbolic link in place of
// a parent is an error that wraps ErrSymlink: the workspace cannot be guarded.
// After an error nothing is held.
func (s Store) Hold(ctx context.Context, root string, names []string) (*Hold, error) {
	h, err := s.hold(ctx, root, names)
	if err != nil {
		return nil, fmt.Errorf("guards: reserve in %s: %w", root, err)
	}
	return h, nil
}

func (s Store) hold(ctx context.Context, root string, names []string) (*Hold, error) {
	if !filepath.IsAbs(root) || filepath.Clean(root) != root {
		return nil, errors.New("it is not a clean absolute path")
	}
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		if err := checkName(name); err != nil {
			return nil, err
		}
	}
	dir, err := s.open()
	if err != nil {
		return nil, err
	}
	fd, n, err := openRoot(root)
	if err != nil {
		unix.Close(dir)
		return nil, err
	}
	h := &Hold{ledger: ledger{dir: dir, key: keyOf(n)}, name: root, root: fd, owner: n}
	unlock, err := h.gate(ctx, patience)
	if err != nil {
		h.close()
		return nil, err
	}
	defer unlock()
	if err := h.enter(ctx, names); err != nil {
		_, err2 := h.leave()
		return nil, errors.Join(err, err2)
	}
	return h, nil
}

// errAgain tells that the workspace changed under the hands.
var errAgain = errors.New("the workspace keeps changing")

// enter takes a share and makes what is missing. It needs the gate.
func (h *Hold) enter(ctx context.Context, names []string) error {
	if err := h.openJournal(unix.O_CREAT); err != nil {
		return err
	}
	alone, err := h.lock(unix.LOCK_EX)
	if err != nil {
		return err
	}
	if ok, err := h.lock(unix.LOCK_SH); err != nil || !ok {
		return errors.Join(errors.New("the journal is locked"), err)
	}
	// Opened before this thread may take on the owner's rights. The lock's own
	// descriptor cannot write: copies of it go to boxes.
	out, err := unix.Openat(h.dir, h.key+".journal", unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	for try := 0; ; try++ {
		j, size, err := h.read()
		if errors.Is(err, errJournal) && alone {
			j, size, err = &journal{}, 0, nil // whose ever it was, he is gone
		}
		if err == nil && j.root == "" {
			size, err = write(out, size, headLine(h.name))
		}
		if err != nil {
			return err
		}
		err = asOwner(h.owner, func() error { return h.reserve(j, out, size, names) })
		if !errors.Is(err, errAgain) || try == 20 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

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
	if err := h.make(t, out, size, missing, names); err != nil {
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
// directories. It notes the others.
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
			case !n.isDir():
				h.exists(at, n)
				break steps
			}
			found = append(found, name)
			whole[name] = j.ours(name, n) && t.empty(name)
		}
		whole[name] = whole[name] || absent[name]
	}
	return missing, found, nil
}

// make makes directories: announced first, noted when made.
func (h *Hold) make(t *tree, out, size int, missing, names []string) error {
	if len(missing) == 0 {
		return nil
	}
	var lines []byte
	for _, name := range missing {
		lines = appendWant(lines, name)
	}
	size, err := write(out, size, lines)
	if err != nil {
		return err
	}
	var all []made
	defer func() {
		for _, m := range all {
			unix.Close(m.fd)
		}
	}()
	var refused []string
	lines = lines[:0]
	for _, name := range missing {
		if slices.Contains(refused, path.Dir(name)) {
			refused = append(refused, name)
			continue
		}
		var m made
		if m, err = h.mkdir(t, name); err == errRefused {
			refused, err = append(refused, name), nil
			continue
		}
		if err != nil {
			break
		}
		all = append(all, m)
		lines = appendMade(lines, name, m.identity)
	}
	if _, err2 := write(out, size, lines); err == nil {
		err = err2
	}
	if err != nil {
		return err
	}
	for _, m := range all {
		unix.Fchmod(m.fd, m.mode&0o7777&^unix.S_ISVTX) // noted: it needs no mark any more
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

// made is a directory that was just made.
type made struct {
	node
	name string
	fd   int
}

// errRefused tells that nothing can be made in a place; it is noted already.
var errRefused = errors.New("nothing can be made there")

func (h *Hold) mkdir(t *tree, name string) (made, error) {
	parent, err := t.dir(path.Dir(name))
	if err == nil {
		err = unix.Mkdirat(parent, path.Base(name), 0o755|unix.S_ISVTX)
	}
	switch {
	case err == nil:
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		h.refuse(t, name, err)
		return made{}, errRefused
	case errors.Is(err, fs.ErrExist), isGone(err):
		return made{}, errAgain
	default:
		return made{}, &fs.PathError{Op: "mkdir", Path: h.path(name), Err: err}
	}
	fd, err := unix.Openat(parent, path.Base(name), dirFlags, 0)
	if err != nil {
		return made{}, errAgain // it was swapped
	}
	n, err := identify(fd, "")
	if err != nil {
		unix.Close(fd)
	}
	return made{n, name, fd}, err
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

// share holds on to a directory that is there already.
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
	fd, err := unix.Openat(parent, path.Base(name), dirFlags, 0)
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
	if err := h.pin(t, name, fd); err != nil {
		return err
	}
	if none, err := empty(fd); j.ours(name, n) && none && err == nil {
		h.reserved = append(h.reserved, h.path(name))
		return nil
	}
	h.exists(name, n)
	return nil
}

// pin keeps a copy of fd, locked so that another user's engine does not remove
// the directory, which must still be what bears the name.
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

func (h *Hold) path(name string) string { return filepath.Join(h.name, name) }

func (h *Hold) skip(name string, err error) {
	h.skipped = append(h.skipped, Skipped{h.path(name), err})
}

func (h *Hold) exists(name string, n node) {
	f := Found{h.path(name), fileType(n.mode)}
	if !slices.Contains(h.existing, f) {
		h.existing = append(h.existing, f)
	}
}

func fileType(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	}
	return fs.ModeDevice
}

// Paths returns the places that are reserved, absolute and sorted. Each is an
// empty directory that this session or another made. What somebody on the host
// puts there meanwhile stays.
func (h *Hold) Paths() []string { return slices.Clone(h.reserved) }

// Existing returns the names where something is already.
func (h *Hold) Existing() []Found { return slices.Clone(h.existing) }

// Skipped returns the names where nothing can be made.
func (h *Hold) Skipped() []Skipped { return slices.Clone(h.skipped) }

// Lock returns the file that keeps the reservations: they stay while it, or a
// copy that another process has, is open. A box that may outlive a killed engine
// for a moment should have one. It is closed by Release.
func (h *Hold) Lock() *os.File { return h.file }

// Release gives up the share. The last one out removes the directories; kept
// are those, absolute, in which somebody has put something, or that another
// user's engine still uses. The box must be dead before. A second call does
// nothing.
func (h *Hold) Release() (kept []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return nil, nil
	}
	h.released = true
	unlock, err := h.gate(context.Background(), patience)
	if err != nil {
		h.close() // the next sweep does it
		return nil, fmt.Errorf("guards: release %s: %w", h.name, err)
	}
	defer unlock()
	if kept, err = h.leave(); err != nil {
		err = fmt.Errorf("guards: release %s: %w", h.name, err)
	}
	return kept, err
}

// leave gives up the share and, if it was the last, clears the workspace. It
// needs the gate.
func (h *Hold) leave() (kept []string, err error) {
	defer h.close()
	h.unpin()
	if h.file == nil {
		return nil, nil
	}
	if last, err := h.lock(unix.LOCK_EX); err != nil || !last {
		return nil, err
	}
	j, _, err := h.read()
	if err != nil {
		return nil, err
	}
	out := h.clear(j, h.root, h.owner)
	for _, name := range out.kept {
		kept = append(kept, h.path(name))
	}
	return kept, out.err
}

func (h *Hold) unpin() {
	for _, fd := range h.pins {
		unix.Flock(fd, unix.LOCK_UN)
		unix.Close(fd)
	}
	h.pins = nil
}

func (h *Hold) close() {
	h.unpin()
	if h.file != nil {
		h.lock(unix.LOCK_UN)
		h.file.Close()
	}
	unix.Close(h.root)
	unix.Close(h.dir)
}
