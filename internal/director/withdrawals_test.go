package director

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/github/githubtest"
)

// gitsBelow returns the git processes with a working directory below dir.
func gitsBelow(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	must(t, err)
	return slices.DeleteFunc(links, func(link string) bool {
		at, err := os.Readlink(link)
		return err != nil || !strings.HasPrefix(at, dir)
	})
}

// TestClosedIssueEndsGit checks that a git process that would run for hours ends as soon as the director reads that the
// issue is closed. The director does not ask a question.
func TestClosedIssueEndsGit(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		f, err := os.Create(filepath.Join(a.checkout, "big"))
		if err != nil || f.Truncate(8<<40) != nil || f.Close() != nil {
			return 1
		}
		return a.work(ctx)
	})
	s.config.Checkout.MaxBytes, s.config.Checkout.MaxWorkBytes = 1<<50, 1<<50
	key := s.github.CreateIssue(repo, "octocat", "Large", "", "agent-task")
	s.start()
	seen := map[string]time.Time{}
	s.until("the same git is busy for a second", func() bool {
		return len(s.transitions(key, "Delivering")) > 0 && slices.ContainsFunc(gitsBelow(t, s.config.Director.DataDir),
			func(git string) bool {
				if seen[git].IsZero() {
					seen[git] = time.Now()
				}
				return time.Since(seen[git]) > time.Second
			})
	})
	s.github.SetState(key, "octocat", "closed")
	began := time.Now()
	s.until("git has ended", func() bool { return len(gitsBelow(t, s.config.Director.DataDir)) == 0 })
	t.Logf("git ended %s after the issue was closed, with a poll every %s", time.Since(began).Round(time.Millisecond),
		s.config.GitHub.Poll)
	s.until("labels gone", s.labelled(key))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("after %s", took)
	}
	if v := s.verdicts(key); len(v) != 0 {
		t.Errorf("verdicts %q", v)
	}
}

// A person merges the result of a delivery and closes the issue before the director knows that it has delivered. The
// work counts as done.
func TestMergedWhileTheDirectorWasDown(t *testing.T) {
	t.Parallel()
	var s *harness
	s = withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		down := githubtest.ServerError(502).On("", "/issues/1/labels") // after the pull request was made
		down.Times = 100_000
		if err := s.github.Inject(down); err != nil {
			return 1
		}
		return a.work(ctx)
	}))
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	pull := s.pull()
	s.stop()
	if got := s.transitions(key, "InReview"); len(got) > 0 {
		t.Fatalf("the director knows of the delivery: %q", got)
	}
	must(t, s.github.Merge(pull, "octocat"))
	s.github.Close(key, "octocat")
	s.github.Repair()
	s.start()
	s.until("over", func() bool { return len(s.transitions(key, "Done"))+len(s.transitions(key, "Released")) > 0 })
	if got := s.transitions(key, "Done"); !slices.Equal(got, []string{"merged"}) {
		t.Errorf("done by %q, want merged; released by %q", got, s.transitions(key, "Released"))
	}
	s.until("no labels", s.labelled(key))
	s.until("no branch", func() bool { return slices.Equal(s.branches(), []string{"main"}) })
}

// TestTooMuchBlocksOneTask checks that data beyond a limit is not read and that the director asks a person, while it
// delivers another task's work.
func TestTooMuchBlocksOneTask(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Title == "Hostile" {
			f, err := os.Create(filepath.Join(a.checkout, "big"))
			if err != nil || f.Truncate(8<<40) != nil || f.Close() != nil {
				return 1
			}
		}
		return a.work(ctx)
	})
	hostile := s.github.CreateIssue(repo, "octocat", "Hostile", "", "agent-task")
	honest := s.github.CreateIssue(repo, "octocat", "Honest", "", "agent-task")
	s.start()
	s.until("the honest one is delivered", s.labelled(honest, "agent-review"))
	s.until("the hostile one is blocked", s.labelled(hostile, "agent-blocked"))
	if v := s.verdicts(hostile); len(v) != 1 || v[0] != "scope_violation" {
		t.Errorf("verdicts %q", v)
	}
	s.until("it says why", func() bool {
		for _, c := range s.github.Issue(hostile).Comments {
			if strings.Contains(c.Body, "checkout.max_bytes") && strings.Contains(c.Body, "/agent fresh") {
				return true
			}
		}
		return false
	})
}

// transitions lists the moves of a task to a state.
func (s *harness) transitions(key, to string) (out []string) {
	for _, e := range s.logs.FilterMessage("transition").All() {
		if m := e.ContextMap(); m["issue"] == key && m["to"] == to {
			out = append(out, m["event"].(string))
		}
	}
	return out
}
