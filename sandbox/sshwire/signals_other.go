//go:build !unix

package sshwire

import "syscall"

// What numbers there are are those of Linux.
func nameOf(sig syscall.Signal) string {
	if list := linuxSignals(); sig > 0 && int(sig) < len(list) {
		return list[sig]
	}
	return ""
}

func numberOf(string) syscall.Signal { return 0 }
