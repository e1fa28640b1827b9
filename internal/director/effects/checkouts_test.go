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
		{0, false, "up to 1 minute of work since the last checkpoint at 2026-11-27 09:58 UTC may be lost"},
		{61 * time.Second, false, "up to 2 minutes of work since the last checkpoint at 2026-11-27 " +
			"09:58 UTC may be lost"},
		{5 * time.Minute, true, "up to 5 minutes of work may be lost: no checkpoint has arrived since the " +
			"attempt began at 2026-11-27 09:58 UTC"},
	} {
		if got := lostSince(at, c.none, at.Add(c.after)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
