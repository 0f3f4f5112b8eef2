//go:build unix

package guards

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Store makes and removes reservations. All stores of a user with the same Dir,
// of one process or of many, share them. It may be used concurrently.
type Store struct {
	// Dir is the state directory: made 0700, it must be this user's and in no
	// box's view, since who can open its files can hold up other sessions.
	// Default: hermes-exec-UID-guards in /tmp, whatever TMPDIR is: engines that do
	// not know of each other's reservations leave them behind.
	Dir string

	named bool // files have names from the start, as where a file system wants that
}

// patience bounds the wait for others who make or remove reservations in the
// same workspace, which takes them less than a millisecond.
const patience = 10 * time.Second

// Path is the state directory.
func (s Store) Path() string {
	if s.Dir != "" {
		return s.Dir
	}
	temp := "/tmp"
	if unix.Access(temp, unix.W_OK) != nil {
		temp = os.TempDir()
	}
	return filepath.Join(temp, "hermes-exec-"+strconv.Itoa(os.Getuid())+"-guards")
}

// open returns a descriptor of the state directory.
func (s Store) open() (int, error) {
	dir := s.Path()
	if err := unix.Mkdir(dir, 0o700); err != nil && err != unix.EEXIST {
		return -1, fmt.Errorf("state directory %s: %w", dir, err)
	}
	fd, err := unix.Open(dir, dirFlags, 0)
	if err != nil {
		return -1, fmt.Errorf("state directory %s: %w", dir, err)
	}
	n, err := identify(fd, "")
	switch {
	case err != nil:
	case int(n.uid) != unix.Geteuid() || n.mode&0o022 != 0:
		err = errors.New("it is not one that only this user can write: have it removed")
	case n.mode&0o777 != 0o700:
		err = unix.Fchmod(fd, 0o700)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("state directory %s: %w", dir, err)
	}
	return fd, nil
}

// ledger is one workspace's journal and the locks on it.
type ledger struct {
	dir  int // the state directory
	key  string
	file *os.File // the journal; it bears a session's shared lock
}

func keyOf(root node) string { return fmt.Sprintf("%x-%x", root.dev, root.ino) }

// gate waits until nobody else makes or removes reservations in the workspace.
// With wait 0 it only tries: unlock is nil when it is somebody else's turn.
func (l *ledger) gate(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	deadline := time.Now().Add(wait)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		fd, err := unix.Openat(l.dir, l.key+".gate", unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		locked, err := flock(fd, unix.LOCK_EX)
		if locked {
			// The last one out removes the file.
			var st unix.Stat_t
			if err = unix.Fstat(fd, &st); err == nil && st.Nlink > 0 {
				return func() {
					unix.Flock(fd, unix.LOCK_UN) // for a child that has not yet exec'ed as well
					unix.Close(fd)
				}, nil
			}
		}
		unix.Close(fd)
		switch {
		case err != nil:
			return nil, err
		case locked:
			continue // on a removed file
		case wait == 0:
			return nil, nil
		case time.Now().After(deadline):
			return nil, fmt.Errorf("others have been changing the reservations for %v", wait)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// openJournal opens the journal, with unix.O_CREAT to make it. It needs the gate.
func (l *ledger) openJournal(flag int) error {
	fd, err := unix.Openat(l.dir, l.key+".journal", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flag, 0o600)
	if err == nil {
		l.file = os.NewFile(uintptr(fd), l.key+".journal")
	}
	return err
}

// lock locks or unlocks the journal for this session.
func (l *ledger) lock(how int) (bool, error) { return flock(int(l.file.Fd()), how) }

// read returns the journal and how much of it counts.
func (l *ledger) read() (*journal, int, error) {
	buf := make([]byte, 4096)
	size := 0
	for {
		n, err := unix.Pread(int(l.file.Fd()), buf[size:], int64(size))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, 0, err
		case n == 0:
			return parseJournal(buf[:size])
		}
		if size += max(n, 0); size == len(buf) {
			if size > maxJournal {
				return nil, 0, errJournal
			}
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// write cuts the journal, open for writing as fd, to size and appends data: all
// of it or nothing.
func write(fd, size int, data []byte) (int, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Size != int64(size) {
		err = unix.Ftruncate(fd, int64(size))
	}
	if err != nil {
		return size, err
	}
	n, err := unix.Pwrite(fd, data, int64(size))
	if err == nil && n < len(data) {
		err = unix.ENOSPC
	}
	if err != nil {
		return size, errors.Join(err, unix.Ftruncate(fd, int64(size)))
	}
	return size + n, nil
}

// discard removes the workspace's files. It needs the gate.
func (l *ledger) discard() {
	unix.Unlinkat(l.dir, l.key+".journal", 0)
	unix.Unlinkat(l.dir, l.key+".gate", 0)
}

// Sweep removes what crashed sessions left and returns it. Workspaces in use,
// and those that somebody else is about to enter or leave, it leaves alone.
func (s Store) Sweep() []string {
	if _, err := os.Lstat(s.Path()); err != nil {
		return nil
	}
	dir, err := s.open()
	if err != nil {
		return nil
	}
	defer unix.Close(dir)
	entries, err := os.ReadDir(s.Path())
	if err != nil {
		return nil
	}
	var removed []string
	seen := map[string]bool{}
	for _, e := range entries {
		key, kind, _ := strings.Cut(e.Name(), ".")
		if kind != "gate" && kind != "journal" || seen[key] {
			continue
		}
		seen[key] = true
		l := &ledger{dir: dir, key: key}
		if unlock, err := l.gate(context.Background(), 0); err == nil && unlock != nil {
			removed = append(removed, l.sweep()...)
			unlock()
		}
	}
	return removed
}

// sweep removes what the workspace's dead sessions left. It needs the gate.
func (l *ledger) sweep() []string {
	if err := l.openJournal(0); err != nil {
		if err == unix.ENOENT {
			l.discard()
		}
		return nil
	}
	defer l.file.Close()
	if alone, err := l.lock(unix.LOCK_EX); err != nil || !alone {
		return nil
	}
	defer l.lock(unix.LOCK_UN)
	j, _, err := l.read()
	if errors.Is(err, errJournal) || err == nil && j.root == "" {
		l.discard() // it says of nothing that it is ours
		return nil
	}
	if err != nil {
		return nil
	}
	root, n, err := openRoot(j.root)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			l.discard()
		}
		return nil
	}
	defer unix.Close(root)
	if keyOf(n) != l.key {
		l.discard() // the workspace is gone, another is in its place
		return nil
	}
	out := l.clear(j, root, n)
	for i, name := range out.removed {
		out.removed[i] = filepath.Join(j.root, name)
	}
	return out.removed
}
