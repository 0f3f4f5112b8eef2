package cgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// closeWithin bounds how long Close waits until a group is empty.
const closeWithin = 10 * time.Second

// killAgain is what Close leaves the killed to die before it kills again.
const killAgain = 500 * time.Millisecond

// maxName bounds the part of a directory's name that a caller chooses.
const maxName = 40

// Group is the groups of one box. All methods are safe for concurrent use.
type Group struct {
	members []*member // one a directory, at most four
	kept    []Control // the limits set
	memory  int64     // the one on it, bytes

	mu     sync.Mutex
	killed bool
	closed bool
	marks  int // that were not ended
}

// member is a group in one hierarchy.
type member struct {
	dir     string
	version int
	spawn   bool     // to be entered by birth alone
	lock    *os.File // on the directory, while its maker lives
}

// New makes the groups of a box and sets its limits; Resources.Disk is not for
// control groups. kill asks for a group that everything in the box can be
// killed through at once, where there is a way. The name becomes part of the
// directories', for people. It returns nil when nothing was asked, and an error
// that wraps sandbox.ErrPolicy, with the remedy, for a limit that cannot be
// kept.
func (h Host) New(name string, r sandbox.Resources, kill bool) (_ *Group, err error) {
	asked, err := check(r)
	if err != nil || len(asked) == 0 && !kill {
		return nil, err
	}
	for _, l := range asked {
		if c := h.Control(l); c.Version == 0 {
			return nil, c.refusal()
		}
	}
	g := &Group{memory: r.Memory}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	prefix := h.prefix + clean(name) + "-"
	for _, l := range asked {
		c := h.Control(l)
		m, err := g.in(c.Dir, c.Version, prefix)
		if err != nil {
			return nil, fmt.Errorf("%s limit: %w: %w", l, sandbox.ErrPolicy, err)
		}
		if err := m.set(l, r); err != nil {
			return nil, fmt.Errorf("%s limit: %w: %w", l, sandbox.ErrPolicy, err)
		}
		g.kept = append(g.kept, c)
	}
	if kill && !slices.ContainsFunc(g.members, func(m *member) bool { return m.version == 2 }) {
		if err := g.net(h, prefix); err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
	}
	return g, nil
}

// net makes the group for the kill.
func (g *Group) net(h Host, prefix string) error {
	if h.Unified != "" {
		m, err := g.in(h.Unified, 2, prefix)
		if err == nil {
			m.spawn = true
		}
		return err
	}
	if h.freezer != "" {
		_, err := g.in(h.freezer, 1, prefix)
		return err
	}
	return nil // what there is will be killed one by one
}

// check finds the limits that are asked.
func check(r sandbox.Resources) (asked []sandbox.Limit, err error) {
	const most = 10_000 // cores; NaN is no number of them either
	if r.Memory < 0 || r.PIDs < 0 || r.CPU != 0 && !(r.CPU >= 0.01 && r.CPU <= most) {
		return nil, fmt.Errorf("cgroup: limits of %d bytes, %d processes and %g cores: %w", r.Memory, r.PIDs, r.CPU, sandbox.ErrPolicy)
	}
	if r.Memory > 0 {
		asked = append(asked, sandbox.LimitMemory)
	}
	if r.PIDs > 0 {
		asked = append(asked, sandbox.LimitPIDs)
	}
	if r.CPU > 0 {
		asked = append(asked, sandbox.LimitCPU)
	}
	return asked, nil
}

// prefix begins the names of a user's groups. Directories of one group that are
// seen from two cgroup namespaces have their locks apart, so the namespace is
// named as well, and nobody sweeps the groups of another.
func prefix(uid int) string {
	namespace, _ := os.Readlink("/proc/self/ns/cgroup") // cgroup:[4026531835]
	namespace = strings.Trim(strings.TrimPrefix(namespace, "cgroup:"), "[]")
	return fmt.Sprintf("hermes-exec-%d-%s-", uid, namespace)
}

// clean keeps of a name what is safe in a directory's.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxName)]
}

// in returns the box's group in a directory, which it makes the first time.
func (g *Group) in(dir string, version int, prefix string) (*member, error) {
	for _, m := range g.members {
		if filepath.Dir(m.dir) == dir {
			return m, nil
		}
	}
	for range 10 {
		name := filepath.Join(dir, prefix+strings.ToLower(rand.Text()[:8]))
		if err := os.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		m := &member{dir: name, version: version}
		locked, err := m.hold()
		if err != nil {
			return nil, errors.Join(err, unix.Rmdir(name))
		}
		if locked {
			g.members = append(g.members, m)
			return m, nil
		}
	}
	return nil, fmt.Errorf("%s: whatever is made there is taken away", dir)
}

// hold locks the directory; false when somebody else has it or took it away.
func (m *member) hold() (bool, error) {
	fd, err := unix.Open(m.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "open", Path: m.dir, Err: err}
	}
	m.lock = os.NewFile(uintptr(fd), m.dir)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		m.lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
		return false, &fs.PathError{Op: "lock", Path: m.dir, Err: err}
	}
	var mine, there unix.Stat_t
	if unix.Fstat(fd, &mine) != nil || unix.Lstat(m.dir, &there) != nil || mine.Ino != there.Ino || mine.Dev != there.Dev {
		m.lock.Close()
		return false, nil
	}
	return true, nil
}

// Mechanism names what is enforced in this group: "cgroup v1 memory, pids".
func (g *Group) Mechanism() string { return mechanism(g.kept) }

// Procs opens the files into which a process of one thread writes "0" to enter
// the groups, before it starts anything. There are at most four; the kernel
// judges the right to do so by who has opened them. They fail once Kill was
// called.
func (g *Group) Procs() (files []*os.File, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.killed || g.closed {
		return nil, errors.New("cgroup: the group is done with")
	}
	for _, m := range g.members {
		if m.spawn {
			continue
		}
		file := "tasks"
		if m.version == 2 {
			file = "cgroup.procs"
		}
		f, err := os.OpenFile(filepath.Join(m.dir, file), os.O_WRONLY, 0)
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// Spawn is the directory of the group that is for the kill alone, to start the
// box's first process in (syscall.SysProcAttr.UseCgroupFD); nil when there is
// none. It is the Group's own and lives as long; a process started in it after
// Kill is killed at birth.
func (g *Group) Spawn() *os.File {
	for _, m := range g.members {
		if m.spawn {
			return m.lock
		}
	}
	return nil
}

// Close kills what is in the groups and removes them. It may be repeated.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	return remove(g.members)
}

// remove removes directories, which empties them first where it must.
func remove(members []*member) error {
	var errs []error
	stop, again := time.Now().Add(closeWithin), time.Time{}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		var busy []*member
		for _, m := range members {
			switch err := unix.Rmdir(m.dir); {
			case errors.Is(err, syscall.EBUSY):
				busy = append(busy, m)
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				errs = append(errs, &fs.PathError{Op: "rmdir", Path: m.dir, Err: err})
				m.lock.Close()
			default:
				m.lock.Close()
			}
		}
		members = busy
		if len(members) == 0 {
			break
		}
		if time.Now().After(stop) {
			for _, m := range members {
				errs = append(errs, fmt.Errorf("%s: processes in it resist SIGKILL", m.dir))
				m.lock.Close()
			}
			break
		}
		if time.Now().After(again) { // what fails is told at the end
			_ = kill(members) // nobody dies while it freezes them
			again = time.Now().Add(killAgain)
		}
		time.Sleep(pause)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}
