package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/director/view"
	"retake/internal/fsm"
	"retake/internal/timeline"
)

// Timelines answers queries about the history of tasks from the read model. Its methods are safe for concurrent use.
type Timelines struct {
	Owner *loop.Owner
	Views *view.Model
	Fate  func(*fsm.Machine, *fsm.Task) string // see Status.Fate
	// Refused returns why GitHub refuses the account, or "". The machine knows only the time of the next probe.
	Refused func() string
	Held    func() string // see Status.Held
	Rate    func() int    // deliveries of the last hour, or 0 if the director has not led for an hour
}

// issueOf returns the issue in a request's path.
func issueOf(r *http.Request) fsm.IssueKey {
	return fsm.IssueKey(r.PathValue("owner") + "/" + r.PathValue("repo") + "#" + r.PathValue("number"))
}

// Rows returns the state of every task, without attempts or events. It includes finished tasks that are still in the
// read model.
func (s *Timelines) Rows(ctx context.Context) (rows []timeline.Task, err error) {
	err = s.View(ctx, func(b *timeline.Book, now time.Time) {
		rows = b.Rows(now)
		for i := range rows {
			s.addFate(b.Machine(), &rows[i])
		}
	})
	return rows, err
}

// addFate adds the effects of the configuration, of GitHub's limits and of a refused account to the reason why a task
// waits.
func (s *Timelines) addFate(m *fsm.Machine, t *timeline.Task) {
	task := m.Task(t.Issue)
	if task == nil {
		return
	}
	if fate := s.Fate(m, task); fate != "" {
		t.Waits += " (" + fate + ")"
	}
	s.addPace(m, task, t)
	if task.State.Info().Live || s.Refused() == "" || strings.Contains(t.Waits, fsm.RefusesAccount) {
		return
	}
	t.Waits, t.Until = t.Waits+"; GitHub "+fsm.RefusesAccount, time.Time{}
	if t.Asked == nil {
		t.Next = fsm.RenewAccount
	}
}

// addPace adds the GitHub limit that delays a claim or a delivery, and the estimated turn of a queued issue.
func (s *Timelines) addPace(m *fsm.Machine, task *fsm.Task, t *timeline.Task) {
	switch task.State {
	case fsm.Claiming, fsm.Delivering:
		if held := s.Held(); held != "" && t.Until.IsZero() {
			t.Waits += "; its requests wait for " + held
		}
	case fsm.Queued:
		ahead, queued := m.Ahead(task)
		if ahead == 0 || !queued {
			return
		}
		t.Waits += fmt.Sprintf("; %d issues are ahead of this one", ahead)
		if rate := s.Rate(); rate > 0 {
			t.Waits += ", so at the last hour's rate it will wait about " +
				timeline.Span(time.Hour*time.Duration(ahead)/time.Duration(rate))
		}
	}
}

// View passes the current book to f. The book covers every decision before the call.
func (s *Timelines) View(ctx context.Context, f func(*timeline.Book, time.Time)) error {
	ctx, cancel := context.WithTimeout(ctx, operator.ViewTime)
	defer cancel()
	seen, err := loop.Look(ctx, s.Owner,
		func(d *fsm.Driver) seenNow { return seenNow{last: d.Last(), at: d.Machine().Now()} })
	if err != nil {
		return err
	}
	return s.Views.Read(ctx, seen.last, func(b *timeline.Book) { f(b, seen.at) })
}

// listTasks answers GET /tasks.
func (s *Timelines) listTasks(w http.ResponseWriter, r *http.Request) {
	rows, err := s.Rows(r.Context())
	if err != nil {
		operator.Refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	if rows == nil {
		rows = []timeline.Task{}
	}
	operator.Respond(w, http.StatusOK, rows)
}

// Task returns the timeline of an issue, as of now or, if at is not zero, as of that time. ok is false if the issue is
// not in the journal.
func (s *Timelines) Task(ctx context.Context, k fsm.IssueKey, at time.Time) (told timeline.Task, ok bool, err error) {
	if at.IsZero() {
		err = s.View(ctx, func(b *timeline.Book, now time.Time) {
			if told, ok = b.Task(k, now); ok {
				s.addFate(b.Machine(), &told)
			}
		})
		if err != nil || ok {
			return told, ok, err
		}
	}
	b, err := s.Views.AsOf(ctx, at) // the journal has the tasks that the read model has dropped
	if err != nil {
		return told, false, err
	}
	if at.IsZero() {
		at = time.Now()
	}
	told, ok = b.Task(k, at)
	return told, ok, nil
}

// tellTask answers GET /tasks/{owner}/{repo}/{number}/story?at=2006-01-02T15:04:05Z.
func (s *Timelines) tellTask(w http.ResponseWriter, r *http.Request) {
	var at time.Time
	if text := r.URL.Query().Get("at"); text != "" {
		if err := at.UnmarshalText([]byte(text)); err != nil {
			operator.Refuse(w, http.StatusBadRequest, "at: want a time such as 2026-11-21T12:00:00Z")
			return
		}
	}
	key := issueOf(r)
	switch told, ok, err := s.Task(r.Context(), key, at); {
	case err != nil:
		operator.Refuse(w, http.StatusServiceUnavailable, err.Error())
	case !ok:
		operator.Refuse(w, http.StatusNotFound, operator.NoTask(key))
	default:
		operator.Respond(w, http.StatusOK, told)
	}
}

// listEvents answers GET /events?issue=…&after=…&since=…&follow=1 with JSON Lines.
func (s *Timelines) listEvents(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	filter, err := operator.ParseEventFilter(q)
	if err != nil {
		operator.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	out := json.NewEncoder(w)
	err = s.Events(r.Context(), filter, func(all []timeline.Event) error {
		for _, e := range all {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		return http.NewResponseController(w).Flush()
	})
	if err != nil && r.Context().Err() == nil {
		_ = out.Encode(operator.Refusal{Problem: err.Error()})
	}
}

// Events calls each with lists of past events, in order. With Follow, it continues with new events until ctx is
// done.
func (s *Timelines) Events(ctx context.Context, f operator.EventFilter, each func([]timeline.Event) error) error {
	soon, cancel := context.WithTimeout(ctx, operator.ViewTime)
	seq, err := loop.Look(soon, s.Owner, func(d *fsm.Driver) uint64 { return d.Last() })
	cancel()
	if err != nil {
		return err
	}
	return s.Views.Events(ctx, seq, f, each)
}
