package seccomp

import (
	"encoding/binary"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	allowed = unix.SECCOMP_RET_ALLOW
	killed  = unix.SECCOMP_RET_KILL_PROCESS
	eperm   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	enosys  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

var architectures = []struct {
	name  string
	audit uint32
}{{"amd64", unix.AUDIT_ARCH_X86_64}, {"arm64", unix.AUDIT_ARCH_AARCH64}}

// judge runs a filter on one call. The machine of x/net/bpf loads in network
// order and seccomp in the host's, so each 32-bit word is stored turned round,
// at the place where a little-endian kernel has it.
func judge(t testing.TB, vm *bpf.VM, audit, number uint32, args ...uint64) uint32 {
	t.Helper()
	var data [64]byte
	binary.BigEndian.PutUint32(data[0:], number)
	binary.BigEndian.PutUint32(data[4:], audit)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
	}
	answer, err := vm.Run(data[:])
	if err != nil {
		t.Fatal(err)
	}
	return uint32(answer)
}

func machine(t testing.TB, goarch string, o Options) *bpf.VM {
	t.Helper()
	code, err := program(goarch, o)
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(code)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

// table returns the call numbers of an architecture as x/sys has them, from the
// copy of it that comes with the toolchain.
func table(t testing.TB, goarch string) map[string]uint32 {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no Go toolchain to read the call numbers from")
	}
	name := filepath.Join(strings.TrimSpace(string(root)), "src/cmd/vendor/golang.org/x/sys/unix/zsysnum_linux_"+goarch+".go")
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]uint32{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			value, err := strconv.ParseUint(spec.Values[0].(*ast.BasicLit).Value, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			numbers[strings.ToLower(strings.TrimPrefix(spec.Names[0].Name, "SYS_"))] = uint32(value)
		}
		return true
	})
	return numbers
}

func TestNumbersAreThoseOfTheKernel(t *testing.T) {
	for _, arch := range architectures {
		numbers := table(t, arch.name)
		check := func(c call) {
			ours := c.amd64
			if arch.name == "arm64" {
				ours = c.arm64
			}
			theirs, ok := numbers[c.name]
			if !ok && c.name == "listns" { // younger than the toolchain's copy
				return
			}
			if ok != (ours != none) || ok && theirs != uint32(ours) {
				t.Errorf("%s on %s: %d, the kernel has %d (%v)", c.name, arch.name, ours, theirs, ok)
			}
		}
		for _, c := range denied {
			check(c)
		}
		for _, c := range examined {
			check(c.call)
		}
	}
}

// mustDeny is written down apart from the table, so that a row cannot be lost.
const mustDeny = `mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick
mount_setattr setns unshare ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp bpf
perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register add_key request_key keyctl
fanotify_init open_by_handle_at lookup_dcookie init_module finit_module delete_module kexec_load
kexec_file_load swapon swapoff reboot sethostname setdomainname settimeofday clock_settime clock_adjtime
adjtimex acct quotactl quotactl_fd nfsservctl syslog vhangup set_mempolicy_home_node move_pages migrate_pages`

// mustAllow are calls without which ordinary programs fail.
const mustAllow = `read write openat close statx faccessat2 fchmodat2 mmap mprotect brk futex futex_waitv
execve execveat wait4 waitid kill tgkill pidfd_open pidfd_send_signal rt_sigaction prctl seccomp
landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_create memfd_secret copy_file_range
connect bind listen accept4 sendmsg recvmsg epoll_create1 epoll_pwait2 inotify_init1 io_setup getrandom rseq
membarrier close_range renameat2 process_madvise mbind get_mempolicy set_mempolicy sched_setaffinity prlimit64
getppid setsid setpgid flock fallocate sendfile splice mq_open shmget name_to_handle_at statmount mseal clone`

func TestEveryNumber(t *testing.T) {
	for _, arch := range architectures {
		numbers := table(t, arch.name)
		for _, o := range []Options{{}, {NoNetwork: true}, {Shared: true}} {
			vm := machine(t, arch.name, o)
			for name := range strings.FieldsSeq(mustDeny) {
				if got := judge(t, vm, arch.audit, numbers[name]); got != eperm {
					t.Errorf("%s on %s: %#x", name, arch.name, got)
				}
			}
			for name := range strings.FieldsSeq(mustAllow) {
				n, ok := numbers[name]
				if got := judge(t, vm, arch.audit, n); !ok || got != allowed && !(o.Shared && slices.Contains([]string{"shmget", "mq_open"}, name)) {
					t.Errorf("%s on %s: %#x (in the table: %v)", name, arch.name, got, ok)
				}
			}
			for n := range uint32(2048) {
				if got, want := judge(t, vm, arch.audit, n), expect(arch.name, o, n, make([]uint64, 6)); got != want {
					t.Errorf("%d on %s: %#x, want %#x", n, arch.name, got, want)
				}
			}
			for _, n := range []uint32{0x3fff_ffff, 0x4000_0000, 0x4000_0027, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff} {
				if got, want := judge(t, vm, arch.audit, n), expect(arch.name, o, n, make([]uint64, 6)); got != want {
					t.Errorf("%#x on %s: %#x, want %#x", n, arch.name, got, want)
				}
			}
			for _, foreign := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64, 0, ^uint32(0)} {
				if got := judge(t, vm, foreign, 0); (got == killed) != (foreign != arch.audit) {
					t.Errorf("architecture %#x on %s: %#x", foreign, arch.name, got)
				}
			}
		}
	}
}

// expect is the filter told plainly: by lists instead of a tree.
func expect(goarch string, o Options, number uint32, args []uint64) uint32 {
	word := func(i int) uint32 { return uint32(args[i]) }
	if goarch == "amd64" && number >= 0x4000_0000 && number != ^uint32(0) {
		return killed
	}
	if number > newest {
		return enosys
	}
	is := func(c call) bool {
		if goarch == "amd64" {
			return c.amd64 == int32(number)
		}
		return c.arm64 == int32(number)
	}
	if slices.ContainsFunc(denied[:], is) {
		return eperm
	}
	yes := true
	for _, s := range shared {
		if o.Shared && is(s.call) {
			yes = s.name == "prlimit64" && (word(0) == 0 || args[2] == 0)
		}
	}
	for _, e := range examined {
		if !is(e.call) {
			continue
		}
		switch e.name {
		case "clone":
			yes = word(0)&0x7e020000 == 0
		case "clone3":
			return enosys
		case "ioctl":
			yes = !slices.Contains([]uint32{0x5412, 0x541c, 0x5423}, word(1))
		case "fcntl":
			yes = !slices.Contains([]uint32{1024, 1026, 1040}, word(1))
		case "chmod", "fchmod", "creat", "mknod":
			yes = word(1)&0o6000 == 0
		case "fchmodat", "fchmodat2", "mknodat":
			yes = word(2)&0o6000 == 0
		case "open":
			yes = word(1)&0o20000100 == 0 || word(2)&0o6000 == 0
		case "openat":
			yes = word(2)&0o20000100 == 0 || word(3)&0o6000 == 0
		case "openat2":
			if !o.Openat2 {
				return enosys
			}
		case "personality":
			yes = slices.Contains([]uint32{0, 0x40000, 0xffff_ffff}, word(0))
		default:
			kind := word(1) & 15
			inet := (word(0) == 2 || word(0) == 10) && (kind == 1 || kind == 2) &&
				slices.Contains([]uint32{0, 1, 6, 17, 58, 136, 262}, word(2))
			yes = word(0) == 1 && (kind == 1 || kind == 2 || kind == 5) || inet && !o.NoNetwork
		}
	}
	if yes {
		return allowed
	}
	return eperm
}

func TestArguments(t *testing.T) {
	for _, arch := range architectures {
		for _, o := range []Options{{}, {NoNetwork: true}, {Openat2: true}, {Shared: true}} {
			vm := machine(t, arch.name, o)
			check := func(n int32, args ...uint64) {
				t.Helper()
				for _, high := range []uint64{0, 1 << 32, 0xffff_ffff << 32} {
					with := make([]uint64, 6)
					for i, a := range args {
						with[i] = a | high
					}
					if got, want := judge(t, vm, arch.audit, uint32(n), with...), expect(arch.name, o, uint32(n), with); got != want {
						t.Errorf("%d%#x on %s, %+v: %#x, want %#x", n, with, arch.name, o, got, want)
					}
				}
			}
			for _, e := range examined {
				n := e.amd64
				if arch.name == "arm64" {
					n = e.arm64
				}
				for bit := range 32 {
					check(n, 1<<bit)
					check(n, 1<<bit|uint64(unix.SIGCHLD), 1<<bit, 1<<bit)
				}
				families := uint64(1)
				if e.verdict == examineSocket {
					families = 48
				}
				for family := range families {
					for kind := range uint64(16) {
						for _, protocol := range []uint64{0, 1, 2, 6, 17, 33, 58, 115, 132, 136, 255, 256, 262, 263} {
							check(n, family, kind, protocol)
							check(n, family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
						}
					}
				}
				for request := uint64(0x5400); request < 0x5460; request++ {
					check(n, 0, request)
				}
				for command := range uint64(1100) {
					check(n, 0, command)
				}
				for _, flags := range []uint64{0, unix.O_CREAT, unix.O_TMPFILE, unix.O_DIRECTORY, unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY} {
					for _, mode := range []uint64{0, 0o755, 0o1777, 0o2000, 0o4000, 0o4755, 0o6000, 0o7777, 0o104755, 0o102644} {
						check(n, 0, mode, 0, 0)
						check(n, 0, flags, mode, 0)
						check(n, 0, 0, flags, mode)
					}
				}
				check(n, 0xffff_ffff)
				check(n, 0x40000)
			}
			for _, s := range shared {
				n := s.amd64
				if arch.name == "arm64" {
					n = s.arm64
				}
				for _, pid := range []uint64{0, 1, 4711, 0xffff_ffff} {
					for _, limit := range []uint64{0, 8, 1 << 32} {
						check(n, pid, unix.RLIMIT_NOFILE, limit, 8)
					}
				}
			}
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(true, false, uint32(41), uint64(16), uint64(3), uint64(0))
	f.Add(false, true, uint32(220), uint64(0x1_1000_0011), uint64(0), uint64(0))
	f.Add(true, true, uint32(0x4000_0027), uint64(0), uint64(0x5412), uint64(0))
	vms := map[[2]bool]*bpf.VM{}
	for i, arch := range architectures {
		for _, offline := range []bool{false, true} {
			vms[[2]bool{i == 0, offline}] = machine(f, arch.name, Options{NoNetwork: offline})
		}
	}
	f.Fuzz(func(t *testing.T, amd64, offline bool, number uint32, a, b, c uint64) {
		arch := architectures[1]
		if amd64 {
			arch = architectures[0]
		}
		args := []uint64{a, b, c, 0, 0, 0}
		got, want := judge(t, vms[[2]bool{amd64, offline}], arch.audit, number, args...), expect(arch.name, Options{NoNetwork: offline}, number, args)
		if got != want {
			t.Errorf("%d%#x on %s, offline %v: %#x, want %#x", number, args, arch.name, offline, got, want)
		}
	})
}

// TestAllowingAsksOnlyTheNumber keeps what the kernel's cache of allowed calls
// needs: no argument is loaded for a call that is always allowed. It also
// bounds how far the search goes.
func TestAllowingAsksOnlyTheNumber(t *testing.T) {
	for _, arch := range architectures {
		code, err := program(arch.name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		longest := 0
		for n := range uint32(newest + 1) {
			if expect(arch.name, Options{}, n, []uint64{0, 2, 0, 0, 0, 0}) != allowed ||
				slices.ContainsFunc(examined[:], func(e struct {
					call
					verdict verdict
					denied  string
				}) bool {
					return uint32(e.amd64) == n && arch.name == "amd64" || uint32(e.arm64) == n && arch.name == "arm64"
				}) {
				continue
			}
			steps, a := 0, uint32(0)
		run:
			for i := 0; ; i++ {
				steps++
				switch ins := code[i].(type) {
				case bpf.LoadAbsolute:
					switch ins.Off {
					case offsetArch:
						a = arch.audit
					case offsetNumber:
						a = n
					default:
						t.Fatalf("%d on %s is allowed after a look at offset %d", n, arch.name, ins.Off)
					}
				case bpf.JumpIf:
					yes := ins.Cond == bpf.JumpEqual && a == ins.Val || ins.Cond == bpf.JumpGreaterOrEqual && a >= ins.Val
					if i += int(ins.SkipFalse); yes {
						i += int(ins.SkipTrue) - int(ins.SkipFalse)
					}
				case bpf.Jump:
					i += int(ins.Skip)
				case bpf.RetConstant:
					break run
				default:
					t.Fatalf("%T", ins)
				}
			}
			longest = max(longest, steps)
		}
		if longest > 16 {
			t.Errorf("an allowed call takes %d instructions on %s", longest, arch.name)
		}
		t.Logf("%s: %d instructions, %d for an allowed call at most", arch.name, len(code), longest)
	}
}

func TestOtherArchitecturesAreRefused(t *testing.T) {
	for _, goarch := range []string{"386", "arm", "riscv64", "s390x", ""} {
		if code, err := program(goarch, Options{}); err == nil || code != nil {
			t.Errorf("%q: %d instructions, %v", goarch, len(code), err)
		}
	}
}

func TestInstallRefusesNoFilter(t *testing.T) {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		failed <- Install(nil)
	}()
	if err := <-failed; err == nil {
		t.Error("an empty filter was installed")
	}
}

func TestDeniedIsSortedAndSaysWhatOfACall(t *testing.T) {
	list := Denied()
	if !slices.IsSorted(list) || len(list) != len(denied)+len(examined) {
		t.Errorf("%q", list)
	}
	for _, want := range []string{"mount", "clone with CLONE_NEW* flags", "clone3 (ENOSYS)", "ioctl TIOCSTI, TIOCLINUX, TIOCSETD", "fcntl F_SETLEASE, F_NOTIFY, F_SETDELEG"} {
		if !slices.Contains(list, want) {
			t.Errorf("%q is not in %q", want, list)
		}
	}
}

// BenchmarkCall is what one call costs with and without the filter: one that is
// always allowed, one whose arguments are looked at, one that is denied.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		name      string
		number, a uintptr
	}{
		{"getppid", unix.SYS_GETPPID, 0},
		{"ioctl", unix.SYS_IOCTL, ^uintptr(0)},
		{"keyctl", unix.SYS_KEYCTL, ^uintptr(0)},
	} {
		for _, how := range []string{"bare", "filtered"} {
			b.Run(c.name+"/"+how, func(b *testing.B) {
				done := make(chan error)
				go func() {
					runtime.LockOSThread() // and never unlock: the thread ends here
					var err error
					if how == "filtered" {
						var filter []unix.SockFilter
						if filter, err = Program(Options{}); err == nil {
							err = Install(filter)
						}
					}
					b.ResetTimer()
					for range b.N {
						unix.RawSyscall(c.number, c.a, 0, 0)
					}
					b.StopTimer()
					done <- err
				}()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
