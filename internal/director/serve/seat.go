package serve

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"time"

	"retake/internal/advise"
	"retake/internal/bus/wire"
	"retake/internal/director/inforce"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/page"
	"retake/internal/timeline"
)

// Seat gives the page access to a session.
type Seat struct {
	Status    *Status
	Timelines *Timelines
	Commands  *TaskCommands
	Outputs   *output.Store
	Setup     func() *inforce.Setup
}

var _ page.Source = (*Seat)(nil)

// Fleet returns a snapshot that lists only the tasks with a worker.
func (s *Seat) Fleet(ctx context.Context) wire.Snapshot {
	return s.Status.SnapshotOf(ctx, func(m *fsm.Machine) []*fsm.Task { return slices.Collect(m.Live()) })
}

// Board returns at most limit tasks in each state, and the number of all tasks by state.
func (s *Seat) Board(ctx context.Context, limit int) (rows []timeline.Task, count map[string]int, err error) {
	err = s.Timelines.View(ctx, func(b *timeline.Book, now time.Time) {
		rows, count = b.Board(now, limit)
		for i := range rows {
			s.Timelines.addFate(b.Machine(), &rows[i])
		}
	})
	return rows, count, err
}

// Task returns an issue's timeline from the read model. Unlike `director explain`, it does not search the journal for
// older tasks, because the page calls it often.
func (s *Seat) Task(ctx context.Context, k fsm.IssueKey, _ time.Time) (told timeline.Task, ok bool, err error) {
	err = s.Timelines.View(ctx, func(b *timeline.Book, now time.Time) {
		if told, ok = b.Task(k, now); ok {
			s.Timelines.addFate(b.Machine(), &told)
		}
	})
	return told, ok, err
}

// Numbers summarises failures, decisions and results since the given time.
func (s *Seat) Numbers(ctx context.Context, since time.Time) (n timeline.Numbers, err error) {
	err = s.Timelines.View(ctx, func(b *timeline.Book, _ time.Time) { n = b.Numbers(since) })
	return n, err
}

// Next blocks until there is an event after the given place, and returns the newest place.
func (s *Seat) Next(ctx context.Context, after timeline.Place) (timeline.Place, error) {
	return s.Timelines.Views.Next(ctx, after)
}

// Output returns lines of an issue's output.
func (s *Seat) Output(ctx context.Context, k fsm.IssueKey, f output.Filter) iter.Seq2[output.Line, error] {
	return s.Outputs.Lines(ctx, string(k), f)
}

// Command carries out a command about a task.
func (s *Seat) Command(ctx context.Context, c page.Command) error {
	status, answer := s.Commands.Do(ctx, c.Issue, operator.TaskCommand{
		ID: c.ID, Command: string(c.Command),
		Text: c.Text,
	}, c.By)
	switch {
	case answer.Problem == "":
		return nil
	case answer.Busy || status == http.StatusServiceUnavailable:
		return page.Undecided(answer.Problem)
	}
	return errors.New(answer.Problem)
}

// Tables returns the policy's rows and guards, and the classifier's rules.
func (s *Seat) Tables() []page.Table {
	in := s.Setup()
	rows, guards := advise.PolicyTable(in.Policy.With(in.Limits()))
	return []page.Table{
		{
			Name: "Policy: the verdict on each failure", About: "`director policy show` prints this table.",
			Head: advise.PolicyHead, Rows: rows,
		},
		{
			Name: "Guards: a task's budgets", About: "Once a task has used up a budget, Retake asks a person.",
			Head: []string{"guard"}, Rows: guards,
		},
		{
			Name: "Rules: how output lines map to reasons", About: "`director classify --explain` shows the matching " +
				"rules.", Head: []string{"rule", "reason", "matches a line with", "why"},
			Rows: in.Classifier.Table(),
		},
	}
}
