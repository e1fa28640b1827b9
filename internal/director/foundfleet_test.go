package director

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/server"
	"retake/internal/config"
	"retake/internal/director/lead"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// A fleet that a director finds at its start.
const (
	foundTasks   = 10_000
	foundWorkers = 100 // of them, which have a worker
)

// foundFleet is a data directory with a journal, and with a snapshot of foundTasks tasks, half of which wait
// while the others' people were asked.
type foundFleet struct {
	*harness
	url         string
	credentials []bus.Credential // of the workers, from 1 on
}

func foundID(n int) string { return fmt.Sprintf("n%07dx-1", n) }

// newFoundFleet makes one for a director that syncs each append, or does not.
func newFoundFleet(t *testing.T, sync string) *foundFleet {
	t.Helper()
	f := &foundFleet{harness: newHarness(t, func(ctx context.Context, _ *fakeWorker) int { <-ctx.Done(); return 1 })}
	f.config.Director.MaxWorkers, f.config.AgentBus.Sync = foundWorkers, sync
	f.config.Director.Interval = config.Default().Director.Interval
	o := lead.BusOptions(f.config)
	var err error
	o.Server, err = server.Start(t.Context(), server.Options{
		Dir: o.Dir, Fleet: o.Fleet, Prefix: o.Prefix,
		ListenHosts: []string{"127.0.0.1"},
	})
	must(t, err)
	f.url = o.Server.URL("127.0.0.1")
	b, err := bus.Open(t.Context(), o)
	must(t, err)
	must(t, b.ShareSecret(t.Context()))
	m := fsm.New(fsm.Config{})
	driver, now := fsm.NewDriver(m, 0, "prepared"), time.Now().UTC().Add(-time.Hour)
	var data []byte
	flush := func() {
		at := b.Journal().Head().Seq
		_, err := b.Journal().Append(t.Context(), fmt.Sprint("prepared/", at+1), at, data)
		must(t, err)
		data = nil
	}
	decide := func(facts ...fsm.Fact) {
		now = now.Add(time.Millisecond)
		for _, one := range facts {
			m.Apply(now, one)
		}
		_, line, err := driver.Encode(now, fsm.Event{At: now, Body: fsm.Tick{}}, facts)
		must(t, err)
		if data = append(data, line...); len(data) > 200<<10 {
			flush()
		}
	}
	for n := 1; n <= foundTasks; n++ {
		of, id := fsm.OfTask{Task: fsm.IssueKey(fmt.Sprintf("%s#%d", repo, n))}, foundID(n)
		decide(fsm.TaskQueued{
			Task: of.Task, Nonce: strings.TrimSuffix(id, "-1"),
			Title: fmt.Sprintf("Frobnicate widget %d of a fairly long row", n),
			URL:   fmt.Sprintf("https://github.com/%s/issues/%d", repo, n),
		})
		if n > foundWorkers && n%2 == 0 {
			continue
		}
		decide(fsm.Moved{OfTask: of, From: fsm.Queued, To: fsm.Claiming, On: fsm.OnDispatch},
			fsm.LabelsConfirmed{OfTask: of}, fsm.AttemptBegan{OfTask: of, N: 1, WatchdogAt: now.Add(9 * time.Hour)},
			fsm.Moved{OfTask: of, Attempt: 1, From: fsm.Claiming, To: fsm.Starting, On: fsm.OnWon},
			fsm.ContainerStarted{OfTask: of, HelloBy: now.Add(time.Minute), WatchdogAt: now.Add(9 * time.Hour)},
			fsm.Moved{OfTask: of, Attempt: 1, From: fsm.Starting, To: fsm.Running, On: fsm.OnHello})
		if n <= foundWorkers {
			cred, err := b.Authorize(t.Context(), id)
			must(t, err)
			f.credentials = append(f.credentials, cred)
			f.runtime.workers[id] = &fakeWorker{task: string(of.Task), kill: func() {}}
			continue
		}
		found := foundFailure(n)
		decide(fsm.ReportAccepted{OfTask: of, Worker: id, Ref: fsm.ReportRef{
			ID: id + "/end", Seq: uint64(n),
			SHA256: strings.Repeat("0f", 32),
		}, Final: true, Stage: "VALIDATE", Finding: &found},
			fsm.Moved{OfTask: of, Attempt: 1, From: fsm.Running, To: fsm.Stopping, On: fsm.OnReport},
			fsm.VerdictMade{
				OfTask: of, Attempt: 1, Stage: "VALIDATE", Finding: found,
				Verdict: recovery.Verdict{
					Action: recovery.Escalate, Reason: found.Reason, Row: "director.tests_failed",
					Why: "a test fails",
				},
			},
			fsm.Moved{
				OfTask: of, Attempt: 1, From: fsm.Stopping, To: fsm.Blocked, On: fsm.OnEscalate,
				Why: found.Cause,
			}, fsm.LabelsConfirmed{OfTask: of})
	}
	flush()
	state, err := m.Snapshot()
	must(t, err)
	must(t, b.Journal().SaveSnapshot(t.Context(), b.Journal().Head(), state))
	must(t, b.Close(t.Context()))
	t.Logf("%d tasks, a snapshot of %.1f MB, a journal of %d batches", len(m.Tasks()), float64(len(state))/1e6,
		b.Journal().Head().Seq)
	return f
}

func foundFailure(n int) recovery.Finding {
	return recovery.Finding{
		Reason: recovery.TestsFailed, Cause: fmt.Sprintf("--- FAIL: TestWidget%d (0.00s)", n), Rule: "go.test",
		Confidence: 0.9, Signature: fmt.Sprintf("sig:%016x", n*2654435761),
	}
}

// dial connects a worker.
func (f *foundFleet) dial(n int) (*bus.Client, error) {
	c := f.credentials[n-1]
	return bus.Dial(bus.ClientOptions{URL: f.url, JWT: c.JWT, Seed: c.Seed, CA: c.CA, Key: c.Key, WorkerID: foundID(n)})
}
