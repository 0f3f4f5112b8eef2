package sandboxtest

import "syscall"

// The numbers Linux gives signals that syscall does not know here: a box may
// run Linux while the engine does not.
const (
	stopSignal     = syscall.Signal(19)
	continueSignal = syscall.Signal(18)
	userSignal     = syscall.Signal(10)
)
