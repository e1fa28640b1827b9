package director

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
)

// listEvery is how often the runtime's list is read when no hint asks for it earlier.
const listEvery = 5 * time.Second

// A snapshot is saved after so many batches, which bounds what a restart replays, or after so much time with any, since
// the journal keeps its messages for a limited time only.
const (
	snapshotEvery = 1000
	snapshotAfter = time.Hour
)

// outboxMax is the longest pause between two tries of an effect: an outage of hours must not cost thousands of calls.
const outboxMax = 5 * time.Minute

// session is one life of a machine: from reading the journal until the context ends or the journal refuses.
type session struct {
	*daemon
	owner     *owner
	runner    *effectRunner
	hellos    hellos
	refusals  *refusals
	strangers strangers
	broker    *broker
	recorder  *recorder
	relists   chan struct{}
	works     bool      // it began: what fails from now on is not a matter of configuration
	saved     uint64    // journal sequence of the last snapshot; the housekeeper's own
	savedAt   time.Time // when it was saved, or when the session began
}

func (d *daemon) newSession() *session {
	return &session{
		daemon: d, relists: make(chan struct{}, 1), refusals: newRefusals(), savedAt: time.Now(),
		hellos: hellos{waiting: map[uint64]chan wire.Payload{}},
	}
}

// machineConfig is the part of the configuration that decisions are made by.
func (d *daemon) machineConfig() fsm.Config {
	c := d.config
	outbox := recovery.Backoff{Initial: time.Second, Max: outboxMax, Factor: 2, Jitter: recovery.EqualJitter}
	return fsm.Config{
		MaxWorkers: c.Director.MaxWorkers, HeartbeatTTL: c.Timeouts.WorkerHeartbeatTTL, Watchdog: c.Timeouts.WorkerWatchdog,
		StartTimeout: c.Timeouts.WorkerStart, StopGrace: c.Timeouts.StopGrace, ClaimStale: c.Timeouts.IssueClaimStale,
		Policy: d.policy.With(c.Limits()), HasAlternative: alternative(d.stages) != "", Models: models(d.stages),
		Classify: d.classifier.Classify,
		Retry:    outbox,
	}
}

// load reads the state that the journal holds: the newest snapshot, and what was decided since.
func (s *session) load(ctx context.Context) (*fsm.Driver, error) {
	m := fsm.New(s.machineConfig())
	seq, data, ok, err := s.bus.Journal().LoadSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	if ok {
		if err := m.Restore(data); err != nil { // of another version, perhaps: the journal knows it all
			s.log.Warn("snapshot not used; the journal is read from its start", zap.Uint64("snapshot", seq), zap.Error(err))
			m = fsm.New(s.machineConfig())
		} else {
			s.saved = seq
		}
	}
	last, err := s.bus.Journal().Replay(ctx, s.saved, func(at uint64, data []byte) error {
		records, err := fsm.ReadBatch(data)
		if err != nil {
			return fmt.Errorf("director: journal at %d: %w", at, err)
		}
		m.Replay(records)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.log.Info("state read", zap.Uint64("snapshot", s.saved), zap.Uint64("journal", last), zap.Int("tasks", len(m.Tasks())))
	return fsm.NewDriver(m, last, s.writer+"-"+newNonce()), nil
}

// run is the session. It returns nil when ctx ended.
func (s *session) run(ctx context.Context) error {
	driver, err := s.load(ctx)
	if err != nil {
		return err
	}
	for _, c := range driver.Machine().Cooldowns() {
		s.github.Prime(github.Cooldown{Resource: c.Resource, Until: c.Until, Why: c.Why})
	}
	if err := s.openRepositories(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	s.owner = newOwner(driver, s.bus.Journal(), s.log)
	s.runner = newEffectRunner(ctx, s.acts(), func(e fsm.EffectEnded) { s.owner.tell(ctx, e, nil) }, s.log)
	s.owner.effects, s.owner.told = s.runner.submit, s.told
	s.recorder = newRecorder(driver.Machine(), s.audit, s.runID, s.config.Containers.Image, s.config.Recovery.Preset, s.machineConfig().Policy.Guards())
	if err := s.adopt(ctx, driver.Machine()); err != nil {
		return err
	}
	s.broker = s.newBroker(ctx, driver.Machine())
	door, err := s.openDoor(ctx)
	if err != nil {
		return err
	}
	s.works = true
	s.log.Info("director started", zap.String("run", s.runID), zap.String("fleet", s.config.Director.Fleet),
		zap.Strings("repositories", s.config.GitHub.Repositories), zap.Bool("writes", s.config.GitHub.Writes),
		zap.String("bus", s.bus.WorkerURL(s.gateway)), zap.String("data_dir", s.config.Director.DataDir),
		zap.String("image", s.config.Containers.Image))
	group.Go(func() error { return s.owner.run(ctx) })
	group.Go(func() error { return s.bus.ConsumeReports(ctx, func(r bus.Report) { s.reported(ctx, r) }) })
	group.Go(func() error { return s.watchWorkers(ctx) })
	group.Go(func() error { return s.serveHello(ctx) })
	group.Go(func() error { return s.runtime.Watch(ctx, func(container.Hint) { s.relist() }) })
	group.Go(func() error { return s.listContainers(ctx) })
	group.Go(func() error { return s.watchGate(ctx) })
	group.Go(func() error { return s.watchDrift(ctx) })
	group.Go(func() error { return s.bus.ServeBudget(ctx, s.broker) })
	group.Go(func() error { return s.keepHouse(ctx) })
	group.Go(func() error { return s.watchEdits(ctx) })
	group.Go(func() error { return s.bus.ServeSnapshot(ctx, func() wire.Snapshot { return s.snapshot(ctx) }) })
	group.Go(func() error { return s.serveOperator(ctx, door) })
	for _, repo := range s.config.GitHub.Repositories {
		group.Go(func() error { return s.poll(ctx, repo) })
	}
	err = group.Wait()
	s.runner.wait()
	s.lastSnapshot()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// adopt tells the machine what really runs before it decides anything else, and clears what no task needs.
func (s *session) adopt(ctx context.Context, m *fsm.Machine) error {
	var nonces []string
	for _, t := range m.Tasks() {
		nonces = append(nonces, t.Nonce)
		if t.State.Info().Live && t.Attempt > 0 {
			s.bus.Authorize(t.AttemptID())
		}
	}
	if gone, err := s.workspace.Sweep(ctx, nonces); err != nil {
		s.log.Warn("orphaned checkouts are left", zap.Error(err))
	} else if len(gone) > 0 {
		s.log.Info("removed orphaned checkouts", zap.Strings("tasks", gone))
	}
	asked := s.owner.clock.peek()
	list, err := s.runtime.List(ctx)
	if err != nil {
		return err
	}
	for _, c := range list {
		if _, current := m.Worker(c.AttemptID); current && c.State.Live() {
			err := s.runtime.Adopt(ctx, c.AttemptID) // its output from now on; what came before is in the runtime's log
			s.log.Info("adopted a running container", zap.String("issue", c.Task), zap.String("worker", c.AttemptID), zap.Error(err))
		}
	}
	s.owner.clock.here()
	for _, body := range []fsm.EventBody{fsm.Booted{RunID: s.runID}, listed(asked, list)} {
		if err := s.owner.handle(input{body: body}); err != nil {
			return err
		}
	}
	return nil
}

func listed(asked time.Time, list []container.Status) fsm.Listed {
	l := fsm.Listed{TakenAt: asked}
	for _, c := range list {
		l.Containers = append(l.Containers, fsm.Container{Attempt: c.AttemptID, Running: c.State.Live()})
	}
	return l
}

func (s *session) reported(ctx context.Context, r bus.Report) {
	s.owner.tell(ctx, fsm.Reported{Worker: r.Worker, Report: report(r)}, func() {
		if err := r.Ack(); err != nil {
			s.log.Debug("report not acknowledged; it comes again", zap.String("worker", r.Worker), zap.Error(err))
		}
	})
}

func (s *session) watchWorkers(ctx context.Context) error {
	return s.bus.WatchWorkers(ctx,
		func(worker string, h wire.Heartbeat) { s.owner.tell(ctx, heard(worker, h), nil) },
		func(worker string, p wire.TaskProgress) { s.owner.tell(ctx, progressed(worker, p), nil) })
}

func (s *session) serveHello(ctx context.Context) error {
	return s.bus.ServeHello(ctx, func(worker string, h wire.Hello) wire.Payload {
		return s.hellos.ask(ctx, worker, h, s.owner.tell)
	})
}

// watchGate tells the machine when GitHub closes.
func (s *session) watchGate(ctx context.Context) error {
	for {
		select {
		case c := <-s.cooldowns:
			s.owner.tell(ctx, fsm.CooldownReported{Resource: c.Resource, Until: c.Until, Why: c.Why}, nil)
		case <-ctx.Done():
			return nil
		}
	}
}

// relist asks for the runtime's list now; hints that come together make one list.
func (s *session) relist() {
	select {
	case s.relists <- struct{}{}:
	default:
	}
}

// listContainers reads the list regularly, and when a hint says so. The list decides; a daemon that does not answer
// says nothing about its containers.
func (s *session) listContainers(ctx context.Context) error {
	for {
		select {
		case <-s.relists:
		case <-time.After(listEvery):
		case <-ctx.Done():
			return nil
		}
		asked := s.owner.clock.peek()
		list, err := s.runtime.List(ctx)
		if err != nil {
			s.log.Warn("containers cannot be listed", zap.Error(err))
			continue
		}
		s.owner.tell(ctx, listed(asked, list), nil)
	}
}

// keepHouse publishes the state and saves a snapshot of it, every director.interval_seconds.
func (s *session) keepHouse(ctx context.Context) error {
	tick := time.NewTicker(s.config.Director.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := s.bus.PublishSnapshot(s.snapshot(ctx)); err != nil {
			s.log.Debug("snapshot not published", zap.Error(err))
		}
		s.writeStates(ctx)
		s.saveSnapshot(ctx)
	}
}

// watchEdits looks for hand-edited budgets: at once for what was written while nobody looked, then at every tick. It is
// apart from the rest of the housekeeping, which must not wait for a disk.
func (s *session) watchEdits(ctx context.Context) error {
	for {
		s.takeEdits(ctx)
		select {
		case <-time.After(s.config.Director.Interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// takeEdits tells the machine what people wrote into stats.json files.
func (s *session) takeEdits(ctx context.Context) {
	for _, e := range s.audit.Edits() {
		if !s.decided(ctx, fsm.BudgetEdited{Task: fsm.IssueKey(e.Issue), PaidCalls: int64(e.PaidCallsUsed)}) {
			return
		}
		if err := s.audit.TakeEdit(e); err != nil {
			s.log.Warn("a hand-edited budget may be taken again", zap.String("issue", e.Issue), zap.Error(err))
			continue
		}
		s.log.Info("took a hand-edited budget", zap.String("issue", e.Issue), zap.Int("paid_calls_used", e.PaidCallsUsed), zap.Int("was", e.Was))
	}
}

// saveSnapshot keeps the state if it is time to. While decisions are on their way to the journal it is not.
func (s *session) saveSnapshot(ctx context.Context) {
	var data []byte
	var last uint64
	err := s.owner.readDurable(ctx, func(d *fsm.Driver) (err error) {
		last = d.Last()
		if last >= s.saved+snapshotEvery || last > s.saved && time.Since(s.savedAt) >= snapshotAfter {
			data, err = d.Machine().Snapshot()
		}
		return err
	})
	switch {
	case errors.Is(err, errBusy) || ctx.Err() != nil:
	case err != nil:
		s.log.Warn("snapshot not made", zap.Error(err))
	case data != nil:
		s.keep(ctx, last, data)
	}
}

// lastSnapshot keeps the state at a clean end, when nobody decides any more.
func (s *session) lastSnapshot() {
	if !s.owner.driver.Idle() || s.owner.driver.Last() == s.saved {
		return
	}
	data, err := s.owner.driver.Machine().Snapshot()
	if err != nil {
		s.log.Warn("snapshot not made", zap.Error(err))
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.keep(ctx, s.owner.driver.Last(), data)
}

func (s *session) keep(ctx context.Context, seq uint64, data []byte) {
	if err := s.bus.Journal().SaveSnapshot(ctx, seq, data); err != nil {
		s.log.Warn("snapshot not saved", zap.Error(err))
		return
	}
	s.saved, s.savedAt = seq, time.Now()
}
