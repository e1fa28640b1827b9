package director

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/effects"
	"retake/internal/director/operator"
)

// withReviews makes a harness deliver pull requests and validate the work.
func withReviews(s *harness) *harness {
	s.config.GitHub.Delivery = effects.DeliverPullRequest
	s.config.Stages = append(s.config.Stages, config.Stage{
		Name: wire.StageValidate, Run: []string{"make", "test"},
		Timeout: time.Minute,
	})
	return s
}

// pull waits for the pull request of a task, and returns its key.
func (s *harness) pull() (key string) {
	s.t.Helper()
	s.until("a pull request", func() bool {
		for _, i := range s.github.Issues(repo) {
			if i.Head != "" {
				key = i.Key
			}
		}
		return key != ""
	})
	return key
}

func (s *harness) state(key string) string {
	v, err := operator.AskSnapshot(s.t.Context(), s.config.Director.DataDir)
	if err != nil {
		return ""
	}
	for _, t := range v.Tasks {
		if t.Issue == key {
			return t.State
		}
	}
	return "gone"
}

func (s *harness) inState(key, want string) func() bool {
	return func() bool { return s.state(key) == want }
}

// A delivered task stays alive. A failing check begins another attempt on the same branch, and so does a reviewer's
// request. A merge ends the task and removes the branch.
func TestReviewOfDeliveredWork(t *testing.T) {
	t.Parallel()
	told := make(chan wire.AttemptFile, 3)
	s := withReviews(newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		told <- *a.plan.AttemptFile
		return a.work(ctx)
	}))
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	pull := s.pull()
	s.until("in review", s.inState(key, "InReview"))
	first := s.github.Issue(pull)
	if first.Draft || first.Head != "retake/1-a1" || !strings.Contains(first.Body, "Refs #1") {
		t.Errorf("pull request %+v; want a ready one from retake/1-a1", first)
	}
	<-told
	s.github.SetCheck(pull, "lint", "failure", "work-1.txt: no newline at the end")
	s.until("a second delivery", func() bool {
		return s.github.Issue(pull).HeadSHA != first.HeadSHA &&
			s.inState(key, "InReview")()
	})
	second := <-told
	if n := len(second.EarlierFailures); n != 1 || second.EarlierFailures[0].Stage != "REVIEW" ||
		len(second.Hints) != 1 || !strings.Contains(second.Hints[0].Text, "no newline") {
		t.Errorf("the second attempt received %+v, %+v; want the check's output", second.EarlierFailures, second.Hints)
	}
	if body := s.github.Issue(pull).Body; strings.Contains(body, "earlier") {
		t.Errorf("the pull request mentions failed attempts, but no attempt failed:\n%s", body)
	}
	after := s.github.Issue(pull).HeadSHA
	s.github.SetCheck(pull, "lint", "success", "")
	s.github.Review(pull, "octocat", "CHANGES_REQUESTED", "Call it gadget.")
	s.until("a third delivery", func() bool {
		return s.github.Issue(pull).HeadSHA != after &&
			s.inState(key, "InReview")()
	})
	if third := <-told; len(third.Hints) != 2 || third.Hints[1].Text != "Call it gadget." ||
		third.Hints[1].From != "octocat" {
		t.Errorf("the third attempt received %+v; want octocat's request last", third.Hints)
	}
	s.github.SetCheck(pull, "lint", "success", "")
	must(t, s.github.Merge(pull, "octocat"))
	s.until("done", s.inState(key, "gone"))
	s.until("no labels", s.labelled(key))
	s.until("no branch", func() bool { return slices.Equal(s.branches(), []string{"main"}) })
	if c := s.github.Issue(key).Comments; len(c) != 1 || !strings.Contains(c[0].Body, "merged") {
		t.Errorf("comments %+v; want one, which says that it was merged", c)
	}
	if n := len(s.github.Issues(repo)); n != 2 {
		t.Errorf("%d issues and pull requests, want one of each", n)
	}
	s.until("checkout removed", func() bool {
		left, err := os.ReadDir(filepath.Join(s.config.Director.DataDir, "tasks"))
		return err == nil && len(left) == 0
	})
}

// TestBaseBranchMovesOn checks that after a merge with a newer base branch, an attempt runs only the validation before
// the delivery.
func TestBaseBranchMovesOn(t *testing.T) {
	t.Parallel()
	var plans []wire.Plan
	s := withReviews(newHarness(t, nil))
	s.runtime.play = func(ctx context.Context, a *fakeWorker) int {
		plans = append(plans, a.plan)
		if a.plan.Attempt > 1 {
			return a.succeed(ctx)
		}
		s.advance("main.txt", 3)
		return a.work(ctx)
	}
	s.config.SyncMain.MaxCommitsBehind = 2
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	pull := s.pull()
	s.until("in review", s.inState(key, "InReview"))
	if len(plans) != 2 || plans[0].ValidateFirst || !plans[1].ValidateFirst {
		t.Errorf("%d attempts, the second begins with VALIDATE: %t; want 2, true", len(plans),
			len(plans) > 1 && plans[1].ValidateFirst)
	}
	if s.github.Issue(pull).Draft {
		t.Error("the pull request is a draft, although the work was validated")
	}
	if behind := strings.TrimSpace(s.git("rev-list", "--count", s.github.Issue(pull).Head+"..main")); behind != "0" {
		t.Errorf("the branch is %s commits behind", behind)
	}
}

// The budget is used up before the merge that the base branch requires. The director shows the work as a draft with
// that reason.
func TestUnvalidatedWorkIsADraft(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, nil))
	s.runtime.play = func(ctx context.Context, a *fakeWorker) int {
		s.advance("main.txt", 3)
		return a.work(ctx)
	}
	s.config.SyncMain.MaxCommitsBehind, s.config.Director.MaxRetries = 2, 0
	s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	if pull := s.github.Issue(s.pull()); !pull.Draft || !strings.Contains(pull.Body, "3 commits behind") {
		t.Errorf("pull request %+v; want a draft with the number of commits behind", pull)
	}
}

// The work conflicts with the base branch, even a slightly newer one. One attempt gets the conflict to resolve.
func TestConflictIsResolvedByTheNextAttempt(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, nil))
	var found string
	s.runtime.play = func(ctx context.Context, a *fakeWorker) int {
		name := filepath.Join(a.checkout, "shared.txt")
		if a.plan.Attempt == 1 {
			s.advance("shared.txt", 1)
			if os.WriteFile(name, []byte("work\n"), 0o644) != nil {
				return 1
			}
			return a.succeed(ctx)
		}
		data, err := os.ReadFile(name)
		if found = string(data); err != nil || os.WriteFile(name, []byte("main, 0\nwork\n"), 0o644) != nil {
			return 1
		}
		return a.succeed(ctx)
	}
	key := s.github.CreateIssue(repo, "octocat", "Share", "please", "agent-task")
	s.start()
	pull := s.pull()
	s.until("in review", s.inState(key, "InReview"))
	if !strings.Contains(found, "<<<<<<<") || !strings.Contains(found, "main, 0") || !strings.Contains(found, "work") {
		t.Errorf("the second attempt found\n%s\nwant both sides between conflict markers", found)
	}
	if v := s.verdicts(key); !slices.Equal(v, []string{"git_conflict"}) {
		t.Errorf("verdicts %q; want one conflict", v)
	}
	if text := s.git("show", s.github.Issue(pull).Head+":shared.txt"); strings.TrimSpace(text) != "main, 0\nwork" {
		t.Errorf("delivered %q", text)
	}
}
