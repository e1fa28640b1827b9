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
	foundWorkers = 100 // number of these tasks that have a worker
)

// foundFleet is a data directory with a journal and a snapshot of foundTasks tasks. Half of them wait in the queue,
// the other half for answers of people.
type foundFleet struct {
	*harness
	url         string
	credentials []bus.Credential // the workers' credentials; that of worker n is at n-1
}

func foundID(n int) string { return fmt.Sprintf("n%07dx-1", n) }

// newFoundFleet creates the data directory. sync is the director's agent_bus.sync.
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
	j := &preparedJournal{t: t, bus: b, m: fsm.New(fsm.Config{}), now: time.Now().UTC().Add(-time.Hour)}
	j.driver = fsm.NewDriver(j.m, 0, "prepared")
	for n := 1; n <= foundTasks; n++ {
		f.addTask(j, n)
	}
	j.flush()
	state, err := j.m.Snapshot()
	must(t, err)
	must(t, b.Journal().SaveSnapshot(t.Context(), b.Journal().Head(), state))
	must(t, b.Close(t.Context()))
	t.Logf("%d tasks, a snapshot of %.1f MB, a journal of %d batches", len(j.m.Tasks()), float64(len(state))/1e6,
		b.Journal().Head().Seq)
	return f
}

// preparedJournal writes facts to a journal without a director.
type preparedJournal struct {
	t      *testing.T
	bus    *bus.Bus
	m      *fsm.Machine
	driver *fsm.Driver
	now    time.Time
	data   []byte
}

func (j *preparedJournal) flush() {
	at := j.bus.Journal().Head().Seq
	_, err := j.bus.Journal().Append(j.t.Context(), fmt.Sprint("prepared/", at+1), at, j.data)
	must(j.t, err)
	j.data = nil
}

func (j *preparedJournal) decide(facts ...fsm.Fact) {
	j.now = j.now.Add(time.Millisecond)
	for _, one := range facts {
		j.m.Apply(j.now, one)
	}
	_, line, err := j.driver.Encode(j.now, fsm.Event{At: j.now, Body: fsm.Tick{}}, facts)
	must(j.t, err)
	if j.data = append(j.data, line...); len(j.data) > 200<<10 {
		j.flush()
	}
}

// addTask adds the n-th task. It has a worker, is in the queue, or waits for an answer.
func (f *foundFleet) addTask(j *preparedJournal, n int) {
	of, id := fsm.OfTask{Task: fsm.IssueKey(fmt.Sprintf("%s#%d", repo, n))}, foundID(n)
	j.decide(fsm.TaskQueued{
		Task: of.Task, Nonce: strings.TrimSuffix(id, "-1"),
		Title: fmt.Sprintf("Frobnicate widget %d of a fairly long row", n),
		URL:   fmt.Sprintf("https://github.com/%s/issues/%d", repo, n),
	})
	if n > foundWorkers && n%2 == 0 {
		return
	}
	j.decide(fsm.Moved{OfTask: of, From: fsm.Queued, To: fsm.Claiming, On: fsm.OnDispatch},
		fsm.LabelsConfirmed{OfTask: of}, fsm.AttemptBegan{OfTask: of, N: 1, WatchdogAt: j.now.Add(9 * time.Hour)},
		fsm.Moved{OfTask: of, Attempt: 1, From: fsm.Claiming, To: fsm.Starting, On: fsm.OnWon},
		fsm.ContainerStarted{OfTask: of, HelloBy: j.now.Add(time.Minute), WatchdogAt: j.now.Add(9 * time.Hour)},
		fsm.Moved{OfTask: of, Attempt: 1, From: fsm.Starting, To: fsm.Running, On: fsm.OnHello})
	if n <= foundWorkers {
		cred, err := j.bus.Authorize(j.t.Context(), id)
		must(j.t, err)
		f.credentials = append(f.credentials, cred)
		f.runtime.workers[id] = &fakeWorker{task: string(of.Task), kill: func() {}}
		return
	}
	found := foundFailure(n)
	j.decide(fsm.ReportAccepted{OfTask: of, Worker: id, Ref: fsm.ReportRef{
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
