package guest

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// tree finds and signals the descendants of one process. There is no list of
// children on every kernel, so it reads the parents of all processes. Buffers
// are kept: a supervisor must work while its tree eats all memory.
type tree struct {
	root    int    // whose descendants they are
	born    uint64 // when root started, if who it is has to be asked; else 0
	besides int    // children of root in this session do not count; 0 for none
	dirents []byte
	stat    [512]byte
	procs   []proc // of the last scan, by pid
	told    map[identity]bool
	own     int          // root's session
	groups  map[int]bool // that were told during this scan
	most    int          // threads of all processes any scan saw
	// From then on all are to be killed: there is no use in other signals.
	enough atomic.Bool
	until  time.Time
}

type proc struct {
	identity
	parent  int
	group   int
	session int
	threads int
	dead    bool // and not waited for yet
	member  bool // a descendant of root
	known   bool // member is decided
}

// identity tells a process from a later one with the same pid.
type identity struct {
	pid   int
	start uint64 // clock ticks since boot
}

// sweep sends sig to every member once, until a scan finds no new one: a tree
// that forks meanwhile is caught up with. It returns how many members the last
// scan saw.
func (t *tree) sweep(sig unix.Signal) (int, error) {
	// Without SIGSTOP a tree that keeps forking never stands still.
	const rounds = 64
	ends := sig == unix.SIGSTOP || sig == unix.SIGKILL
	clear(t.told)
	if t.told == nil {
		t.told = map[identity]bool{}
	}
	group := sig
	if !ends {
		group = 0 // who ends by it is asked once
	}
	for round := 0; ; round++ {
		if err := t.scan(group); err != nil {
			return 0, err
		}
		if t.born != 0 && t.rootDied() {
			return 0, unix.ESRCH
		}
		members, fresh := 0, false
		for i := range t.procs {
			p := &t.procs[i]
			if !t.isMember(i) {
				continue
			}
			members++
			if !ends && t.over() {
				return members, nil
			}
			if p.dead || t.told[p.identity] {
				continue
			}
			fresh = true
			if t.send(p, sig) {
				t.told[p.identity] = true
			}
		}
		if !fresh || round == rounds {
			return members, nil
		}
	}
}

// over tells whether all are to be killed, and no other signal is of use.
func (t *tree) over() bool {
	return t.enough.Load() || !t.until.IsZero() && time.Now().After(t.until)
}

// signalGroup sends sig to the process group of a child of root that was just
// read. A fork comes before or after a signal to a group, never in between: a
// storm that is too quick for scans, and leaves its orphans to root, ends here.
// Groups do not reach beyond a session, and one that is not root's own was made by
// a member, so all in it are; the number is the group's while the child has it.
func (t *tree) signalGroup(p proc, sig unix.Signal) {
	if p.session != t.own && p.session != t.besides && p.group > 1 && !t.groups[p.group] {
		t.groups[p.group] = true
		_ = unix.Kill(-p.group, sig)
	}
}

// terminate asks every member to end; a stopped one is woken to hear it.
func (t *tree) terminate() error {
	if _, err := t.sweep(unix.SIGTERM); err != nil {
		return err
	}
	_, err := t.sweep(unix.SIGCONT)
	return err
}

// kill freezes the tree, so that it can neither fork nor reap, and kills what
// is frozen. It returns how many members it saw.
func (t *tree) kill() (int, error) {
	if _, err := t.sweep(unix.SIGSTOP); err != nil {
		return 0, err
	}
	return t.sweep(unix.SIGKILL)
}

// killBelow kills all that descends from a child of this process, which is to be
// killed next. Orphans come to the child while it lives, and to nobody who would
// know them after. It is not stopped meanwhile: who else would wait for a storm of
// processes that fork and end? It reports whether nothing lived any more at last.
func killBelow(child *os.Process) bool {
	t := tree{root: child.Pid}
	if child.Signal(unix.Signal(0)) != nil {
		return false
	}
	p, ok := t.read(child.Pid)
	if !ok || child.Signal(unix.SIGCONT) != nil { // it had the number until here
		return false
	}
	t.born = p.start
	for stop := time.Now().Add(resist); time.Now().Before(stop); time.Sleep(time.Millisecond) {
		if _, err := t.kill(); err != nil {
			return false
		}
		if !t.lives() {
			return true
		}
	}
	return false
}

// lives reports whether a member did at the last scan.
func (t *tree) lives() bool {
	for i := range t.procs {
		if !t.procs[i].dead && t.isMember(i) {
			return true
		}
	}
	return false
}

// rootDied reports whether root had ended at the last scan.
func (t *tree) rootDied() bool {
	return !slices.ContainsFunc(t.procs, func(p proc) bool { return p.pid == t.root && p.start == t.born && !p.dead })
}

// killSession kills what is left of the session a lost main process led, for
// when its supervisor was killed: what has left the session cannot be told from
// others' processes any more.
func (t *tree) killSession(leader identity) {
	for range 16 {
		if t.scan(0) != nil {
			return
		}
		left := false
		for i := range t.procs {
			p := &t.procs[i]
			if p.pid == leader.pid && p.start != leader.start {
				return // the number has a new owner, so the session is empty
			}
		}
		for i := range t.procs {
			if p := &t.procs[i]; p.session == leader.pid {
				left = true
				t.send(p, unix.SIGKILL)
			}
		}
		if !left {
			return
		}
		time.Sleep(5 * time.Millisecond) // for the dead to be reaped
	}
}

// send signals p if its pid still names the process the scan saw, with the
// same parent or adopted by root. The pidfd is opened first: what is verified
// is what is signalled.
func (t *tree) send(p *proc, sig unix.Signal) bool {
	fd, err := unix.PidfdOpen(p.pid, 0)
	switch {
	case err == nil:
		defer unix.Close(fd)
	case errors.Is(err, unix.ESRCH):
		return true // ended
	default:
		fd = -1 // an old kernel, a filter, no descriptor left: the window is then a few microseconds
	}
	now, ok := t.read(p.pid)
	if !ok || now.start != p.start {
		return true // ended
	}
	if now.parent != p.parent && now.parent != t.root {
		return false // moved: the next scan decides
	}
	if fd >= 0 {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if fd < 0 || errors.Is(err, unix.ENOSYS) {
		_ = unix.Kill(p.pid, sig)
	}
	return true
}

// scan reads every process there is; without sig, those that it gets to until all
// are to be killed. Groups that root's children are in get sig as soon as one is
// seen.
func (t *tree) scan(sig unix.Signal) error {
	if t.dirents == nil {
		t.dirents, t.groups = make([]byte, 32<<10), map[int]bool{}
	}
	clear(t.groups)
	if sig != 0 {
		root, ok := t.read(t.root)
		if !ok || t.born != 0 && root.start != t.born {
			return unix.ESRCH
		}
		t.own = root.session
	}
	t.procs = t.procs[:0]
	threads := 0
	dir, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	for sig != 0 || !t.over() {
		n, err := unix.Getdents(dir, t.dirents)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n <= 0 {
			break
		}
		for b := t.dirents[:n]; len(b) > 19; {
			if sig == 0 && t.over() {
				break
			}
			size := int(binary.NativeEndian.Uint16(b[16:])) // struct linux_dirent64
			if size < 19 || size > len(b) {
				return unix.EIO
			}
			if pid, ok := parsePID(b[19:size]); ok {
				if p, ok := t.read(pid); ok {
					if sig != 0 && p.parent == t.root {
						t.signalGroup(p, sig)
					}
					t.procs = append(t.procs, p)
					threads += p.threads
				}
			}
			b = b[size:]
		}
	}
	t.most = max(t.most, threads)
	slices.SortFunc(t.procs, func(a, b proc) int { return a.pid - b.pid })
	return nil
}

// isMember reports whether the process at i descends from root.
func (t *tree) isMember(i int) bool {
	member := false
	at := i
	for range t.procs { // a torn snapshot might hold a circle
		p := &t.procs[at]
		if p.known {
			member = p.member
			break
		}
		if p.parent == t.root {
			member = t.besides == 0 || p.session != t.besides
			break
		}
		next, ok := slices.BinarySearchFunc(t.procs, p.parent, func(p proc, pid int) int { return p.pid - pid })
		if !ok {
			break
		}
		at = next
	}
	for at = i; ; { // remember the answer for the whole way up
		p := &t.procs[at]
		if p.known {
			break
		}
		p.known, p.member = true, member
		next, ok := slices.BinarySearchFunc(t.procs, p.parent, func(p proc, pid int) int { return p.pid - pid })
		if !ok || p.parent == t.root {
			break
		}
		at = next
	}
	return member
}

// read reads /proc/PID/stat.
func (t *tree) read(pid int) (proc, bool) {
	var name [32]byte
	path := strconv.AppendInt(append(name[:0], "/proc/"...), int64(pid), 10)
	path = append(path, "/stat"...)
	fd, err := unix.Open(string(path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return proc{}, false
	}
	n, err := unix.Read(fd, t.stat[:])
	unix.Close(fd)
	if err != nil {
		return proc{}, false
	}
	p, ok := parseStat(t.stat[:max(n, 0)])
	p.pid = pid
	return p, ok
}

// parseStat reads what the tree needs of a stat line. The name in parentheses
// is the process's own choice and may hold anything but NUL: only what follows
// the last parenthesis counts.
func parseStat(b []byte) (proc, bool) {
	at := slices.Index(b, ')')
	for i := len(b) - 1; i > at; i-- {
		if b[i] == ')' {
			at = i
		}
	}
	if at < 0 || at+2 >= len(b) {
		return proc{}, false
	}
	b = b[at+2:]
	p := proc{dead: b[0] == 'Z' || b[0] == 'X'}
	const parent, group, session, threads, start = 1, 2, 3, 17, 19 // fields counted from the state
	for field := 0; len(b) > 0; field++ {
		end := slices.Index(b, ' ')
		if end < 0 {
			end = len(b)
		}
		if field == parent || field == group || field == session || field == threads || field == start {
			n, ok := parseNumber(b[:end])
			if !ok {
				return proc{}, false
			}
			switch field {
			case parent:
				p.parent = int(n)
			case group:
				p.group = int(n)
			case session:
				p.session = int(n)
			case threads:
				p.threads = int(n)
			default:
				p.start = n
				p.dead = p.dead && p.threads <= 1 // else other threads live on
				return p, true
			}
		}
		b = b[min(end+1, len(b)):]
	}
	return proc{}, false
}

// parsePID reads a NUL-terminated directory name.
func parsePID(b []byte) (int, bool) {
	end := slices.Index(b, 0)
	if end < 0 {
		return 0, false
	}
	n, ok := parseNumber(b[:end])
	return int(n), ok
}

func parseNumber(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// millis rounds a wait up to what poll takes.
func millis(d time.Duration) int {
	return int(min((max(d, 0)+time.Millisecond-1)/time.Millisecond, 1<<30))
}
