package chaos

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/testbed"
	"retake/internal/timeline"
)

// suspicion records that the director considered a worker silent.
type suspicion struct {
	issue  string
	number int // of the attempt
	at     time.Time
}

// readSuspicions asks the running director for its suspicions, because they are not visible elsewhere.
func readSuspicions(ctx context.Context, w *world) error {
	return operator.AskEvents(ctx, w.data(), operator.EventFilter{}, func(e timeline.Event) error {
		if strings.HasPrefix(e.Text, fsm.OnSilent.Info().Means) {
			w.suspected = append(w.suspected, suspicion{string(e.Issue), e.Attempt, e.At})
		}
		return nil
	})
}

// whileSlow reports whether the director was slow at the given time, or shortly before.
func (w auditor) whileSlow(at time.Time) bool {
	return slices.ContainsFunc(w.slow, func(s slow) bool { return at.After(s.from) && at.Before(s.to.Add(blameTime)) })
}

// auditSlow finds the living workers that the slow director stopped or suspected.
func (w auditor) auditSlow(t *table, runs []*agentRun) {
	for _, r := range w.blamed(runs) {
		t.bad("live workers stopped", r.issue+" "+r.attempt+", last alive at "+r.alive.Format(time.TimeOnly))
	}
	for _, x := range w.blamedEarly(runs) {
		t.bad("live workers stopped", x.Task+" "+x.Attempt+", before its agent began")
	}
	for _, s := range w.suspected {
		if !w.whileSlow(s.at) {
			continue
		}
		i := slices.IndexFunc(runs, func(r *agentRun) bool {
			return r.issue == s.issue && strings.HasSuffix(r.attempt, fmt.Sprint("-", s.number))
		})
		if i < 0 || !w.harmedSince(runs[i]) {
			t.bad("live workers suspected", fmt.Sprintf("%s, attempt %d at %s", s.issue, s.number,
				s.at.Format(time.TimeOnly)))
		}
	}
}

// auditSilent measures how long the director took to notice each silenced worker, and counts late detections. A worker
// that has finished its work is not silent, because its report may already be in flight.
func (w auditor) auditSilent(t *table, runs []*agentRun) {
	for _, s := range w.silenced {
		if slices.ContainsFunc(runs, func(r *agentRun) bool { return r.attempt == s.Attempt && !r.finished.IsZero() }) {
			continue
		}
		took := time.Duration(math.MaxInt64)
		for _, x := range w.suspected {
			if x.issue == s.Task && strings.HasSuffix(s.Attempt, fmt.Sprint("-", x.number)) && x.at.After(s.at) {
				took = min(took, x.at.Sub(s.at))
			}
		}
		if took <= w.ttl+s.within {
			t.took(noticed, took)
		} else {
			t.bad("silent workers noticed late", fmt.Sprintf("%s after %v, with a TTL of %v", s.Attempt, took, w.ttl))
		}
	}
}

// blamed returns the runs of living workers that the director stopped because the director itself was slow.
func (w auditor) blamed(runs []*agentRun) (found []*agentRun) {
	for _, r := range runs {
		if !r.finished.IsZero() || r.asked || r.failed || w.byPeople(r.issue) || w.harmedSince(r) {
			continue
		}
		if w.whileSlow(r.alive) {
			found = append(found, r)
		}
	}
	return found
}

// blamedEarly returns the workers that were alive while the director was slow, and ended before their agents began.
func (w auditor) blamedEarly(runs []*agentRun) (found []testbed.Worker) {
	for _, x := range w.lived {
		early := &agentRun{issue: x.Task, attempt: x.Attempt}
		if !w.byPeople(early.issue) && !w.harmedSince(early) &&
			!slices.ContainsFunc(runs, func(r *agentRun) bool { return r.attempt == x.Attempt }) {
			found = append(found, x)
		}
	}
	return found
}

// byPeople reports whether people may have ended an issue's attempts.
func (w auditor) byPeople(key string) bool {
	for _, i := range w.issues {
		if i.key == key {
			return i.gone || i.acts > 0
		}
	}
	return true
}

// harmedSince reports whether a fault ended a run's worker.
func (w auditor) harmedSince(r *agentRun) bool {
	for _, h := range w.harmed {
		if (h.attempt == "" || h.attempt == r.attempt) && h.at.After(r.began) {
			return true
		}
	}
	return false
}
