package sshwire

import (
	"strconv"
	"syscall"
)

// Signals have other numbers on other systems: they go by their names, without
// SIG. One without a name goes by its number on Linux.

// SignalName is how a signal of this system is called on the wire.
func SignalName(sig syscall.Signal) string {
	if name := nameOf(sig); name != "" {
		return name
	}
	return strconv.Itoa(int(sig))
}

// SignalOf is this system's signal of a name. One that it does not have is
// known by its number on Linux; ok is false when there is none of the name.
func SignalOf(name string) (sig syscall.Signal, ok bool) {
	if n := numberOf(name); n != 0 {
		return n, true
	}
	for n, other := range linuxSignals() {
		if n > 0 && other == name {
			return syscall.Signal(n), true
		}
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || n > 64 {
		return 0, false
	}
	return syscall.Signal(n), true
}

func linuxSignals() [32]string {
	return [...]string{"", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
		"STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS"}
}
