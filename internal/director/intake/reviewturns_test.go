package intake

import (
	"testing"
	"time"

	"retake/internal/fsm"
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
			t.Errorf("%s: %d polls in %s, want %d to %d", name, n, row.over, row.few, row.most)
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
		t.Error("the pull request is due at once after a read")
	}
	if w.wake(task[0].key, now); len(w.keep(task, now)) != 1 {
		t.Error("the pull request changed, but is not due")
	}
	if len(w.keep(nil, now)) != 0 || len(w.pulls) != 0 {
		t.Errorf("%d pull requests of finished tasks remain", len(w.pulls))
	}
}

// TestReviewIsReadInFullWhenItMayHaveChanged checks that an unchanged pull request costs a read in full once an hour.
// A moved base branch, an entry in the poll of issues, and a merge that GitHub has not tried cost one at once.
func TestReviewIsReadInFullWhenItMayHaveChanged(t *testing.T) {
	t.Parallel()
	const k, tip = fsm.IssueKey("acme/widgets#1"), "aaaa"
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	open := deliver.PullRequest{Number: 7, State: deliver.PullOpen, Determined: true}
	for name, row := range map[string]struct {
		seen  deliver.PullRequest
		tip   string
		later time.Duration
		wake  func(w *reviewTurns)
		want  bool
	}{
		"unchanged":             {seen: open, tip: tip, later: 59 * time.Minute, want: true},
		"an hour old":           {seen: open, tip: tip, later: time.Hour},
		"the base branch moved": {seen: open, tip: "bbbb", later: time.Minute},
		"no base branch":        {seen: open, later: time.Minute},
		"closed":                {seen: deliver.PullRequest{State: deliver.PullClosed, Determined: true}, tip: tip},
		"merge not tried":       {seen: deliver.PullRequest{State: deliver.PullOpen}, tip: tip},
		"it changed":            {seen: open, tip: tip, wake: func(w *reviewTurns) { w.wake(k, at) }},
		"a check ended": {
			seen: deliver.PullRequest{State: deliver.PullOpen, Determined: true, Head: "cccc"}, tip: tip,
			wake: func(w *reviewTurns) { w.wakeChecks("acme/widgets", "cccc") }, want: true,
		},
	} {
		w := newReviewTurns()
		if _, ok := w.settled(k, tip, at); ok {
			t.Error("a pull request that was never read is settled")
		}
		w.note(k, row.seen, at, time.Minute)
		w.noteFull(k, tip, at)
		if row.wake != nil {
			row.wake(w)
		}
		last, ok := w.settled(k, row.tip, at.Add(row.later))
		if ok != row.want || ok && last.Number != row.seen.Number {
			t.Errorf("%s: settled %t, want %t; %+v", name, ok, row.want, last)
		}
	}
}
