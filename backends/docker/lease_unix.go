//go:build unix

package docker

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lease is this engine's sign of life: a directory with a file that is locked
// while the engine lives. What it has made carries the lease's name.
type lease struct {
	state string // the state directory
	owner string // whose state directory it is
	id    string
	lock  *os.File
}

// Names in the state directory.
const (
	ownerFile = "owner"  // a number that no other state directory has
	leaseDir  = "leases" // one directory for each
	lockFile  = "lock"
	keepDir   = "keep" // what persistent boxes keep
)

const nameLength = 12

func newName() string { return strings.ToLower(rand.Text()[:nameLength]) }

func defaultStateDir() string {
	return filepath.Join(os.TempDir(), "hermes-exec-"+strconv.Itoa(os.Getuid())+"-docker")
}

// openState makes the state directory and makes sure that it is this user's
// alone: who can write it could have containers removed.
func openState(dir string) (owner string, err error) {
	if err := os.MkdirAll(filepath.Join(dir, leaseDir), 0o700); err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	if sys := st.Sys().(*syscall.Stat_t); !st.IsDir() || int(sys.Uid) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("state directory %s is not one that only this user can write", dir)
	}
	if st.Mode().Perm() != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return "", fmt.Errorf("state directory: %w", err)
		}
	}
	name := filepath.Join(dir, ownerFile)
	for {
		data, err := os.ReadFile(name)
		if err == nil && len(data) >= 16 {
			// A copy of the directory on another machine is another owner.
			machine, _ := os.ReadFile("/etc/machine-id")
			sum := sha256.Sum256(append(data, machine...))
			return hex.EncodeToString(sum[:10]), nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("state directory: %w", err)
		}
		fresh := name + "." + newName()
		if err := os.WriteFile(fresh, []byte(rand.Text()+"\n"), 0o600); err != nil {
			return "", fmt.Errorf("state directory: %w", err)
		}
		// The first one stays; one that was cut short is replaced.
		if len(data) > 0 || err == nil {
			err = os.Rename(fresh, name)
		} else if err = os.Link(fresh, name); errors.Is(err, fs.ErrExist) {
			err = nil
		}
		os.Remove(fresh)
		if err != nil {
			return "", fmt.Errorf("state directory: %w", err)
		}
	}
}

// takeLease makes a lease. It gets its name with the lock in it, held.
func takeLease(state string) (*lease, error) {
	owner, err := openState(state)
	if err != nil {
		return nil, err
	}
	l := &lease{state: state, owner: owner, id: newName()}
	fresh := l.dir() + freshEnd
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	l.lock, err = os.OpenFile(filepath.Join(fresh, lockFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		if err = unix.Flock(int(l.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			err = os.Rename(fresh, l.dir())
		}
		if err != nil {
			l.lock.Close()
		}
	}
	if err != nil {
		os.RemoveAll(fresh)
		return nil, fmt.Errorf("lease: %w", err)
	}
	return l, nil
}

// freshEnd marks a lease that is being made.
const freshEnd = ".new"

func (l *lease) dir() string { return filepath.Join(l.state, leaseDir, l.id) }

// release gives the lease up. Nothing may be left that carries its name.
func (l *lease) release() error {
	defer l.lock.Close()
	if err := l.hideAll(); err != nil { // the directory stays, and says that there is something to do
		return fmt.Errorf("lease: %w", err)
	}
	if err := os.RemoveAll(l.dir()); err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}

// drop leaves a lease that was taken over to the next one. It is unlocked first:
// a process that is forked just now holds the file, too, until it executes.
func (l *lease) drop() {
	_ = unix.Flock(int(l.lock.Fd()), unix.LOCK_UN)
	l.lock.Close()
}

// deadLease takes over a lease that nobody holds; nil when somebody does. One
// without a directory or a lock is nobody's: it was being removed.
func deadLease(state, owner, id string) *lease {
	l := &lease{state: state, owner: owner, id: id}
	if !isName(id) {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(l.dir(), lockFile), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.Open(os.DevNull)
		if err == nil {
			l.lock = f
			return l
		}
	}
	if err != nil {
		return nil
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil
	}
	l.lock = f
	return l
}

// leases are the names of all in a state directory.
func leases(state string) (ids []string) {
	f, err := os.Open(filepath.Join(state, leaseDir))
	if err != nil {
		return nil
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(1000)
		for _, name := range names {
			if isName(name) {
				ids = append(ids, name)
				continue
			}
			// A killed engine's, unless it is being made right now.
			full := filepath.Join(f.Name(), name)
			if st, err := os.Lstat(full); err == nil && strings.HasSuffix(name, freshEnd) && time.Since(st.ModTime()) > time.Minute {
				os.RemoveAll(full)
			}
		}
		if errors.Is(err, io.EOF) || len(names) == 0 {
			return ids
		}
	}
}

func isName(s string) bool {
	if len(s) != nameLength {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// workUser is who works in a directory: an ordinary user himself, for root the
// directory's owner, in that user's own group. The directory's group may be one
// that gives rights its owner does not have.
func workUser(dir string) (*user, error) {
	if os.Geteuid() != 0 {
		return engineUser(), nil
	}
	st, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	uid := int(st.Sys().(*syscall.Stat_t).Uid)
	gid := uid
	if who, err := osuser.LookupId(strconv.Itoa(uid)); err == nil {
		if own, err := strconv.Atoi(who.Gid); err == nil && (own != 0 || uid == 0) {
			gid = own
		}
	}
	u := numbered(uid, gid)
	return &u, nil
}

// engineUser is who the engine is.
func engineUser() *user {
	u := numbered(os.Getuid(), os.Getgid())
	return &u
}

// makeOwn makes a directory of the box's user.
func makeOwn(dir string, u user) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if u.ID >= 0 && u.ID != os.Getuid() {
		return os.Chown(dir, u.ID, u.GID)
	}
	return nil
}

// writableBy tells whether a directory's mode lets a user write in it.
func writableBy(dir string, u user) bool {
	st, err := os.Stat(dir)
	if err != nil {
		return false
	}
	sys, bit := st.Sys().(*syscall.Stat_t), os.FileMode(0o002)
	switch {
	case int(sys.Uid) == u.ID:
		bit = 0o200
	case int(sys.Gid) == u.GID:
		bit = 0o020
	}
	return st.Mode().Perm()&bit != 0
}

// ownedByRoot tells whether something is root's.
func ownedByRoot(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Sys().(*syscall.Stat_t).Uid == 0
}

// detach keeps the terminal's signals from a program that connects.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
