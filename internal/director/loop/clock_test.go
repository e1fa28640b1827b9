package loop

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClockTellsWhenTheOwnerWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(time.Now())
		before, _ := c.tick()
		time.Sleep(time.Second)
		at, gap := c.tick()
		if gap != 0 || at.Sub(before) != time.Second {
			t.Errorf("a second later: %s on, gap %s; want 1s and no gap", at.Sub(before), gap)
		}
		time.Sleep(time.Minute)
		if _, gap := c.tick(); gap != time.Minute {
			t.Errorf("a minute away: gap %s, want 1m", gap)
		}
	})
}

// The machine's time continues at any wall clock of this process. It does not stop or jump.
func TestClockGoesOnFromTheTimeBefore(t *testing.T) {
	for name, skew := range map[string]time.Duration{"behind": -5 * time.Minute, "ahead": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := time.Now().Add(-skew)
				c := NewClock(before)
				time.Sleep(time.Second)
				if at, gap := c.tick(); gap != 0 || at.Sub(before) != time.Second {
					t.Errorf("a second later: %s on, gap %s", at.Sub(before), gap)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(time.Now())
		decided := time.Now().Add(5 * time.Minute) // by a director with a clock ahead of this one
		c.AtLeast(decided)
		time.Sleep(time.Second)
		if at, gap := c.tick(); gap != 0 || at.Sub(decided) != time.Second {
			t.Errorf("a second later: %s on, gap %s: it does not advance", at.Sub(decided), gap)
		}
	})
}
