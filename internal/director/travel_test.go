package director

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus"
	"retake/internal/bus/server"
	"retake/internal/config"
	"retake/internal/github/githubtest"
)

// travelling returns a whole director with real workers as processes, and with checkouts that travel. Their only stage
// runs a shell script.
func travelling(t *testing.T, script string) *harness {
	t.Helper()
	s := newHarness(t, nil)
	core, logs := observer.New(zap.DebugLevel) // with output at each checkpoint
	s.logs, s.log = logs, zap.New(core)
	data := s.config.Director.DataDir
	placeWorker(t, filepath.Join(filepath.Dir(data), "worker"))
	s.config.Containers.Runtime = "process"
	s.config.Workspace = config.Workspace{Transport: config.TransportSync, Checkpoint: 200 * time.Millisecond}
	s.config.Stages = []config.Stage{{Name: "CODE", Run: []string{"sh", "-c", script}, Timeout: time.Minute}}
	// plain processes of another user must be able to traverse these directories
	for dir := data; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o711)
	}
	return s
}

// latch returns a shell command that waits for a file, and a function that creates the file.
func latch(t *testing.T) (wait string, open func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "go")
	must(t, os.Chmod(filepath.Dir(file), 0o755))
	return "while [ ! -e " + file + " ]; do sleep 0.1; done", func() { must(t, os.WriteFile(file, nil, 0o644)) }
}

// checkpoints returns the number of a worker's checkpoints that counted, without unchanged ones.
func (s *harness) checkpoints(worker string) (n int) {
	for _, e := range s.logs.FilterMessage("checkpoint").All() {
		if m := e.ContextMap(); m["worker"] == worker && m["changed"] == true {
			n++
		}
	}
	return n
}

// workers returns the attempts that have a directory, in order.
func (s *harness) workers() (all []string) {
	found, _ := filepath.Glob(filepath.Join(s.config.Director.DataDir, "*", "*-[0-9]*", "attempt.json"))
	for _, file := range found {
		all = append(all, filepath.Base(filepath.Dir(file)))
	}
	slices.Sort(all)
	return all
}

// delivered returns the files of a branch.
func (s *harness) delivered(branch string) []string {
	return strings.Fields(s.git("ls-tree", "-r", "--name-only", branch))
}

// TestCheckoutTravelsToItsWorker checks that the delivery has the worker's changes from a directory that this director
// never sees, without Retake's files.
func TestCheckoutTravelsToItsWorker(t *testing.T) {
	t.Parallel()
	s := travelling(t, "test -e README.md && mkdir -p a/b && echo done > a/b/work.txt && chmod 755 a/b/work.txt && "+
		"ln -s a/b/work.txt link && rm README.md")
	key := s.github.CreateIssue(repo, "octocat", "Elsewhere", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if got := s.delivered("retake/1-a1"); !slices.Equal(got, []string{"a/b/work.txt", "link"}) {
		t.Errorf("delivered %q", got)
	}
	if mode := s.git("ls-tree", "-r", "retake/1-a1"); !strings.Contains(mode, "100755 blob") ||
		!strings.Contains(mode, "120000 blob") {
		t.Errorf("modes %q", mode)
	}
	if v := s.verdicts(key); len(v) > 0 {
		t.Errorf("verdicts %q", v)
	}
}

// TestWorkerThatVanishesLosesACheckpoint kills a worker and removes its directory. The next attempt starts with the
// last checkpoint that arrived, and the issue shows how much was lost.
func TestWorkerThatVanishesLosesACheckpoint(t *testing.T) {
	t.Parallel()
	wait, open := latch(t)
	s := travelling(t, "if [ -e half.txt ]; then echo done > work.txt; exit; fi; echo half > half.txt; "+wait)
	key := s.github.CreateIssue(repo, "octocat", "Vanishes", "", "agent-task")
	s.start()
	s.until("a checkpoint with half of the work", func() bool {
		w := s.workers()
		return len(w) == 1 && s.checkpoints(w[0]) > 0
	})
	defer open()
	killWorkers(t, filepath.Join(filepath.Dir(s.config.Director.DataDir), "worker"), s.config.Director.DataDir)
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"worker_lost"}) {
		t.Errorf("verdicts %q; want only worker_lost", v)
	}
	if got := s.delivered("retake/1-a2"); !slices.Equal(got, []string{"README.md", "half.txt", "work.txt"}) {
		t.Errorf("delivered %q", got)
	}
	s.until("the issue states the loss", func() bool {
		return slices.ContainsFunc(s.github.Issue(key).Comments, func(c githubtest.Comment) bool {
			return strings.Contains(c.Body, "up to 1 minute of work since the last checkpoint at ") &&
				strings.Contains(c.Body, " may be lost")
		})
	})
}

// TestDirectorEndsInMidAttempt checks that the next director accepts the worker's checkpoints and knows those
// accepted before.
func TestDirectorEndsInMidAttempt(t *testing.T) {
	t.Parallel()
	wait, open := latch(t)
	s := travelling(t, "echo half > half.txt; "+wait+"; echo done > work.txt")
	key := s.github.CreateIssue(repo, "octocat", "Goes on", "", "agent-task")
	s.start()
	s.until("a checkpoint", func() bool {
		w := s.workers()
		return len(w) == 1 && s.checkpoints(w[0]) > 0
	})
	s.stop()
	open()
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if got := s.delivered("retake/1-a1"); !slices.Equal(got, []string{"README.md", "half.txt", "work.txt"}) ||
		len(s.verdicts(key)) > 0 {
		t.Errorf("delivered %q, verdicts %q", got, s.verdicts(key))
	}
}

// TestDirectorElsewhereHasWhatPeoplePushed merges unfinished work with a person's push, and pushes both. A director
// with separate storage continues from there instead of the worker's last checkpoint.
func TestDirectorElsewhereHasWhatPeoplePushed(t *testing.T) {
	t.Parallel()
	wait, open := latch(t)
	const fails = "echo 'Invalid API key · Please run /login' >&2; exit 1"
	s := travelling(t, "if [ -e two.txt ]; then echo done > done.txt; exit; fi; if [ -e one.txt ]; then echo "+
		"2 > two.txt; "+wait+"; "+fails+"; fi; echo 1 > one.txt; "+fails)
	key := s.github.CreateIssue(repo, "octocat", "Elsewhere", "", "agent-task")
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	s.github.AddComment(key, "octocat", "/agent retry")
	s.until("a second attempt", func() bool {
		return slices.ContainsFunc(s.workers(), func(w string) bool {
			return strings.HasSuffix(w, "-2") &&
				s.checkpoints(w) > 0
		})
	})
	s.advanceBranch("retake/1-a1", "theirs.txt", 1)
	open()
	s.until("blocked again", s.labelled(key, "agent-blocked"))
	s.stop()
	for _, own := range []string{"tasks", "mirrors"} {
		must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, own)))
	}
	s.start()
	s.github.AddComment(key, "octocat", "/agent retry")
	s.until("review", s.labelled(key, "agent-review"))
	if got := s.delivered("retake/1-a1"); !slices.Equal(got, []string{
		"README.md", "done.txt", "one.txt", "theirs.txt",
		"two.txt",
	}) {
		t.Errorf("delivered %q to %q", got, s.branches())
	}
}

// TestWhoTakesOverIsGivenWhatWasSent checks that a successor gets the checkpoints, even with separate storage and
// without the checkout.
func TestWhoTakesOverIsGivenWhatWasSent(t *testing.T) {
	t.Parallel()
	s := travelling(t, "echo 1 > one.txt; echo 'Invalid API key · Please run /login' >&2; exit 1")
	key := s.github.CreateIssue(repo, "octocat", "Taken", "", "agent-task")
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	s.stop()
	must(t, os.RemoveAll(filepath.Join(s.config.Director.DataDir, "tasks")))
	s.start()
	s.github.AddComment(key, "octocat", "/agent take")
	s.until("the checkout is made again", s.logged("restoring sent checkout"))
	s.until("released", func() bool { return !slices.Contains(s.labels(key), "agent-claimed") })
	if got := s.delivered("retake/1-a1"); !slices.Equal(got, []string{"README.md", "one.txt"}) {
		t.Errorf("given %q", got)
	}
}

// TestTooMuchDoesNotTravel checks that the task is blocked. The question names the limit and its key, and advises a
// clean checkout.
func TestTooMuchDoesNotTravel(t *testing.T) {
	t.Parallel()
	s := travelling(t, "for i in $(seq 1 1200); do echo x > file-$i; done")
	s.config.Checkout.MaxFiles = 1000
	key := s.github.CreateIssue(repo, "octocat", "Too much", "", "agent-task")
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"scope_violation"}) {
		t.Errorf("verdicts %q", v)
	}
	s.until("a question that names the limit", func() bool {
		return slices.ContainsFunc(s.github.Issue(key).Comments, func(c githubtest.Comment) bool {
			return strings.Contains(c.Body, "checkout.max_files") && strings.Contains(c.Body, "/agent fresh")
		})
	})
}

// TestNothingIsLeftOnTheBus checks that the bus does not store chunks of a finished task.
func TestNothingIsLeftOnTheBus(t *testing.T) {
	t.Parallel()
	s := travelling(t, "echo done > work.txt")
	key := s.github.CreateIssue(repo, "octocat", "Tidy", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	s.until("checkout removed", func() bool {
		left, err := os.ReadDir(filepath.Join(s.config.Director.DataDir, "tasks"))
		return err == nil && len(left) == 0
	})
	s.stop()
	srv, err := server.Start(t.Context(), server.Options{Dir: filepath.Join(s.config.Director.DataDir, "bus")})
	must(t, err)
	b, err := bus.Open(t.Context(), bus.Options{Server: srv})
	must(t, err)
	defer func() { must(t, b.Close(context.Background())) }()
	left, err := b.Checkouts().Tasks(t.Context())
	if err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}
