package loop

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClockTellsWhenTheOwnerWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(time.Now())
		before, _, _ := c.tick(5 * time.Second)
		time.Sleep(time.Second)
		at, _, gap := c.tick(5 * time.Second)
		if gap != 0 || at.Sub(before) != time.Second {
			t.Errorf("after a second: advanced by %s, gap %s; want 1s and no gap", at.Sub(before), gap)
		}
		time.Sleep(time.Minute)
		if _, _, gap := c.tick(5 * time.Second); gap != time.Minute {
			t.Errorf("after a suspension of a minute: gap %s, want 1m", gap)
		}
	})
}

// A pause that hides a worker's whole silence is a gap, with every heartbeat TTL that the configuration allows.
func TestAGapIsShorterThanTheSilenceOfAWorker(t *testing.T) {
	for _, ttl := range []time.Duration{300 * time.Millisecond, 3 * time.Second, 90 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := NewClock(time.Now())
			time.Sleep(ttl)
			if _, _, gap := c.tick(lateAfter(ttl)); gap != ttl {
				t.Errorf("a TTL of %s: after a suspension of that length, gap %s", ttl, gap)
			}
			if turn := turnEvery(ttl); 2*turn > lateAfter(ttl) {
				t.Errorf("a TTL of %s: a turn every %s, but %s are a gap", ttl, turn, lateAfter(ttl))
			}
		})
	}
}

// The machine's time continues steadily, even if this process's wall clock differs from the time of the previous
// leader.
func TestClockGoesOnFromTheTimeBefore(t *testing.T) {
	for name, skew := range map[string]time.Duration{"behind": -5 * time.Minute, "ahead": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := time.Now().Add(-skew)
				c := NewClock(before)
				time.Sleep(time.Second)
				if at, _, gap := c.tick(5 * time.Second); gap != 0 || at.Sub(before) != time.Second {
					t.Errorf("after a second: advanced by %s, gap %s", at.Sub(before), gap)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(time.Now())
		decided := time.Now().Add(5 * time.Minute) // by a director with a clock ahead of this one
		c.AtLeast(decided)
		time.Sleep(time.Second)
		if at, _, gap := c.tick(5 * time.Second); gap != 0 || at.Sub(decided) != time.Second {
			t.Errorf("after a second: advanced by %s, gap %s: the clock does not advance", at.Sub(decided), gap)
		}
	})
}
