package director

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/fsm"
)

// lostNode returns a director with a running first attempt. The attempt's node is lost once it works.
func lostNode(t *testing.T, play func(ctx context.Context, a *fakeWorker) int,
	decides func(*fsm.Config),
) (s *harness, key, first string) {
	s = newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Attempt > 1 {
			return a.work(ctx)
		}
		return play(ctx, a)
	})
	s.decides = func(c *fsm.Config) {
		c.HeartbeatTTL, c.FenceAfter = 3*time.Second, time.Second
		decides(c)
	}
	key = s.github.CreateIssue(repo, "octocat", "Widen the widget", "please", "agent-task")
	s.start()
	s.until("the first attempt works", func() bool {
		return s.logs.FilterMessage("transition").FilterField(zap.String("event", "hello")).Len() == 1
	})
	first = s.runtime.attempts()[0]
	s.runtime.lose(first, true)
	return s, key, first
}

// TestALostNode checks fencing. The end of a worker on a lost node cannot be confirmed. The bus then refuses its
// messages, the next attempt starts while it still works, and its work is discarded. When its node returns, the
// director removes the worker.
func TestALostNode(t *testing.T) {
	t.Parallel()
	report, refused := make(chan struct{}), make(chan error, 1)
	s, key, first := lostNode(t, func(ctx context.Context, a *fakeWorker) int {
		<-report // the test closes it when another attempt has started
		send, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		refused <- a.client.Report(send, &wire.WorkerResult{
			ResultID: a.plan.WorkerID + "/result", AttemptID: a.plan.WorkerID, IssueNumber: a.plan.Issue.Number,
			Attempt: a.plan.Attempt, Outcome: wire.OutcomeOK,
		})
		<-ctx.Done()
		return 1
	}, func(c *fsm.Config) { c.CheckoutTravels = true })
	s.until("the second attempt begins", func() bool { return s.runtime.begun() == 2 })
	if _, there := s.runtime.stopped(first); !there {
		t.Fatal("the first is gone")
	}
	close(report)
	if err := <-refused; err == nil {
		t.Error("the bus accepted a report from a fenced worker")
	}
	s.until("the work of the second is delivered", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"worker_lost"}) {
		t.Errorf("the verdicts are %q", v)
	}
	s.until("it retries the removal", func() bool { n, _ := s.runtime.stopped(first); return n >= 3 })
	s.runtime.lose(first, false)
	s.stop()
	s.start() // it requests the removal again at once
	s.until("it is removed", func() bool { _, there := s.runtime.stopped(first); return !there })
}

// TestALostNodeWithAMount checks that an attempt on the director's own checkout is never fenced, regardless of its
// runtime.
func TestALostNodeWithAMount(t *testing.T) {
	t.Parallel()
	s, key, first := lostNode(t, func(ctx context.Context, _ *fakeWorker) int {
		<-ctx.Done()
		return 1
	}, func(*fsm.Config) {})
	s.until("it could not be stopped for longer than a fence takes",
		func() bool { n, _ := s.runtime.stopped(first); return n >= 3 })
	if n := s.runtime.begun(); n != 1 {
		t.Fatalf("%d attempts started, and the first may still write into the checkout", n)
	}
	s.runtime.lose(first, false)
	s.until("the work of the second is delivered", s.labelled(key, "agent-review"))
}

// TestPendingIsWaiting checks a worker that its runtime has accepted but not started. The director does not expect a
// hello, and `director tasks` shows the reason for the wait.
func TestPendingIsWaiting(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.runtime.room = make(chan struct{})
	s.decides = func(c *fsm.Config) {
		c.PendingTimeout, c.CheckoutTravels = time.Minute, true
		c.HeartbeatTTL, c.StartTimeout = 3*time.Second, 3*time.Second
	}
	key := s.github.CreateIssue(repo, "octocat", "Widen the widget", "please", "agent-task")
	s.start()
	waits := func() bool {
		now, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir)
		return err == nil && len(now.Tasks) == 1 && now.Tasks[0].State == fsm.Starting.String() &&
			strings.Contains(now.Tasks[0].WaitsFor, noRoom)
	}
	s.until("tasks names the missing container", waits)
	time.Sleep(8 * time.Second) // the grace after a start, and the time for a hello
	if !waits() {
		t.Error("the attempt no longer waits")
	}
	s.stop()
	s.start()
	s.until("another director waits on", waits)
	close(s.runtime.room)
	s.until("the work is delivered", s.labelled(key, "agent-review"))
	if n := s.runtime.begun(); n != 1 || len(s.verdicts(key)) > 0 {
		t.Errorf("the task took %d attempts, with the verdicts %q", n, s.verdicts(key))
	}
}
