package director

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/director/loop"
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

// reviewWatch knows when each pull request is to be looked at again.
type reviewWatch struct {
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

func newReviewWatch() *reviewWatch { return &reviewWatch{pulls: map[fsm.IssueKey]*watchedPull{}} }

// wake makes a task's pull request be looked at with the next round, if it has changed since the last time. It
// returns whether that is so.
func (w *reviewWatch) wake(k fsm.IssueKey, changed time.Time) (woken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pulls[k]
	if woken = p != nil && !changed.Equal(p.changed); woken {
		p.changed, p.due, p.woken = changed, time.Time{}, true
	}
	return woken
}

// keep forgets the pull requests of tasks that are gone, and returns the tasks whose turn it is.
func (w *reviewWatch) keep(tasks []reviewedTask, now time.Time) (due []reviewedTask) {
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
func (w *reviewWatch) note(k fsm.IssueKey, seen github.PullRequest, now time.Time, first time.Duration) {
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
func (w *reviewWatch) wakeChecks(repo, sha string) (woken bool) {
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
func (w *reviewWatch) missed(k fsm.IssueKey, now time.Time, first time.Duration) {
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
func (w *reviewWatch) counts() (looks, idle int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks, w.idle
}

// reviewedTask is a task whose work is a pull request.
type reviewedTask struct {
	key    fsm.IssueKey
	number int
}

// watchReviews looks at the pull requests of tasks without a running attempt, until ctx ends.
func (s *session) watchReviews(ctx context.Context) error {
	for wait := s.setup().GitHub.Poll; ; {
		s.reviewBell.Await(ctx, wait, true)
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		tasks, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) []reviewedTask { return reviewed(d.Machine()) })
		if err != nil && ctx.Err() == nil {
			return err
		}
		wait = s.lookAtReviews(ctx, s.reviews.keep(tasks, time.Now()))
	}
}

// lookAtReviews looks at pull requests until one cannot be read: it would hardly go better with the next one
// now. It returns how long to wait for the next round.
func (s *session) lookAtReviews(ctx context.Context, due []reviewedTask) time.Duration {
	poll := s.setup().GitHub.Poll
	for _, t := range due {
		err := s.lookAtReview(ctx, t, false)
		if err == nil {
			s.recorder.pollWorked(string(t.key))
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if limit, ok := errors.AsType[*github.Error](err); ok && limit.Kind == github.KindRateLimited {
			return max(poll, time.Until(limit.Until)) // the poll of issues says so
		}
		s.reviews.missed(t.key, time.Now(), poll)
		s.recorder.pollFailed(callerReview, string(t.key), err, poll)
		s.log.Warn("pull request not read", zap.String("issue", string(t.key)), zap.Int("pull_request", t.number),
			zap.Error(err))
		break
	}
	return poll
}

func reviewed(m *fsm.Machine) (tasks []reviewedTask) {
	for _, t := range m.Tasks() {
		if t.Work.PullRequest > 0 && !t.State.Info().Live && !t.State.Info().Final {
			tasks = append(tasks, reviewedTask{t.Key, t.Work.PullRequest})
		}
	}
	return tasks
}

// lookAtReview tells the machine what a pull request looks like.
func (s *session) lookAtReview(ctx context.Context, t reviewedTask, issueClosed bool) error {
	asked := s.owner.Clock.Now()
	pr, err := s.github.PullRequest(ctx, string(t.key), t.number)
	if err != nil {
		return err
	}
	s.reviews.note(t.key, pr, time.Now(), s.setup().GitHub.Poll)
	seen := fsm.ReviewSeen{
		Task: t.key, AskedAt: asked, Number: t.number, State: pr.State, By: pr.By, Head: pr.Head,
		IssueClosed: issueClosed,
		Conflict:    pr.Conflict, Settled: pr.Settled,
	}
	for _, f := range pr.Failing {
		seen.Failing = append(seen.Failing, fsm.FailedCheck(f))
	}
	for _, c := range pr.Changes {
		seen.Changes = append(seen.Changes, fsm.Change{ID: c.ID, Hint: fsm.Hint{From: c.By, At: c.At, Text: c.Text}})
	}
	s.owner.Send(ctx, seen, nil)
	return nil
}

// readReview looks at a pull request whose issue was closed.
func (s *session) readReview(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, s.pollPause, func() error {
		number, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) int {
			if t := d.Machine().Task(e.Task); t != nil {
				return t.Work.PullRequest
			}
			return 0
		})
		if err != nil || number == 0 { // the session ends, or the task has
			return err
		}
		return s.lookAtReview(ctx, reviewedTask{e.Task, number}, true)
	})
}

// wakeReviews has the pull requests that changed looked at soon.
func (s *session) wakeReviews(ctx context.Context, repo string, changed map[int]time.Time) {
	if len(changed) == 0 {
		return
	}
	known, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) repoTasks { return tasksOf(d.Machine(), repo) })
	if err != nil {
		return // the session ends
	}
	for n, at := range changed {
		if task, ok := known.pulls[n]; ok && s.reviews.wake(task, at) {
			s.reviewBell.Ring()
		}
	}
}

// serveWebhooks has the session's polls woken by webhooks until ctx ends.
func (s *session) serveWebhooks(ctx context.Context) error {
	s.webhooks.LookWith(func(n github.Notice) bool {
		poll, ok := s.bells[strings.ToLower(n.Repo)]
		if !ok {
			return false
		}
		switch {
		case n.Issue > 0: // GitHub's lists say what changed
			poll.Ring()
		case s.reviews.wakeChecks(n.Repo, n.SHA):
			s.reviewBell.Ring()
		default:
			return false
		}
		return true
	})
	<-ctx.Done()
	s.webhooks.LookWith(nil)
	return nil
}
