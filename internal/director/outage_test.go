package director

import (
	"context"
	"slices"
	"strings"
	"testing"

	"retake/internal/bus/wire"
	"retake/internal/github/githubtest"
)

// The director creates, updates and closes one issue for an outage. The tasks show that they wait for it.
func TestAnOutageIsOneIssue(t *testing.T) {
	t.Parallel()
	refused := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		select {
		case <-refused:
			return a.work(ctx)
		default:
		}
		code := 1
		err := a.client.Report(ctx, asserted(wire.WorkerError{
			ErrorID: a.plan.WorkerID + "/CODE-1", WorkerID: a.plan.WorkerID, IssueNumber: a.plan.Issue.Number,
			Stage:   wire.StageCode,
			Attempt: a.plan.Attempt, ErrorType: "overloaded", Message: "529 overloaded_error", ExitCode: &code,
			HTTPStatus: 529, Provider: "anthropic",
		}))
		if err != nil {
			return 1
		}
		return 0
	})
	s.config.Director.MaxWorkers = 4
	var keys []string
	for range 4 {
		keys = append(keys, s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task"))
	}
	s.start()
	var incident string
	s.until("an issue about the outage", func() bool {
		for _, i := range s.github.Issues(repo) {
			if strings.HasPrefix(i.Title, "Retake is waiting") {
				incident = i.Key
			}
		}
		return incident != ""
	})
	s.until("a task waits for it", func() bool {
		return slices.ContainsFunc(keys, func(k string) bool {
			return slices.ContainsFunc(s.github.Issue(k).Comments,
				func(c githubtest.Comment) bool { return strings.Contains(c.Body, incident) })
		})
	})
	s.github.AddComment(incident, "octocat", "/agent why")
	s.until("an answer that explains the issue", s.replied(incident, "This issue is about an outage"))
	close(refused)
	s.until("all are delivered", func() bool {
		return !slices.ContainsFunc(keys, func(k string) bool { return !s.labelled(k, "agent-review")() })
	})
	s.until("the issue is closed", func() bool { return s.github.Issue(incident).State == "closed" })
	if n := len(s.github.Issues(repo)); n != 5 {
		t.Errorf("%d issues, want four and one about the outage", n)
	}
}

// After any manual changes of our labels by people and bots, the issue finally shows the state of the task.
func TestLabelsPutOnByHand(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	s.github.AddUser("helper[bot]", "")
	s.github.AddUser("triager", "")
	s.github.SetPermission(repo, "helper[bot]", "write")
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("blocked", s.inState(key, "Blocked"))
	s.until("labelled", s.labelled(key, "agent-blocked"))
	s.github.AddLabel(key, "octocat", "agent-review")
	s.github.AddLabel(key, "octocat", "agent-claimed")
	s.until("only the task's label", s.labelled(key, "agent-blocked"))
	s.github.RemoveLabel(key, "helper[bot]", "agent-blocked")
	s.until("put back", func() bool {
		return s.labelled(key, "agent-blocked")() &&
			s.logs.FilterMessage("restored the blocked label that a bot had removed").Len() > 0
	})
	if s.state(key) != "Blocked" {
		t.Errorf("the task is %s: a bot answered the question", s.state(key))
	}
	s.github.SetPermission(repo, "triager", "triage")
	s.github.RemoveLabel(key, "triager", "agent-blocked")
	s.until("answered by whom GitHub lets do it", s.labelled(key, "agent-claimed"))
}
