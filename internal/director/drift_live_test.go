package director

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/github/githubtest"
)

// The director informs a running worker once about each base that its checkout is too far behind, and the worker
// continues.
func TestRunningWorkerIsToldThatItFellBehind(t *testing.T) {
	t.Parallel()
	running := make(chan *fakeWorker, 1)
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		running <- a
		<-ctx.Done()
		return 1
	})
	s.config.SyncMain.MaxCommitsBehind = 2
	s.github.CreateIssue(repo, "octocat", "Slow work", "", "agent-task")
	s.start()
	a := <-running
	s.advance("news.txt", 2) // as many commits as sync_main tolerates
	for _, file := range []string{"third.txt", "fourth.txt"} {
		head := s.advance(file, 1)
		var got wire.SyncRequired
		s.until("sync_required", func() bool {
			select {
			case got = <-a.behind:
				return true
			default:
				return false
			}
		})
		if got.MainSHAExpected != head || got.Reason != "behind_main" || got.RequiredAction != "merge_main" ||
			got.Policy.MaxCommitsBehind != 2 {
			t.Errorf("received %+v, want the new head %s", got, head)
		}
	}
	s.stop()
	if len(a.behind) > 0 { // checks the second message; a duplicate of the first would have failed above
		t.Errorf("told again: %+v", <-a.behind)
	}
}

// A rate limit of GitHub begins before the director starts. The director creates the labels when the limit has ended.
func TestLabelsAreMadeAfterALimitAtTheStart(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	must(t, s.github.Inject(githubtest.SecondaryLimit(http.StatusTooManyRequests, 2*time.Second)))
	s.start()
	s.until("the labels", func() bool {
		made := 0
		for _, r := range s.github.Requests() {
			if r.Method == "POST" && strings.HasSuffix(r.Path, "/labels") && r.Status == http.StatusCreated {
				made++
			}
		}
		return made == 4
	})
	// at the start, and by the first poll if that comes before the limit ends
	if n := s.logs.FilterMessage("could not check labels; GitHub is refusing requests for now").Len(); n < 1 || n > 2 {
		t.Errorf("limited at the start %d times, want once or twice", n)
	}
}
