package effects

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/director/loop/looptest"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/api"
	"retake/internal/github/deliver"
	"retake/internal/github/tracker"
	"retake/internal/recovery"
	"retake/internal/secrets/scope"
)

var update = flag.Bool("update", false, "rewrite the golden texts in testdata")

const (
	textIssue = fsm.IssueKey("acme/widgets#1")
	textNonce = "k3v9qx2m"
)

var textTime = time.Date(2026, 11, 21, 9, 59, 0, 0, time.UTC)

// TestTexts compares texts for people with golden files. The texts come from the state machine, the rules for pushes
// and the configuration, as in a running director.
func TestTexts(t *testing.T) {
	c, err := github.New(github.Options{
		Options: api.Options{
			BaseURL: "https://github.test/api/v3/",
			Token:   func(context.Context) (string, error) { return "token", nil },
		},
		Fleet: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	setup := textSetup(t)
	asked := withAsked(deliver.Request{Nonce: textNonce, Branch: fsm.BranchName(textIssue, 2)}, askedFiles(setup))
	draft := deliver.Request{
		Nonce: textNonce, Branch: fsm.BranchName(textIssue, 2), Draft: true,
		Note:    draftNote(setup, "3 commits behind `main`", false),
		Summary: strings.Repeat("A paragraph about the change.\n\n", 40),
	}
	open, over := incidentTexts(t)
	page := "https://github.test/acme/widgets/tree/" + draft.Branch
	for name, got := range map[string]string{
		"asked": c.Text.Page("delivered", deliver.DeliveredPage{
			Request: asked, Shown: 2, Page: page,
		}),
		"draft":             c.Text.Page("delivered", deliver.DeliveredPage{Request: draft, Shown: 2, Page: page}),
		"pullrequest-draft": c.Text.MessagePage("pullrequest", deliver.PullRequestPage{Request: draft, Issue: 1}),
		"pullrequest-asked": c.Text.MessagePage("pullrequest", deliver.PullRequestPage{Request: asked, Issue: 1}),
		"reply-refused":     c.People.ReplyText(answerTo(replyTo(t, fsm.CommandSnooze), "", ""), tracker.Thread{}),
		"reply-why-review":  c.People.ReplyText(answerTo(replyTo(t, fsm.CommandWhy), "", ""), tracker.Thread{}),
		"incident":          c.Text.Page("incident", open.text),
		"incident-over":     c.Text.Page("incident", over.text),
	} {
		golden(t, name, got)
	}
}

// golden compares a text with the golden file of the given name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".md")
	if *update {
		if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got+"\n" != string(want) {
		t.Errorf("%s is now:\n%s\nRun: go test ./internal/director/effects -run Texts -update", name, got)
	}
}

// textSetup returns the default configuration with a check and one more protected directory.
func textSetup(t *testing.T) *inforce.Setup {
	t.Helper()
	c := config.Default()
	c.Stages = []config.Stage{{Name: "VALIDATE", Run: []string{"go", "test", "./..."}, Timeout: time.Minute}}
	c.Scope.Ask = append(c.Scope.Ask, "x/")
	setup, err := inforce.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return setup
}

// askedFiles returns more files than a draft lists.
func askedFiles(setup *inforce.Setup) *[]scope.Asked {
	look := setup.Pushable.Look(nil, nil)
	names := []string{"AGENTS.md", ".envrc", "x/`@octocat"}
	for n := len(names); n < mostAsked+3; n++ {
		names = append(names, fmt.Sprintf("docs/%d/CLAUDE.md", n))
	}
	for _, name := range names {
		look.Ask(scope.File{Path: name})
	}
	asked := look.Asked()
	return &asked
}

// replyTo returns the machine's reply to a command on an issue in review.
func replyTo(t *testing.T, command fsm.Command) *fsm.Reply {
	t.Helper()
	m := fsm.New(looptest.Config())
	m.Step(fsm.Event{At: textTime, Body: fsm.Booted{RunID: "test"}})
	of := fsm.OfTask{Task: textIssue}
	for _, f := range []fsm.Fact{
		fsm.TaskQueued{Task: textIssue, Nonce: textNonce, Title: "Parse the new format"},
		fsm.AttemptBegan{OfTask: of, N: 1},
		fsm.WorkDelivered{Task: textIssue, Delivery: fsm.DeliverResult{Branch: "retake/1-a1", PullRequest: 8}},
		fsm.Moved{OfTask: of, From: fsm.Delivering, To: fsm.InReview, On: fsm.OnInReview},
	} {
		m.Apply(textTime, f)
	}
	_, effects := m.Step(fsm.Event{At: textTime.Add(time.Minute), Body: fsm.CommentsSeen{
		Repo: textIssue.Repo(), Comments: []fsm.CommentView{{
			Task: textIssue, CommandRef: fsm.CommandRef{Comment: 7, At: textTime}, By: "octocat", Command: command,
			For: time.Hour,
		}},
	}})
	for _, e := range effects {
		if e.Reply != nil {
			return e.Reply
		}
	}
	t.Fatalf("no reply to %s in %+v", command, effects)
	return nil
}

// incidentTexts returns the texts about an outage that delays two issues, and about its end.
func incidentTexts(t *testing.T) (open, over shownIncident) {
	t.Helper()
	m := fsm.New(looptest.Config())
	m.Step(fsm.Event{At: textTime, Body: fsm.Booted{RunID: "test"}})
	key := "model:sonnet/" + string(recovery.Overloaded)
	i := fsm.Incident{
		Key: key, Reason: recovery.Overloaded, Cause: "API Error: 529 Overloaded", Issue: "acme/widgets#9",
	}
	for n := range 2 {
		issue := fsm.IssueKey(fmt.Sprintf("acme/widgets#%d", n+1))
		i.Breaker = i.Breaker.Failed(textTime, string(issue))
		m.Apply(textTime, fsm.TaskQueued{Task: issue, Nonce: textNonce})
		m.Apply(textTime, fsm.Moved{OfTask: fsm.OfTask{Task: issue}, From: fsm.Queued, To: fsm.Backoff})
		m.Task(issue).Incident = key
	}
	i.Breaker = i.Breaker.Failed(textTime, "acme/widgets#3")
	m.Apply(textTime, fsm.IncidentChanged{Incident: i})
	s := &Incidents{}
	open = s.incidentsToShow(m)[key]
	i.Breaker = recovery.Breaker{Since: i.Breaker.Since}
	m.Apply(textTime.Add(90*time.Minute), fsm.IncidentChanged{Incident: i})
	return open, s.incidentsToShow(m)[key]
}
