package director

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/story"
)

// viewTime bounds how long a view waits for the read model.
const viewTime = 10 * time.Second

// issueOf is the issue that a path names.
func issueOf(r *http.Request) fsm.IssueKey {
	return fsm.IssueKey(r.PathValue("owner") + "/" + r.PathValue("repo") + "#" + r.PathValue("number"))
}

// Rows returns where every task stands, those included that are over and not forgotten, without attempts and events.
func (s *session) Rows(ctx context.Context) (rows []story.Story, err error) {
	err = s.viewed(ctx, func(b *story.Book, now time.Time) {
		rows = b.Rows(now)
		settings := s.settings()
		for i := range rows {
			s.addFate(b.Machine(), &rows[i], settings)
		}
	})
	return rows, err
}

// addFate says what the configuration will not let happen, beside what a task waits for.
func (s *session) addFate(m *fsm.Machine, t *story.Story, settings *fsm.Settings) {
	task := m.Task(t.Issue)
	if task == nil {
		return
	}
	if fate := s.met.fate(m, task, settings); fate != "" {
		t.Waits += " (" + fate + ")"
	}
}

// viewed lets f look at the book as it is now, with all that was decided before the question.
func (s *session) viewed(ctx context.Context, f func(*story.Book, time.Time)) error {
	ctx, cancel := context.WithTimeout(ctx, viewTime)
	defer cancel()
	seen, err := loop.Look(ctx, s.owner,
		func(d *fsm.Driver) seenNow { return seenNow{last: d.Last(), at: d.Machine().Now()} })
	if err != nil {
		return err
	}
	return s.views.read(ctx, seen.last, func(b *story.Book) { f(b, seen.at) })
}

// listTasks answers GET /tasks.
func (s *session) listTasks(w http.ResponseWriter, r *http.Request) {
	rows, err := s.Rows(r.Context())
	if err != nil {
		respond(w, http.StatusServiceUnavailable, refusal{err.Error()})
		return
	}
	if rows == nil {
		rows = []story.Story{}
	}
	respond(w, http.StatusOK, rows)
}

// Story returns what has happened to an issue, as it looks now or, if at is not zero, looked then. false: the
// journal has nothing of it.
func (s *session) Story(ctx context.Context, k fsm.IssueKey, at time.Time) (told story.Story, ok bool, err error) {
	if at.IsZero() {
		err = s.viewed(ctx, func(b *story.Book, now time.Time) {
			if told, ok = b.Story(k, now); ok {
				s.addFate(b.Machine(), &told, s.settings())
			}
		})
		if err != nil || ok {
			return told, ok, err
		}
	}
	b, err := s.views.asOf(ctx, at) // it may be long over: the journal still has it
	if err != nil {
		return told, false, err
	}
	if at.IsZero() {
		at = time.Now()
	}
	told, ok = b.Story(k, at)
	return told, ok, nil
}

// tellStory answers GET /tasks/{owner}/{repo}/{number}/story?at=2006-01-02T15:04:05Z.
func (s *session) tellStory(w http.ResponseWriter, r *http.Request) {
	var at time.Time
	if text := r.URL.Query().Get("at"); text != "" {
		if err := at.UnmarshalText([]byte(text)); err != nil {
			respond(w, http.StatusBadRequest, refusal{"at: want a time like 2026-11-21T12:00:00Z"})
			return
		}
	}
	key := issueOf(r)
	switch told, ok, err := s.Story(r.Context(), key, at); {
	case err != nil:
		respond(w, http.StatusServiceUnavailable, refusal{err.Error()})
	case !ok:
		respond(w, http.StatusNotFound, refusal{NoStory(key)})
	default:
		respond(w, http.StatusOK, told)
	}
}

// NoStory says that the journal has nothing of an issue, and what to do.
func NoStory(k fsm.IssueKey) string {
	return fmt.Sprintf("the journal says nothing of %s: has it the label that offers work? director tasks lists "+
		"what there is", k)
}

// listEvents answers GET /events?issue=…&after=…&since=…&follow=1 with JSON Lines.
func (s *session) listEvents(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	filter, err := eventFilterOf(q)
	if err != nil {
		respond(w, http.StatusBadRequest, refusal{err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	out := json.NewEncoder(w)
	err = s.Events(r.Context(), filter, func(all []story.Event) error {
		for _, e := range all {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		return http.NewResponseController(w).Flush()
	})
	if err != nil && r.Context().Err() == nil {
		_ = out.Encode(refusal{err.Error()})
	}
}

// EventFilter says which events are wanted.
type EventFilter struct {
	Issue  fsm.IssueKey // empty: of all, and of the fleet
	After  story.Place  // zero: from the first that there is
	Since  time.Time    // zero: from the first that there is
	Follow bool         // and those to come
}

func eventFilterOf(q url.Values) (f EventFilter, err error) {
	f.Issue = fsm.IssueKey(q.Get("issue"))
	if err := f.After.UnmarshalText([]byte(q.Get("after"))); err != nil {
		return f, err
	}
	if text := q.Get("since"); text != "" {
		if err := f.Since.UnmarshalText([]byte(text)); err != nil {
			return f, fmt.Errorf("since: want a time like 2026-11-21T12:00:00Z")
		}
	}
	f.Follow, _ = strconv.ParseBool(q.Get("follow"))
	return f, nil
}

func (f EventFilter) query() string {
	q := url.Values{"follow": {strconv.FormatBool(f.Follow)}}
	if f.Issue != "" {
		q.Set("issue", string(f.Issue))
	}
	if f.After != (story.Place{}) {
		q.Set("after", f.After.String())
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return q.Encode()
}

// Events hands out what has happened, in order, a list at a time, and then, if it is to follow, what happens
// until ctx ends.
func (s *session) Events(ctx context.Context, f EventFilter, each func([]story.Event) error) error {
	soon, cancel := context.WithTimeout(ctx, viewTime)
	seq, err := loop.Look(soon, s.owner, func(d *fsm.Driver) uint64 { return d.Last() })
	cancel()
	if err != nil {
		return err
	}
	return s.views.events(ctx, seq, f, each)
}

func (f EventFilter) since(all []story.Event) (kept []story.Event) {
	for _, e := range all {
		if !e.At.Before(f.Since) {
			kept = append(kept, e)
		}
	}
	return kept
}
