package seccomp

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probes are groups of attempts; each makes them and notes what was answered.
var probes = map[string]func(map[string]syscall.Errno){
	"denied":     probeDenied,
	"sockets":    probeSockets,
	"namespaces": probeNamespaces,
	"arguments":  probeArguments,
	"allowed":    probeAllowed,
	"x32":        func(a map[string]syscall.Errno) { a["getpid"] = call3(0x4000_0000|unix.SYS_GETPID, 0, 0, 0) },
}

func call3(number, a, b, c uintptr) syscall.Errno {
	_, _, errno := unix.RawSyscall6(number, a, b, c, 0, 0, 0)
	return errno
}

func number(c call) int32 {
	if runtime.GOARCH == "arm64" {
		return c.arm64
	}
	return c.amd64
}

// probeDenied makes every denied call with arguments that no kernel accepts.
func probeDenied(answers map[string]syscall.Errno) {
	const bad = ^uintptr(0)
	for _, c := range denied {
		if n := number(c); n != none && c.name != "vhangup" {
			_, _, answers[c.name] = unix.RawSyscall6(uintptr(n), bad, bad, bad, bad, bad, bad)
		}
	}
	answers["clone3"] = call3(unix.SYS_CLONE3, 0, 0, 0)
	answers["openat2"] = call3(unix.SYS_OPENAT2, bad, bad, bad)
	answers["newest+1"] = call3(newest+1, 0, 0, 0)
}

func TestDeniedCallsAnswerEPERM(t *testing.T) {
	filtered, bare := asked(t, "filter", "denied"), asked(t, "bare", "denied")
	for name, errno := range filtered {
		want := syscall.EPERM
		if name == "clone3" || name == "openat2" || name == "newest+1" {
			want = syscall.ENOSYS
		}
		if errno != want {
			t.Errorf("%s: %v, want %v", name, errno, want)
		}
	}
	// The twins: without the filter the same attempts get as far as their
	// arguments.
	for name, want := range map[string]syscall.Errno{
		"unshare":          syscall.EINVAL,
		"setns":            syscall.EBADF,
		"process_vm_readv": syscall.EINVAL,
		"move_mount":       syscall.EINVAL,
		"userfaultfd":      syscall.EINVAL,
		"clone3":           syscall.EINVAL,
	} {
		if errno := bare[name]; errno != want && errno != syscall.ENOSYS && (os.Getuid() == 0 || errno != syscall.EPERM) {
			t.Errorf("%s without the filter: %v, want %v", name, errno, want)
		}
	}
	open := 0
	for _, errno := range bare {
		if errno != syscall.EPERM {
			open++
		}
	}
	if open < len(bare)/3 {
		t.Errorf("without the filter only %d of %d attempts got past permission: %v", open, len(bare), bare)
	}
}

func probeSockets(answers map[string]syscall.Errno) {
	for _, s := range socketCases {
		fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(s.family), uintptr(s.kind), uintptr(s.protocol))
		if answers[s.name] = errno; errno == 0 {
			unix.Close(int(fd))
		}
	}
	var pair [2]int32
	for name, family := range map[string]uintptr{"socketpair unix": unix.AF_UNIX, "socketpair netlink": unix.AF_NETLINK} {
		_, _, errno := unix.RawSyscall6(unix.SYS_SOCKETPAIR, family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0, uintptr(unsafe.Pointer(&pair)), 0, 0)
		answers[name] = errno
	}
}

type socketCase struct {
	name                   string
	family, kind, protocol int
	offline, online        bool // allowed with and without NoNetwork
}

var socketCases = []socketCase{
	{"unix stream", unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0, true, true},
	{"unix datagram", unix.AF_UNIX, unix.SOCK_DGRAM, 0, true, true},
	{"unix seqpacket", unix.AF_UNIX, unix.SOCK_SEQPACKET, 0, true, true},
	{"unix raw", unix.AF_UNIX, unix.SOCK_RAW, 0, false, false},
	{"tcp", unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0, false, true},
	{"tcp6", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP, false, true},
	{"udp", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP, false, true},
	{"ip raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, false, false},
	{"ip packet", unix.AF_INET, unix.SOCK_PACKET, 0, false, false},
	{"sctp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP, false, false},
	{"netlink", unix.AF_NETLINK, unix.SOCK_RAW, 0, false, false},
	{"netlink datagram", unix.AF_NETLINK, unix.SOCK_DGRAM, 0, false, false},
	{"packet", unix.AF_PACKET, unix.SOCK_DGRAM, 0, false, false},
	{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0, false, false},
	{"alg", unix.AF_ALG, unix.SOCK_SEQPACKET, 0, false, false},
	{"bluetooth", unix.AF_BLUETOOTH, unix.SOCK_STREAM, 0, false, false},
	{"can", unix.AF_CAN, unix.SOCK_DGRAM, 0, false, false},
	{"tipc", unix.AF_TIPC, unix.SOCK_SEQPACKET, 0, false, false},
	{"xdp", unix.AF_XDP, unix.SOCK_DGRAM, 0, false, false},
	{"rds", unix.AF_RDS, unix.SOCK_SEQPACKET, 0, false, false},
}

func TestSockets(t *testing.T) {
	online, offline, bare := asked(t, "filter", "sockets"), asked(t, "filter-offline", "sockets"), asked(t, "bare", "sockets")
	check := func(how, name string, allowed bool, errno syscall.Errno) {
		if allowed && errno != 0 && errno != bare[name] || !allowed && errno != syscall.EPERM {
			t.Errorf("%s %s: allowed %v, answered %v (bare: %v)", how, name, allowed, errno, bare[name])
		}
	}
	for _, s := range socketCases {
		check("online", s.name, s.online, online[s.name])
		check("offline", s.name, s.offline, offline[s.name])
	}
	for how, answers := range map[string]map[string]syscall.Errno{"online": online, "offline": offline} {
		check(how, "socketpair unix", true, answers["socketpair unix"])
		check(how, "socketpair netlink", false, answers["socketpair netlink"])
	}
	for _, name := range []string{"unix stream", "unix raw", "netlink", "tcp"} {
		if bare[name] != 0 {
			t.Errorf("%s without the filter: %v", name, bare[name])
		}
	}
}

// probeNamespaces starts children with and without a namespace of their own.
func probeNamespaces(answers map[string]syscall.Errno) {
	for name, flags := range map[string]uintptr{
		"plain": 0, "user": unix.CLONE_NEWUSER, "user and mount": unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		"user and net": unix.CLONE_NEWUSER | unix.CLONE_NEWNET, "user and pid": unix.CLONE_NEWUSER | unix.CLONE_NEWPID,
	} {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		answers[name] = 0
		if err := cmd.Run(); err != nil {
			errno := syscall.EIO
			errors.As(err, &errno)
			answers[name] = errno
		}
	}
}

func TestCloneMakesNoNamespaces(t *testing.T) {
	filtered, bare := asked(t, "filter", "namespaces"), asked(t, "bare", "namespaces")
	for name, errno := range filtered {
		want := syscall.EPERM
		if name == "plain" {
			want = 0
		}
		if errno != want {
			t.Errorf("child with namespaces %s: %v, want %v", name, errno, want)
		}
	}
	if bare["user"] == syscall.EPERM || bare["user"] == syscall.ENOSPC {
		t.Logf("no twin: this host has no user namespaces (%v)", bare["user"])
	} else if bare["user"] != 0 {
		t.Errorf("without the filter: %v", bare["user"])
	}
}

// probeArguments tries what an argument decides about, with and without rubbish
// in the upper half, which the kernel does not look at.
func probeArguments(answers map[string]syscall.Errno) {
	const bad, high = ^uintptr(0), uintptr(0xdead_beef) << 32
	answers["TIOCSTI"] = call3(unix.SYS_IOCTL, bad, unix.TIOCSTI, 0)
	answers["TIOCSTI high"] = call3(unix.SYS_IOCTL, bad, high|unix.TIOCSTI, 0)
	answers["TIOCLINUX high"] = call3(unix.SYS_IOCTL, bad, high|unix.TIOCLINUX, 0)
	answers["TIOCSETD"] = call3(unix.SYS_IOCTL, bad, unix.TIOCSETD, 0)
	answers["F_SETLEASE"] = call3(unix.SYS_FCNTL, bad, unix.F_SETLEASE, unix.F_WRLCK)
	answers["F_SETLEASE high"] = call3(unix.SYS_FCNTL, bad, high|unix.F_SETLEASE, unix.F_RDLCK)
	answers["F_NOTIFY"] = call3(unix.SYS_FCNTL, bad, unix.F_NOTIFY, 2)
	answers["F_SETDELEG"] = call3(unix.SYS_FCNTL, bad, 1040, 0)
	answers["READ_IMPLIES_EXEC"] = call3(unix.SYS_PERSONALITY, 0x0400000, 0, 0)
	answers["READ_IMPLIES_EXEC high"] = call3(unix.SYS_PERSONALITY, high|0x0400000, 0, 0)
	answers["number high"] = call3(high|unix.SYS_UNSHARE, bad, 0, 0)
	answers["fchmod"] = call3(unix.SYS_FCHMOD, bad, 0o4755, 0)
	answers["fchmod high"] = call3(unix.SYS_FCHMOD, bad, high|0o2755, 0)
	answers["fchmodat2"] = call3(452, bad, bad, 0o6000)
	answers["mknodat"] = call3(unix.SYS_MKNODAT, bad, bad, unix.S_IFREG|0o4000)
	_, _, answers["openat"] = unix.RawSyscall6(unix.SYS_OPENAT, bad, bad, unix.O_CREAT, 0o4755, 0, 0)
	_, _, answers["openat unnamed"] = unix.RawSyscall6(unix.SYS_OPENAT, bad, bad, unix.O_TMPFILE|unix.O_WRONLY, high|0o2000, 0, 0)
	answers["netlink high"] = call3(unix.SYS_SOCKET, high|unix.AF_NETLINK, unix.SOCK_RAW, 0)
}

func TestArgumentsAreComparedAsTheKernelReadsThem(t *testing.T) {
	filtered, bare := asked(t, "filter", "arguments"), asked(t, "bare", "arguments")
	for name, errno := range filtered {
		if errno != syscall.EPERM {
			t.Errorf("%s: %v, want EPERM", name, errno)
		}
		if bare[name] == syscall.EPERM {
			t.Errorf("%s without the filter: EPERM", name)
		}
	}
}

// probeAllowed makes calls that programs rely on, or fall back from only when
// they answer ENOSYS.
func probeAllowed(answers map[string]syscall.Errno) {
	const bad = ^uintptr(0)
	note := func(name string, number, a, b, c uintptr) { answers[name] = call3(number, a, b, c) }
	note("personality query", unix.SYS_PERSONALITY, 0xffff_ffff, 0, 0)
	note("TIOCGWINSZ", unix.SYS_IOCTL, bad, unix.TIOCGWINSZ, 0)
	note("TIOCSCTTY", unix.SYS_IOCTL, bad, unix.TIOCSCTTY, 0)
	note("F_GETLEASE", unix.SYS_FCNTL, bad, unix.F_GETLEASE, 0)
	note("F_DUPFD_CLOEXEC", unix.SYS_FCNTL, 0, unix.F_DUPFD_CLOEXEC, 100)
	note("F_SETLK", unix.SYS_FCNTL, bad, unix.F_SETLK, bad)
	note("statx", unix.SYS_STATX, bad, bad, 0)
	note("openat", unix.SYS_OPENAT, bad, bad, unix.O_CREAT)
	note("fchmod", unix.SYS_FCHMOD, bad, 0o1777, 0)
	note("faccessat2", unix.SYS_FACCESSAT2, bad, bad, 0)
	note("close_range", unix.SYS_CLOSE_RANGE, bad, 0, 0)
	note("memfd_create", unix.SYS_MEMFD_CREATE, bad, 0, 0)
	note("pidfd_open", unix.SYS_PIDFD_OPEN, bad, 0, 0)
	note("landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1)
	note("seccomp", unix.SYS_SECCOMP, bad, 0, 0)
	note("name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, bad, bad, bad)
	note("mbind", unix.SYS_MBIND, 1, 0, 0)
	note("membarrier", unix.SYS_MEMBARRIER, 0, 0, 0)
}

func TestAllowedCallsAnswerAsWithoutTheFilter(t *testing.T) {
	filtered, bare := asked(t, "filter", "allowed"), asked(t, "bare", "allowed")
	if !maps.Equal(filtered, bare) {
		t.Errorf("filtered: %v\nbare:     %v", filtered, bare)
	}
	if slices.Contains(slices.Collect(maps.Values(filtered)), syscall.EPERM) {
		t.Errorf("EPERM among %v", filtered)
	}
}

func killedBySIGSYS(t *testing.T, err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGSYS
}

func TestForeignTablesKill(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("int 0x80 and x32 are of amd64")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := command(t, "filter", self, "x32").CombinedOutput(); !killedBySIGSYS(t, err) {
		t.Errorf("x32 getpid: %v %s", err, out)
	}
	if answers := asked(t, "bare", "x32"); answers["getpid"] != 0 && answers["getpid"] != syscall.ENOSYS {
		t.Errorf("x32 getpid without the filter: %v", answers)
	}
	// mov eax, 20 (getpid in the table of i386); int 0x80; ret
	const int80 = `
import ctypes, mmap, os
m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
m.write(b"\xb8\x14\x00\x00\x00" + CODE + b"\xc3")
f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
print(f() in (os.getpid(), 20), flush=True)
os._exit(0)
`
	for code, killed := range map[string]bool{`b"\xcd\x80"`: true, `b"\x90\x90"`: false} {
		script := "CODE = " + code + int80
		out, err := command(t, "filter", "python3", "-c", script).CombinedOutput()
		if killedBySIGSYS(t, err) != killed || !killed && string(out) != "True\n" {
			t.Errorf("machine code %s: killed should be %v: %v %s", code, killed, err, out)
		}
		if out, err := command(t, "bare", "python3", "-c", script).CombinedOutput(); string(out) != "True\n" {
			t.Logf("machine code %s without the filter: %v %s", code, err, out)
		}
	}
}
