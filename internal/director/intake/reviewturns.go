package intake

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"retake/internal/fsm"
	"retake/internal/github/deliver"
)

// Limits on the pause between two polls of a pull request. The pause starts at github.poll_seconds and grows by half
// after each poll without a change, up to reviewRest, or checksRest while checks are running. When the issue poll finds
// that a pull request has changed, the pause ends at once.
const (
	reviewRest    = 15 * time.Minute
	checksRest    = 2 * time.Minute
	reviewBackoff = 1.5
)

// reviewTurns decides when to poll each pull request next.
type reviewTurns struct {
	mu    sync.Mutex
	pulls map[fsm.IssueKey]*watchedPull
	looks int // polls so far
	idle  int // polls that found the pull request unchanged
}

type watchedPull struct {
	due  time.Time
	rest time.Duration
	last deliver.PullRequest
	view string // text form of last, to detect changes
	tip  string // SHA of the base branch's head when the pull request was last read in full
	full time.Time
	// woken means that a change was reported since the current or last poll began. stale means that the change may
	// concern the pull request itself, in addition to its checks.
	woken, stale bool
	// changed is the last update time according to GitHub. A check that finishes does not change it.
	changed time.Time
}

func newReviewTurns() *reviewTurns { return &reviewTurns{pulls: map[fsm.IssueKey]*watchedPull{}} }

// wake stores a pull request's last update time according to GitHub. If the time is new, wake schedules the pull
// request for the next round and returns true.
func (w *reviewTurns) wake(k fsm.IssueKey, changed time.Time) (woken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pulls[k]
	if woken = p != nil && !changed.Equal(p.changed); woken {
		p.changed, p.due, p.woken, p.stale = changed, time.Time{}, true, true
	}
	return woken
}

// keep drops the pull requests of tasks that are not in tasks, and returns the tasks due for a poll.
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

// settled returns the last state of a pull request if only its checks and reviews can have changed since. Otherwise a
// full read is due, for example because the base branch has moved or the issue poll has reported a change. A full read
// is also due every hour, because GitHub does not promise that its lists are complete. tip is the SHA of the base
// branch, or "" if unknown.
func (w *reviewTurns) settled(k fsm.IssueKey, tip string, now time.Time) (last deliver.PullRequest, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pulls[k]
	ok = p != nil && !p.stale && p.last.State == deliver.PullOpen && p.last.Determined && tip != "" && p.tip == tip &&
		now.Sub(p.full) < WholeEvery
	if ok {
		return p.last, true
	}
	if p != nil {
		p.stale = false // a change during the read sets it again
	}
	return deliver.PullRequest{}, false
}

// noteFull records that a pull request was read in full when its base branch was at tip.
func (w *reviewTurns) noteFull(k fsm.IssueKey, tip string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.pulls[k]; p != nil {
		p.tip, p.full = tip, now
	}
}

// note records the state of a pull request and schedules its next poll.
func (w *reviewTurns) note(k fsm.IssueKey, seen deliver.PullRequest, now time.Time, first time.Duration) {
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
	if p.view == view {
		w.idle++
		p.rest = longer(p.rest, first, most)
	} else {
		p.rest = first
	}
	p.last, p.view = seen, view
	if p.due = now.Add(p.rest); p.woken {
		p.due = time.Time{}
	}
}

// wakeChecks schedules the repository's pull requests with head commit sha for the next round. It reports whether it
// found any.
func (w *reviewTurns) wakeChecks(repo, sha string) (woken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, p := range w.pulls {
		if p.last.Head == sha && strings.EqualFold(k.Repo(), repo) {
			p.due, p.woken, woken = time.Time{}, true, true
		}
	}
	return woken
}

// missed postpones a pull request that could not be read, so that the others get their turn.
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

// longer returns the pause after another poll without a change.
func longer(rest, first, most time.Duration) time.Duration {
	return max(first, min(time.Duration(float64(rest)*reviewBackoff), most))
}

// counts returns the number of polls, and the number of polls without a change.
func (w *reviewTurns) counts() (looks, idle int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks, w.idle
}
