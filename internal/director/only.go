package director

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/fsm"
)

// errOnlyOver ends a run that takes only some issues, when each of them is over.
var errOnlyOver = errors.New("the issues of this run are over")

// ErrNotDone: a run for some issues has ended, since all of them are over, and not all are done.
var ErrNotDone = errors.New("director: not all issues of this run are done")

// onlyRest is for how long the issues of a run must be over before it ends: what is still said on GitHub about them is.
const onlyRest = 3 * time.Second

// onlyRun is a run that takes only some issues from the queue, and ends when each is delivered, waits for a person, or is given up.
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

func lowerKey(k fsm.IssueKey) fsm.IssueKey { return fsm.IssueKey(strings.ToLower(string(k))) }

// note follows the issues by what the journal has taken.
func (o *onlyRun) note(f fsm.Fact) {
	if o == nil {
		return
	}
	switch f := f.(type) {
	case fsm.TaskQueued:
		o.last[lowerKey(f.Task)] = fsm.Queued
	case fsm.Moved:
		o.last[lowerKey(f.Task)] = f.To
	}
}

// restsDone are the states in which this run has nothing more to do for an issue, and whether its work is done.
var restsDone = map[fsm.State]bool{fsm.InReview: true, fsm.Done: true, fsm.Blocked: false, fsm.Released: false, fsm.Forgotten: false}

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
		state, busy := o.last[lowerKey(k)], false
		if t := m.Task(k); t != nil {
			state, busy = t.State, len(t.Outbox) > 0
			o.last[lowerKey(k)] = state
		}
		done, over := restsDone[state]
		switch why := o.absent[lowerKey(k)]; {
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
	s.log.Info("this run takes only some issues from the queue; what was begun before goes on, too", zap.Strings("only", s.only.names()))
	if err := s.findAbsent(ctx); err != nil {
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var since time.Time // that they are over
	for {
		now, err := look(ctx, s.owner, func(d *fsm.Driver) onlyState { return s.only.state(d.Machine()) })
		switch {
		case err != nil || now.open:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= onlyRest:
			s.log.Info("the issues of this run are over", zap.Strings("only", s.only.names()), zap.Strings("not_done", now.undone))
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

// findAbsent looks up the issues that have no task: one that nobody has offered would be waited for in vain.
func (s *session) findAbsent(ctx context.Context) error {
	for _, k := range s.only.keys {
		there, err := look(ctx, s.owner, func(d *fsm.Driver) bool { return d.Machine().Task(k) != nil || s.only.last[lowerKey(k)] != 0 })
		if err != nil {
			return err
		}
		why := ""
		if !there {
			why = s.whyAbsent(ctx, k)
		}
		if why == "" {
			continue
		}
		s.log.Warn("an issue of this run is not offered", zap.String("issue", string(k)), zap.String("reason", why))
		if _, err := look(ctx, s.owner, func(*fsm.Driver) bool { s.only.absent[lowerKey(k)] = why; return true }); err != nil {
			return err
		}
	}
	return nil
}

// whyAbsent says why no task of an issue will come by itself; empty: one may.
func (s *session) whyAbsent(ctx context.Context, k fsm.IssueKey) string {
	i, err := s.github.Issue(ctx, string(k))
	why, gone := isIssueGone(err)
	switch names := s.config.GitHub.Labels; {
	case gone:
		return string(k) + ": " + why
	case err != nil:
		return ""
	case i.State != "open":
		return string(k) + " is closed"
	case !i.Has(names.Task) && !i.Has(names.Claimed):
		return fmt.Sprintf("%s is not offered: it needs the label %s", k, names.Task)
	}
	return ""
}
