//go:build clockshift

#include "textflag.h"

// func shifted() uintptr
TEXT ·shifted(SB), NOSPLIT, $0-8
	LEAQ clock<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// clock implements int clock_gettime(clockid_t, struct timespec *) with C's calling convention: arguments in DI and SI,
// the result in AX.
TEXT clock<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ DI
	PUSHQ SI
	SUBQ  $8, SP // align the stack to 16 bytes for the call
	MOVQ  ·original(SB), AX
	CALL  AX
	ADDQ  $8, SP
	POPQ  SI
	POPQ  DI
	CMPL  DI, $0 // CLOCK_REALTIME
	JNE   done
	MOVQ  ·seconds(SB), CX
	ADDQ  CX, 0(SI)
done:
	RET
