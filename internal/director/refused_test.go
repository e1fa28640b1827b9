package director

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/director/operator"
	"retake/internal/github/githubtest"
)

// refusedForAll lists refusals of the account as a whole. The plain 403 has an unknown message.
var refusedForAll = map[string]githubtest.Fault{
	"suspended": {Status: 403, Body: `{"message":"This installation has been suspended"}`},
	"sso": {Status: 403, Body: `{"message":"Resource protected by organization SAML enforcement. You must grant ` +
		`your Personal Access token access to this organization."}`},
	"403": {Status: 403, Body: `{"message":"Forbidden"}`},
	"401": {Status: 401, Body: `{"message":"Bad credentials"}`},
}

// TestRefusedAccount checks that finished work waits while GitHub refuses everything, that health is unhealthy, and
// that the log has one alarm. Afterwards the work is delivered without a command.
func TestRefusedAccount(t *testing.T) {
	for name, fault := range refusedForAll {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			accountRefused(t, fault)
		})
	}
}

func accountRefused(t *testing.T, fault githubtest.Fault) {
	goOn := make(chan struct{})
	finish := sync.OnceFunc(func() { close(goOn) })
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		select {
		case <-goOn:
		case <-ctx.Done():
			return 1
		}
		return a.work(ctx)
	})
	t.Cleanup(finish)
	s.firstProbe = 100 * time.Millisecond
	s.config.Director.HTTPListen = "127.0.0.1:0"
	key := s.github.CreateIssue(repo, "octocat", "All the same", "", "agent-task")
	s.start()
	s.until("it runs", func() bool { return s.runtime.running(key) != "" && s.state(key) == "Running" })
	fault.Times = 1 << 30
	must(t, s.github.Inject(fault))
	git := githubtest.Fault{Git: true, Status: fault.Status, Times: 1 << 30}
	must(t, s.github.Inject(git))
	finish()
	s.until("unhealthy", func() bool {
		return strings.HasPrefix(s.health(), "unhealthy: GitHub has refused every request from this account since ")
	})
	s.until("the delivery waits", s.inState(key, "Delivering"))
	s.showsRefusal(key, 20)
	all, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir)
	must(t, err)
	if s.state(key) != "Delivering" || all.Director.Phase != "COOLDOWN" {
		t.Errorf("%s in phase %s", s.state(key), all.Director.Phase)
	}
	if n := s.logs.FilterMessageSnippet("GitHub is refusing every request").Len(); n != 1 {
		t.Errorf("%d alarms", n)
	}
	s.github.Repair()
	s.until("review", s.labelled(key, "agent-review"))
	s.until("healthy", func() bool { return strings.HasPrefix(s.health(), "healthy: ") })
	if v := s.verdicts(key); len(v) > 0 || s.runtime.begun() != 1 {
		t.Errorf("verdicts %q, attempts %q; want one attempt without a verdict", v, s.runtime.attempts())
	}
}

// showsRefusal checks that explain shows the refusal between probes as well. The director must be ready although it is
// unhealthy, because its page and proxy are still needed.
func (s *harness) showsRefusal(key string, times int) {
	s.t.Helper()
	for range times {
		told := s.explained(key)
		if !strings.Contains(told.Waits, "refuses every request of this account") || !told.Until.IsZero() ||
			!strings.HasPrefix(told.Next, "Make the token") {
			s.t.Fatalf("waits for %q until %s; to do: %q", told.Waits, told.Until, told.Next)
		}
		time.Sleep(100 * time.Millisecond) // samples for two seconds
	}
	for path, want := range map[string]string{
		operator.HealthPath: "503 no", operator.ReadyPath: "200 yes", operator.LivePath: "200 yes",
	} {
		if got := s.probed(path); got != want {
			s.t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestRefusedResourceIsAlone checks that a 403 for one resource does not close GitHub, and that two of them do not end
// a delivery.
func TestRefusedResourceIsAlone(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.GitHub.Delivery = "pull_request"
	key := s.github.CreateIssue(repo, "octocat", "All the same", "", "agent-task")
	must(t, s.github.Inject(githubtest.Fault{
		Method: "POST", Path: "/pulls$", Status: 403, Times: 2,
		Body: `{"message":"Resource not accessible by personal access token"}`,
	}))
	must(t, s.github.Inject(githubtest.Fault{
		Method: githubtest.Mutation, Path: "^/createPullRequest$", Status: 403, Times: 2,
		Body: "Resource not accessible by personal access token",
	}))
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if h := s.health(); strings.HasPrefix(h, "unhealthy") {
		t.Error(h)
	}
	if v := s.verdicts(key); len(v) > 0 {
		t.Errorf("one 403 has ended the delivery: %q", v)
	}
}
