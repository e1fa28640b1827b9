package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
	"retake/internal/secrets/redact"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// fakeBus is a director and its bus in memory. It keeps the order of all messages.
type fakeBus struct {
	mu       sync.Mutex
	down     bool
	away     bool // reports that it is disconnected, but would still accept messages
	answer   func(wire.Hello) wire.Payload
	ack      func(wire.Payload) error // nil: acknowledged
	seen     []string                 // "hello", "heartbeat CODE", "progress CODE", "worker_error.v1 <id>", …
	at       []time.Time              // times of the entries in seen
	reports  []wire.Payload
	beats    []wire.Heartbeat
	listener Listener
	closed   bool
	returns  uint64                                       // number of reconnections
	budget   func(wire.Payload) (wire.BudgetGrant, error) // answers a lease request; nil means no answer
}

func newFakeBus() *fakeBus {
	return &fakeBus{answer: welcomeFor("k3v9qx2m-1")}
}

func welcomeFor(attempt string) func(wire.Hello) wire.Payload {
	return func(wire.Hello) wire.Payload {
		return &wire.Welcome{ProtocolVersion: wire.ProtocolVersion, AttemptID: attempt, HeartbeatIntervalSeconds: 15}
	}
}

var errDown = errors.New("fake bus: down")

func (b *fakeBus) dial(_ *wire.Plan, l Listener) (Bus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return nil, errDown
	}
	b.listener = l
	return b, nil
}

func (b *fakeBus) note(format string, args ...any) error {
	if b.down {
		return errDown
	}
	b.seen, b.at = append(b.seen, fmt.Sprintf(format, args...)), append(b.at, time.Now())
	return nil
}

func (b *fakeBus) Hello(_ context.Context, h wire.Hello) (wire.Payload, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.note("hello"); err != nil {
		return nil, err
	}
	reply := b.answer(h)
	if reply == nil {
		return nil, errDown
	}
	return reply, nil
}

func (b *fakeBus) Heartbeat(h wire.Heartbeat) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beats = append(b.beats, h)
	return b.note("heartbeat %s", h.State.Stage)
}

func (b *fakeBus) Progress(p wire.TaskProgress) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.note("progress %s", p.Stage)
}

func (b *fakeBus) Report(_ context.Context, p wire.Payload) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.note("%s %s", p.MessageType(), reportID(p)); err != nil {
		return err
	}
	if b.ack != nil {
		if err := b.ack(p); err != nil {
			return err
		}
	}
	b.reports = append(b.reports, p)
	return nil
}

// Checkouts do not travel over this bus.
func (b *fakeBus) Chunk(context.Context, string) ([]byte, error) { return nil, errDown }
func (b *fakeBus) PutChunk(context.Context, []byte) error        { return errDown }
func (b *fakeBus) SaveCheckpoint(context.Context, wire.Checkpoint) ([]string, error) {
	return nil, errDown
}

func (b *fakeBus) Connected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.down && !b.away
}

func (b *fakeBus) Reconnects() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.returns
}

func (b *fakeBus) AskBudget(_ context.Context, p wire.Payload) (wire.BudgetGrant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down || b.budget == nil {
		return wire.BudgetGrant{}, errDown
	}
	return b.budget(p)
}

func reportID(p wire.Payload) string {
	_, id := wire.ReportID(p)
	return id
}

func (b *fakeBus) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

func (b *fakeBus) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// worker returns the worker's callbacks.
func (b *fakeBus) worker() Listener {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listener
}

func (b *fakeBus) story() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.seen...)
}

// only returns the one report, which must have been acknowledged.
func (b *fakeBus) only(t *testing.T) wire.Payload {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.reports) != 1 {
		t.Fatalf("%d reports, want exactly 1: %v", len(b.reports), b.seen)
	}
	return b.reports[0]
}

func (b *fakeBus) onlyError(t *testing.T) *wire.WorkerError {
	t.Helper()
	e, ok := b.only(t).(*wire.WorkerError)
	if !ok {
		t.Fatalf("got %+v, want a worker_error", b.only(t))
	}
	return e
}

// fakeRunner simulates programs. A script determines how long each run takes and how it ends. A run without one lasts
// until it is stopped.
type fakeRunner struct {
	script []exit
	runs   []command
	onRun  func(command)
}

func (r *fakeRunner) run(ctx context.Context, c command) exit {
	r.runs = append(r.runs, c)
	if r.onRun != nil {
		r.onRun(c)
	}
	if len(r.script) == 0 || r.script[0].err == nil {
		c.runs()
	}
	if len(r.script) == 0 {
		<-ctx.Done()
		var why *stopCause
		errors.As(context.Cause(ctx), &why)
		time.Sleep(why.grace / 2)
		return exit{stopped: true, code: 143, signal: "SIGTERM"}
	}
	e := r.script[0]
	r.script = r.script[1:]
	select {
	case <-time.After(e.took):
		return e
	case <-ctx.Done():
		return exit{stopped: true, code: 143, signal: "SIGTERM"}
	}
}

// uncounted simulates a kernel that does not count memory kills.
func uncounted() (memory, bool) { return memory{}, false }

func testPlan(t *testing.T) *wire.Plan {
	t.Helper()
	p := &wire.Plan{
		WorkerID: "k3v9qx2m-1", RunID: "run_20261121-095900Z", Attempt: 1, Issue: wire.IssueRef{Key: "acme/widgets#21"},
		Branch: "retake/21-a1", BaseBranch: "main", BaseSHA: "abc", Bus: wire.PlanBus{URL: "fake://", Seed: "bus-seed"},
		Workdir: t.TempDir(), FixAttempts: 3, StopGraceSeconds: 10, WatchdogSeconds: 3600,
		Stages: []wire.StagePlan{
			{Name: wire.StageCode, Run: []string{"agent", "--headless"}, TimeoutSeconds: 1800},
			{Name: wire.StageValidate, Run: []string{"make", "test"}, TimeoutSeconds: 900},
		},
	}
	if err := complete(p); err != nil {
		t.Fatal(err)
	}
	return p
}

// testWorker returns a worker with a fake bus and fake programs.
func testWorker(t *testing.T, p *wire.Plan, bus *fakeBus, r *fakeRunner) *worker {
	t.Helper()
	log := zap.NewNop()
	if testing.Verbose() {
		log = zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
			zapcore.AddSync(testLog{t}), zapcore.DebugLevel))
	}
	w := newWorker(p, bus.dial, log)
	w.syncDisk = func(string) error { return nil } // the machine's disk may be busy
	w.runner, w.mask = r, redact.New(append(p.Secrets, p.Bus.Seed)...)
	w.env = childEnvironment([]string{"HOME=" + p.Workdir}, p.Bus.Seed)
	w.classify = func(recovery.Evidence) recovery.Finding { return recovery.Finding{Reason: recovery.TestsFailed} }
	return w
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

var _ io.Writer = testLog{}

func spoolFiles(t *testing.T, p *wire.Plan) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.Workdir, spoolFolder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readFile(t *testing.T, p *wire.Plan, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.Workdir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
