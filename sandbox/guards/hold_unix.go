//go:build unix

package guards

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	pins     []int // shared locks on them, for other users' engines
	named    bool  // as in the store

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
	h := &Hold{ledger: ledger{dir: dir, key: keyOf(n)}, name: root, root: fd, owner: n, named: s.named}
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
// empty directory, or one of a few files that say nothing, that this session or
// another made. What somebody on the host puts there meanwhile stays.
func (h *Hold) Paths() []string { return slices.Clone(h.reserved) }

// Existing returns the names where something is already.
func (h *Hold) Existing() []Found { return slices.Clone(h.existing) }

// Skipped returns the names where nothing can be made.
func (h *Hold) Skipped() []Skipped { return slices.Clone(h.skipped) }

// Lock returns the file that keeps the reservations: they stay while it, or a
// copy that another process has, is open. A box that may outlive a killed engine
// for a moment should have one. It is closed by Release.
func (h *Hold) Lock() *os.File { return h.file }

// Release gives up the share. The last one out removes what was made; kept are
// those, absolute, in which somebody has put something, files that somebody has
// changed, linked or replaced, and what another user's engine still uses. The
// box must be dead before. A second call does nothing.
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
