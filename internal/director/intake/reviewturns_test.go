package intake

import (
	"testing"
	"time"

	"retake/internal/github/deliver"
)

// TestReviewWatch checks that pauses grow up to a bound while a pull request is unchanged or unreadable. A change
// ends the pause.
func TestReviewWatch(t *testing.T) {
	t.Parallel()
	const poll = 30 * time.Second
	task := []reviewedTask{{"acme/widgets#1", 7}}
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	looks := func(over time.Duration, look func(w *reviewTurns, now time.Time)) (n int) {
		w := newReviewTurns()
		for now := start; now.Before(start.Add(over)); now = now.Add(time.Second) {
			if len(w.keep(task, now)) > 0 {
				n++
				look(w, now)
			}
		}
		return n
	}
	for name, row := range map[string]struct {
		look      func(w *reviewTurns, now time.Time)
		over      time.Duration
		most, few int
	}{
		"quiet": {func(w *reviewTurns, now time.Time) {
			w.note(task[0].key, deliver.PullRequest{Settled: true}, now, poll)
		}, 24 * time.Hour, 110, 95},
		"a check is under way": {func(w *reviewTurns, now time.Time) {
			w.note(task[0].key, deliver.PullRequest{}, now, poll)
		}, time.Hour, 40, 28},
		"cannot be read": {func(w *reviewTurns, now time.Time) {
			w.missed(task[0].key, now, poll)
		}, 24 * time.Hour, 110, 95},
	} {
		if n := looks(row.over, row.look); n > row.most || n < row.few {
			t.Errorf("%s: %d looks in %s, want %d to %d", name, n, row.over, row.few, row.most)
		}
	}
	w := newReviewTurns()
	for now := start; now.Before(start.Add(12 * time.Hour)); now = now.Add(time.Minute) {
		if len(w.keep(task, now)) > 0 {
			w.note(task[0].key, deliver.PullRequest{Settled: true}, now, poll)
		}
	}
	now := start.Add(12 * time.Hour)
	w.note(task[0].key, deliver.PullRequest{Settled: true}, now, poll)
	if len(w.keep(task, now)) > 0 {
		t.Error("it is due at once after a read")
	}
	if w.wake(task[0].key, now); len(w.keep(task, now)) != 1 {
		t.Error("it changed, and is not due")
	}
	if len(w.keep(nil, now)) != 0 || len(w.pulls) != 0 {
		t.Errorf("%d pull requests of finished tasks remain", len(w.pulls))
	}
}
