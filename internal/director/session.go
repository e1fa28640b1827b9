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
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
)

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
	owner       *owner
	runner      *effectRunner
	hellos      hellos
	refusals    *postponed // claims
	reclaims    *postponed // looks at claims that no task knows
	broker      *broker
	recorder    *recorder
	reports     *reportCache
	reviews     *reviewWatch
	withdrawals *withdrawals
	relists     chan struct{}
	started     bool      // it began: what fails from now on is not a matter of configuration
	saved       uint64    // journal sequence of the last snapshot; the housekeeper's own
	savedAt     time.Time // when it was saved, or when the session began
}

func (d *daemon) newSession() *session {
	return &session{
		daemon: d, relists: make(chan struct{}, 1), refusals: newPostponed(), reclaims: newPostponed(), savedAt: time.Now(), reports: newReportCache(d.bus), reviews: newReviewWatch(), withdrawals: newWithdrawals(),
	}
}

// machineConfig is the part of the configuration that decisions are made by.
func (d *daemon) machineConfig() fsm.Config {
	c := d.config
	outbox := recovery.Backoff{Initial: time.Second, Max: outboxMax, Factor: 2, Jitter: recovery.EqualJitter}
	return fsm.Config{
		MaxWorkers: c.Director.MaxWorkers, HeartbeatTTL: c.Timeouts.WorkerHeartbeatTTL, Watchdog: c.Timeouts.WorkerWatchdog,
		StartTimeout: c.Timeouts.WorkerStart, StopGrace: c.Timeouts.StopGrace, ClaimStale: c.Timeouts.IssueClaimStale, RemindAfter: c.Escalation.RemindAfter,
		CleanValidation: c.ValidatesFresh() && len(d.validateStages()) > 0, FixRounds: c.Worker.FixAttempts,
		Policy: d.policy.With(c.Limits()), HasAlternative: alternative(d.stages) != "", Models: models(d.stages),
		MaxStatedWait: c.RateLimits.Model.MaxWait, Classify: d.classifier.Classify,
		Retry: outbox,
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
	for _, repo := range s.config.GitHub.Repositories { // the gate knows by now what the journal says of limits
		if err := s.openRepository(ctx, repo); err != nil {
			return err
		}
	}
	s.sayWhoWeAre(ctx)
	group, ctx := errgroup.WithContext(ctx)
	s.owner = newOwner(driver, s.bus.Journal(), s.log)
	s.runner = newEffectRunner(ctx, s.executors(), func(e fsm.EffectEnded) { s.owner.send(ctx, e, nil) }, s.log)
	s.owner.effects, s.owner.onDurable = s.runner.submit, s.onDurable
	var edits []fsm.BudgetEdited
	s.recorder, edits, err = s.newRecorder(driver.Machine())
	if err != nil {
		return err
	}
	if err := s.adopt(ctx, driver.Machine(), edits); err != nil {
		return err
	}
	s.broker = s.newBroker(ctx, driver.Machine())
	listener, err := s.listenOperator(ctx)
	if err != nil {
		return err
	}
	s.started = true
	s.log.Info("director started", zap.String("run", s.runID), zap.String("fleet", s.config.Director.Fleet),
		zap.Strings("repositories", s.config.GitHub.Repositories), zap.Bool("writes", s.config.GitHub.Writes),
		zap.String("bus", s.bus.WorkerURL(s.gateway)), zap.String("data_dir", s.config.Director.DataDir),
		zap.String("image", s.image()))
	group.Go(func() error { return s.owner.run(ctx) })
	group.Go(func() error { return s.bus.ConsumeReports(ctx, func(r bus.Report) { s.reported(ctx, r) }) })
	group.Go(func() error { return s.watchWorkers(ctx) })
	group.Go(func() error { return s.serveHello(ctx) })
	group.Go(func() error { return s.runtime.Watch(ctx, s.relist) })
	group.Go(func() error { return s.listContainers(ctx) })
	group.Go(func() error { return s.watchGate(ctx) })
	group.Go(func() error { return s.watchOffences(ctx) })
	group.Go(func() error { return s.watchDrift(ctx) })
	group.Go(func() error { return s.watchDisk(ctx) })
	group.Go(func() error { return s.watchReviews(ctx) })
	group.Go(func() error { return s.showIncidents(ctx) })
	group.Go(func() error { return s.bus.ServeBudget(ctx, s.broker) })
	group.Go(func() error { return s.housekeeping(ctx) })
	group.Go(func() error { return s.bus.ServeSnapshot(ctx, func() wire.Snapshot { return s.snapshot(ctx) }) })
	group.Go(func() error { return s.serveOperator(ctx, listener) })
	for _, repo := range s.config.GitHub.Repositories {
		group.Go(func() error { return s.poll(ctx, repo) })
	}
	err = group.Wait()
	s.runner.wait()
	late, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.save(late, s.stateToSave(s.owner.driver, true)) // nobody decides any more
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// sayWhoWeAre logs which account is used, and what that means for whoever owns it.
func (s *session) sayWhoWeAre(ctx context.Context) {
	switch login, bot, err := s.github.Account(ctx); {
	case err != nil:
		s.log.Warn("the token's account is not known", zap.Error(err))
	case bot:
		s.log.Info("GitHub account: "+login+", a bot: nothing that it writes counts as a person's answer", zap.String("account", login))
	default:
		s.log.Info("GitHub account: "+login+", a person's: what "+login+" writes by hand counts as an answer; what Retake writes carries a marker and does not",
			zap.String("account", login))
	}
}

// adopt hands the machine what really runs, and what people changed, before it decides anything else; it removes what
// no task needs.
func (s *session) adopt(ctx context.Context, m *fsm.Machine, edits []fsm.BudgetEdited) error {
	var nonces []string
	for _, t := range m.Tasks() {
		nonces = append(nonces, t.Nonce)
		if t.State.Info().Live && t.Attempt > 0 {
			s.bus.Admit(t.AttemptID())
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
	s.owner.clock.restart()
	events := []fsm.EventBody{fsm.Booted{RunID: s.runID}}
	for _, e := range edits {
		s.log.Info("took a hand-edited budget", zap.String("issue", string(e.Task)), zap.Int64("paid_calls_used", e.PaidCalls))
		events = append(events, e)
	}
	for _, body := range append(events, listed(asked, list)) {
		if err := s.owner.handle(input{body: body}); err != nil {
			return err
		}
	}
	return nil
}

// watchGate reports GitHub's cooldowns to the machine.
func (s *session) watchGate(ctx context.Context) error {
	for {
		select {
		case c := <-s.cooldowns:
			s.owner.send(ctx, fsm.CooldownReported{Resource: c.Resource, Until: c.Until, Why: c.Why}, nil)
		case <-ctx.Done():
			return nil
		}
	}
}

// housekeeping publishes the state and saves a snapshot of it, every director.interval_seconds.
func (s *session) housekeeping(ctx context.Context) error {
	tick := time.NewTicker(s.config.Director.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now := s.snapshot(ctx)
		if err := s.bus.PublishSnapshot(now); err != nil {
			s.log.Debug("snapshot not published", zap.Error(err))
		}
		s.writeStates(ctx, now.Director.Phase)
		if state, err := look(ctx, s.owner, func(d *fsm.Driver) savedState { return s.stateToSave(d, false) }); err == nil {
			s.save(ctx, state)
		}
	}
}

// savedState is a snapshot of the machine at a place in the journal.
type savedState struct {
	seq  uint64
	data []byte // nil: it is not time to save one
}

// stateToSave is the owner's. While decisions are on their way to the journal there is none: they may never be in it.
func (s *session) stateToSave(d *fsm.Driver, atEnd bool) savedState {
	last := d.Last()
	due := last >= s.saved+snapshotEvery || last > s.saved && (atEnd || time.Since(s.savedAt) >= snapshotAfter)
	if !due || !d.Idle() {
		return savedState{}
	}
	data, err := d.Machine().Snapshot()
	if err != nil {
		s.log.Warn("snapshot not made", zap.Error(err))
	}
	return savedState{last, data}
}

func (s *session) save(ctx context.Context, state savedState) {
	if state.data == nil {
		return
	}
	if err := s.bus.Journal().SaveSnapshot(ctx, state.seq, state.data); err != nil {
		s.log.Warn("snapshot not saved", zap.Error(err))
		return
	}
	s.saved, s.savedAt = state.seq, time.Now()
}
