//go:build clockshift

package clockshift

import (
	"fmt"
	"os"
	"time"
	_ "unsafe" // for go:linkname
)

// clockGettime is the function that the runtime calls, or 0 without a vDSO.
//
//go:linkname clockGettime runtime.vdsoClockgettimeSym
var clockGettime uintptr

var (
	original uintptr // address of the original function
	seconds  int64   // added to the time of day
)

// shifted returns the address of the replacement.
func shifted() uintptr

func init() {
	text, ok := os.LookupEnv(Variable)
	if !ok {
		return
	}
	shift, err := time.ParseDuration(text)
	if err == nil && shift%time.Second != 0 {
		err = fmt.Errorf("want whole seconds")
	}
	if err == nil && clockGettime == 0 {
		err = fmt.Errorf("this machine has no vDSO")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s=%s: %v\n", Variable, text, err)
		os.Exit(2)
	}
	before := time.Now()
	original, seconds = clockGettime, int64(shift/time.Second)
	clockGettime = shifted()
	after := time.Now()
	if moved := after.Round(0).Sub(before.Round(0)) - after.Sub(before); (moved - shift).Abs() > time.Second {
		fmt.Fprintf(os.Stderr, "%s=%s: the clock moved by %s\n", Variable, text, moved)
		os.Exit(2)
	}
}
