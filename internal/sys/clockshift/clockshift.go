// Package clockshift sets the wall clock of one process wrong, for tests of directors whose machines do not
// agree about the time. In ordinary builds it does nothing. With the build tag clockshift, on Linux on amd64,
// whatever the process is told of the time of day is off by what the environment says:
//
//	RETAKE_CLOCK_SHIFT=-5m
//
// It stands before the kernel's own function that tells the time (in the vDSO), so that nothing in the program
// knows of it: not the director, not its libraries, not the runtime. The monotonic clock, and that since boot,
// are right, as they are on a machine whose clock was set wrong.
//
//	go build -tags clockshift -ldflags -checklinkname=0 retake/cmd/director
package clockshift

// Variable says by how much the clock is wrong, in builds with the tag.
const Variable = "RETAKE_CLOCK_SHIFT"
