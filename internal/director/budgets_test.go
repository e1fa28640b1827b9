package director

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/workspace"
)

// TestAnAttemptIsToldWhatIsLeft checks that each attempt gets the paid calls that earlier attempts of its task have
// left over. Without a budget, paid calls are unlimited.
func TestAnAttemptIsToldWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, budget := range []int{3, -1} {
		plans := make(chan wire.Plan, 4)
		s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
			plans <- a.plan
			if a.plan.Attempt == 2 {
				return a.work(ctx)
			}
			return a.fails(ctx, wire.WorkerError{
				ErrorType:      "network_transient",
				LastStderrTail: "fatal: Connection reset by peer\n", Usage: &wire.Usage{PaidCalls: 2},
			})
		})
		s.config.Recovery.PaidCallBudget = budget
		s.config.Retry.BackoffInitial, s.config.Retry.BackoffMax = 10*time.Millisecond, 20*time.Millisecond
		key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
		s.start()
		s.until("delivered", s.labelled(key, "agent-review"))
		s.stop()
		first, second := (<-plans).PaidCallsLeft, (<-plans).PaidCallsLeft
		switch {
		case budget < 0 && (first != nil || second != nil):
			t.Errorf("without a budget: %v and %v, want nothing", first, second)
		case budget > 0 && (first == nil || *first != 3 || second == nil || *second != 1):
			t.Errorf("of %d: %v and %v, want 3 and 1", budget, first, second)
		}
	}
}

// TestStateNamesTheLastError checks that .retake/STATE.json has the failure that the worker's heartbeats name.
func TestStateNamesTheLastError(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		beat := wire.Heartbeat{State: a.heartbeat().State}
		beat.State.LastErrorID = new(a.plan.WorkerID + "/VALIDATE-1")
		for ctx.Err() == nil {
			if a.client.Heartbeat(beat) != nil {
				return 1
			}
			data, _ := os.ReadFile(filepath.Join(a.checkout, ".retake", "STATE.json"))
			if len(data) > 0 && readState(data).LastErrorID == a.plan.WorkerID+"/VALIDATE-1" {
				return a.work(ctx)
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		return 1
	})
	key := s.github.CreateIssue(repo, "octocat", "Write a report", "", "agent-task")
	s.start()
	s.until("its worker has read it, and delivered", s.labelled(key, "agent-review"))
}

func readState(data []byte) workspace.WorkerState {
	var state workspace.State
	if json.Unmarshal(data, &state) != nil || state.Worker == nil {
		return workspace.WorkerState{}
	}
	return *state.Worker
}
