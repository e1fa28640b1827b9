package director

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"retake/internal/bench"
	"retake/internal/bus"
	"retake/internal/bus/server"
	"retake/internal/director/loop"
	"retake/internal/director/loop/looptest"
	"retake/internal/director/workers"
	"retake/internal/fsm"
	"retake/internal/metrics"
)

// Sizes of TestBenchHeartbeats. Every 100th worker falls silent after its first heartbeat.
const (
	beatWorkers = 100_000
	beatEvery   = 15 * time.Second
	beatTTL     = 20 * time.Second
	beatSilent  = 100
	beatReports = 1000                   // decisions per second during the heartbeats
	beatPrompt  = 100 * time.Millisecond // maximum time from a worker to the machine
	burstRound  = 3                      // the round in which all workers send within a second
	idleWorkers = 1000                   // number of workers in a fleet without other events
)

// beatsEnv configures the child process that plays the workers. With a separate process, the measured processor time
// does not include theirs.
const beatsEnv = "RETAKE_BENCH_BEATS"

type beatsOrder struct {
	URL, JWT, Seed string
	Workers        int
	Sent           string // file of sentTimes
}

// TestBenchHeartbeats lets a child play the workers over few connections. The server, the intake, the owner, the
// machine and the journal are real.
func TestBenchHeartbeats(t *testing.T) {
	if order := os.Getenv(beatsEnv); order != "" {
		playWorkers(t, order)
		return
	}
	bench.Begin(t)
	figure := func(what string, value float64, unit string, goal bench.Goal) {
		bench.Record(t, bench.Figure{Section: "heartbeats", What: what, Value: value, Unit: unit, Goal: goal})
	}
	t.Run("idle", func(t *testing.T) { benchIdle(t, figure) })
	b := startBeats(t, beatWorkers, true)
	figure("intake and bus: memory of an admitted worker that sends nothing", b.perWorker, "B", bench.Goal{})

	b.beat(0, 1, beatEvery) // all workers send
	b.settled(1, func(int) bool { return true })
	before, decided := processorTime(t), b.decided.Load()
	began := time.Now()
	b.beat(2, 2, beatEvery) // only the workers that continue send
	with, took := processorTime(t)-before, time.Since(began)
	rate := float64(b.decided.Load()-decided) / took.Seconds()
	goesOn := func(n int) bool { return n%beatSilent != 0 }
	lost := b.settled(2, goesOn)
	t.Logf("a second round ended at %s", time.Since(b.began).Round(time.Millisecond))

	began = time.Now()
	b.beat(2, burstRound, time.Second)
	sent := time.Since(began)
	lost += b.settled(burstRound, goesOn)
	caughtUp := time.Since(began) - sent
	t.Logf("the burst was over at %s", time.Since(b.began).Round(time.Millisecond))

	late := b.silences(beatWorkers / beatSilent)
	before = processorTime(t)
	time.Sleep(6 * time.Second)
	without := processorTime(t) - before

	cores := with.Seconds()/took.Seconds() - without.Seconds()/6
	what := fmt.Sprintf("%d workers, a heartbeat each %s, %.0f reports decided a second: ", beatWorkers, beatEvery,
		rate)
	figure(what+"what the heartbeats take", cores, "cores",
		bench.Goal{AtMost: 0.25, Limit: "system calls: each heartbeat is read from its socket by the relay and " +
			"passed to the embedded server"})
	figure("heartbeats lost, of those at a steady rate and of all within a second", float64(lost), "",
		bench.Goal{AtMost: 0.5})
	figure("workers suspected that were not silent", float64(b.wrong.Load()), "", bench.Goal{AtMost: 0.5})
	figure("the same, because this program sent their heartbeats late", float64(b.unsent.Load()), "", bench.Goal{})
	figure(fmt.Sprintf("a heartbeat of all within %.1f s: handed over after the last was sent", sent.Seconds()),
		float64(caughtUp.Microseconds())/1000, "ms", bench.Goal{})
	figure("a silent worker is suspected after its deadline, p99", float64(late[len(late)*99/100].Microseconds())/1000,
		"ms", bench.Goal{AtMost: 100})
	figure("the same, at most", float64(late[len(late)-1].Microseconds())/1000, "ms", bench.Goal{})
}

// beats is the part of a director that receives heartbeats, with a running fleet.
type beats struct {
	t         *testing.T
	workers   int
	owner     *loop.Owner
	child     io.Writer
	answers   *bufio.Scanner
	perWorker float64
	decided   atomic.Int64
	wrong     atomic.Int64
	unsent    atomic.Int64 // workers that were suspected because the child sent too late
	sentAt    sentTimes
	slow      atomic.Int64
	began     time.Time // when the first round began

	mu   sync.Mutex
	late []time.Duration // delays between the deadline of a silent worker and its suspicion
}

func beatWorker(n int) string { return fmt.Sprintf("k%07d-1", n) }

// fleet returns a machine with n running workers, last heard from at a time.
func fleet(t *testing.T, config fsm.Config, tasks int, at time.Time) *fsm.Machine {
	t.Helper()
	config.MaxWorkers = tasks
	m := fsm.New(config)
	m.Step(fsm.Event{At: at.Add(-time.Hour), Body: fsm.Booted{RunID: "bench"}}) // the grace of the start is over
	for n := range tasks {
		begin(m, n, at)
	}
	if n := len(slices.Collect(m.Live())); n != tasks {
		t.Fatalf("%d tasks have a worker, want %d", n, tasks)
	}
	return m
}

// begin lets an issue be claimed and started, and lets its worker say hello.
func begin(m *fsm.Machine, n int, at time.Time) {
	for _, body := range beginning(n) {
		m.Step(fsm.Event{At: at, Body: body})
	}
}

func beginning(n int) []fsm.EventBody {
	key, nonce := fsm.IssueKey(fmt.Sprintf("acme/widgets#%d", n+1)), fmt.Sprintf("k%07d", n)
	return []fsm.EventBody{
		fsm.IssuesSeen{Repo: "acme/widgets", Issues: []fsm.IssueView{{
			Key: key, Title: fmt.Sprintf("Widths of widget %d are wrong", n),
			URL:  fmt.Sprintf("https://github.com/acme/widgets/issues/%d", n+1),
			Open: true, Labels: []fsm.Label{fsm.LabelTask}, Nonce: nonce,
		}}},
		fsm.EffectEnded{Task: key, Effect: nonce + "-0/claim", Claim: &fsm.ClaimResult{Ours: true}},
		fsm.EffectEnded{Task: key, Effect: nonce + "-1/start"},
		fsm.Hello{Worker: nonce + "-1", Token: 1},
	}
}

// benchIdle measures the heartbeats of an idle fleet.
func benchIdle(t *testing.T, figure func(what string, value float64, unit string, goal bench.Goal)) {
	b := startBeats(t, idleWorkers, false)
	b.beat(0, 1, beatEvery)
	before, began := processorTime(t), time.Now()
	b.beat(0, 2, beatEvery)
	share := 100 * (processorTime(t) - before).Seconds() / time.Since(began).Seconds()
	if lost := b.settled(2, func(int) bool { return true }); lost > 0 {
		t.Errorf("%d heartbeats are lost", lost)
	}
	figure(fmt.Sprintf("%d workers, a heartbeat each %s, nothing else: processor time of one core", idleWorkers,
		beatEvery), share, "%", bench.Goal{AtMost: 0.5, Limit: "waking up: each heartbeat comes alone, and half " +
		"a dozen goroutines, of the relay, the server, the client, the intake and the owner, are woken for it " +
		"one after the other; of 100,000 workers, which find them awake, one costs a tenth of that"})
}

// openHub opens a bus for a fleet on the shared server.
func openHub(ctx context.Context, t *testing.T, fleetOf int) (*server.Server, *bus.Bus) {
	t.Helper()
	srv, err := server.Start(ctx, server.Options{
		Dir: t.TempDir(), ListenHosts: []string{"127.0.0.1"},
		MaxWorkers: fleetOf, SyncAlways: true, Log: zap.NewNop(),
	})
	must(t, err)
	hub, err := bus.Open(ctx,
		bus.Options{Server: srv, Log: zap.NewNop(), OnOffence: func(o bus.Offence) { t.Errorf("an offence: %+v", o) }})
	must(t, err)
	must(t, hub.ShareSecret(ctx))
	return srv, hub
}

// startBeats runs a fleet of workers. With reports, the owner also decides reports all the time.
func startBeats(t *testing.T, fleetOf int, reports bool) *beats {
	ctx, cancel := context.WithCancel(context.Background())
	srv, hub := openHub(ctx, t, fleetOf)
	b := &beats{t: t, workers: fleetOf}
	heartbeats := &workers.Heartbeats{
		Bus: hub, Metrics: metrics.New(prometheus.NewRegistry(), "bench"), Log: zap.NewNop(),
	}
	names := make([]string, fleetOf)
	for n := range names {
		names[n] = beatWorker(n)
	}
	config := looptest.Config()
	config.HeartbeatTTL, config.Watchdog = beatTTL, 24*time.Hour
	var parts sync.WaitGroup
	heap := heapInUse()
	watching, stop := context.WithCancel(ctx)
	heartbeats.Owner = loop.New(fsm.NewDriver(fsm.New(config), 0, "none"), hub.Journal(), zap.NewNop())
	parts.Go(func() { _ = heartbeats.Watch(watching) })
	began := time.Now()
	hub.Admit(names...)
	b.perWorker = float64(heapInUse()-heap) / float64(fleetOf)
	t.Logf("admitted in %s", time.Since(began).Round(time.Millisecond))
	stop()
	parts.Wait()

	began = time.Now()
	b.startChild(srv)
	b.sent()
	m := fleet(t, config, fleetOf, time.Now())
	t.Logf("the fleet was made in %s", time.Since(began).Round(time.Millisecond))
	driver := fsm.NewDriver(m, hub.Journal().Head().Seq, "bench")
	snapshot, err := m.Snapshot()
	must(t, err)
	heartbeats.Metrics.Slots(fleetOf)
	must(t, heartbeats.Metrics.Restore(0, snapshot))
	allSeen(m, names)
	b.began = time.Now()
	b.owner = loop.New(driver, hub.Journal(), zap.NewNop())
	heartbeats.Owner = b.owner
	b.owner.OnDurable, b.owner.Effects = func(fsm.Record) {}, b.effect
	running := []sessionPart{b.owner.Run, b.owner.HandOver, heartbeats.Watch}
	if reports {
		running = append(running, b.report)
	}
	for _, part := range running {
		parts.Go(func() {
			if err := part(ctx); err != nil {
				t.Errorf("a part ended: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		parts.Wait()
		must(t, hub.Close(context.Background()))
	})
	return b
}

// allSeen gives the machine a heartbeat of every worker, because creating the workers took a while.
func allSeen(m *fsm.Machine, workers []string) {
	now, all := time.Now(), make([]fsm.Sign, 0, len(workers))
	for _, w := range workers {
		all = append(all, fsm.Sign{WorkerSeen: fsm.WorkerSeen{Worker: w}, At: now})
	}
	for _, part := range fsm.InParts(all) {
		m.Step(fsm.Event{At: now, Body: part})
	}
}

// effect receives effects from the owner. A probe means that a worker is suspected.
func (b *beats) effect(e fsm.Effect) {
	if e.Kind != fsm.DoProbe {
		return
	}
	t, current := b.owner.Driver().Machine().Worker(e.Worker)
	if !current || !t.Since.Equal(b.owner.Driver().Machine().Now()) && t.State != fsm.Suspect {
		return
	}
	n, _ := strconv.Atoi(e.Worker[1 : len(e.Worker)-2])
	_, heard := t.Activity()
	late := b.owner.Clock.Now().Sub(heard.Add(beatTTL + time.Millisecond))
	if n%beatSilent != 0 && !b.sentAt.inTime(n, heard, heard.Add(beatTTL)) {
		b.unsent.Add(1)
		return
	}
	if n%beatSilent != 0 {
		if b.wrong.Add(1) <= 3 {
			b.t.Logf("%s is suspected at %s, heard %s ago", e.Worker, time.Since(b.began).Round(time.Millisecond),
				(late + beatTTL).Round(time.Millisecond))
		}
		return
	}
	if late > 100*time.Millisecond && late < beatTTL/4 && b.slow.Add(1) <= 3 {
		b.t.Logf("%s is suspected %s late, at %s", e.Worker, late.Round(time.Millisecond),
			time.Since(b.began).Round(time.Millisecond))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if late < beatTTL/4 { // a longer delay belongs to a second probe
		b.late = append(b.late, late)
	}
}

// silences waits until n workers were suspected, and returns their delays in ascending order.
func (b *beats) silences(workers int) []time.Duration {
	b.t.Helper()
	for until := time.Now().Add(2 * beatTTL); ; time.Sleep(50 * time.Millisecond) {
		b.mu.Lock()
		late := slices.Clone(b.late)
		b.mu.Unlock()
		if len(late) >= workers {
			slices.Sort(late)
			return late
		}
		if time.Now().After(until) {
			b.t.Fatalf("%d of %d silent workers were suspected", len(late), workers)
		}
	}
}

// report makes the owner decide about beatReports reports per second until ctx is done.
func (b *beats) report(ctx context.Context) error {
	const together = 20
	tick := time.NewTicker(time.Second * together / beatReports)
	defer tick.Stop()
	for n := 0; ; n += together {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		for i := n; i < n+together; i++ { // notices: the worker continues
			w := beatWorker(i % b.workers)
			r := fsm.Report{Ref: fsm.ReportRef{ID: fmt.Sprintf("note-%d", i), Seq: uint64(i + 1)}, Stage: "CODE"}
			b.owner.Send(ctx, fsm.ReportReceived{Worker: w, Report: r}, func() { b.decided.Add(1) })
		}
	}
}

// settled waits up to three seconds until the machine has the round's heartbeat of each worker that of selects. It
// returns the number of workers without that heartbeat.
func (b *beats) settled(round int, of func(n int) bool) (lost int) {
	b.t.Helper()
	const together = 2000 // workers per turn of the owner, which also has other work
	step := strconv.Itoa(round)
	for until := time.Now().Add(3 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		lost = 0
		for first := 0; first < b.workers; first += together {
			missing, err := loop.Look(context.Background(), b.owner, func(d *fsm.Driver) (missing int) {
				for n := first; n < min(first+together, b.workers); n++ {
					if t, _ := d.Machine().Worker(beatWorker(n)); of(n) && t != nil {
						if a, _ := t.Activity(); a.Step != step {
							missing++
						}
					}
				}
				return missing
			})
			must(b.t, err)
			lost += missing
		}
		if lost == 0 || time.Now().After(until) {
			return lost
		}
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
