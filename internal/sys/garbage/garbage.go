// Package garbage adapts Go's garbage collector to the load. A quiet process stays small, while a busy process allows
// more garbage to save processor time.
package garbage

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A process is busy if the collector would run three times a second with quietPercent (see debug.SetGCPercent).
const (
	quietPercent = 20
	period       = 5 * time.Second
	busyCycles   = 15 // collections within a period that make a quiet process busy
)

// load selects the collector's target.
type load struct {
	percent int    // target while busy
	cycles  uint64 // collections so far
	started bool
	busy    bool
}

// adjust returns the target for the next period. A busy process becomes quiet after a period without a collection.
// Collections while the process starts do not count, because they are small and frequent.
func (g *load) adjust(cycles uint64) (percent int) {
	n := cycles - g.cycles
	g.cycles = cycles
	if !g.started {
		g.started = true
		return quietPercent
	}
	if g.busy = n >= busyCycles || g.busy && n > 0; g.busy {
		return g.percent
	}
	return quietPercent
}

// Collect sets the collector's target until ctx is done. busyPercent is the target while the process is busy.
func Collect(ctx context.Context, busyPercent int) {
	g, last := load{percent: busyPercent}, quietPercent
	debug.SetGCPercent(last)
	go func() {
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if percent := g.adjust(collections()); percent != last {
				last = percent
				debug.SetGCPercent(percent)
			}
		}
	}()
}

// collections returns the number of collections since the start of the process.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
