package page

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/recovery/plaintext"
	"retake/internal/story"
)

func issueOf(r *http.Request) fsm.IssueKey {
	return fsm.IssueKey(r.PathValue("owner") + "/" + r.PathValue("repo") + "#" + r.PathValue("number"))
}

// path is where a task's page is.
func path(k fsm.IssueKey) string {
	_, number, _ := cutLast(string(k), '#')
	return "/tasks/" + k.Repo() + "/" + number
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == sep {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// taskPart is a task's page.
type taskPart struct {
	At time.Time
	story.Story
	Path     string
	Who      string
	Recent   []story.Event   // the newest first
	Newest   []story.Attempt // the newest first
	Commands []story.Remedy
}

// eventsShown bounds the timeline; explain and events have the rest.
const eventsShown = 150

func (p *Page) drawnTask(ctx context.Context, s Source, r *http.Request) (taskPart, error) {
	told, ok, err := s.Story(ctx, issueOf(r), time.Time{})
	if err == nil && !ok {
		err = errUnknown
	}
	part := taskPart{At: time.Now(), Story: told, Path: path(told.Issue), Who: p.sessions.who(r)}
	part.Recent = slices.Clone(told.Events[max(0, len(told.Events)-eventsShown):])
	slices.Reverse(part.Recent)
	part.Newest = slices.Clone(told.Attempts)
	slices.Reverse(part.Newest)
	for _, c := range told.Can {
		if c.Command != "" {
			part.Commands = append(part.Commands, c)
		}
	}
	return part, err
}

func (p *Page) showTask(w http.ResponseWriter, r *http.Request) {
	p.show(w, r, "task", string(issueOf(r)), func(ctx context.Context, s Source) (any, error) { return p.drawnTask(ctx, s, r) })
}

func (p *Page) streamTask(w http.ResponseWriter, r *http.Request) {
	p.stream(w, r, "task", func(ctx context.Context, s Source, next story.Place) (story.Place, []byte, error) {
		text, err := p.draw("task-live", func() (any, error) { return p.drawnTask(ctx, s, r) })
		return next, text, err
	})
}

// printed is a line of output for the browser.
type printed struct {
	At      string `json:"at"`
	Attempt int    `json:"attempt"`
	Stage   string `json:"stage"`
	Err     bool   `json:"err"` // it was written to stderr
	Text    string `json:"text"`
	Skipped int64  `json:"skipped,omitempty"`
}

// linesShown is how much of what was printed before a browser is sent first.
const linesShown = 400

// streamOutput sends what the attempts of a task print: what there is, then what comes.
func (p *Page) streamOutput(w http.ResponseWriter, r *http.Request) {
	s, err := p.source()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	out, leave := p.events(w)
	if out == nil {
		return
	}
	defer leave()
	var lines []printed
	flush := func() error {
		if len(lines) == 0 {
			return nil
		}
		text, err := json.Marshal(lines)
		lines = lines[:0]
		if err != nil {
			return err
		}
		return out.send("output", text)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	filter := output.Filter{Last: linesShown, Follow: true, Idle: func() {
		if flush() != nil {
			cancel()
		}
	}}
	for l, err := range s.Output(ctx, issueOf(r), filter) {
		if err != nil {
			if !errors.Is(err, output.ErrNoTask) && ctx.Err() == nil {
				text, _ := json.Marshal(err.Error())
				_ = out.send("problem", text)
			}
			break
		}
		lines = append(lines, printed{
			At: l.At.UTC().Format(time.TimeOnly), Attempt: l.Attempt, Stage: l.Stage, Err: l.Stream == "stderr", Text: plaintext.WithoutControl(l.Text), Skipped: l.Skipped,
		})
		if len(lines) >= linesShown && flush() != nil {
			return
		}
	}
	if flush() == nil {
		_ = out.send("end", []byte(`""`))
	}
}

// command carries out what a form asks for, and returns to the task.
func (p *Page) command(w http.ResponseWriter, r *http.Request, by string) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	s, err := p.source()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	c := Command{Issue: issueOf(r), Command: fsm.Command(r.PostFormValue("command")), Text: r.PostFormValue("text"), By: by}
	refused, err := s.Command(r.Context(), c)
	said := string(c.Command) + ": it is in the journal"
	switch {
	case err != nil:
		said = string(c.Command) + ": " + err.Error()
	case refused != "":
		said = string(c.Command) + " is refused: " + refused
	}
	http.Redirect(w, r, path(c.Issue)+"?said="+url.QueryEscape(said), http.StatusSeeOther)
}
