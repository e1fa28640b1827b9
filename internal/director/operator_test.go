package director

import (
	"context"
	"slices"
	"testing"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
)

// The snapshot lists the workers with the times of their last messages, the claimed issues, and the issues that wait
// for a slot.
func TestSnapshotSaysWhoWorksAndWhatWaits(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, _ *fakeWorker) int {
		<-ctx.Done()
		return 1
	})
	s.config.Director.MaxWorkers = 1
	first := s.github.CreateIssue(repo, "octocat", "First", "", "agent-task")
	s.start()
	var got wire.Snapshot
	snapshot := func(ready func() bool) func() bool {
		return func() bool {
			v, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir)
			got = v
			return err == nil && ready()
		}
	}
	s.until("a worker sends heartbeats",
		snapshot(func() bool { return len(got.Workers) == 1 && got.Workers[0].HeartbeatAgeSeconds > 0 }))
	s.github.CreateIssue(repo, "octocat", "Second", "", "agent-task")
	s.until("the second one waits",
		snapshot(func() bool { return len(got.Tasks) == 2 && len(got.Queue.EligibleIssueNumbers) == 1 }))
	if q := got.Queue; !slices.Equal(q.ClaimedIssueNumbers, []int{1}) ||
		!slices.Equal(q.EligibleIssueNumbers, []int{2}) {
		t.Errorf("claimed %v, eligible %v; want 1 and 2", q.ClaimedIssueNumbers, q.EligibleIssueNumbers)
	}
	if want := "a free slot (director.max_workers)"; got.Queue.WaitsFor != want {
		t.Errorf("work waits for %q, want %q", got.Queue.WaitsFor, want)
	}
	if len(got.Workers) != 1 || got.Workers[0].Issue != first || got.Workers[0].Attempt != 1 ||
		got.Workers[0].HeartbeatAgeSeconds < 0 ||
		got.Workers[0].HeartbeatAgeSeconds >= s.config.Timeouts.WorkerHeartbeatTTL.Seconds() { // it would be suspect
		t.Errorf("workers %+v", got.Workers)
	}
}
