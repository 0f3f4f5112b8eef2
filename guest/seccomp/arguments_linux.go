package seccomp

import (
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// newNamespaces are the flags of clone that make namespaces. CLONE_NEWTIME is
// not among them: clone reads its bit as part of the exit signal.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// socketType masks the flags (SOCK_CLOEXEC, SOCK_NONBLOCK) off a socket's type.
const socketType = 0xf

// addrNoRandomize is what setarch -R, gdb and sanitizers ask for themselves.
const addrNoRandomize = 0x40000

// setIDs are the bits of a mode by which a program runs with the rights of its
// owner or group. What a script makes may belong to who runs the engine, and
// anybody on the machine could start it.
const setIDs = unix.S_ISUID | unix.S_ISGID

// creates are the flags of open that have it look at the mode.
const creates = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// setDelegation is F_SETDELEG, from Linux 6.19 on.
const setDelegation = 1024 + 16

// answer is the instruction that ends the filter with a verdict.
func answer(v verdict) bpf.Instruction {
	switch v {
	case allow:
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	case refuse:
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	case absent:
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
	default:
		return bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
	}
}

// act is the code that carries out a verdict; it always ends the filter.
func act(v verdict, o Options) []bpf.Instruction {
	switch v {
	case examineClone:
		return []bpf.Instruction{
			argument(0),
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces, SkipTrue: 1},
			answer(allow),
			answer(refuse),
		}
	case examineSocket:
		return socket(o)
	case examineIoctl:
		return []bpf.Instruction{
			argument(1),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 3},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCLINUX, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSETD, SkipTrue: 1},
			answer(allow),
			answer(refuse),
		}
	case examineFcntl: // leases hold up whoever opens the file, on the host too
		return []bpf.Instruction{
			argument(1),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.F_SETLEASE, SkipTrue: 3},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.F_NOTIFY, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: setDelegation, SkipTrue: 1},
			answer(allow),
			answer(refuse),
		}
	case examineMode:
		return mode(1)
	case examineModeAt:
		return mode(2)
	case examineOpen:
		return slices.Concat(creating(1), mode(2))
	case examineOpenAt:
		return slices.Concat(creating(2), mode(3))
	case examineOpenat2:
		if o.Openat2 {
			return []bpf.Instruction{answer(allow)}
		}
		return []bpf.Instruction{answer(absent)}
	case examinePrlimit: // of another process: to be read only
		return []bpf.Instruction{
			argument(0),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 4},
			argument(2),
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 3},
			bpf.LoadAbsolute{Off: offsetArgs + 8*2 + 4, Size: 4}, // a pointer: both halves
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1},
			answer(allow),
			answer(refuse),
		}
	case examinePersonality:
		return slices.Concat([]bpf.Instruction{argument(0)}, need(0, addrNoRandomize, ^uint32(0)), []bpf.Instruction{answer(allow)})
	default:
		return []bpf.Instruction{answer(v)}
	}
}

// mode refuses set-id bits in an argument.
func mode(i uint32) []bpf.Instruction {
	return []bpf.Instruction{
		argument(i),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: setIDs, SkipTrue: 1},
		answer(allow),
		answer(refuse),
	}
}

// creating allows what makes no file, and goes on otherwise.
func creating(flags uint32) []bpf.Instruction {
	return []bpf.Instruction{
		argument(flags),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: creates, SkipTrue: 1},
		answer(allow),
	}
}

// socket looks at the arguments of socket and socketpair. The protocols it lets
// through for IP are those that programs use; the others (SCTP, DCCP, L2TP,
// SMC …) would have the kernel load their modules on demand.
func socket(o Options) []bpf.Instruction {
	kind := []bpf.Instruction{argument(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: socketType}}
	ip := []bpf.Instruction{answer(refuse)}
	if !o.NoNetwork {
		ip = slices.Concat(
			need(unix.AF_INET, unix.AF_INET6),
			kind, need(unix.SOCK_STREAM, unix.SOCK_DGRAM),
			[]bpf.Instruction{argument(2)},
			need(0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6, unix.IPPROTO_UDPLITE, unix.IPPROTO_MPTCP),
			[]bpf.Instruction{answer(allow)},
		)
	}
	return slices.Concat(
		[]bpf.Instruction{
			argument(0),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: uint8(len(ip))},
		},
		ip,
		kind, need(unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET),
		[]bpf.Instruction{answer(allow)},
	)
}

// need refuses the call unless A is one of the values, and goes on otherwise.
func need(values ...uint32) []bpf.Instruction {
	var code []bpf.Instruction
	for i, v := range values {
		code = append(code, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(values) - i)})
	}
	return append(code, answer(refuse))
}
