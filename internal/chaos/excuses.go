package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"retake/internal/github/githubtest"
	"retake/internal/testbed"
)

// excuse is the time that a worker needs to report finished work. A worker that ends sooner may not have sent its
// report.
const excuse = time.Second

// excused reports whether the report of work that finished at the given time may be missing, because a fault ended the
// worker at about that time.
func (w auditor) excused(r *agentRun, at time.Time) bool {
	return slices.ContainsFunc(w.harmed, func(h harm) bool {
		return (h.attempt == "" || h.attempt == r.attempt) && h.at.After(at.Add(-excuse/2)) &&
			h.at.Before(at.Add(excuse))
	})
}

// After GitHub reports a limit, up to inFlight requests may still arrive within underWay, because the director sent
// them before it read about the limit. One was already in flight. On a busy machine, the next request may take its slot
// if its answer is processed first. The director makes two requests at a time.
const (
	underWay = 500 * time.Millisecond
	inFlight = 2
)

// auditLimits finds requests that the director made during a limit.
func (w auditor) auditLimits(t *table) {
	var stated time.Time
	var known, seen int // requests since the current limit began, and during all limits
	for _, r := range w.github.Requests() {
		switch {
		case !r.DuringLimit && (r.Fault == "status 403" || r.Fault == "status 429"):
			stated, known = r.At, 0
		case !r.DuringLimit:
		case known < inFlight && r.At.Sub(stated) < underWay:
			known, seen = known+1, seen+1
			t.more("calls already in flight (excused)", 1)
		default:
			known, seen = known+1, seen+1
			t.bad("calls during a reported limit", fmt.Sprintf("%s %s, %v after the limit was reported",
				r.Method, r.Path, r.At.Sub(stated).Round(time.Millisecond)))
		}
	}
	t.more("calls during a reported limit", max(0, w.github.Violations()-seen)) // requests that the log no longer holds
}

// askedAgain counts, by attempt, the questions that the director had to repeat because it did not know the first one.
// This happens if a person deletes the comment and the director is killed before it records the question. The comment's
// id is then lost, because GitHub's timeline does not identify deleted comments.
func (w auditor) askedAgain(i *issue, asked []githubtest.Comment) map[string]int {
	n := map[string]int{}
	events, kills := w.github.Events(i.key), w.director.KilledAt()
	slices.SortFunc(asked, func(a, b githubtest.Comment) int { return cmp.Compare(a.ID, b.ID) })
	before := map[string]githubtest.Comment{} // the latest question by marker
	for _, c := range asked {
		if first, ok := before[testbed.Marker(c)]; ok && unknownTo(kills, events, first.ID, c.ID) {
			n[attemptOf(c)]++
		}
		before[testbed.Marker(c)] = c
	}
	return n
}

// unknownTo reports whether a person deleted the first comment before the director wrote the second, and the director
// was killed in between. The kill must come at most excuse after the director changed the question's labels. The GitHub
// stand-in's times have a resolution of one second.
func unknownTo(kills []time.Time, events []githubtest.Event, first, second int64) bool {
	at := func(event string, comment int64) int {
		return slices.IndexFunc(events, func(e githubtest.Event) bool {
			return e.Event == event && e.Detail == strconv.FormatInt(comment, 10)
		})
	}
	written, deleted, again := at("commented", first), at("comment_deleted", first), at("commented", second)
	if written < 0 || deleted < 0 || again < deleted || events[deleted].Actor == testbed.Bot {
		return false
	}
	latest := events[again].At.Add(time.Second)
	for _, e := range events[written:again] {
		if e.Actor == testbed.Bot && e.Event == "unlabeled" {
			latest = e.At.Add(time.Second + excuse)
			break
		}
	}
	return slices.ContainsFunc(kills, func(k time.Time) bool {
		return !k.Before(events[written].At) && k.Before(latest)
	})
}
