package director

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/container"
)

// newCleanHarness returns a harness with clean validation. play runs the attempts of agents, and judge runs the
// validations.
func newCleanHarness(t *testing.T, play, judge func(ctx context.Context, a *fakeWorker) int) *harness {
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.ValidateOnly {
			return judge(ctx, a)
		}
		return play(ctx, a)
	})
	s.config.Worker.Validate = "fresh"
	s.config.Stages = append(s.config.Stages, config.Stage{
		Name: "VALIDATE", Run: []string{"make", "test"},
		Timeout: time.Minute,
	})
	return s
}

// refuse reports a failure of VALIDATE.
func (a *fakeWorker) refuse(ctx context.Context, said string) int {
	err := a.client.Report(ctx, asserted(wire.WorkerError{
		ErrorID: a.plan.WorkerID + "/VALIDATE-1", WorkerID: a.plan.WorkerID, AttemptID: a.plan.WorkerID,
		IssueNumber: a.plan.Issue.Number,
		Attempt:     a.plan.Attempt, Stage: wire.StageValidate, ErrorType: "tests_failed",
		Message: "VALIDATE: make returned exit code 2", ExitCode: new(2),
		LastStdoutTail: said,
	}))
	if err != nil {
		return 2
	}
	return 1
}

// checkClean checks that a validation sees a copy of an agent's work and no other file of the agent.
func checkClean(t *testing.T, i int, a, agent *fakeWorker) {
	t.Helper()
	if len(a.plan.Stages) != 1 || a.plan.Stages[0].Name != "VALIDATE" || a.plan.ValidateFirst || a.plan.Unchanged {
		t.Errorf("validation %d runs %+v", i, a.plan)
	}
	if a.checkout == agent.checkout || filepath.Dir(a.checkout) != filepath.Dir(agent.checkout) {
		t.Errorf("validation %d sees %s, the agent %s", i, a.checkout, agent.checkout)
	}
	if !slices.Equal(a.spec.Env, []string{"GOFLAGS=-mod=mod"}) {
		t.Errorf("validation %d has %q", i, a.spec.Env)
	}
	if want := []container.Mount{{Source: "/opt", Target: "/opt", ReadOnly: true}}; !slices.Equal(a.spec.Mounts,
		want) {
		t.Errorf("validation %d mounts %+v", i, a.spec.Mounts)
	}
	if want := []string{"/cache", "/seen", "/shared", "/srv"}; !slices.Equal(a.spec.Scratch, want) {
		t.Errorf("validation %d has scratch at %q, want %q", i, a.spec.Scratch, want)
	}
	if _, err := os.Lstat(a.checkout); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there", a.checkout)
	}
}

// TestWorkIsValidatedInACleanContainer checks that a separate attempt validates a copy of the work. After a refusal the
// agent gets the reason and fixes the work.
func TestWorkIsValidatedInACleanContainer(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var agents, judges []*fakeWorker
	s := newCleanHarness(t, func(ctx context.Context, a *fakeWorker) int {
		mu.Lock()
		agents = append(agents, a)
		mu.Unlock()
		if err := os.WriteFile(filepath.Join(a.checkout, "work.txt"), fmt.Appendf(nil, "round %d\n", a.plan.Attempt),
			0o644); err != nil {
			return 1
		}
		return a.succeed(ctx)
	}, func(ctx context.Context, a *fakeWorker) int {
		mu.Lock()
		judges = append(judges, a)
		mu.Unlock()
		text, err := os.ReadFile(filepath.Join(a.checkout, "work.txt"))
		if err != nil || string(text) == "round 1\n" {
			return a.refuse(ctx, "--- FAIL: TestParse (0.00s)\nFAIL\n")
		}
		return a.succeed(ctx)
	})
	s.config.Containers.EnvPassthrough, s.config.Containers.Env = []string{"MODEL_KEY"},
		map[string]string{"GOFLAGS": "-mod=mod"}
	s.config.Containers.Mounts = []string{
		"volume:cache:/cache", "volume:cache:/seen:ro", "/opt:/opt",
		"/srv/shared:/shared:rw", "/srv:/srv",
	}
	key := s.github.CreateIssue(repo, "octocat", "Parse dates", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"tests_failed"}) {
		t.Errorf("verdicts %q; want only tests_failed", v)
	}
	if len(agents) != 2 || len(judges) != 2 {
		t.Fatalf("%d attempts of agents, %d validations; want two and two", len(agents), len(judges))
	}
	for i, a := range agents {
		if len(a.plan.Stages) != 1 || a.plan.Stages[0].Name != "CODE" || a.plan.ValidateFirst {
			t.Errorf("agent %d runs %+v", i, a.plan.Stages)
		}
	}
	if r := agents[1].plan.Rejected; agents[0].plan.Rejected != nil || r == nil || r.ExitCode != 2 ||
		!strings.Contains(r.StdoutTail, "--- FAIL: TestParse") {
		t.Errorf("the agents received %+v, then %+v", agents[0].plan.Rejected, r)
	}
	if f := agents[1].plan.AttemptFile; f.Action != "fix_attempt" || len(f.EarlierFailures) != 1 ||
		f.EarlierFailures[0].Stage != "VALIDATE" {
		t.Errorf("the second agent's file: %+v", f)
	}
	for i, a := range judges {
		checkClean(t, i, a, agents[0])
	}
	if got := s.git("show", "retake/1-a4:work.txt"); got != "round 3\n" && got != "round 3" {
		t.Errorf("delivered is %q", got)
	}
}

// A change after the validation leads to another validation before the delivery.
func TestWorkThatChangesAfterItsValidationIsValidatedAgain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var saw []string
	var checkout string
	s := newCleanHarness(t, func(ctx context.Context, a *fakeWorker) int {
		mu.Lock()
		checkout = a.checkout
		mu.Unlock()
		return a.work(ctx)
	}, func(ctx context.Context, a *fakeWorker) int {
		mu.Lock()
		defer mu.Unlock()
		_, late := os.Stat(filepath.Join(a.checkout, "late.txt"))
		saw = append(saw, fmt.Sprint(late == nil))
		if err := os.WriteFile(filepath.Join(checkout, "late.txt"), []byte("x"), 0o644); err != nil {
			return 1
		}
		return a.succeed(ctx)
	})
	key := s.github.CreateIssue(repo, "octocat", "Parse dates", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if !slices.Equal(saw, []string{"false", "true"}) {
		t.Errorf("validations that saw the late change: %q; want only the second", saw)
	}
	if v := s.verdicts(key); !slices.Equal(v, []string{"validation"}) {
		t.Errorf("verdicts %q", v)
	}
	if got := s.git("ls-tree", "--name-only", "retake/1-a3"); !strings.Contains(got, "late.txt") {
		t.Errorf("delivered is %q", got)
	}
}

// The agent does not run again if the director ends while the clean container runs, or if the validation is killed.
func TestValidationSurvivesTheDirectorAndIsRepeated(t *testing.T) {
	t.Parallel()
	began := make(chan string, 4)
	var agents, judges int
	s := newCleanHarness(t, func(ctx context.Context, a *fakeWorker) int {
		agents++
		return a.work(ctx)
	}, func(ctx context.Context, a *fakeWorker) int {
		if judges++; judges == 1 {
			began <- a.plan.WorkerID
			<-ctx.Done()
			return 1
		}
		return a.succeed(ctx)
	})
	key := s.github.CreateIssue(repo, "octocat", "Parse dates", "", "agent-task")
	s.start()
	worker := <-began
	s.stop()
	s.start()
	s.until("adopted", func() bool { return s.logs.FilterMessage("adopted a running container").Len() == 1 })
	s.runtime.killFromOutside(worker)
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); agents != 1 || judges != 2 || !slices.Equal(v, []string{"worker_lost"}) {
		t.Errorf("%d attempts of agents, %d validations, verdicts %q; want one, two, worker_lost", agents, judges, v)
	}
}

// Plain processes do not have a clean container.
func TestPlainProcessesCannotValidateCleanly(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	s.config.Worker.Validate, s.config.Containers.Runtime = "fresh", "process"
	runtime, err := container.OpenProcesses(t.Context(), container.Options{
		Fleet: "default",
		Dir:   filepath.Join(t.TempDir(), "processes"), Log: zap.NewNop(), SameUser: os.Geteuid() != 0,
	})
	must(t, err)
	err = Run(t.Context(), Options{
		Config: s.config, Log: zap.NewNop(), Runtime: runtime,
		Token:        func(context.Context) (string, error) { return "token", nil },
		WorkerBinary: filepath.Join(filepath.Dir(s.config.Director.DataDir), "worker"),
	})
	if err == nil || !strings.Contains(err.Error(), `worker.validate = "fresh" needs containers`) {
		t.Errorf("%v; want a refusal with its reason", err)
	}
}

// After a conflict was resolved, the base branch changes the same lines. The director asks the agent again, and
// conflict markers never reach a clean container.
func TestValidationGetsNoConflictMarkers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var agents, judges int
	var s *harness
	s = newCleanHarness(t, func(ctx context.Context, a *fakeWorker) int {
		mu.Lock()
		defer mu.Unlock()
		agents++
		text := fmt.Sprintf("ours, %d\n", agents)
		if err := os.WriteFile(filepath.Join(a.checkout, "README.md"), []byte(text), 0o644); err != nil {
			return 1
		}
		if agents <= 2 {
			s.advance("README.md", 2+agents)
		}
		return a.work(ctx)
	}, func(ctx context.Context, a *fakeWorker) int {
		mu.Lock()
		defer mu.Unlock()
		judges++
		text, err := os.ReadFile(filepath.Join(a.checkout, "README.md"))
		if err != nil || strings.Contains(string(text), "<<<<<<<") {
			t.Errorf("validation %d got\n%s", judges, text)
		}
		return a.succeed(ctx)
	})
	s.config.SyncMain.MaxCommitsBehind, s.config.SyncMain.MaxBehind = 2, 24*time.Hour
	key := s.github.CreateIssue(repo, "octocat", "Two at one file", "", "agent-task")
	s.start()
	s.until("over", func() bool { return s.labelled(key, "agent-review")() || s.labelled(key, "agent-blocked")() })
	if v := s.verdicts(key); len(v) == 0 || v[0] != "git_conflict" {
		t.Errorf("verdicts %q; want git_conflict first", v)
	}
	t.Logf("%d attempts of agents, %d validations, verdicts %q", agents, judges, s.verdicts(key))
}
