package effects

import (
	"testing"
	"time"
)

// TestLostSince checks that the loss is at least a minute and rounded up, and shows the time to people.
func TestLostSince(t *testing.T) {
	at := time.Date(2026, 11, 27, 9, 58, 0, 0, time.UTC)
	for _, c := range []struct {
		after time.Duration
		none  bool
		want  string
	}{
		{0, false, "the work of up to 1 minute since the last checkpoint at 2026-11-27 09:58 UTC is lost"},
		{61 * time.Second, false, "the work of up to 2 minutes since the last checkpoint at 2026-11-27 " +
			"09:58 UTC is lost"},
		{5 * time.Minute, true, "the work of up to 5 minutes since it began at 2026-11-27 09:58 UTC, because no " +
			"checkpoint had arrived, is lost"},
	} {
		if got := lostSince(at, c.none, at.Add(c.after)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
