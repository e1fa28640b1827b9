package director

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"retake/internal/director/operator"
)

func TestClosedIssueIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, _ *fakeWorker) int { <-ctx.Done(); return 1 })
	key := s.github.CreateIssue(repo, "octocat", "Never mind", "", "agent-task")
	s.start()
	s.until("running", func() bool { return s.runtime.running(key) != "" })
	s.github.SetState(key, "octocat", "closed")
	s.until("labels gone", s.labelled(key))
	s.until("container gone", func() bool { return s.runtime.running(key) == "" })
}

func TestSecondDirectorOnTheSameFolderIsRefused(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, _ *fakeWorker) int { <-ctx.Done(); return 1 })
	s.start()
	s.until("healthy", func() bool {
		h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir)
		return err == nil && h.OK
	})
	err := Run(t.Context(), Options{
		Config: s.config, Log: zap.NewNop(), Runtime: s.runtime,
		Token: func(context.Context) (string, error) { return "token", nil },
	})
	if err == nil || !strings.Contains(err.Error(), "another director is running on") {
		t.Errorf("got %v, want a refusal that names the directory", err)
	}
}

func TestNothingIsWrittenUnlessAllowed(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, _ *fakeWorker) int { <-ctx.Done(); return 1 })
	s.config.GitHub.Writes = false
	key := s.github.CreateIssue(repo, "octocat", "Look, don't touch", "", "agent-task")
	s.start()
	s.until("a decision", func() bool {
		all := s.logs.FilterMessage("transition").All()
		return len(all) > 0 && all[len(all)-1].ContextMap()["to"] == "Forgotten"
	})
	s.stop()
	for _, r := range s.github.Requests() {
		if r.Method != "GET" {
			t.Errorf("%s %s with github.writes = false", r.Method, r.Path)
		}
	}
	if !slices.Equal(s.labels(key), []string{"agent-task"}) {
		t.Errorf("labels %q", s.labels(key))
	}

	// A newer change moves the cursor past the issue. The director still finds the issue once writes are allowed.
	s.github.CreateIssue(repo, "octocat", "Another matter", "")
	s.config.GitHub.Writes = true
	s.start()
	s.until("claimed", s.labelled(key, "agent-claimed"))
}
