package director

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"retake/internal/director/intake"
	"retake/internal/github/githubtest"
)

const webhookSecret = "it-is-a-secret"

func ourSecret() (string, error) { return webhookSecret, nil }

const labelled = `{"action":"labeled","repository":{"full_name":"acme/widgets"},"issue":{"number":1,"title":"nobody shall read this"}}`

// postWebhook posts a change of an issue as GitHub does, and returns the status of the answer.
func (s *harness) postWebhook(delivery, body string) int {
	s.t.Helper()
	url := s.address(intake.WebhookPath)
	hook, err := githubtest.Webhook(s.t.Context(), url, "issues", delivery, body, webhookSecret)
	must(s.t, err)
	hook.Close = true
	answer, err := http.DefaultClient.Do(hook)
	must(s.t, err)
	must(s.t, answer.Body.Close())
	return answer.StatusCode
}

// Without a secret the director refuses webhooks, and serves the other paths at the address.
func TestNoSecretNoWebhooks(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.Director.HTTPListen = "127.0.0.1:0"
	s.noWebhooks = true
	s.start()
	if got := s.postWebhook("1", labelled); got != http.StatusNotFound {
		t.Errorf("an unsigned webhook is answered with %d, want 404", got)
	}
}

// The director claims an issue when its webhook arrives, regardless of the next poll. It finds an issue with a lost
// webhook at the next full poll.
func TestWebhookWakesThePoll(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.GitHub.Poll, s.config.Director.HTTPListen = time.Hour, "127.0.0.1:0"
	first := s.github.CreateIssue(repo, "octocat", "It is there at the start", "please", "agent-task")
	s.start()
	s.until("the first poll's issue is in review", s.labelled(first, "agent-review"))
	lost := s.github.CreateIssue(repo, "octocat", "Its webhook is lost", "please", "agent-task")
	told := s.github.CreateIssue(repo, "octocat", "Its webhook comes", "please", "agent-task")
	number := told[strings.Index(told, "#")+1:]
	body := `{"action":"labeled","repository":{"full_name":"Acme/Widgets"},"issue":{"number":` + number + `}}`
	s.until("taken", func() bool { return s.postWebhook("d-1", body) == http.StatusAccepted })
	if got := s.postWebhook("d-1", body); got != http.StatusOK {
		t.Errorf("the second time: %d, want 200", got)
	}
	s.until("both are delivered", func() bool {
		return s.labelled(told, "agent-review")() &&
			s.labelled(lost, "agent-review")()
	})
}
