package worker

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"retake/internal/budget"
	"retake/internal/bus"
	"retake/internal/bus/server"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
)

// world is a real embedded bus, a minimal director, and one worker with real programs.
type world struct {
	t       *testing.T
	host    string // the bus's address
	store   string
	plan    *wire.Plan
	env     []string
	out     *buffer
	err     *buffer
	bus     *bus.Bus
	stopBus func()

	mu     sync.Mutex
	beats  []wire.Heartbeat
	hellos int
	had    []int // reports that were stored at each hello
	pool   *budget.Pool
	limits checkpoint.Limits // of checkouts that travel
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldAt(t, "127.0.0.1")
}

func newWorldAt(t *testing.T, host string) *world {
	t.Helper()
	w := &world{
		t: t, host: host, store: t.TempDir(), out: &buffer{}, err: &buffer{},
		pool: budget.New("run_x", budget.Limits{MaxConcurrent: 1}),
	}
	w.limits = checkpoint.Limits{Files: 100, Entries: 100, Depth: 10, PathBytes: 200, Bytes: 16 << 20}
	w.startBus()
	t.Cleanup(func() { w.stopBus() })
	cred, err := w.bus.Authorize(t.Context(), "k3v9qx2m-1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	self := testProgram(t)
	stage := func(name, program string) wire.StagePlan {
		return wire.StagePlan{
			Name: name, Run: []string{self}, TimeoutSeconds: 60,
			Env: map[string]string{programEnv: program, "TEST_DIR": dir},
		}
	}
	w.plan = &wire.Plan{
		WorkerID: "k3v9qx2m-1", RunID: "run_20261121-095900Z", Issue: wire.IssueRef{Key: "acme/widgets#21"}, Attempt: 1,
		Workdir: dir,
		Bus: wire.PlanBus{
			URL: w.bus.WorkerURL(host), JWT: cred.JWT, Seed: cred.Seed, CA: cred.CA,
			Prefix: "retake.v1",
		},
		SignKey: cred.Key,
		Stages:  []wire.StagePlan{stage(wire.StageCode, "fixer"), stage(wire.StageValidate, "checker")}, FixAttempts: 3,
		HeartbeatIntervalSeconds: 1, StopGraceSeconds: 1, WatchdogSeconds: 60,
	}
	w.setting(1, "TEST_RIGHT_IN", "1")
	return w
}

func (w *world) setting(stage int, key, value string) { w.plan.Stages[stage].Env[key] = value }

func (w *world) startBus() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	srv, err := server.Start(ctx, server.Options{Dir: w.store, ListenHosts: []string{w.host}})
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := bus.Open(ctx, bus.Options{Server: srv})
	if err != nil {
		w.t.Fatal(err)
	}
	w.bus = b
	b.Admit("k3v9qx2m-1")
	var running sync.WaitGroup
	running.Go(func() {
		_ = b.ServeHello(ctx, func(worker string, h wire.Hello) wire.Payload {
			stored, err := b.Reports().Of(ctx, worker, 0)
			if err != nil {
				w.t.Error(err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.hellos++
			w.had = append(w.had, len(stored))
			if no := wire.CheckVersion(h.ProtocolVersion); no != nil {
				return no
			}
			return wire.Welcome{
				ProtocolVersion: wire.ProtocolVersion, Director: wire.WelcomeDirector{RunID: "run_x"},
				AttemptID: worker, HeartbeatIntervalSeconds: 0.1,
			}
		})
	})
	running.Go(func() {
		_ = b.WatchWorkers(ctx, func(_ string, h wire.Heartbeat) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.beats = append(w.beats, h)
		}, func(string, wire.TaskProgress) {})
	})
	running.Go(func() {
		if err := b.ServeCheckouts(ctx,
			bus.CheckoutRules{Limits: w.limits, Task: func(string) string { return "k3v9qx2m" }}); err != nil {
			w.t.Error(err)
		}
	})
	running.Go(func() {
		if err := b.ServeBudget(ctx, w); err != nil {
			w.t.Error(err)
		}
	})
	w.stopBus = func() {
		cancel()
		running.Wait()
		if err := b.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	}
}

// Acquire grants leases like the director.
func (w *world) Acquire(worker string, a wire.BudgetAcquire) wire.BudgetGrant {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pool.Acquire(time.Now(), a.Resource, worker).Message()
}

func (w *world) Release(worker string, r wire.BudgetRelease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pool.Release(time.Now(), r.GrantID, worker)
}

func (w *world) Report(worker string, r wire.BudgetReport) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pool.Report(time.Now(), r.GrantID, worker, budget.Status(r.Status), budget.RetryAfter(r))
}

func (w *world) run(ctx context.Context) ExitCode {
	return w.runWith(ctx, DialBus)
}

func (w *world) runWith(ctx context.Context, dial Dialer) ExitCode {
	return Run(ctx, Options{
		PlanFile: FromStdin, Stdin: bytes.NewReader(w.input()), Environ: w.env, Stdout: w.out,
		Stderr: w.err, Dial: dial,
	})
}

func (w *world) start() <-chan ExitCode {
	done := make(chan ExitCode, 1)
	go func() { done <- w.run(context.Background()) }()
	return done
}

func (w *world) reports() []wire.Payload {
	w.t.Helper()
	stored, err := w.bus.Reports().Of(context.Background(), "k3v9qx2m-1", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var all []wire.Payload
	for _, r := range stored {
		all = append(all, r.Body)
	}
	return all
}

func (w *world) onlyError() *wire.WorkerError {
	w.t.Helper()
	all := w.reports()
	if len(all) != 1 {
		w.t.Fatalf("%d reports, want 1\n%s", len(all), w.err)
	}
	e, ok := all[0].(*wire.WorkerError)
	if !ok {
		w.t.Fatalf("got %+v", all[0])
	}
	return e
}

func (w *world) beat(ok func(wire.Heartbeat) bool) func() bool {
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.ContainsFunc(w.beats, ok)
	}
}
