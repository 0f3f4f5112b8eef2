//go:build unix

package sshwire

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func nameOf(sig syscall.Signal) string { return strings.TrimPrefix(unix.SignalName(sig), "SIG") }

func numberOf(name string) syscall.Signal { return unix.SignalNum("SIG" + name) }
