package guest

import (
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest/landlock"
)

// reaper is the guest's end of a forked copy that waits for its command. It is
// for one goroutine.
type reaper struct {
	l      *launch
	memory []byte // shared with the copy: the launch, and what it points to
	used   int
	pid    int
	wire   int // the copy's order goes here
	// The guest's ends of the launch's pipes.
	started, report int
}

// usualCommand is the room for arguments and environment of a reaper that is
// made before its command is known.
const usualCommand = 256 << 10

// stackSize is what the few functions need that a copy runs before its program.
const stackSize = 16 << 10

// newReaper forks a reaper with room for a command of so many bytes. It runs on
// the thread that reapers die with.
func (g *inside) newReaper(room int) (r *reaper, err error) {
	r = &reaper{wire: -1, started: -1, report: -1}
	defer func() {
		if err != nil {
			r.close()
			r.free()
		}
	}()
	size := (int(unsafe.Sizeof(launch{})) + room + 2*stackSize + 15) &^ 15
	if r.memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS); err != nil {
		return nil, err
	}
	r.l, r.used = (*launch)(unsafe.Pointer(&r.memory[0])), int(unsafe.Sizeof(launch{}))
	end := uintptr(unsafe.Pointer(&r.memory[0])) + uintptr(size)
	r.l.stacks = [2]uintptr{end, end - stackSize}
	r.memory = r.memory[:size-2*stackSize]
	var wire, started, report [2]int
	if wire, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	r.wire = wire[0]
	defer unix.Close(wire[1])
	if err = unix.Pipe2(started[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	r.started = started[0]
	defer unix.Close(started[1])
	if err = unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	r.report = report[0]
	defer unix.Close(report[1])
	g.fill(r.l, wire[1], started[1], report[1])
	g.mu.Lock() // so that strays meets no reaper it does not know
	defer g.mu.Unlock()
	if r.pid, err = r.l.fork(); err == nil {
		g.starting[r.pid] = struct{}{}
	}
	return r, err
}

// fill prepares what does not depend on the command.
func (g *inside) fill(l *launch, wire, started, report int) {
	l.nested, l.ruleset = g.c.Namespaces, -1
	l.wire, l.started, l.report = wire, started, report
	l.wake = 1 << (unix.SIGCHLD - 1)
	copy(l.proc[:], "proc")
	copy(l.procDir[:], "/proc")
	l.header.Version = unix.LINUX_CAPABILITY_VERSION_3
	l.iov = unix.Iovec{Base: &l.order[0], Len: uint64(len(l.order))}
	l.message = unix.Msghdr{Iov: &l.iov, Iovlen: 1, Control: (*byte)(unsafe.Pointer(&l.rights)), Controllen: uint64(unsafe.Sizeof(l.rights))}
	l.ngroups = copy(l.groups[:], g.groups)
	kept := append([]int{wire, started, report}, g.groups...)
	if g.ruleset != nil {
		l.ruleset = g.ruleset.FD()
		kept = append(kept, l.ruleset)
		if l.nested && slices.Contains(g.c.Read, "/proc") {
			l.own.Allowed_access = g.ruleset.Rights(landlock.Read)
		}
	}
	slices.Sort(kept)
	l.nkept = copy(l.kept[:], kept)
	l.filter = g.prog
	l.add(unix.RLIMIT_CORE, 0, 0)
	// Descriptors in flight are counted for all of a user's processes: commands
	// must reach their end before the guest, which passes some to the engine. The
	// Go runtime has raised the lower limit, which commands expect as it is.
	var open unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &open) == nil {
		l.add(unix.RLIMIT_NOFILE, min(open.Cur, open.Max/2, usualFiles), open.Max/2)
	}
}

// bound bounds the processes of a command that starts now. The kernel counts the
// guest's own with them, which a command is not to have fewer for: those there
// are now, not what the guest makes later. It returns how many there may be.
func (g *inside) bound(l *launch) int {
	if g.c.PIDs <= 0 {
		return 0
	}
	own := 0
	var st unix.Stat_t
	if unix.Stat("/proc/self/task", &st) == nil { // has a link for each thread, and two
		own = max(int(st.Nlink)-2, 0)
	}
	g.mu.Lock()
	own += len(g.commands) + len(g.starting) // reapers
	g.mu.Unlock()
	l.add(unix.RLIMIT_NPROC, uint64(g.c.PIDs+own), uint64(g.c.PIDs+own))
	return g.c.PIDs + own
}

// usualFiles is the lower limit of open files systems start programs with: more
// than select(2) can tell apart breaks programs that use it.
const usualFiles = 1024

func (l *launch) add(resource int, soft, hard uint64) {
	l.limits[l.nlimits] = limit{resource, unix.Rlimit{Cur: soft, Max: hard}}
	l.nlimits++
}

// fork makes the reaper. The caller's thread is locked and lives as long as
// the guest: the reaper dies with it.
func (l *launch) fork() (pid int, err error) {
	all, old := ^uint64(0), uint64(0)
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0); errno != 0 {
		return 0, errno
	}
	flags := uintptr(0)
	if l.nested {
		flags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	}
	child := int(startReaper(l, flags, l.stacks[0]))
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	if child < 0 {
		return 0, syscall.Errno(-child)
	}
	return child, nil
}

// roomOf is what a command takes of a reaper's memory, its paths included.
func roomOf(cmd Command) int {
	room := 2*unix.PathMax + len(cmd.Dir) + 2*8
	for _, list := range [...][]string{cmd.Args, cmd.Env} {
		for _, s := range list {
			room += len(s) + 1 + 8
		}
		room += 2 * 8
	}
	return room
}

// fits reports whether the reaper has room for a command.
func (r *reaper) fits(cmd Command) bool { return roomOf(cmd) <= len(r.memory)-r.used }

// text puts a string where the copy finds it. None has a NUL in it: the engine
// refuses it, and what comes after one would only be cut.
func (r *reaper) text(s string) *byte {
	at := r.used
	r.used += copy(r.memory[at:], s) + 1 // the memory is zero
	return &r.memory[at]
}

func (r *reaper) list(list []string) **byte {
	r.used = (r.used + 7) &^ 7
	pointers := unsafe.Slice((**byte)(unsafe.Pointer(&r.memory[r.used])), len(list)+1)
	r.used += 8 * len(pointers)
	for i, s := range list {
		pointers[i] = r.text(s)
	}
	return &pointers[0]
}

// run has the reaper start the command, which fits, with the three streams.
// failed is the step that failed, unless err is nil.
func (r *reaper) run(cmd Command, stdio []int) (failed string, err error) {
	path, err := lookPath(cmd.Args[0], cmd.Env)
	if err != nil {
		return "program", err
	}
	if len(path) > unix.PathMax {
		return "program", unix.ENAMETOOLONG
	}
	l := r.l
	l.terminal = cmd.Terminal
	l.path, l.dir = r.text(path), r.text(cmd.Dir)
	l.argv, l.env = r.list(cmd.Args), r.list(cmd.Env)
	sent := unix.Sendmsg(r.wire, []byte{1}, unix.UnixRights(stdio...), nil, unix.MSG_NOSIGNAL)
	for sent == unix.EINTR {
		sent = unix.Sendmsg(r.wire, []byte{1}, unix.UnixRights(stdio...), nil, unix.MSG_NOSIGNAL)
	}
	var f failure
	n := 0
	for {
		n, err = unix.Read(r.started, bytesOf(&f))
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		return "guest", err
	case n == 0:
		return "guest", sent // a reaper that got no order has started nothing
	case n != len(bytesOf(&f)) || int(f.Stage) >= len(stageNames):
		return "guest", unix.EIO
	case f.Stage == stageExec && f.Errno == uint32(unix.ENOENT):
		return "interpreter", unix.ENOENT // the file itself is there
	}
	return stageNames[f.Stage], syscall.Errno(f.Errno)
}

// close lets go of the reaper; without an order it ends.
func (r *reaper) close() {
	for _, fd := range [...]*int{&r.wire, &r.started, &r.report} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// free gives the memory back, which the reaper uses until it has been waited for.
func (r *reaper) free() {
	if r.memory != nil {
		_ = unix.Munmap(r.memory[:cap(r.memory)])
		r.memory, r.l = nil, nil
	}
}

// bury ends a reaper that has no command, and waits for it.
func (g *inside) bury(r *reaper) {
	r.close()
	_ = unix.Kill(r.pid, unix.SIGKILL) // not waited for, so it is still this one
	for {
		if _, err := unix.Wait4(r.pid, nil, unix.WALL, nil); err != unix.EINTR {
			break
		}
	}
	r.free()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.starting, r.pid)
}

// bytesOf shows a struct the forked copies wrote as they left it.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
