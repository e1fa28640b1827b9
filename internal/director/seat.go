package director

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"retake/internal/advise"
	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/director/serve"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/page"
	"retake/internal/story"
	"retake/internal/sys/hidden"
)

// seat provides the page with the state of a session.
type seat struct{ *session }

var _ page.Source = seat{}

func (s seat) Fleet(ctx context.Context) wire.Snapshot {
	return s.snapshotOf(ctx, func(m *fsm.Machine) []*fsm.Task { return slices.Collect(m.Live()) })
}

func (s seat) Board(ctx context.Context, most int) (rows []story.Story, count map[string]int, err error) {
	err = s.viewed(ctx, func(b *story.Book, now time.Time) {
		rows, count = b.Board(now, most)
		settings := s.settings()
		for i := range rows {
			s.addFate(b.Machine(), &rows[i], settings)
		}
	})
	return rows, count, err
}

// Story returns what the book has. It does not read older stories from the journal, because the page asks often.
// The command does.
func (s seat) Story(ctx context.Context, k fsm.IssueKey, _ time.Time) (told story.Story, ok bool, err error) {
	err = s.viewed(ctx, func(b *story.Book, now time.Time) {
		if told, ok = b.Story(k, now); ok {
			s.addFate(b.Machine(), &told, s.settings())
		}
	})
	return told, ok, err
}

func (s seat) Numbers(ctx context.Context, since time.Time) (n story.Numbers, err error) {
	err = s.viewed(ctx, func(b *story.Book, _ time.Time) { n = b.Numbers(since) })
	return n, err
}

// Next blocks until an event after the given place.
func (s seat) Next(ctx context.Context, after story.Place) (story.Place, error) {
	return s.views.Next(ctx, after)
}

func (s seat) Output(ctx context.Context, k fsm.IssueKey, f output.Filter) iter.Seq2[output.Line, error] {
	return s.outputs.Lines(ctx, string(k), f)
}

func (s seat) Command(ctx context.Context, c page.Command) error {
	status, answer := s.commandTask(ctx, c.Issue, operator.TaskCommand{
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
func (s seat) Tables() []page.Table {
	in := s.setup()
	rows, guards := advise.PolicyTable(in.Policy.With(in.Limits()))
	return []page.Table{
		{
			Name: "Policy: what a failure leads to", About: "`director policy show` prints the same.",
			Head: advise.PolicyHead, Rows: rows,
		},
		{
			Name: "Guards: what bounds a task", About: "What a verdict may use up before a person is asked.",
			Head: []string{"guard"}, Rows: guards,
		},
		{
			Name: "Rules: what a line of output means", About: "`director classify --explain` shows which of " +
				"them was met.", Head: []string{"rule", "reason", "matches a line with", "why"},
			Rows: in.Classifier.Table(),
		},
	}
}

// openPage creates the page, or returns nil without director.http_listen.
func (d *daemon) openPage() (*page.Page, error) {
	if d.config.Director.HTTPListen == "" {
		return nil, nil
	}
	open := serve.Loopback(d.config.Director.HTTPListen)
	token := func() (string, error) { return d.config.PageToken(hidden.Lookup) }
	if value, err := token(); !open && (err != nil || value == "") {
		d.log.Warn("the page is not shown: director.http_listen is not an address of this machine only, and "+
			"director.page_token_env or page_token_file names no token", zap.Error(err))
		return nil, nil
	}
	return page.New(page.Options{
		Source: func() page.Source {
			if s := d.seat.Load(); s != nil {
				return seat{s}
			}
			return nil
		},
		Token: token, CheckName: operator.CheckRequester, Open: open, Fleet: d.config.Director.Fleet, Log: d.log,
	})
}
