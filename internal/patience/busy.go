package patience

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	limit        = 20.0                   // maximum factor by which a deadline is extended
	measureEvery = 200 * time.Millisecond // how long Busy reuses a measurement
	spinTime     = 250 * time.Microsecond // duration of spin on an idle machine of ordinary speed
)

// measured is the last measurement, shared by all deadlines in the process.
var measured struct {
	sync.Mutex
	at   time.Time
	busy float64
}

// Busy returns how many times longer work takes now than on an idle machine, from 1 to 20.
func Busy() float64 {
	measured.Lock()
	defer measured.Unlock()
	if age := time.Since(measured.at); age >= 0 && age < measureEvery {
		return measured.busy
	}
	slow := slowness()
	if slow == 0 {
		return 1
	}
	measured.busy, measured.at = min(limit, waiting()*slow), time.Now()
	return measured.busy
}

// waiting returns the number of runnable threads per CPU, at least 1. It returns 1 if the kernel does not report that
// number.
func waiting() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	fields := bytes.Fields(data)
	if err != nil || len(fields) < 4 {
		return 1
	}
	runnable, _, _ := bytes.Cut(fields[3], []byte("/"))
	n, err := strconv.Atoi(string(runnable))
	if err != nil {
		return 1
	}
	return max(1, float64(n)/float64(runtime.NumCPU()))
}

// slowness returns how many times longer spin takes than on an ordinary machine, at least 1. It uses the shortest of
// three measurements, because waiting already measures the competition for the CPU. It returns 0 if the clock did not
// advance, as in a testing/synctest bubble.
func slowness() float64 {
	shortest := time.Duration(1 << 62)
	for range 3 {
		began := time.Now()
		runtime.KeepAlive(spin())
		if shortest = min(shortest, time.Since(began)); shortest == 0 {
			return 0
		}
	}
	return max(1, float64(shortest)/float64(spinTime))
}

// spin works in memory, because the race detector slows down only memory accesses.
func spin() uint32 {
	words := make([]uint32, 1024)
	for i := range 100 * len(words) {
		at := i % len(words)
		words[at] = words[at]*1664525 + uint32(i)
	}
	return words[len(words)-1]
}
