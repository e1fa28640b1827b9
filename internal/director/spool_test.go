package director

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus/wire"
	"retake/internal/config"
)

// spool writes a success to the spool, like a worker that cannot send it.
func (a *fakeWorker) spool(name string, key []byte) error {
	from := wire.Sender{Role: wire.RoleWorker, ID: a.plan.WorkerID, RunID: a.plan.RunID, Key: key}
	data, err := wire.Encode(from, 1<<53, time.Now(), &wire.WorkerResult{
		ResultID: a.plan.WorkerID + "/result", AttemptID: a.plan.WorkerID, IssueNumber: a.plan.Issue.Number,
		Attempt: a.plan.Attempt, Outcome: wire.OutcomeOK,
	})
	if err != nil {
		return err
	}
	return a.write(name, data)
}

// write puts a file into the spool.
func (a *fakeWorker) write(name string, data []byte) error {
	dir := filepath.Join(a.checkout, ".retake", "spool")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), data, 0o600)
}

// spoolLong spools a success that is longer than the least agent_bus.max_message_bytes.
func (a *fakeWorker) spoolLong() error {
	from := wire.Sender{Role: wire.RoleWorker, ID: a.plan.WorkerID, RunID: a.plan.RunID, Key: a.plan.SignKey}
	data, err := wire.Encode(from, 1<<53, time.Now(), &wire.WorkerResult{
		ResultID: a.plan.WorkerID + "/result", AttemptID: a.plan.WorkerID, IssueNumber: a.plan.Issue.Number,
		Attempt: a.plan.Attempt, Outcome: wire.OutcomeOK,
		Stages: wire.List[wire.StageResult]{{Stage: wire.StageCode, Command: []string{strings.Repeat("x", 8<<10)}}},
	})
	if err != nil {
		return err
	}
	return a.write(a.plan.WorkerID+".0001.json", data)
}

// change makes changes in the checkout.
func (a *fakeWorker) change() error {
	return os.WriteFile(filepath.Join(a.checkout, fmt.Sprintf("work-%d.txt", a.plan.Attempt)), []byte("done\n"), 0o644)
}

// TestSpooledSuccessIsDelivered checks a worker that is cut off from the bus, finishes, and is stopped because it is
// silent. Its success counts, although its report never arrived.
func TestSpooledSuccessIsDelivered(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		a.client.Close()
		if a.change() != nil || a.spool(a.plan.WorkerID+".0001.json", a.plan.SignKey) != nil {
			return 1
		}
		<-ctx.Done()
		return 1
	})
	s.config.Timeouts.WorkerHeartbeatTTL = time.Second
	key := s.github.CreateIssue(repo, "octocat", "Unheard", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); len(v) > 0 || s.runtime.begun() != 1 {
		t.Errorf("verdicts %q, attempts %q; want no verdict and one attempt", v, s.runtime.attempts())
	}
	if !slices.ContainsFunc(s.logs.FilterMessage("transition").All(), func(e observer.LoggedEntry) bool {
		return e.ContextMap()["event"] == "still_silent"
	}) {
		t.Error("the worker was not stopped because of its silence")
	}
}

// A worker finishes after it was given up, while its stop cannot be confirmed. Its success counts once the stop is
// confirmed.
func TestSuccessAfterTheWorkerWasGivenUp(t *testing.T) {
	t.Parallel()
	tried := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		a.lost.Store(true)
		a.client.Close()
		<-tried
		if a.change() != nil || a.spool(a.plan.WorkerID+".0001.json", a.plan.SignKey) != nil {
			return 1
		}
		a.lost.Store(false)
		<-ctx.Done()
		return 1
	})
	s.config.Timeouts.WorkerHeartbeatTTL = time.Second
	key := s.github.CreateIssue(repo, "octocat", "Late success", "", "agent-task")
	s.start()
	s.until("a stop failed", func() bool {
		s.runtime.mu.Lock()
		defer s.runtime.mu.Unlock()
		for _, n := range s.runtime.stops {
			return n > 0
		}
		return false
	})
	close(tried)
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); len(v) > 0 || s.runtime.begun() != 1 {
		t.Errorf("verdicts %q, attempts %q; want only one attempt", v, s.runtime.attempts())
	}
}

// TestLongSpooledSuccessIsDelivered checks a success that exceeds agent_bus.max_message_bytes, which was lowered since
// the worker started.
func TestLongSpooledSuccessIsDelivered(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		a.client.Close()
		if a.change() != nil || a.spoolLong() != nil {
			return 1
		}
		<-ctx.Done()
		return 1
	})
	s.config.Timeouts.WorkerHeartbeatTTL, s.config.AgentBus.MaxMessageBytes = time.Second, 4<<10
	key := s.github.CreateIssue(repo, "octocat", "Unheard", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); len(v) > 0 || s.runtime.begun() != 1 {
		t.Errorf("verdicts %q, attempts %q; want no verdict and one attempt", v, s.runtime.attempts())
	}
}

// TestForgedSpoolIsNotBelieved checks that the director ignores spooled reports by the agent, which can write into the
// spool and knows everything but the key.
func TestForgedSpoolIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Attempt > 1 {
			return a.work(ctx)
		}
		a.client.Close()
		name := func(n int) string { return fmt.Sprintf("%s.%04d.json", a.plan.WorkerID, n) }
		dir := filepath.Join(a.checkout, ".retake", "spool")
		if a.change() != nil || a.spool(name(1), []byte("another key, of 32 bytes, guessed")) != nil ||
			a.spool("own", a.plan.SignKey) != nil ||
			os.Symlink("own", filepath.Join(dir, name(2))) != nil ||
			os.WriteFile(filepath.Join(dir, name(3)), []byte(strings.Repeat("x", 1<<20)), 0o600) != nil ||
			os.Mkdir(filepath.Join(dir, name(4)), 0o755) != nil {
			return 1
		}
		<-ctx.Done()
		return 1
	})
	s.config.Timeouts.WorkerHeartbeatTTL = time.Second
	key := s.github.CreateIssue(repo, "octocat", "Forged", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"worker_lost"}) || s.runtime.begun() != 2 {
		t.Errorf("verdicts %q, attempts %q; want worker_lost and a second attempt", v, s.runtime.attempts())
	}
	if s.logs.FilterMessage("ignored a spooled report").
		FilterField(zap.String("worker", s.runtime.attempts()[0])).Len() == 0 {
		t.Error("the log does not mention the refusal")
	}
}

// TestSpoolOfAWorkerThatDied checks a real worker that ends its work during an absence of the director and is killed
// before it could report.
func TestSpoolOfAWorkerThatDied(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	data := s.config.Director.DataDir
	placeWorker(t, filepath.Join(filepath.Dir(data), "worker"))
	wait := filepath.Join(t.TempDir(), "wait")
	must(t, os.Chmod(filepath.Dir(wait), 0o755))
	s.config.Containers.Runtime = "process"
	s.config.Stages = []config.Stage{{Name: "CODE", Run: []string{"sh", "-c", "echo >> begun; while [ ! -e " + wait +
		" ]; do sleep 0.1; done; echo done > work.txt"}, Timeout: time.Minute}}
	// plain processes of another user must be able to traverse these directories
	for dir := data; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o711)
	}
	key := s.github.CreateIssue(repo, "octocat", "Dies unheard", "", "agent-task")
	s.start()
	in := func(pattern string) (path string) {
		if all, _ := filepath.Glob(filepath.Join(data, "tasks", "*", "checkout", pattern)); len(all) > 0 {
			path = all[0]
		}
		return path
	}
	s.until("the stage runs", func() bool { return in("begun") != "" })
	s.stop()
	must(t, os.WriteFile(wait, nil, 0o644))
	s.until("a spooled report", func() bool { return in(".retake/spool/*.json") != "" })
	killWorkers(t, filepath.Join(filepath.Dir(data), "worker"), data)
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); len(v) > 0 {
		t.Errorf("verdicts %q; want none", v)
	}
	s.until("one comment that names the first branch", func() bool {
		c := s.github.Issue(key).Comments
		return len(c) == 1 && strings.Contains(c[0].Body, "retake/1-a1")
	})
}

// killWorkers ends the processes that were started with files in a directory.
func killWorkers(t *testing.T, program, dir string) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	killed := 0
	for _, file := range found {
		line, _ := os.ReadFile(file)
		if !strings.Contains(string(line), dir) && !strings.Contains(string(line), program) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err == nil && pid != os.Getpid() {
			if p, err := os.FindProcess(pid); err == nil && p.Kill() == nil {
				killed++
			}
		}
	}
	if killed == 0 {
		t.Fatal("no worker to kill")
	}
}
