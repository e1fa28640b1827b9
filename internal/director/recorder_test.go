package director

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/operator"
	"retake/internal/recovery"
)

// fails reports a failure of an agent's stage, as a worker does.
func (a *fakeWorker) fails(ctx context.Context, e wire.WorkerError) int {
	e.ErrorID, e.WorkerID, e.AttemptID = a.plan.WorkerID+"/CODE-1", a.plan.WorkerID, a.plan.WorkerID
	e.IssueNumber, e.Attempt, e.Stage = a.plan.Issue.Number, a.plan.Attempt, wire.StageCode
	if err := a.client.Report(ctx, asserted(e)); err != nil {
		return 1
	}
	return 0
}

// asserted sets the flags that the real worker derives from its error type, unless the test sets some. A report with
// other flags would be a foreign reporter's explicit word.
func asserted(e wire.WorkerError) *wire.WorkerError {
	if !e.IsTransient && !e.ShouldRetry && !e.EscalateToHuman {
		reason, _ := recovery.ReasonOf(e.ErrorType)
		a := recovery.Assert(reason)
		e.IsTransient, e.ShouldRetry, e.EscalateToHuman = a.Transient, a.Retry, a.Escalate
	}
	return &e
}

// checkRecords checks the files about a task with a failed and a delivered attempt. task is the directory with the
// state of the task.
func checkRecords(t *testing.T, data, task string) {
	t.Helper()
	store, err := audit.Load(data)
	must(t, err)
	if len(store.Problems) > 0 || len(store.Attempts) != 2 || store.Attempts[0].Outcome != audit.OutcomeFailed ||
		store.Attempts[1].Outcome != audit.OutcomeOK {
		t.Fatalf("%+v", store)
	}
	if f := store.Attempts[0].Failure; f == nil || f.Reason != "network_transient" || f.Action != "retry" ||
		f.Rule == "" {
		t.Errorf("the first attempt's failure: %+v", f)
	}
	if b := store.Budget(); len(b) != 1 || b[0].PaidCalls != 1 || b[0].State != "Done" {
		t.Errorf("budget: %+v", b)
	}
	first := filepath.Join(data, "audits", store.Attempts[0].AttemptID)
	for file, want := range map[string]string{
		filepath.Join(first, "patch.diff"):        "+half done",
		filepath.Join(first, "build.log"):         "Connection reset by peer",
		filepath.Join(first, "summary.md"):        "1 file, ",
		filepath.Join(first, "transitions.jsonl"): `"to":"Backoff"`,
		filepath.Join(data, "events.jsonl"):       `"reason":"network_transient"`,
	} {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %q in\n%s(%v)", file, want, text, err)
		}
		if strings.Contains(string(text), "ghp_012345") {
			t.Errorf("%s holds a token", file)
		}
	}
	for i, want := range []string{"Backoff", "Done"} { // the events, the events, followed to the end
		path := filepath.Join(data, "audits", store.Attempts[i].AttemptID, "summary.md")
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %q in\n%s(%v)", path, want, text, err)
		}
	}
	var last audit.LastFailure
	text, err := os.ReadFile(filepath.Join(task, "last_failure.json"))
	if err != nil || json.Unmarshal(text, &last) != nil || last.ErrorType != "network_transient" || last.Attempt != 1 ||
		!strings.HasSuffix(last.ErrorID, "-1/CODE-1") || !strings.Contains(last.Stack, "Connection reset by peer") ||
		last.AttemptID == "" {
		t.Errorf("last_failure.json: %s, %v", text, err)
	}
}

// TestPeopleCanReadWhatHappened checks that after a failure and a success, people find the bundles, the state and
// telemetry, all without secrets. The director accepts an operator's number of paid calls, and a number that a person
// wrote into stats.json while no director ran.
func TestPeopleCanReadWhatHappened(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Attempt == 1 {
			must(t, os.WriteFile(filepath.Join(a.checkout, "half.txt"), []byte("half done\n"), 0o644))
			return a.fails(ctx, wire.WorkerError{
				ErrorType: "docker_exit_nonzero", Message: "CODE: agent failed",
				LastStderrTail: "fatal: Connection reset by peer, token " + "ghp_" + strings.Repeat("012345", 6) + "\n",
				Usage:          &wire.Usage{PaidCalls: 3, CostUSD: 0.5},
			})
		}
		<-goOn
		return a.work(ctx)
	})
	s.config.Retry.BackoffInitial, s.config.Retry.BackoffMax = 10*time.Millisecond, 20*time.Millisecond
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	data := s.config.Director.DataDir
	s.until("a second attempt", func() bool { return strings.HasSuffix(s.runtime.running(key), "-2") })
	path, err := audit.StatsPath(data, key)
	must(t, err)
	s.until("stats.json", func() bool {
		stats, err := audit.ReadStats(path)
		return err == nil && stats.PaidCallsUsed == 3
	})
	must(t, operator.ResetBudget(t.Context(), data, key, 2))
	s.until("the reset is shown", func() bool {
		stats, err := audit.ReadStats(path)
		return err == nil && stats.PaidCallsUsed == 2 && !stats.Edited()
	})
	if err := operator.ResetBudget(t.Context(), data, repo+"#99", 0); err == nil ||
		!strings.Contains(err.Error(), "there is no task") {
		t.Errorf("reset of a task that is not there: %v", err)
	}
	s.stop()
	if err := operator.ResetBudget(t.Context(), data, key, 0); !errors.Is(err, operator.ErrNotThere) {
		t.Errorf("reset without a director: %v", err)
	}
	stats, err := os.ReadFile(path)
	must(t, err)
	// as the founding document requires
	edited := strings.Replace(string(stats), `"paid_calls_used": 2`, `"paid_calls_used": 1`, 1)
	must(t, os.WriteFile(path, []byte(edited), 0o600))
	s.start()
	s.until("the edit is taken at the start", func() bool {
		stats, err := audit.ReadStats(path)
		return err == nil && stats.PaidCallsUsed == 1 && !stats.Edited()
	})
	close(goOn)
	s.until("done", func() bool {
		stats, err := audit.ReadStats(path)
		return err == nil && stats.State == "Done"
	})
	s.stop()
	checkRecords(t, data, filepath.Dir(path))
}

// The verdict reaches the next attempt, first with a shorter context, then with the other model, and quotes the
// failure as data. An attempt that overspends ends with a question to a person.
func TestVerdictReachesTheNextAttempt(t *testing.T) {
	t.Parallel()
	plans := make(chan *wire.AttemptFile, 3)
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		plans <- a.plan.AttemptFile
		if a.plan.Attempt < 3 {
			return a.fails(ctx, wire.WorkerError{
				ErrorType: "context_overflow", HTTPStatus: 413,
				Message: "prompt is too long: 214000 tokens > 200000",
			})
		}
		for ctx.Err() == nil { // spends until it is stopped
			_ = a.client.Heartbeat(wire.Heartbeat{State: a.heartbeat().State, Usage: &wire.Usage{PaidCalls: 11}})
			select {
			case <-time.After(50 * time.Millisecond):
			case <-a.stop:
				return 0
			case <-ctx.Done():
			}
		}
		return 1
	})
	s.config.Stages = []config.Stage{{
		Name: "CODE", Agent: "claude-code", Model: "first", AlternativeModel: "second",
		Timeout: time.Minute,
	}}
	s.config.Retry.BackoffInitial, s.config.Retry.BackoffMax = 10*time.Millisecond, 20*time.Millisecond
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("blocked", s.labelled(key, "agent-blocked"))
	s.until("the question", func() bool {
		c := s.github.Issue(key).Comments
		return len(c) == 2 && strings.Contains(c[1].Body, "recovery.paid_call_budget = 10") &&
			strings.Contains(c[1].Body, "reset all budgets of the issue")
	})
	first, second, third := <-plans, <-plans, <-plans
	if first.Action != "" || first.Model != nil || len(first.EarlierFailures) != 0 {
		t.Errorf("first attempt: %+v", first)
	}
	if second.Action != "retry_compact" || second.Model != nil || !strings.Contains(second.Summary,
		"> prompt is too long") || !strings.Contains(second.Summary, "about half as much") {
		t.Errorf("second attempt: %+v", second)
	}
	if third.Action != "retry_alternative" || third.Model == nil || *third.Model != "second" ||
		!strings.Contains(third.Summary, "occurred 2 times") {
		t.Errorf("third attempt: %+v", third)
	}
}

// Public records show the result of a review: the state of the task, the branch of its attempts, and that an attempt
// ended with its container. A validation that is merely repeated does not count as a failure.
func TestPeopleCanReadWhatAReviewLedTo(t *testing.T) {
	t.Parallel()
	s := withReviews(newHarness(t, nil))
	s.runtime.play = func(ctx context.Context, a *fakeWorker) int {
		switch a.plan.Attempt {
		case 1:
			s.advance("main.txt", 3)
			return a.work(ctx)
		case 2:
			return a.succeed(ctx)
		}
		return a.fails(ctx, wire.WorkerError{
			ErrorType: "needs_human", EscalateToHuman: true, Message: "the agent asks",
			Question: "A or B?",
		})
	}
	s.config.SyncMain.MaxCommitsBehind = 2
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	path, err := audit.StatsPath(s.config.Director.DataDir, key)
	must(t, err)
	stands := func(state string) func() bool {
		return func() bool {
			stats, err := audit.ReadStats(path)
			return err == nil && stats.State == state
		}
	}
	s.start()
	s.until("stats.json says that it is in review", stands("InReview"))
	shown := time.Now()
	s.github.SetCheck(s.pull(), "lint", "failure", "no newline at the end")
	s.until("the third attempt asks", stands("Blocked"))
	s.github.AddComment(key, "octocat", "/agent snooze 2h")
	s.until("stats.json shows it as parked", stands("Parked"))
	s.stop()
	store, err := audit.Load(s.config.Director.DataDir)
	must(t, err)
	if len(store.Attempts) != 3 {
		t.Fatalf("%d attempts, want three", len(store.Attempts))
	}
	if first := store.Attempts[0]; first.Outcome != audit.OutcomeOK || first.Failure != nil {
		t.Errorf("the first attempt (its work is validated again): %+v; want a success", first)
	}
	second := store.Attempts[1]
	if second.Failure == nil || second.Failure.Reason != "validation" || second.EndedAt.After(shown) {
		t.Errorf("the second attempt (its pull request failed its checks after %s): %+v", shown, second)
	}
	if branch := s.github.Issue(s.pull()).Head; second.Branch != branch || store.Attempts[2].Branch != branch {
		t.Errorf("branches %q and %q, want both %q", second.Branch, store.Attempts[2].Branch, branch)
	}
}
