package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// fleet writes a day of a run with an outage in three tasks, a failed test, unknown failures and an exhausted budget.
func fleet(t *testing.T) string {
	t.Helper()
	w, dir, _ := opened(t, Options{Now: func() time.Time { return noon.Add(2 * time.Hour) }})
	attempt := func(n, attempt int, after time.Duration, reason recovery.Reason, action, cause string) *Failure {
		return writeAttempt(w, n, attempt, after, reason, action, cause)
	}
	task := func(n int, state string, change func(*Stats) *LastFailure) { writeState(w, n, state, change) }
	for n := 1; n <= 3; n++ {
		attempt(n, 1, time.Duration(n)*time.Minute, recovery.Overloaded, "retry", "529 Overloaded")
		task(n, "Done", nil)
	}
	tests := attempt(4, 1, 10*time.Minute, recovery.TestsFailed, "escalate",
		"--- FAIL: TestParse (0.00s)\nwant 1, got 2")
	task(4, "Blocked", func(x *Stats) *LastFailure {
		last := NewLastFailure(*x, tests, "", strings.Repeat("reading\n", 3)+"FAIL\tacme/widgets\n"+
			strings.Repeat("ok\tacme/other\n", 9))
		last.AttemptID, last.BlockedDependencies = "k4-1", []string{"acme/widgets#9"}
		return last
	})
	var unknown *Failure
	for a := 1; a <= 2; a++ {
		unknown = attempt(5, a, time.Duration(20+a)*time.Minute, recovery.Unknown, "retry", "???")
	}
	unknown = attempt(5, 3, 25*time.Minute, recovery.Unknown, "escalate", "???")
	task(5, "Blocked", func(x *Stats) *LastFailure {
		x.Attempt, x.PaidCallsUsed = 3, 10
		return NewLastFailure(*x, unknown, "", "")
	})
	build := attempt(6, 1, 30*time.Minute, recovery.BuildFailed, "escalate", "x.go:1: undefined: y")
	task(6, "Blocked", func(x *Stats) *LastFailure { return NewLastFailure(*x, build, "`quoted` ```fence```", "") })
	task(7, "Released", func(x *Stats) *LastFailure { // closed while it waited for the next attempt
		return NewLastFailure(*x, &Failure{Reason: "overloaded", Action: "retry"}, "", "")
	})
	task(8, "Released", func(x *Stats) *LastFailure {
		return NewLastFailure(*x, attempt(8, 1, 40*time.Minute, recovery.TestsFailed, "skip", "FAIL: TestX"), "", "")
	})
	task(9, "Queued", func(x *Stats) *LastFailure { x.DependsOn = []string{"acme/widgets#4"}; return nil })
	task(10, "Running", nil)
	task(11, "Queued", func(x *Stats) *LastFailure {
		x.RunID, x.DependsOn = "run_0",
			[]string{"acme/widgets#9"}
		return nil
	})
	closed(t, w)
	return dir
}

// writeAttempt writes the bundle of an attempt that failed. Task 4 leaves a patch.
func writeAttempt(
	w *Writer, n, attempt int, after time.Duration, reason recovery.Reason, action, cause string,
) *Failure {
	f := NewFailure(
		recovery.Finding{
			Reason: reason, Cause: cause, Rule: "rule." + string(reason), Confidence: 0.9,
			Signature: "sig:" + cause[:3],
		},
		recovery.Verdict{
			Action: recovery.Action(action), Why: string(reason) + ": because", Row: "director." + string(reason),
		})
	patches := map[int]string{4: "diff --git a/parse.go b/parse.go\n"}
	finish(w, Meta{
		AttemptID: fmt.Sprintf("k%d-%d", n, attempt), Issue: fmt.Sprintf("acme/widgets#%d", n), Attempt: attempt,
		RunID: "run_1", Stage: "CODE",
		StartedAt: wire.At(noon.Add(after - time.Minute)), EndedAt: wire.At(noon.Add(after)),
		Outcome: OutcomeFailed, Failure: f,
	}, Output{Patch: patches[n]})
	return f
}

// writeState writes a task's state, after a change to the usual figures.
func writeState(w *Writer, n int, state string, change func(*Stats) *LastFailure) {
	x := Stats{
		Issue: fmt.Sprintf("acme/widgets#%d", n), Title: fmt.Sprintf("Issue %d", n),
		URL:   fmt.Sprintf("https://github.com/acme/widgets/issues/%d", n),
		RunID: "run_1", State: state, Stage: "CODE", Attempt: 1, UpdatedAt: wire.At(noon.Add(time.Hour)),
		PaidCallsUsed: 2, PaidCallBudget: 10,
		Tokens: 1000, CostUSD: 0.25,
	}
	var last *LastFailure
	if change != nil {
		last = change(&x)
	}
	w.Task(x, last)
}
