package guest

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A command of a confined box is forked, not re-executed: the guest's process
// is copied twice (where it can be, without its memory), and the copies run
// nothing but the raw system calls below.
// The first copy is the command's reaper, PID 1 of a pid namespace of its own
// where there are namespaces, so that its death is the death of everything the
// command started. It may be made long before there is a command, and waits for
// one on a socket. The second becomes the command.
//
// The copies have one thread and no Go runtime that works: functions here are
// nosplit, allocate nothing, write no pointers and call only each other. All
// signals are blocked from before the copy until just before exec.

// launch is what the copies need. It lies in memory the guest shares with the
// reaper, as does everything it points to that is not there from the beginning:
// what is the command's is filled in before the reaper is sent the order.
type launch struct {
	nested    bool       // the reaper is PID 1 of a new namespace, and mounts its /proc
	stacks    [2]uintptr // the ends of the reaper's, and of the command's until it executes its program
	wire      int        // socket: the order comes, with the command's streams
	started   int        // pipe: closed by exec, or gets a failure
	report    int        // pipe: gets reports from the reaper
	groups    [4]int
	ngroups   int
	kept      [8]int // what a reaper that waits holds open besides 0, 1 and 2, in order
	nkept     int
	path      *byte
	argv, env **byte
	dir       *byte
	terminal  bool // which is what the streams are
	ruleset   int  // Landlock, -1 for none
	// own is the rule for the command's own /proc, which rules for the guest's
	// do not reach; without rights there is none to add.
	own     unix.LandlockPathBeneathAttr
	filter  *unix.SockFprog
	limits  [4]limit
	nlimits int

	ending uint32 // endAsked by the guest, which then wakes the reaper
	wake   uint64 // the set of signals that do: SIGCHLD, which stays blocked

	// What the copies write to.
	order   [8]byte
	rights  rights
	iov     unix.Iovec
	message unix.Msghdr
	failure failure
	out     report
	status  int32
	rusage  unix.Rusage
	caps    [2]unix.CapUserData
	header  unix.CapUserHeader
	action  [4]uint64 // struct sigaction
	mask    uint64
	zero    [2]byte
	proc    [8]byte // "proc", NUL
	procDir [8]byte // "/proc", NUL
}

// What is to become of everything a reaper waits for: it is to be killed, or has
// been, and is not told of any more before its end.
const (
	endAsked = 1 + iota
	endDone
)

// rights are three descriptors as they come with a message.
type rights struct {
	header unix.Cmsghdr
	fds    [3]int32
}

const rightsSize = unsafe.Offsetof(rights{}.fds) + 3*4

type limit struct {
	resource int
	value    unix.Rlimit
}

// failure tells which step failed before exec.
type failure struct{ Stage, Errno uint32 }

// The steps of a start, as StartError.Stage names them.
const (
	stageFork = iota
	stageProc
	stageGroup
	stageStdio
	stageLimit
	stageDir
	stagePrivileges
	stageLandlock
	stageSeccomp
	stageExec
)

var stageNames = [...]string{"fork", "proc", "cgroup", "stdio", "limit", "dir", "privileges", "landlock", "seccomp", "exec"}

// report is what a reaper tells: when everything has ended, and before that when
// the main process has and others are left.
type report struct {
	Status       uint64 // of the main process, as wait4 gives it
	User, System uint64 // nanoseconds, of all that ended
	MaxRSS       uint64 // KiB
	Last         uint64 // 1: nothing is left
}

const reportSize = int(unsafe.Sizeof(report{}))

// reap is the life of a reaper; it does not return.
//
//lint:ignore U1000 assembly calls it
//go:norace
//go:nosplit
//go:nocheckptr
func reap(l *launch) {
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0)
	if l.nested {
		_, _, errno := syscall.RawSyscall6(unix.SYS_MOUNT, uintptr(unsafe.Pointer(&l.proc)), uintptr(unsafe.Pointer(&l.procDir)), uintptr(unsafe.Pointer(&l.proc)),
			unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, uintptr(unsafe.Pointer(&l.zero)), 0)
		if errno != 0 {
			fail(l, stageProc, errno)
		}
	} else {
		syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0)
	}
	// Who waits for the end of a stream must not wait for this copy of it.
	next := 3
	for i := 0; i < l.nkept; i++ {
		fd := *(*int)(unsafe.Add(unsafe.Pointer(&l.kept), uintptr(i)*unsafe.Sizeof(l.kept[0])))
		if fd > next {
			syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, uintptr(next), uintptr(fd-1), 0, 0, 0, 0)
		}
		next = fd + 1
	}
	syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, uintptr(next), 1<<32-1, 0, 0, 0, 0)
	if l.nested { // while there is time, which the kernel takes to compile the filter
		if stage, errno := wall(l); errno != 0 {
			fail(l, stage, errno)
		}
	}
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVMSG, uintptr(l.wire), uintptr(unsafe.Pointer(&l.message)), unix.MSG_CMSG_CLOEXEC, 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n != 1 || l.message.Flags&unix.MSG_CTRUNC != 0 || uintptr(l.rights.header.Len) != rightsSize {
			for { // there will be no command
				syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
			}
		}
		break
	}
	main := startMain(l, *(*uintptr)(unsafe.Add(unsafe.Pointer(&l.stacks), unsafe.Sizeof(l.stacks[0]))))
	if int(main) < 0 {
		fail(l, stageFork, syscall.Errno(-main))
	}
	// Nothing of the guest's stays open here but the pipe.
	if l.report != 3 {
		syscall.RawSyscall6(unix.SYS_DUP3, uintptr(l.report), 3, unix.O_CLOEXEC, 0, 0, 0)
	}
	syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, 4, 1<<32-1, 0, 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&l.header)), uintptr(unsafe.Pointer(&l.caps)), 0, 0, 0, 0)
	for {
		// Asked before PID 1 is killed, with which the kernel forgets what all others
		// used. Elsewhere -1 would be every process of the user.
		if l.ending == endAsked {
			l.ending = endDone
			if self, _, _ := syscall.RawSyscall6(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0); self == 1 {
				syscall.RawSyscall6(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0, 0, 0, 0)
			}
		}
		pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&l.status)), unix.WALL|unix.WNOHANG, uintptr(unsafe.Pointer(&l.rusage)), 0, 0)
		if errno != 0 { // ECHILD: nothing is left
			l.out.Last = 1
			tell(l)
			syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
		}
		if pid == 0 {
			if main == 0 && l.ending == 0 { // others outlive the main process
				tell(l)
				main = ^uintptr(0)
			}
			syscall.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&l.wake)), 0, 0, 8, 0, 0)
			continue
		}
		l.out.User += uint64(l.rusage.Utime.Sec)*1e9 + uint64(l.rusage.Utime.Usec)*1e3
		l.out.System += uint64(l.rusage.Stime.Sec)*1e9 + uint64(l.rusage.Stime.Usec)*1e3
		if uint64(l.rusage.Maxrss) > l.out.MaxRSS {
			l.out.MaxRSS = uint64(l.rusage.Maxrss)
		}
		if pid == main {
			l.out.Status = uint64(uint32(l.status))
			main = 0
		}
	}
}

// wall installs the filter of system calls, which the command inherits from its
// reaper: nothing either does from there on is refused by it, but for what
// there is without namespaces, where the command does it last. It does not fail by
// itself: on arm64 the stack that is left has no room for one call more.
//
//go:norace
//go:nosplit
//go:noinline
//go:nocheckptr
func wall(l *launch) (stage uint32, errno syscall.Errno) {
	if l.filter == nil {
		return 0, 0
	}
	if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return stagePrivileges, errno
	}
	_, _, errno = syscall.RawSyscall6(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(l.filter)), 0, 0, 0)
	return stageSeccomp, errno
}

//go:norace
//go:nosplit
//go:nocheckptr
func tell(l *launch) {
	syscall.RawSyscall6(unix.SYS_WRITE, 3, uintptr(unsafe.Pointer(&l.out)), unsafe.Sizeof(l.out), 0, 0, 0)
}

// fail tells the guest why there is no command, and ends this copy.
//
//go:norace
//go:nosplit
//go:nocheckptr
func fail(l *launch, stage uint32, errno syscall.Errno) {
	l.failure.Stage, l.failure.Errno = stage, uint32(errno)
	syscall.RawSyscall6(unix.SYS_WRITE, uintptr(l.started), uintptr(unsafe.Pointer(&l.failure)), unsafe.Sizeof(l.failure), 0, 0, 0)
	for {
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 127, 0, 0, 0, 0, 0)
	}
}

// become turns this copy into the command; it does not return.
//
//lint:ignore U1000 assembly calls it
//go:norace
//go:nosplit
//go:nocheckptr
func become(l *launch) {
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	syscall.RawSyscall6(unix.SYS_SETSID, 0, 0, 0, 0, 0, 0)
	// The reaper stays outside: it shares its memory with the guest, and who is
	// killed for too much memory dies with all that share it.
	l.zero[0] = '0'
	for i := 0; i < l.ngroups; i++ {
		fd := *(*int)(unsafe.Add(unsafe.Pointer(&l.groups), uintptr(i)*unsafe.Sizeof(l.groups[0])))
		if _, _, errno := syscall.RawSyscall6(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&l.zero)), 1, 0, 0, 0); errno != 0 {
			fail(l, stageGroup, errno)
		}
	}
	// The guest keeps 0, 1 and 2 on the null device, so what it passes is above.
	for i := uintptr(0); i < 3; i++ {
		fd := *(*int32)(unsafe.Add(unsafe.Pointer(&l.rights.fds), i*unsafe.Sizeof(l.rights.fds[0])))
		if _, _, errno := syscall.RawSyscall6(unix.SYS_DUP3, uintptr(fd), i, 0, 0, 0, 0); errno != 0 {
			fail(l, stageStdio, errno)
		}
	}
	if l.terminal {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0, 0, 0, 0); errno != 0 {
			fail(l, stageStdio, errno)
		}
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, 3, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC, 0, 0, 0); errno != 0 {
		fail(l, stageStdio, errno)
	}
	for i := 0; i < l.nlimits; i++ {
		lim := (*limit)(unsafe.Add(unsafe.Pointer(&l.limits), uintptr(i)*unsafe.Sizeof(l.limits[0])))
		if _, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(lim.resource), uintptr(unsafe.Pointer(&lim.value)), 0, 0, 0); errno != 0 {
			fail(l, stageLimit, errno)
		}
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		fail(l, stagePrivileges, errno)
	}
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if _, _, errno := syscall.RawSyscall6(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&l.header)), uintptr(unsafe.Pointer(&l.caps)), 0, 0, 0, 0); errno != 0 {
		fail(l, stagePrivileges, errno)
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_CHDIR, uintptr(unsafe.Pointer(l.dir)), 0, 0, 0, 0, 0); errno != 0 {
		fail(l, stageDir, errno)
	}
	if l.ruleset >= 0 && l.own.Allowed_access != 0 {
		fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&l.procDir)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
		if errno == 0 {
			l.own.Parent_fd = int32(fd)
			_, _, errno = syscall.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(l.ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&l.own)), 0, 0, 0)
		}
		if errno != 0 {
			fail(l, stageLandlock, errno)
		}
	}
	if l.ruleset >= 0 {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(l.ruleset), 0, 0, 0, 0, 0); errno != 0 {
			fail(l, stageLandlock, errno)
		}
	}
	// A signal its ancestors ignore would be ignored by the command too.
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&l.action)), 0, 8, 0, 0)
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&l.mask)), 0, 8, 0, 0)
	if !l.nested {
		if stage, errno := wall(l); errno != 0 {
			fail(l, stage, errno)
		}
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_EXECVE, uintptr(unsafe.Pointer(l.path)), uintptr(unsafe.Pointer(l.argv)), uintptr(unsafe.Pointer(l.env)), 0, 0, 0)
	fail(l, stageExec, errno)
}
