package intake

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director/failure"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github/tracker"
)

// onlyRest is the pause between finishing a run's last issue and ending the run. During this time the director writes
// the last comments.
const onlyRest = 3 * time.Second

// Only is a run that takes only selected issues from the queue. It ends once every issue is delivered, waiting for a
// person, or given up. A nil Only takes all issues. Create it with NewOnly.
type Only struct {
	keys []fsm.IssueKey
	end  func(undone []string) // ends the run

	// During a session, only the owner uses these fields.
	last   map[fsm.IssueKey]fsm.State // last state in this run, by issue key in lower case
	absent map[fsm.IssueKey]string    // why an issue cannot get a task
}

// NewOnly returns a run for the given issues, or nil if keys is empty. The run calls end once, with the issues that are
// not done.
func NewOnly(keys []fsm.IssueKey, end func(undone []string)) *Only {
	if len(keys) == 0 {
		return nil
	}
	return &Only{keys: keys, end: end, last: map[fsm.IssueKey]fsm.State{}, absent: map[fsm.IssueKey]string{}}
}

// Issues returns the issues that the run takes, or nil if it takes all.
func (o *Only) Issues() []fsm.IssueKey {
	if o == nil {
		return nil
	}
	return o.keys
}

// Names returns the issues as strings.
func (o *Only) Names() (all []string) {
	for _, k := range o.Issues() {
		all = append(all, string(k))
	}
	return all
}

// Note updates the issues' states from a durable fact.
func (o *Only) Note(f fsm.Fact) {
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

// restsDone lists the states in which this run is finished with an issue. The value is true if the work is done.
var restsDone = map[fsm.State]bool{
	fsm.InReview: true, fsm.Done: true, fsm.Blocked: false, fsm.Released: false,
	fsm.Forgotten: false,
}

// onlyState is the progress of a run.
type onlyState struct {
	open   bool     // Retake is still working on at least one issue
	undone []string // issues that Retake stopped working on before they were done, with the reason
}

func (o *Only) state(m *fsm.Machine) (now onlyState) {
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
		case !over && !busy && heldBack(m) != "" && !state.Info().Slot:
			now.undone = append(now.undone, fmt.Sprintf("%s is %s, and %s", k, state, heldBack(m)))
		case !over || busy:
			now.open = true
		case state == fsm.Blocked:
			now.undone = append(now.undone, fmt.Sprintf("%s is waiting for someone to answer", k))
		case !done:
			now.undone = append(now.undone, fmt.Sprintf("%s is %s", k, state))
		}
	}
	return now
}

// heldBack returns why attempts cannot begin until a person acts, or "" if they can.
func heldBack(m *fsm.Machine) string {
	switch missing := m.MissingPrograms(); {
	case m.Aborted() != "":
		return "the policy aborted the run"
	case missing != "":
		return "a program that a stage runs is missing: " + missing
	}
	return ""
}

// OnlyWatch ends a run of selected issues.
type OnlyWatch struct {
	Only   *Only
	Owner  *loop.Owner
	GitHub issueReader
	Labels config.Labels
	Log    *zap.Logger
}

// issueReader reads an issue.
type issueReader interface {
	Issue(ctx context.Context, key string) (tracker.Issue, error)
}

// Run ends the director's run when Retake has finished with the selected issues. It returns at once if the run takes
// all issues.
func (s *OnlyWatch) Run(ctx context.Context) error {
	if s.Only == nil {
		return nil
	}
	s.Log.Info("taking only the issues given with --only from the queue, and continuing earlier tasks",
		zap.Strings("only", s.Only.Names()))
	if err := s.findAbsent(ctx); err != nil {
		return nil
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var since time.Time // when the last open issue was finished; zero while an issue is open
	for {
		now, err := loop.Look(ctx, s.Owner, func(d *fsm.Driver) onlyState { return s.Only.state(d.Machine()) })
		switch {
		case err != nil || now.open:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= onlyRest:
			s.Log.Info("all issues of this run are finished", zap.Strings("only", s.Only.Names()),
				zap.Strings("not_done", now.undone))
			s.Only.end(now.undone)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Pauses between two queries to GitHub about an issue in the run.
const (
	absentFirst = time.Second
	absentMost  = time.Minute
)

// findAbsent looks up the run's issues that have not become tasks yet, because the run would wait forever for an issue
// that is not offered. It retries until GitHub has answered for each issue.
func (s *OnlyWatch) findAbsent(ctx context.Context) error {
	for _, k := range s.Only.keys {
		err := failure.Retry(ctx, failure.Pauses(absentFirst, absentMost), 0,
			func() error { return s.noteAbsent(ctx, k) },
			func(err error, pause time.Duration) {
				s.Log.Warn("could not read an issue given with --only; retrying",
					zap.String("issue", string(k)), zap.Duration("asks_again_in", pause), zap.Error(err))
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// noteAbsent looks up an issue without a task. It returns a backoff.Permanent error if the session has ended, and any
// other error if GitHub did not answer.
func (s *OnlyWatch) noteAbsent(ctx context.Context, k fsm.IssueKey) error {
	there, err := loop.Look(ctx, s.Owner, func(d *fsm.Driver) bool {
		return d.Machine().Task(k) != nil ||
			s.Only.last[k.Fold()] != 0
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
	s.Log.Warn("issue given with --only is not offered", zap.String("issue", string(k)), zap.String("reason", why))
	if _, err := loop.Look(ctx, s.Owner,
		func(*fsm.Driver) bool { s.Only.absent[k.Fold()] = why; return true }); err != nil {
		return backoff.Permanent(err)
	}
	return nil
}

// whyAbsent returns why an issue cannot get a task until a person acts, or "" if it can.
func (s *OnlyWatch) whyAbsent(ctx context.Context, k fsm.IssueKey) (string, error) {
	i, err := s.GitHub.Issue(ctx, string(k))
	why, gone := failure.IssueGone(err)
	switch names := s.Labels; {
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
