//go:build !windows

package sandboxtest

import "syscall"

const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
	userSignal     = syscall.SIGUSR1
)
