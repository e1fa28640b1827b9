package director

import (
	"context"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/recovery"
)

// closures returns the time until which the director avoids each model.
func (s *harness) closures() map[string]time.Time {
	all, err := operator.AskSnapshot(s.t.Context(), s.config.Director.DataDir)
	if err != nil {
		return nil
	}
	closed := map[string]time.Time{}
	for _, c := range all.Cooldowns {
		closed[c.Resource] = c.Until.Time
	}
	return closed
}

// limited requests a lease until it gets one, and then reports a rate limit of the model under that lease.
func (a *fakeWorker) limited(ctx context.Context, resource string, r wire.BudgetReport) {
	for ctx.Err() == nil {
		g, err := a.client.AskBudget(ctx, wire.BudgetAcquire{Resource: resource, WorkerID: a.plan.WorkerID})
		if err == nil && g.GrantID != "" {
			r.GrantID = g.GrantID
			_, _ = a.client.AskBudget(ctx, r)
			_, _ = a.client.AskBudget(ctx, wire.BudgetRelease{GrantID: g.GrantID})
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// TestOneWorkerClosesNoModelForADay checks that after any form of one worker's rate limit report, the other workers
// try the model once the cap has passed.
func TestOneWorkerClosesNoModelForADay(t *testing.T) {
	const long = 999999.0
	for name, play := range map[string]func(ctx context.Context, a *fakeWorker) int{
		"a lease's report": func(ctx context.Context, a *fakeWorker) int {
			a.limited(ctx, recovery.ModelDefault,
				wire.BudgetReport{Status: "rate_limited", RetryAfterSeconds: new(long)})
			<-ctx.Done()
			return 0
		},
		"a header": func(ctx context.Context, a *fakeWorker) int {
			a.limited(ctx, recovery.ModelDefault, wire.BudgetReport{
				Status:  "ok",
				Headers: map[string]string{"Retry-After": "80000", "X-RateLimit-Remaining": "0"},
			})
			<-ctx.Done()
			return 0
		},
		"a report of an error": func(ctx context.Context, a *fakeWorker) int {
			_ = a.client.Report(ctx, asserted(wire.WorkerError{
				ErrorID: a.plan.WorkerID + "/e", WorkerID: a.plan.WorkerID, IssueNumber: a.plan.Issue.Number,
				Stage: wire.StageCode, Attempt: a.plan.Attempt,
				ErrorType: string(recovery.RateLimited), IsTransient: true, ShouldRetry: true,
				RetryAfterSeconds: new(20000.0),
				Message:           "HTTP 429 Too Many Requests",
			}))
			return 1
		},
		"a line of its output": func(ctx context.Context, a *fakeWorker) int {
			_ = a.client.Report(ctx, asserted(wire.WorkerError{
				ErrorID: a.plan.WorkerID + "/e", WorkerID: a.plan.WorkerID, IssueNumber: a.plan.Issue.Number,
				Stage: wire.StageCode, Attempt: a.plan.Attempt,
				ErrorType: "unknown", Message: "the agent ended with exit code 1",
				LastStderrTail: "HTTP 429 Too Many Requests, Retry-After: 20000\n",
			}))
			return 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newHarness(t, play)
			s.github.CreateIssue(repo, "octocat", "Be evil", "please", "agent-task")
			began := time.Now()
			s.start()
			s.until("the model is closed", func() bool { return !s.closures()[recovery.ModelDefault].IsZero() })
			if until := s.closures()[recovery.ModelDefault]; until.Sub(began) > 16*time.Minute {
				t.Errorf("closed for everybody until %s: %s", until.Format(time.RFC3339),
					until.Sub(began).Round(time.Second))
			}
		})
	}
}

// TestLiftedForEverybody checks that an operator can reopen a model. The lease service and the queue use the model at
// once, and the journal records the change.
func TestLiftedForEverybody(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Number == 1 {
			a.limited(ctx, recovery.ModelDefault,
				wire.BudgetReport{Status: "rate_limited", RetryAfterSeconds: new(999999.0)})
			<-ctx.Done()
			return 0
		}
		return a.work(ctx)
	})
	s.github.CreateIssue(repo, "octocat", "Be evil", "please", "agent-task")
	s.start()
	data := s.config.Director.DataDir
	s.until("the model is closed", func() bool { return !s.closures()[recovery.ModelDefault].IsZero() })
	key := s.github.CreateIssue(repo, "octocat", "Be good", "please", "agent-task")
	s.until("the other waits", func() bool {
		all, err := operator.AskSnapshot(t.Context(), data)
		return err == nil && len(all.Tasks) == 2 && strings.HasPrefix(all.Tasks[1].WaitsFor,
			"model.default, which is unavailable, as reported by "+repo+"#1")
	})
	if l, err := operator.LiftCooldowns(t.Context(), data, []string{"model.default", "model.none"}); err != nil ||
		len(l.Lifted) != 0 ||
		l.Problem != "model.none is not closed; director cooldown list shows the closed ones" {
		t.Errorf("%+v, %v", l, err)
	}
	l, err := operator.LiftCooldowns(t.Context(), data, nil)
	if err != nil || len(l.Lifted) != 1 || l.Lifted[0].StatedBy[0].Text != "rate_limited, wait 24h0m0s" ||
		l.Lifted[0].StatedBy[0].Issue != repo+"#1" {
		t.Errorf("%+v, %v", l, err)
	}
	if closed := s.closures(); len(closed) != 0 {
		t.Errorf("closed still: %v", closed)
	}
	s.until("review", s.labelled(key, "agent-review"))
	s.stop()
	s.start()
	s.until("it has read its journal", func() bool {
		all, err := operator.AskSnapshot(t.Context(), data)
		return err == nil && len(all.Tasks) > 0
	})
	if closed := s.closures(); len(closed) != 0 {
		t.Errorf("closed after a restart: %v", closed)
	}
}
