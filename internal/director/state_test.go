package director

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"retake/internal/config"
)

// leave writes files into the worker's checkout.
func (a *fakeWorker) leave(names ...string) error {
	var errs error
	for _, name := range names {
		file := filepath.Join(a.checkout, name)
		errs = errors.Join(errs, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("x"), 0o644))
	}
	return errs
}

// An agent that reports success and left nothing but its own session has done nothing: it is no delivery and no review.
func TestStateOfAnAgentIsNoSuccess(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if err := a.leave(".opencode/opencode.db", ".crush/crush.db", ".played/session.json"); err != nil {
			return 1
		}
		return a.succeed(ctx)
	})
	key := s.github.CreateIssue(repo, "octocat", "Do something", "", "agent-task")
	s.start()
	s.until("a verdict", func() bool { return len(s.verdicts(key)) > 0 })
	if v := s.verdicts(key); v[0] != "no_progress" {
		t.Errorf("verdicts %q, want no_progress", v)
	}
	s.stop()
	if slices.Contains(s.labels(key), "agent-review") || len(s.branches()) != 1 {
		t.Errorf("labels %q, branches %q", s.labels(key), s.branches())
	}
}

// Beside work, an agent's own files stay behind; what the configuration names as work is delivered.
func TestBranchHasTheWorkWithoutTheState(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if err := a.leave(".opencode/opencode.db", ".played/session.json", ".played/rules.md", "scratch/x", "frobnicator.go"); err != nil {
			return 1
		}
		return a.succeed(ctx)
	})
	s.config.Stages = []config.Stage{{Name: "CODE", Run: []string{"played"}, StatePaths: []string{"scratch", "!.played/rules.md"}, Timeout: s.config.Stages[0].Timeout}}
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if got := strings.Fields(s.git("ls-tree", "-r", "--name-only", "retake/1-a1")); !slices.Equal(got, []string{".played/rules.md", "README.md", "frobnicator.go"}) {
		t.Errorf("the branch has %q", got)
	}
}

// git asks the remote.
func (s *harness) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = filepath.Join(filepath.Dir(s.config.Director.DataDir), "git", repo+".git")
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("git %q: %v", args, err)
	}
	return string(out)
}

// branches are those of the remote.
func (s *harness) branches() []string {
	return strings.Fields(s.git("branch", "--format=%(refname:short)"))
}
