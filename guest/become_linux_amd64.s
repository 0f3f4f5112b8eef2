#include "textflag.h"

// func startMain(l *launch, stack uintptr) (pid uintptr)
//
// clone(CLONE_VM | CLONE_VFORK | SIGCHLD): the caller stands still until the
// copy, which has a stack of its own, executes its program or ends.
TEXT ·startMain(SB), NOSPLIT, $0-24
	MOVQ l+0(FP), R12
	MOVQ stack+8(FP), SI
	SUBQ $16, SI
	MOVQ R12, 0(SI)
	MOVL $0x4111, DI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $56, AX
	SYSCALL
	TESTQ AX, AX
	JZ   main
	MOVQ AX, pid+16(FP)
	RET

main:
	// The argument is at the top of the new stack.
	XORL BP, BP
	CALL ·become(SB)
	INT  $3
