package serve

import (
	"testing"
	"time"
)

func TestRateForgetsAfterAnHour(t *testing.T) {
	t.Parallel()
	var r Rate
	start := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for i := range 90 {
		r.Note(start.Add(time.Duration(i) * time.Minute))
	}
	end := start.Add(89 * time.Minute)
	for after, want := range map[time.Duration]int{0: 60, 10 * time.Minute: 50, 59 * time.Minute: 1, time.Hour: 0} {
		again := Rate{at: append([]time.Time{}, r.at...)}
		if n := again.LastHour(end.Add(after)); n != want {
			t.Errorf("%s after the last event: %d, want %d", after, n, want)
		}
	}
	if len(r.at) != 60 {
		t.Errorf("%d times are stored, want 60", len(r.at))
	}
}
