package intake

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"retake/internal/fsm"
	"retake/internal/github"
)

// How long a pull request is left alone when nothing happens on it: at first github.poll_seconds, then half as
// long again each time, up to this. A check that is under way is looked for more often. What people do there is
// seen by the poll of issues at once.
const (
	reviewRest    = 15 * time.Minute
	checksRest    = 2 * time.Minute
	reviewBackoff = 1.5
)

// reviewTurns knows when each pull request is to be looked at again.
type reviewTurns struct {
	mu    sync.Mutex
	pulls map[fsm.IssueKey]*watchedPull
	looks int // so far
	idle  int // of them, those that showed nothing new
}

type watchedPull struct {
	due  time.Time
	rest time.Duration
	last string // what was seen
	head string // SHA
	// woken: something has changed since the look that is under way, or the last one, began.
	woken bool
	// changed is when GitHub last said that it changed; checks do not show there.
	changed time.Time
}

// newReviewTurns returns turns without any pull request.
func newReviewTurns() *reviewTurns { return &reviewTurns{pulls: map[fsm.IssueKey]*watchedPull{}} }

// wake makes a task's pull request be looked at with the next round, if it has changed since the last time. It
// returns whether that is so.
func (w *reviewTurns) wake(k fsm.IssueKey, changed time.Time) (woken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pulls[k]
	if woken = p != nil && !changed.Equal(p.changed); woken {
		p.changed, p.due, p.woken = changed, time.Time{}, true
	}
	return woken
}

// keep forgets the pull requests of tasks that are gone, and returns the tasks whose turn it is.
func (w *reviewTurns) keep(tasks []reviewedTask, now time.Time) (due []reviewedTask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := map[fsm.IssueKey]*watchedPull{}
	for _, t := range tasks {
		p := w.pulls[t.key]
		if p != nil {
			kept[t.key] = p
		}
		if p == nil || !now.Before(p.due) {
			due = append(due, t)
			if p != nil {
				p.woken = false
			}
		}
	}
	w.pulls = kept
	return due
}

// note says what was seen, and with that when the next look is due.
func (w *reviewTurns) note(k fsm.IssueKey, seen github.PullRequest, now time.Time, first time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pulls[k]
	if p == nil {
		p = &watchedPull{}
		w.pulls[k] = p
	}
	w.looks++
	most := reviewRest
	if !seen.Settled {
		most = checksRest
	}
	view := fmt.Sprintf("%+v", seen)
	if p.last == view {
		w.idle++
		p.rest = longer(p.rest, first, most)
	} else {
		p.rest = first
	}
	p.last, p.head = view, seen.Head
	if p.due = now.Add(p.rest); p.woken {
		p.due = time.Time{}
	}
}

// wakeChecks makes the pull request of a repository be looked at with the next round whose head is a commit. It
// returns whether there is one.
func (w *reviewTurns) wakeChecks(repo, sha string) (woken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, p := range w.pulls {
		if p.head == sha && strings.EqualFold(k.Repo(), repo) {
			p.due, p.woken, woken = time.Time{}, true, true
		}
	}
	return woken
}

// missed puts off a pull request that could not be read, so that the others have their turn.
func (w *reviewTurns) missed(k fsm.IssueKey, now time.Time, first time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pulls[k]
	if p == nil {
		p = &watchedPull{}
		w.pulls[k] = p
	}
	p.rest = longer(p.rest, first, reviewRest)
	p.due = now.Add(p.rest)
}

// longer is the rest after another look that showed nothing new.
func longer(rest, first, most time.Duration) time.Duration {
	return max(first, min(time.Duration(float64(rest)*reviewBackoff), most))
}

// counts returns how many looks there were, and how many of them showed nothing new.
func (w *reviewTurns) counts() (looks, idle int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks, w.idle
}
