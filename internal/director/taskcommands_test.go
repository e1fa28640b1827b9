package director

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/github/githubtest"
)

// me returns the journal's name for the user who runs the tests.
func me(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	must(t, err)
	return u.Username + " (operator)"
}

// command sends the director a command about a task.
func (s *harness) command(key string, c operator.TaskCommand) operator.TaskAnswer {
	s.t.Helper()
	a, err := operator.CommandTask(s.t.Context(), s.config.Director.DataDir, fsm.IssueKey(key), c)
	must(s.t, err)
	return a
}

// commands returns the commands that the log has recorded.
func (s *harness) commands() (all []string) {
	for _, e := range s.logs.FilterMessage("command").All() {
		m := e.ContextMap()
		all = append(all, strings.Join([]string{m["command"].(string), m["by"].(string), m["refused"].(string)}, ", "))
	}
	return all
}

// An operator answers a question. It has the effect of /agent retry, and GitHub shows who answered.
func TestOperatorAnswersAQuestion(t *testing.T) {
	t.Parallel()
	goOn, told := make(chan struct{}), make(chan wire.AttemptFile, 1)
	s, key, _ := newAsked(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Attempt > 1 {
			told <- *a.plan.AttemptFile
			<-goOn
		}
		return asksOnce(ctx, a)
	})
	before := len(s.github.Issue(key).Comments)
	a := s.command("ACME/widgets#1", operator.TaskCommand{Command: "retry", Text: "Format B", By: "bob"})
	if by := me(t) + " for bob"; a.Problem != "" || a.Issue != key || a.By != by || a.State == "" || a.WaitsFor == "" {
		t.Errorf("answer %+v, want one by %q about %s", a, by, key)
	}
	s.until("claimed again", s.labelled(key, "agent-claimed"))
	s.until("a second attempt", func() bool { return s.runtime.begun() == 2 })
	s.comment(key, "is working on attempt 2")
	c := s.comment(key, "Command by "+me(t)+" for bob: retry.")
	if !strings.Contains(c.Body, "is working on attempt 2") || len(s.github.Issue(key).Comments) != before {
		t.Errorf("%d comments, %d before; the claim's says\n%s", len(s.github.Issue(key).Comments), before, c.Body)
	}
	if got := <-told; len(got.Hints) != 1 || got.Hints[0].Text != "Format B" || got.Hints[0].From != me(t)+" for bob" {
		t.Errorf("the agent receives %+v", got)
	}
	if got := s.commands(); !slices.Equal(got, []string{"retry, " + me(t) + " for bob, "}) {
		t.Errorf("in the journal: %q", got)
	}
	close(goOn)
	s.until("review", s.labelled(key, "agent-review"))
}

// refusedCommands are requests that have no effect, with the status and the reason that their sender gets.
var refusedCommands = []struct {
	path   string
	body   operator.TaskCommand
	status int
	says   string
}{
	{
		"1/commands",
		operator.TaskCommand{Command: "retry"},
		http.StatusConflict,
		"attempt 1 is under way; `/agent stop` ends it",
	},
	{
		"2/commands",
		operator.TaskCommand{Command: "retry"},
		http.StatusNotFound,
		"there is no task acme/widgets#2",
	},
	{"1/commands", operator.TaskCommand{Command: "retreat"}, http.StatusBadRequest, `unknown command "retreat"`},
	{"1/commands", operator.TaskCommand{Command: "why"}, http.StatusBadRequest, `unknown command "why"`},
	{"1/commands", operator.TaskCommand{Command: "fix"}, http.StatusBadRequest, "needs a description"},
	{
		"1/commands",
		operator.TaskCommand{Command: "snooze", For: "9000d"},
		http.StatusBadRequest,
		"needs a time from 1 minute to 30 days",
	},
	{"1/commands", operator.TaskCommand{Command: "budget", Amount: -1}, http.StatusBadRequest, "needs a number"},
	{
		"1/commands",
		operator.TaskCommand{Command: "stop", By: "bob\n@everybody"},
		http.StatusBadRequest,
		`"by": want a name`,
	},
	{"1/commands", operator.TaskCommand{Command: "stop", ID: "x"}, http.StatusBadRequest, `"id": want`},
	{"none/commands", operator.TaskCommand{Command: "stop"}, http.StatusBadRequest, "want POST /tasks/"},
}

// A refusal has the machine's reason. Invalid commands and unknown tasks have distinct errors, and the journal does
// not record them.
func TestRefusedCommands(t *testing.T) {
	t.Parallel()
	s := newHarness(t, rests)
	key := s.github.CreateIssue(repo, "octocat", "Wait for ever", "", "agent-task")
	s.start()
	s.until("running", s.inState(key, "Running"))
	for _, c := range refusedCommands {
		body, err := json.Marshal(c.body)
		must(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://director/tasks/acme/widgets/"+
			c.path, bytes.NewReader(body))
		must(t, err)
		resp, err := operator.SocketClient(filepath.Join(s.config.Director.DataDir, operator.SocketName)).Do(req)
		must(t, err)
		var a operator.TaskAnswer
		must(t, json.NewDecoder(resp.Body).Decode(&a))
		must(t, resp.Body.Close())
		if resp.StatusCode != c.status || !strings.Contains(a.Problem, c.says) || a.Busy {
			t.Errorf("%s %+v\n  %d %+v; want %d, saying %q", c.path, c.body, resp.StatusCode, a, c.status, c.says)
		}
	}
	if got := s.commands(); len(got) != 1 {
		t.Errorf("in the journal: %q, want one refusal", got)
	}
}

// A request with a lost answer is sent again, even to the next process. It counts once.
func TestRepeatedCommandCountsOnce(t *testing.T) {
	t.Parallel()
	s := newHarness(t, rests)
	key := s.github.CreateIssue(repo, "octocat", "Wait for ever", "", "agent-task")
	s.start()
	s.until("running", s.inState(key, "Running"))
	c := operator.TaskCommand{Command: "budget", Amount: 2, ID: operator.NewRequestID()}
	for range 3 {
		if a := s.command(key, c); a.Problem != "" || a.State != "Running" {
			t.Fatalf("answer %+v", a)
		}
	}
	s.comment(key, "Command by "+me(t)+": budget.")
	stop := operator.TaskCommand{Command: "release", ID: operator.NewRequestID()}
	if a := s.command(key, stop); a.Problem != "" || a.Command != "stop" {
		t.Errorf("answer %+v", a)
	}
	s.until("released", s.labelled(key))
	s.comment(key, "Retake** has released this issue: "+me(t)+": stop")
	s.until("gone", s.inState(key, "gone"))
	s.stop()
	s.start()
	s.until("healthy", func() bool { return strings.HasPrefix(s.health(), "healthy") })
	if a := s.command(key, stop); a.Problem != "" || a.State != "" {
		t.Errorf("answer of the next process: %+v", a)
	}
	if got, by := s.commands(), me(t); !slices.Equal(got, []string{"grant, " + by + ", ", "stop, " + by + ", "}) {
		t.Errorf("in the journal: %q, want each once", got)
	}
}

// A command waits for a running effect on the issue.
func TestCommandWaitsForAnEffect(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.failPushes(githubtest.Fault{Status: http.StatusServiceUnavailable})
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "", "agent-task")
	s.start()
	s.until("delivering", s.inState(key, "Delivering"))
	ended := make(chan operator.TaskAnswer)
	go func() {
		a, err := operator.CommandTask(context.Background(), s.config.Director.DataDir, fsm.IssueKey(key),
			operator.TaskCommand{Command: "fix", Text: "more"})
		if err != nil {
			a.Problem = err.Error()
		}
		ended <- a
	}()
	s.until("a second request", func() bool {
		select {
		case a := <-ended:
			t.Fatalf("answered while the work is delivered: %+v", a)
		default:
		}
		return s.logs.FilterMessage("effect failed").Len() > 1
	})
	s.github.Repair()
	if a := <-ended; a.Problem != "" && !strings.Contains(a.Problem, "no task") {
		t.Errorf("answer %+v", a)
	}
}

// The director offers an issue, once, and works on it at once although the next poll is an hour away.
func TestAddOffersAnIssue(t *testing.T) {
	t.Parallel()
	s := newHarness(t, rests)
	s.config.GitHub.Poll = time.Hour
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please")
	closed := s.github.CreateIssue(repo, "octocat", "Never mind", "")
	s.github.SetState(closed, "octocat", "closed")
	blocked := s.github.CreateIssue(repo, "octocat", "Somebody else's", "", "agent-blocked")
	s.start()
	s.until("healthy", func() bool { return strings.HasPrefix(s.health(), "healthy") })
	add := func(key string) operator.TaskAnswer {
		a, err := operator.OfferIssue(t.Context(), s.config.Director.DataDir, fsm.IssueKey(key), "", false)
		must(t, err)
		return a
	}
	a := add(strings.ToUpper(key))
	if a.Problem != "" || a.Issue != key || a.By != me(t) {
		t.Fatalf("answer %+v", a)
	}
	s.until("running", s.inState(key, "Running"))
	for key, says := range map[string]string{
		key:                "is already working on " + key + ": it is Running",
		closed:             closed + " is closed: reopen it first",
		blocked:            `has the label "agent-blocked"`,
		repo + "#99":       "cannot read " + repo + "#99",
		"acme/elsewhere#1": "is not listed in github.repositories (acme/widgets)",
	} {
		if a := add(key); !strings.Contains(a.Problem, says) {
			t.Errorf("%s: %+v, want %q", key, a, says)
		}
	}
	if got := s.commands(); !slices.Equal(got, []string{"add, " + me(t) + ", "}) {
		t.Errorf("in the journal: %q", got)
	}
	if n := s.runtime.begun(); n != 1 {
		t.Errorf("%d attempts, want one", n)
	}
}
