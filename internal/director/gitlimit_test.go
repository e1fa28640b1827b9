package director

import (
	"context"
	"fmt"
	"testing"
	"time"

	"retake/internal/director/operator"
	"retake/internal/github/githubtest"
	"retake/internal/recovery"
)

// TestALimitOfGitHoldsGit checks that a limit that the server states to git closes git for all tasks until its end.
// Otherwise each delivery would try again within a second. A 403 counts as a limit only with Retry-After.
func TestALimitOfGitHoldsGit(t *testing.T) {
	for _, status := range []int{403, 429} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			goOn := make(chan struct{})
			s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
				if a.plan.Issue.Number == 2 {
					select {
					case <-goOn:
					case <-ctx.Done():
						return 1
					}
				}
				return a.work(ctx)
			})
			limit := githubtest.Fault{Git: true, Status: status, Header: map[string]string{"Retry-After": "600"}}
			must(t, s.github.Inject(limit.OnPush()))
			first := s.github.CreateIssue(repo, "octocat", "The first", "", "agent-task")
			other := s.github.CreateIssue(repo, "octocat", "The other", "", "agent-task")
			s.start()
			s.until("the other runs", s.inState(other, "Running"))
			began := time.Now()
			s.until("git is closed", func() bool { return !s.closures()[recovery.GitHubGit].IsZero() })
			if wait := s.closures()[recovery.GitHubGit].Sub(began); wait < 8*time.Minute || wait > 15*time.Minute {
				t.Errorf("closed for %s, want the stated ten minutes", wait)
			}
			close(goOn)
			s.until("the other waits", s.inState(other, "Delivering"))
			failed := s.logs.FilterMessage("effect failed").Len()
			time.Sleep(3 * time.Second) // the retries of both would fail or succeed within this time
			if now := s.logs.FilterMessage("effect failed").Len(); failed != 1 || now != failed {
				t.Errorf("%d failures, then %d, want only the limited delivery", failed, now)
			}
			if s.state(first) != "Delivering" || s.state(other) != "Delivering" {
				t.Errorf("the first is %s, the other is %s", s.state(first), s.state(other))
			}
			if _, err := operator.LiftCooldowns(t.Context(), s.config.Director.DataDir, nil); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{first, other} {
				s.until(key+" is delivered", s.labelled(key, "agent-review"))
			}
			if v := append(s.verdicts(first), s.verdicts(other)...); len(v) > 0 {
				t.Errorf("verdicts %q", v)
			}
		})
	}
}
