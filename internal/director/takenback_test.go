package director

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"retake/internal/github/githubtest"
)

// A person removes agent-claimed during the delivery, and maybe adds agent-task again. The director shows none of the
// work, and carries out a new offer from the start.
func TestTakenBackWhileItIsHandedIn(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"octocat", "retake-bot"} {
		for name, fault := range map[string]githubtest.Fault{
			"pushes fail":     githubtest.ServerError(http.StatusInternalServerError),
			"pushes are slow": {Delay: 2 * time.Second},
		} {
			for _, anew := range []bool{false, true} {
				t.Run(name+", by "+who, func(t *testing.T) {
					t.Parallel()
					s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) }))
					s.failPushes(fault)
					key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
					s.start()
					s.until("a delivery", func() bool { return s.state(key) == "Delivering" })
					s.github.RemoveLabel(key, who, "agent-claimed")
					if anew {
						s.github.AddLabel(key, who, "agent-task")
					}
					s.until("it is over", func() bool { return len(s.transitions(key, "Released")) > 0 })
					s.github.Repair()
					want, branches, attempts := []string(nil), []string{"main"}, 1
					if anew {
						want, branches, attempts = []string{"agent-review"}, []string{"main", "retake/1-a1"}, 2
					}
					s.until("the labels are right",
						func() bool { return s.labelled(key, want...)() && (anew || s.inState(key, "gone")()) })
					if got := s.branches(); !slices.Equal(got, branches) {
						t.Errorf("branches %q, want %q", got, branches)
					}
					if pulls := len(s.github.Issues(repo)) - 1; pulls != attempts-1 || s.runtime.begun() != attempts ||
						len(s.verdicts(key)) > 0 {
						t.Errorf("%d pull requests after %d attempts, verdicts %q", pulls, s.runtime.begun(),
							s.verdicts(key))
					}
				})
			}
		}
	}
}

// A person removes the label after the branch was pushed, and before the pull request could be created. The next try
// removes the branch.
func TestTakenBackAfterItWasPushed(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(s *harness, key string){
		"taken":  func(s *harness, key string) { s.github.RemoveLabel(key, "octocat", "agent-claimed") },
		"closed": func(s *harness, key string) { s.github.Close(key, "octocat") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) }))
			fault := githubtest.ServerError(http.StatusBadGateway).On("POST", "/pulls$")
			fault.Times = 100_000
			must(t, s.github.Inject(fault))
			must(t, s.github.Inject(fault.On(githubtest.Mutation, "^/createPullRequest$")))
			key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
			s.start()
			s.until("it is pushed", func() bool { return len(s.branches()) > 1 })
			leave(s, key)
			s.until("it is over", func() bool { return len(s.transitions(key, "Released")) > 0 })
			if got := s.branches(); !slices.Equal(got, []string{"main"}) {
				t.Errorf("branches %q, want only main", got)
			}
		})
	}
}
