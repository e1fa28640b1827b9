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

// errOnlyOver ends a run that takes only some issues, when each of them is over.
var errOnlyOver = errors.New("the issues of this run are over")

// ErrNotDone: a run for some issues has ended, since all of them are over, and not all are done.
var ErrNotDone = errors.New("director: not all issues of this run are done")

// onlyRest is for how long the issues of a run must be over before it ends: what is still said on GitHub about them is.
const onlyRest = 3 * time.Second

// onlyRun is a run that takes only some issues from the queue, and ends when each is delivered, waits for a
// person, or is given up.
type onlyRun struct {
	keys []fsm.IssueKey
	end  context.CancelCauseFunc // of the run

	// The owner's while a session lives.
	last   map[fsm.IssueKey]fsm.State // where this run has seen each, by its key in lower case
	absent map[fsm.IssueKey]string    // why no task of an issue can come
}

func newOnlyRun(keys []fsm.IssueKey, end context.CancelCauseFunc) *onlyRun {
	if len(keys) == 0 {
		return nil
	}
	return &onlyRun{keys: keys, end: end, last: map[fsm.IssueKey]fsm.State{}, absent: map[fsm.IssueKey]string{}}
}

// issues are those that the run takes; none: all.
func (o *onlyRun) issues() []fsm.IssueKey {
	if o == nil {
		return nil
	}
	return o.keys
}

// names are the same, for people.
func (o *onlyRun) names() (all []string) {
	for _, k := range o.issues() {
		all = append(all, string(k))
	}
	return all
}

// note follows the issues by what the journal has taken.
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

// restsDone are the states in which this run has nothing more to do for an issue, and whether its work is done.
var restsDone = map[fsm.State]bool{
	fsm.InReview: true, fsm.Done: true, fsm.Blocked: false, fsm.Released: false,
	fsm.Forgotten: false,
}

// onlyState is how far a run is.
type onlyState struct {
	open   bool     // an issue is not over yet
	undone []string // those that are over and not done, each with what keeps it
}

// why is the cause of the run's end.
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
	var since time.Time // that they are over
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

// Pauses between two questions of GitHub about an issue of the run.
const (
	absentFirst = time.Second
	absentMost  = time.Minute
)

// findAbsent looks up the issues that have no task: one that nobody has offered would be waited for in vain. It
// asks until GitHub has answered for each.
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

// noteAbsent looks up an issue, unless it has a task. An error that may pass is GitHub's.
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

// whyAbsent says why no task of an issue will come by itself; empty: one may.
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
