// Package clockshift shifts the wall clock of one process, to test directors on machines whose clocks differ. In
// ordinary builds it does nothing. With the build tag clockshift, on linux/amd64, an environment variable shifts the
// process's time of day:
//
//	RETAKE_CLOCK_SHIFT=-5m
//
// It replaces the kernel's time function in the vDSO, so the director, its libraries and the runtime do not notice the
// shift. The monotonic clock and the boot clock stay correct, as on a machine with a wrong wall clock.
//
//	go build -tags clockshift -ldflags -checklinkname=0 retake/cmd/director
package clockshift

// Variable is the environment variable that sets the shift, in builds with the tag.
const Variable = "RETAKE_CLOCK_SHIFT"
