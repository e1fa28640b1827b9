package director

import (
	"context"
	"net/http"
	"testing"
	"time"

	"retake/internal/github/githubtest"
)

// TestIdlePollsCostNothing: while nothing changes, and no pull request is open, all that a director asks are the two lists of each poll, issues and comments, and each answer is
// 304, which GitHub does not count.
func TestIdlePollsCostNothing(t *testing.T) {
	t.Parallel()
	const polls = 100
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.GitHub.Poll = 10 * time.Millisecond
	s.github.CreateIssue(repo, "octocat", "Nobody's business", "")
	s.start()
	idle := func() (asked []githubtest.Request) {
		for _, r := range s.github.Requests() {
			if r.Status != http.StatusNotModified {
				asked = nil // it is not idle yet
				continue
			}
			asked = append(asked, r)
		}
		return asked
	}
	s.until("a hundred polls in a row are answered with 304", func() bool { return len(idle()) >= 2*polls })
	for _, r := range idle() {
		if r.Method != http.MethodGet {
			t.Errorf("%+v", r)
		}
	}
	lists := map[string]int{}
	for _, r := range idle() {
		lists[r.Path]++
	}
	if len(lists) != 2 {
		t.Errorf("asked for %v, want two lists", lists)
	}
}
