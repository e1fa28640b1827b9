package page

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/recovery/plaintext"
	"retake/internal/timeline"
)

func issueOf(r *http.Request) fsm.IssueKey {
	return fsm.IssueKey(r.PathValue("owner") + "/" + r.PathValue("repo") + "#" + r.PathValue("number"))
}

// TaskPath returns the path of a task's page. The operator's socket serves the task's commands under the same path.
func TaskPath(k fsm.IssueKey) string { return "/tasks/" + k.Repo() + "/" + strconv.Itoa(k.Number()) }

// taskPart is the data of a task's page.
type taskPart struct {
	At time.Time
	timeline.Task
	Path     string
	Recent   []timeline.Event   // newest first
	Newest   []timeline.Attempt // newest first
	Commands []fsm.Command      // commands with a button

	TakesText bool // at least one of the commands takes text
}

// commandOf returns the command named in a remedy, or "". Unlike Remedy.Command, it includes commands that need text,
// because the page has a field for the text.
func commandOf(r timeline.Remedy) fsm.Command {
	words := strings.Fields(r.Do)
	if r.Command == "" && len(words) > 1 && words[0] == "director" {
		return fsm.Command(words[1])
	}
	return r.Command
}

// eventsShown limits the timeline. The commands "director explain" and "director events" also show the older events.
const eventsShown = 150

func drawnTask(ctx context.Context, s Source, k fsm.IssueKey) (taskPart, error) {
	told, ok, err := s.Task(ctx, k, time.Time{})
	if err == nil && !ok {
		err = errUnknown
	}
	part := taskPart{At: time.Now(), Task: told, Path: TaskPath(told.Issue)}
	part.Recent = slices.Clone(told.Events[max(0, len(told.Events)-eventsShown):])
	slices.Reverse(part.Recent)
	part.Newest = slices.Clone(told.Attempts)
	slices.Reverse(part.Newest)
	for _, r := range told.Can {
		if c := commandOf(r); does[c] != "" && !slices.Contains(part.Commands, c) {
			part.Commands = append(part.Commands, c)
			part.TakesText = part.TakesText || takesText(c)
		}
	}
	return part, err
}

func (p *Page) showTask(w http.ResponseWriter, r *http.Request) {
	f := p.frameOf(r, "task", string(issueOf(r)))
	if did := fsm.Command(r.URL.Query().Get("did")); does[did] != "" {
		f.Said = string(did) + ": recorded in the journal"
	}
	p.showTaskIn(w, r, f)
}

func (p *Page) showTaskIn(w http.ResponseWriter, r *http.Request, f frame) {
	p.showFrame(w, r, f, func(ctx context.Context, s Source) (any, error) { return drawnTask(ctx, s, issueOf(r)) })
}

func (p *Page) streamTask(w http.ResponseWriter, r *http.Request) {
	p.stream(w, r, "task", issueOf(r),
		func(ctx context.Context, s Source) (any, error) { return drawnTask(ctx, s, issueOf(r)) })
}

// printed is one line of output, encoded for the browser.
type printed struct {
	At      string `json:"at"`
	Attempt int    `json:"attempt"`
	Stage   string `json:"stage"`
	Err     bool   `json:"err"` // written to stderr
	Text    string `json:"text"`
	Skipped int64  `json:"skipped,omitempty"`
}

// linesShown is the maximum number of earlier output lines that a browser receives first.
const linesShown = 400

// streamOutput sends the output of a task's attempts: first the latest existing lines, then new ones.
func (p *Page) streamOutput(w http.ResponseWriter, r *http.Request) {
	s, err := p.source()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	out, ctx, leave := p.events(w, r)
	if out == nil {
		return
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
	filter := output.Filter{Last: linesShown, Follow: true, Idle: func() {
		if flush() != nil {
			cancel()
		}
	}}
	for l, err := range s.Output(ctx, issueOf(r), filter) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			if !errors.Is(err, output.ErrNoTask) {
				text, _ := json.Marshal(err.Error())
				_ = out.send("problem", text)
			}
			break
		}
		text, _ := plaintext.Seen(plaintext.WithoutControl(l.Text))
		lines = append(lines, printed{
			At: l.At.UTC().Format(time.TimeOnly), Attempt: l.Attempt, Stage: l.Stage, Err: l.Stream == "stderr",
			Text: text, Skipped: l.Skipped,
		})
		if len(lines) >= linesShown && flush() != nil {
			return
		}
	}
	switch {
	case ctx.Err() != nil:
		out.sendOver(ctx)
	case flush() == nil:
		_ = out.send("end", []byte(`""`))
	}
}

// errNoForm rejects a form without an id, because a duplicate submission could not be detected.
const errNoForm = problem("the form is out of date: reload the page")

// requestID identifies a form's request. Submitting the same form twice gives the same id; another button or text gives
// a different one.
func requestID(form string, c Command) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{form, string(c.Issue), string(c.Command), c.Text, c.By}, "\x00")))
	return base32.StdEncoding.EncodeToString(sum[:])[:26]
}

// command executes a form's command and redirects to the task. If the command is refused, its text stays in the form.
func (p *Page) command(w http.ResponseWriter, r *http.Request, by string) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	c, form := Command{
		Issue: issueOf(r), Command: fsm.Command(r.PostFormValue("command")),
		Text: r.PostFormValue("text"), By: by,
	}, r.PostFormValue("form")
	c.ID = requestID(form, c)
	s, err := p.source()
	switch {
	case err == nil && form == "":
		err = errNoForm
	case err == nil:
		err = s.Command(r.Context(), c)
	}
	if err == nil {
		http.Redirect(w, r, TaskPath(c.Issue)+"?did="+url.QueryEscape(string(c.Command)), http.StatusSeeOther)
		return
	}
	f := p.frameOf(r, "task", string(c.Issue))
	f.Said, f.Refused, f.Text = string(c.Command)+" was not carried out: "+err.Error(), true, c.Text
	if errors.As(err, new(Undecided)) {
		f.Form = form
	}
	p.showTaskIn(w, r, f)
}
