package director

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/director/loop"
	"retake/internal/fsm"
)

// errOnlyOver ends a run for selected issues when all of them are over.
var errOnlyOver = errors.New("the issues of this run are over")

// ErrNotDone means that a run for selected issues has ended because all of them are over, but not all are done.
var ErrNotDone = errors.New("director: not all issues of this run are done")

// onlyRest is how long a run's issues must be over before the run ends. The last comments are written in that time.
const onlyRest = 3 * time.Second

// onlyRun is a run that takes only selected issues from the queue. It ends when each one is delivered, waits for a
// person, or is given up.
type onlyRun struct {
	keys []fsm.IssueKey
	end  context.CancelCauseFunc // ends the run

	// Used only by the owner while a session lives.
	last   map[fsm.IssueKey]fsm.State // the last state seen in this run, by the issue's key in lower case
	absent map[fsm.IssueKey]string    // why an issue cannot get a task
}

func newOnlyRun(keys []fsm.IssueKey, end context.CancelCauseFunc) *onlyRun {
	if len(keys) == 0 {
		return nil
	}
	return &onlyRun{keys: keys, end: end, last: map[fsm.IssueKey]fsm.State{}, absent: map[fsm.IssueKey]string{}}
}

// issues returns the issues that the run takes. Empty means all.
func (o *onlyRun) issues() []fsm.IssueKey {
	if o == nil {
		return nil
	}
	return o.keys
}

// names returns the issues in words for people.
func (o *onlyRun) names() (all []string) {
	for _, k := range o.issues() {
		all = append(all, string(k))
	}
	return all
}

// note updates the issues' states from a durable fact.
func (o *onlyRun) note(f fsm.Fact) {
	if o == nil {
		return
	}
	switch f := f.(type) {
	case fsm.TaskQueued:
		o.last[f.Task.Fold()] = fsm.Queued
	case fsm.Moved:
		o.last[f.Task.Fold()] = f.To
	}
}

// restsDone maps the states in which this run is finished with an issue to whether its work is done.
var restsDone = map[fsm.State]bool{
	fsm.InReview: true, fsm.Done: true, fsm.Blocked: false, fsm.Released: false,
	fsm.Forgotten: false,
}

// onlyState is the progress of a run.
type onlyState struct {
	open   bool     // an issue is not over yet
	undone []string // issues that are over but not done, with the reason
}

// why returns the cause that ends the run.
func (o onlyState) why() error {
	if len(o.undone) == 0 {
		return errOnlyOver
	}
	return fmt.Errorf("%w: %s", ErrNotDone, strings.Join(o.undone, "; "))
}

func (o *onlyRun) state(m *fsm.Machine) (now onlyState) {
	for _, k := range o.keys {
		state, busy := o.last[k.Fold()], false
		if t := m.Task(k); t != nil {
			state, busy = t.State, len(t.Outbox) > 0
			o.last[k.Fold()] = state
		}
		done, over := restsDone[state]
		switch why := o.absent[k.Fold()]; {
		case state == 0 && why != "":
			now.undone = append(now.undone, why)
		case !over || busy:
			now.open = true
		case state == fsm.Blocked:
			now.undone = append(now.undone, fmt.Sprintf("%s waits for an answer of a person", k))
		case !done:
			now.undone = append(now.undone, fmt.Sprintf("%s is %s", k, state))
		}
	}
	return now
}

// watchOnly ends the run when its issues are over.
func (s *session) watchOnly(ctx context.Context) error {
	if s.only == nil {
		return nil
	}
	s.log.Info("this run takes only some issues from the queue; what was begun before goes on, too",
		zap.Strings("only", s.only.names()))
	if err := s.findAbsent(ctx); err != nil {
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var since time.Time // when all issues were first seen as over
	for {
		now, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) onlyState { return s.only.state(d.Machine()) })
		switch {
		case err != nil || now.open:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= onlyRest:
			s.log.Info("the issues of this run are over", zap.Strings("only", s.only.names()),
				zap.Strings("not_done", now.undone))
			s.only.end(now.why())
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Pauses between two queries to GitHub about an issue of the run.
const (
	absentFirst = time.Second
	absentMost  = time.Minute
)

// findAbsent looks up the issues without a task, because the run would wait forever for an issue that is not
// offered. It retries until GitHub has answered for each.
func (s *session) findAbsent(ctx context.Context) error {
	for _, k := range s.only.keys {
		err := failure.Retry(ctx, failure.Pauses(absentFirst, absentMost), 0,
			func() error { return s.noteAbsent(ctx, k) },
			func(err error, pause time.Duration) {
				s.log.Warn("GitHub does not say whether an issue of this run is offered: the run waits for that",
					zap.String("issue", string(k)), zap.Duration("asks_again_in", pause), zap.Error(err))
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// noteAbsent looks up an issue unless it has a task. A transient error comes from GitHub.
func (s *session) noteAbsent(ctx context.Context, k fsm.IssueKey) error {
	there, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) bool {
		return d.Machine().Task(k) != nil ||
			s.only.last[k.Fold()] != 0
	})
	if err != nil {
		return backoff.Permanent(err)
	}
	if there {
		return nil
	}
	why, err := s.whyAbsent(ctx, k)
	if err != nil || why == "" {
		return err
	}
	s.log.Warn("an issue of this run is not offered", zap.String("issue", string(k)), zap.String("reason", why))
	if _, err := loop.Look(ctx, s.owner,
		func(*fsm.Driver) bool { s.only.absent[k.Fold()] = why; return true }); err != nil {
		return backoff.Permanent(err)
	}
	return nil
}

// whyAbsent returns why an issue will not get a task without human action, or "".
func (s *session) whyAbsent(ctx context.Context, k fsm.IssueKey) (string, error) {
	i, err := s.github.Issue(ctx, string(k))
	why, gone := failure.IssueGone(err)
	switch names := s.config.GitHub.Labels; {
	case gone:
		return string(k) + ": " + why, nil
	case err != nil:
		return "", err
	case i.State != "open":
		return string(k) + " is closed", nil
	case !i.Has(names.Task) && !i.Has(names.Claimed):
		return fmt.Sprintf("%s is not offered: it needs the label %s", k, names.Task), nil
	}
	return "", nil
}
