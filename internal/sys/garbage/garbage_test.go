package garbage

import (
	"runtime"
	"testing"
)

// TestTargetFollowsTheLoad checks that a process becomes busy after many collections in a period, and quiet after a
// period without a collection.
func TestTargetFollowsTheLoad(t *testing.T) {
	const busy = 200
	g, cycles := load{percent: busy}, uint64(0)
	for i, c := range []struct {
		more uint64
		want int
	}{
		{10 * busyCycles, quietPercent}, // the start
		{0, quietPercent},
		{busyCycles - 1, quietPercent},
		{busyCycles, busy},
		{1, busy}, // with the higher target, the same load causes fewer collections
		{0, quietPercent},
		{1, quietPercent},
	} {
		cycles += c.more
		if got := g.adjust(cycles); got != c.want {
			t.Errorf("period %d: %d, want %d", i, got, c.want)
		}
	}
}

func TestCollectionsAreCounted(t *testing.T) {
	before := collections()
	runtime.GC()
	if after := collections(); after <= before {
		t.Errorf("%d collections, and %d before one more", after, before)
	}
}
