//go:build !race

#include "textflag.h"

// func startReaper(l *launch, flags, stack uintptr) (pid uintptr)
//
// clone(CLONE_VM | SIGCHLD | flags)
TEXT ·startReaper(SB), NOSPLIT, $0-32
	MOVQ l+0(FP), R12
	MOVQ flags+8(FP), DI
	ORQ  $0x111, DI
	MOVQ stack+16(FP), SI
	SUBQ $16, SI
	MOVQ R12, 0(SI)
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $56, AX
	SYSCALL
	TESTQ AX, AX
	JZ   reaper
	MOVQ AX, pid+24(FP)
	RET

reaper:
	// The argument is at the top of the new stack. By way of a register: the linker
	// adds what is called by name to the stack of who calls.
	XORL BP, BP
	MOVQ $·reap(SB), AX
	CALL AX
	INT  $3

// func startMain(l *launch, stack uintptr) (pid uintptr)
//
// clone(CLONE_VM | CLONE_VFORK | SIGCHLD)
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
	XORL BP, BP
	MOVQ $·become(SB), AX
	CALL AX
	INT  $3
