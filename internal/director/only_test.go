package director

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/github/githubtest"
	"retake/internal/patience"
)

// ends waits for the end of a run that ends without a signal.
func (s *harness) ends() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		s.cancel(nil)
		s.cancel = nil
		return err
	case <-time.After(patience.For(2 * time.Minute)):
		for _, e := range s.logs.All() {
			s.t.Log(e.Message, e.ContextMap())
		}
		s.t.Fatal("the run does not end")
		return nil
	}
}

// A run for some issues delivers these, leaves the others in the queue, continues earlier work, and ends.
func TestRunForSomeIssues(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	before := s.github.CreateIssue(repo, "octocat", "Begun before", "", "agent-task")
	s.runtime.play = func(ctx context.Context, a *fakeWorker) int {
		if a.task == before {
			return rests(ctx, a)
		}
		return a.work(ctx)
	}
	s.start()
	s.until("running", s.inState(before, "Running"))
	s.stop()
	second, third := s.github.CreateIssue(repo, "octocat", "Not now", "", "agent-task"), s.github.CreateIssue(repo,
		"octocat", "Now", "", "agent-task")
	s.only = []fsm.IssueKey{fsm.IssueKey(strings.ToUpper(third))}
	s.start()
	var saidOnly bool
	s.until("review", func() bool {
		if now, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir); err == nil &&
			slices.Equal(now.Director.Only, []string{strings.ToUpper(third)}) {
			for _, task := range now.Tasks {
				saidOnly = saidOnly || task.Issue == second && strings.Contains(task.WaitsFor, "this run is limited to")
			}
		}
		return s.labelled(third, "agent-review")()
	})
	if err := s.ends(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if !saidOnly {
		t.Error("no message said that the second issue waits for another run")
	}
	if !s.labelled(second, "agent-task")() || !s.labelled(before, "agent-claimed")() ||
		s.runtime.running(before) == "" || s.runtime.begun() != 2 {
		t.Errorf("the second has %q, the first %q, attempts %q", s.labels(second), s.labels(before),
			s.runtime.attempts())
	}
}

// Such a run also ends for an issue that waits for a person or is not offered. The run then lists the unfinished
// issues.
func TestRunForSomeIssuesThatAreNotDone(t *testing.T) {
	t.Parallel()
	s := newHarness(t, asks)
	asked := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	silent := s.github.CreateIssue(repo, "octocat", "Nobody offers it", "")
	s.only = []fsm.IssueKey{fsm.IssueKey(asked), fsm.IssueKey(silent)}
	s.start()
	err := s.ends()
	if !errors.Is(err, ErrNotDone) || !strings.HasSuffix(err.Error(),
		asked+" is waiting for someone to answer; "+silent+
			" is not offered: it needs the label agent-task") {
		t.Errorf("ended with %v", err)
	}
	if !s.labelled(asked, "agent-blocked")() || !s.labelled(silent)() {
		t.Errorf("labels %q and %q", s.labels(asked), s.labels(silent))
	}
	s.comment(asked, "Format A or B?")
}

// If GitHub fails during a request for an issue of such a run, the director repeats the request, and the log has the
// reason for the wait.
func TestRunForSomeIssuesAsksGitHubAgain(t *testing.T) {
	t.Parallel()
	s := newHarness(t, rests)
	silent := s.github.CreateIssue(repo, "octocat", "Nobody offers it", "")
	if err := s.github.Inject(githubtest.ServerError(http.StatusBadGateway).On(http.MethodGet,
		`/issues/1$`)); err != nil {
		t.Fatal(err)
	}
	s.only = []fsm.IssueKey{fsm.IssueKey(silent)}
	s.start()
	if err := s.ends(); !errors.Is(err, ErrNotDone) ||
		!strings.HasSuffix(err.Error(), silent+" is not offered: it needs the label agent-task") {
		t.Errorf("ended with %v", err)
	}
	if said := s.logs.FilterMessage("could not read an issue given with --only; retrying").
		FilterField(zap.String("issue", silent)); said.Len() != 1 {
		t.Errorf("the log names the pending issue %d times", said.Len())
	}
}

// A missing program ends a run for some issues. The run does not wait for its installation.
func TestAsksForTheProgramOfASelectedIssue(t *testing.T) {
	t.Parallel()
	s := newReal(t, nil, code("painter"))
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.only = []fsm.IssueKey{fsm.IssueKey(key)}
	s.start()
	const says = "painter, which CODE runs, is not on the director's machine"
	if err := s.ends(); !errors.Is(err, ErrNotDone) || !strings.Contains(err.Error(), says) {
		t.Errorf("the run ended with %v", err)
	}
	if i := s.github.Issue(key); !slices.Equal(i.Labels, []string{"agent-task"}) || len(i.Comments) > 0 {
		t.Errorf("%s is claimed: %v, %d comments", key, i.Labels, len(i.Comments))
	}
}
