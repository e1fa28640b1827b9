//go:build crashpoints

package crashpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// The process ends when it reaches the wanted point for the nth time.
var (
	wanted, nth = read(os.Getenv(Variable))
	passed      atomic.Int64
)

func read(text string) (name string, nth int64) {
	name, times, found := strings.Cut(text, "#")
	n, err := strconv.ParseInt(times, 10, 64)
	if !found {
		n, err = 1, nil
	}
	if name != "" && (err != nil || n < 1 || !slices.Contains(Points, name)) {
		fmt.Fprintf(os.Stderr, "%s=%s: want one of crashpoint.Points, optionally with #n for the n-th occurrence\n",
			Variable,
			text)
		os.Exit(2)
	}
	return name, n
}

// Reached kills the process if this is the selected point, like kill -9, without flushing or notifying anyone.
func Reached(name string) {
	if name != wanted || passed.Add(1) != nth {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // wait for the signal to take effect
}
