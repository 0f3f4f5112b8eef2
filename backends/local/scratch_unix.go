//go:build unix

package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/hermes-exec/hermes-exec/guest/files"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// errSquatted tells that a directory of ours is somebody else's.
var errSquatted = errors.New("it is not a directory that only this user can write")

// lockedDir is a directory that only this user can enter, with a random name.
// It is locked while its maker lives: one that is not locked is garbage. The
// lock is on the directory itself, where no process inside can remove it.
type lockedDir struct {
	path string // real, absolute
	lock *os.File
}

// makeScratch makes a box's scratch directory.
func (b *Backend) makeScratch() (*lockedDir, error) {
	parent := b.config.Scratch
	if parent == "" {
		parent = os.TempDir() // $TMPDIR, else /tmp
	}
	return b.makeDir(parent, "scratch directory")
}

// makeDir makes a directory in the user's own directory below parent, and the
// first time removes what killed engines left there.
func (b *Backend) makeDir(parent, what string) (*lockedDir, error) {
	dir, err := makeLocked(parent)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (set TMPDIR to a directory of yours with space)", what, err)
	}
	base := filepath.Dir(dir.path)
	b.mu.Lock()
	swept := b.swept[base]
	b.swept[base] = true
	b.mu.Unlock()
	if !swept {
		for _, left := range sweep(base) {
			b.log.Info("removed what a killed engine left behind", "dir", left)
		}
	}
	return dir, nil
}

// nameLength is that of a box's random name: letters and digits of base32.
const nameLength = 10

// userDir is the name of the directory that holds a user's boxes.
func userDir() string { return "hermes-exec-" + strconv.Itoa(os.Getuid()) }

func makeLocked(parent string) (*lockedDir, error) {
	parent, err := filepath.Abs(parent)
	if err != nil {
		return nil, err
	}
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return nil, err
	}
	if st, err := os.Stat(parent); err != nil {
		return nil, err
	} else if m := st.Mode(); m.IsDir() && m.Perm()&0o002 != 0 && m&fs.ModeSticky == 0 {
		return nil, fmt.Errorf("%s: everybody can rename what is in it", parent)
	}
	base := filepath.Join(parent, userDir())
	prefix := base + "/"
	switch err := ownDir(base); {
	case errors.Is(err, errSquatted):
		prefix = base + "-" // beside it: the name alone is taken, not the place
	case err != nil:
		return nil, err
	}
	for {
		dir, err := lockNew(prefix + strings.ToLower(rand.Text()[:nameLength]))
		if err != nil || dir != nil {
			return dir, err
		}
	}
}

// ownDir makes path a directory that only this user can look into. If it exists
// it must be one already, so that nobody can swap what is below it. Root's can be
// passed through by others, as a box of root's may be another user's: what is in
// it is closed, and has random names.
func ownDir(path string) error {
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	err := os.Mkdir(path, mode)
	if err == nil {
		return os.Chmod(path, mode) // whatever the umask
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() || int(sys.Uid) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: %w", path, errSquatted)
	}
	if st.Mode().Perm() != mode {
		return os.Chmod(path, mode)
	}
	return nil
}

// lockNew makes and locks a directory. It returns nil when it should be tried
// again with another name.
func lockNew(path string) (*lockedDir, error) {
	if err := os.Mkdir(path, 0o700); errors.Is(err, fs.ErrExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	lock, err := lockDir(path)
	if err == nil && lock != nil {
		// Between Mkdir and the lock another engine may have taken it for garbage.
		if mine, err1 := lock.Stat(); err1 == nil {
			if there, err2 := os.Lstat(path); err2 == nil && os.SameFile(mine, there) {
				return &lockedDir{path, lock}, nil
			}
		}
		lock.Close()
		return nil, nil
	}
	if err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return nil, err
}

// lockDir locks a directory without waiting; nil when somebody else holds it.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// Not through Fd, which is for files whose blocking mode may change.
	raw, err := f.SyscallConn()
	if err == nil {
		err1 := raw.Control(func(fd uintptr) { err = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB) })
		err = errors.Join(err1, err)
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// sweep removes the boxes in dir whose maker is gone and returns them: all of
// the user's own directory; of one shared with others, because the own name was
// taken, what bears the name and owner of a box.
func sweep(dir string) []string {
	own := filepath.Base(dir) == userDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var removed []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !e.IsDir() || !own && !(isBeside(e.Name()) && isOurs(path)) {
			continue
		}
		if lock, err := lockDir(path); err == nil && lock != nil {
			if (&lockedDir{path, lock}).remove() == nil {
				removed = append(removed, path)
			}
		}
	}
	return removed
}

// isBeside tells the name of a box outside the user's own directory.
func isBeside(name string) bool {
	random, ok := strings.CutPrefix(name, userDir()+"-")
	return ok && len(random) == nameLength && strings.Trim(random, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// isOurs reports whether path is a directory of this user that nobody else may
// enter.
func isOurs(path string) bool {
	st, err := os.Lstat(path)
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && st.IsDir() && int(sys.Uid) == os.Geteuid() && st.Mode().Perm()&0o077 == 0
}

// remove removes the directory with all that is in it.
func (d *lockedDir) remove() error {
	defer d.lock.Close()
	return files.New().RemoveAll(context.Background(), d.path)
}

// listenDir makes a directory whose path is short enough for a socket in it.
func (b *box) listenDir() (dir *lockedDir, err error) {
	parents := []string{b.info.ScratchDir, fmt.Sprintf("/run/user/%d", os.Getuid()), "/tmp"}
	var errs []error
	for i, parent := range parents {
		if i == 0 {
			path := filepath.Join(parent, "."+strings.ToLower(rand.Text()[:6]))
			if fits(path) {
				return lockNew(path)
			}
			continue
		}
		if i == 1 {
			if _, err := os.Stat(parent); err != nil {
				continue // not every system has it
			}
		}
		dir, err := b.backend.makeDir(parent, "socket directory")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if fits(dir.path) {
			return dir, nil
		}
		errs = append(errs, dir.remove())
	}
	errs = append(errs, fmt.Errorf("the path of a socket in %s is longer than the %d bytes the system allows: set TMPDIR to a shorter one: %w",
		b.info.ScratchDir, maxSocketPath, sandbox.ErrUnavailable))
	return nil, errors.Join(errs...)
}
