package seccomp

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Options say how much a command may do. The zero value is for a command that
// namespaces and Landlock confine as well.
type Options struct {
	// NoNetwork refuses AF_INET and AF_INET6 sockets too: for a command whose
	// policy has no network and that has no network namespace of its own.
	NoNetwork bool
	// Openat2 lets openat2 through, whose mode no filter can see: for our own
	// file server. Programs fall back to openat.
	Openat2 bool
	// Shared refuses what reaches others' processes and System V objects by
	// their numbers and asks for no more than the same user: for a command
	// without namespaces. Landlock does not look at these calls.
	Shared bool
}

// Program returns the filter for this architecture, ready to be installed by
// Install or by a forked child that can make nothing but raw system calls.
func Program(o Options) ([]unix.SockFilter, error) {
	instructions, err := program(runtime.GOARCH, o)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		return nil, fmt.Errorf("seccomp: assemble: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return filter, nil
}

// Where struct seccomp_data holds what, and the lower half of an argument on a
// little-endian machine.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

func argument(i uint32) bpf.Instruction {
	return bpf.LoadAbsolute{Off: offsetArgs + 8*i, Size: 4}
}

// verdict is what becomes of a call.
type verdict int

const (
	allow verdict = iota
	refuse
	absent
	kill
	examineClone
	examineSocket
	examineIoctl
	examineFcntl
	examinePersonality
	examineMode   // second argument
	examineModeAt // third argument
	examineOpen   // mode is the third argument
	examineOpenAt // mode is the fourth argument
	examineOpenat2
	examinePrlimit
)

// span is a run of call numbers, from one up to the next span's, that share a
// verdict.
type span struct {
	from    uint32
	verdict verdict
}

// program is the filter for an architecture, by its Go name.
func program(goarch string, o Options) ([]bpf.Instruction, error) {
	var audit uint32
	switch goarch {
	case "amd64":
		audit = unix.AUDIT_ARCH_X86_64
	case "arm64":
		audit = unix.AUDIT_ARCH_AARCH64
	default:
		return nil, fmt.Errorf("seccomp: there is no filter for %s, only for amd64 and arm64", goarch)
	}
	head := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: audit, SkipTrue: 1},
		answer(kill),
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
	}
	return append(head, tree(spans(goarch, o), o)...), nil
}

// spans returns the verdicts over all numbers, lowest first, no two neighbours
// alike.
func spans(goarch string, o Options) []span {
	var special []span
	add := func(c call, v verdict) {
		number := c.amd64
		if goarch == "arm64" {
			number = c.arm64
		}
		if number != none {
			special = append(special, span{uint32(number), v})
		}
	}
	for _, c := range denied {
		add(c, refuse)
	}
	for _, c := range examined {
		add(c.call, c.verdict)
	}
	if o.Shared {
		for _, c := range shared {
			add(c.call, c.verdict)
		}
	}
	slices.SortFunc(special, func(a, b span) int { return cmp.Compare(a.from, b.from) })

	all := []span{{0, allow}}
	put := func(s span) {
		if last := &all[len(all)-1]; last.from == s.from {
			last.verdict = s.verdict
		} else if last.verdict != s.verdict {
			all = append(all, s)
		}
	}
	for _, s := range special {
		put(s)
		all = append(all, span{s.from + 1, allow})
	}
	put(span{newest + 1, absent})
	if goarch == "amd64" {
		// x32 shares the audit architecture and marks its numbers. All ones is
		// not one of them but the number a tracer leaves to skip a call.
		const x32 = 0x4000_0000
		put(span{x32, kill})
		put(span{^uint32(0), absent})
	}
	return slices.CompactFunc(all, func(a, b span) bool { return a.verdict == b.verdict })
}

// tree finds the number in A among the spans by halves and acts on it.
func tree(all []span, o Options) []bpf.Instruction {
	if len(all) == 1 {
		return act(all[0].verdict, o)
	}
	half := len(all) / 2
	below, above := tree(all[:half], o), tree(all[half:], o)
	// A conditional jump reaches no further than 255.
	code := []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: all[half].from, SkipTrue: uint8(len(below))}}
	if len(below) > 255 {
		code = []bpf.Instruction{
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: all[half].from, SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(below))},
		}
	}
	return slices.Concat(code, below, above)
}
