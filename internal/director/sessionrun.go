package director

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/effects"
	"retake/internal/director/failure"
	"retake/internal/director/intake"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/preflight"
	"retake/internal/director/record"
	"retake/internal/director/restore"
	"retake/internal/director/serve"
	"retake/internal/director/view"
	"retake/internal/director/workers"
	"retake/internal/fsm"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/gate"
	"retake/internal/github/inbox"
	"retake/internal/github/tracker"
	"retake/internal/projection"
	"retake/internal/sys/cgroup"
)

// run runs the session. It returns nil when ctx is done.
func (s *session) run(ctx context.Context, t *lead.Term) error {
	driver, err := s.recall(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	edits, err := s.assemble(ctx, driver, t)
	if err != nil {
		return err
	}
	defer s.metrics.End()
	if err := s.adopt(ctx, driver.Machine(), edits); err != nil {
		return err
	}
	watched := s.watched(driver.Machine())
	s.upkeep.Keep(driver.Machine())
	if err := s.listenOperator(ctx); err != nil {
		return err
	}
	s.current.Store(&serve.Seat{
		Status: s.status, Timelines: s.timelines, Commands: s.commands, Outputs: s.outputs, Setup: s.setup,
	})
	defer s.current.Store(nil)
	s.started = true
	s.sayHowWeBegin()
	for _, part := range append(s.parts(), s.pollsOf(watched)...) {
		group.Go(func() error { return part(ctx) })
	}
	err = group.Wait()
	s.finish(t)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// recall reads the state from the journal, the workspace and GitHub, without making decisions.
func (s *session) recall(ctx context.Context) (driver *fsm.Driver, err error) {
	if err := s.leftovers.Look(ctx); err != nil {
		return nil, err
	}
	if err := s.bus.ShareSecret(ctx); err != nil {
		return nil, failure.OnBus(err)
	}
	if driver, err = s.load(ctx); err != nil {
		return nil, failure.OnBus(err)
	}
	for _, c := range driver.Machine().Cooldowns() {
		s.github.API.Gate.Prime(gate.Cooldown{Resource: c.Resource, Until: c.Until, Why: c.Why})
	}
	if err := s.repositories.OpenAny(ctx); err != nil { // sends the first requests, so the gate needs the cooldowns
		return nil, err
	}
	s.sayWhoWeAre(ctx)
	restore.RecogniseLabels(s.github, driver.Machine())
	s.meeting, err = s.meeting.Meet(driver.Machine(), s.settings(), s.log)
	s.daemon.meeting = s.meeting // later sessions need the meeting
	return driver, err
}

// assemble connects the owner to the parts that carry out, show and record its decisions.
func (s *session) assemble(ctx context.Context, driver *fsm.Driver, t *lead.Term) (
	edits []fsm.BudgetEdited, err error,
) {
	s.owner = loop.New(driver, measuredJournal{s.bus.Journal(), s.metrics, s.beforeAppend}, s.log)
	s.readAgain, s.owner.Throttled = s.owner.Reload, cgroup.Throttled
	s.upkeep.Owner, s.upkeep.Publish = s.owner, s.publish
	s.owner.Clock = t.Clock()
	s.hostDisk.Clock = s.owner.Clock
	s.owner.Clock.AtLeast(driver.Machine().Now())
	if s.recorder, edits, err = record.New(driver.Machine(), s.recordOptions()); err != nil {
		return nil, err
	}
	s.newWorkers(ctx)
	s.newAttempts()
	s.newIntake()
	s.runner = loop.NewRunner(ctx, s.executors(), func(e fsm.EffectEnded) { s.owner.Send(ctx, e, nil) }, t.Leads, s.log)
	if s.views, err = view.New(driver, s.bus.Journal(), s.machineConfig(s.begun), s.log); err != nil {
		return nil, err
	}
	s.owner.Effects, s.owner.OnDurable = s.runner.Submit, s.onDurable
	s.owed.Store(int64(driver.Machine().Owed()))
	s.owner.OnBatch = func(seq uint64, records []fsm.Record) {
		s.onBatch(seq, records)
		s.owed.Store(int64(driver.Machine().Owed()))
	}
	s.metrics.Slots(s.begun.Director.MaxWorkers)
	if err := s.metrics.Restore(driver.Last(), s.views.State()); err != nil {
		return nil, err
	}
	s.projections = []projection.Projection{s.views, s.recorder, s.metrics}
	if s.traces = s.telemetry.Follow(driver.Machine(), driver.Last(), s.views.State(), s.bus.Journal(), s.reports.Of,
		s.log); s.traces != nil {
		s.projections = append(s.projections, s.traces)
	}
	s.newAnswers()
	return edits, nil
}

// adopt gives the machine its first events: the start, the budgets that people edited, and the list of containers. It
// also removes leftovers without a task, and continues to store the output of running containers.
func (s *session) adopt(ctx context.Context, m *fsm.Machine, edits []fsm.BudgetEdited) error {
	var live []string
	for _, t := range m.Tasks() {
		if t.State.Info().Live && t.Attempt > 0 {
			live = append(live, t.AttemptID())
			s.network.Admit(t.AttemptID())
		}
	}
	s.bus.Admit(live...)
	if err := s.leftovers.Sweep(ctx, m, s.owner.Driver().Last() == 0); err != nil {
		return err
	}
	asked := s.owner.Clock.Now()
	list, err := s.runtime.List(ctx)
	if err != nil {
		return err
	}
	s.printed.Resume(m, list)
	for _, c := range list {
		if t, current := m.Worker(c.AttemptID); current && c.State.MayRun() {
			err := s.runtime.Adopt(ctx, c.AttemptID) // captures new output; the runtime's log has earlier output
			s.printed.Begin(t.Key, c.AttemptID, t.Attempt)
			s.log.Info("adopted a running container", zap.String("issue", c.Task), zap.String("worker", c.AttemptID),
				zap.Error(err))
		}
	}
	s.owner.Clock.Restart()
	events := []fsm.EventBody{fsm.Booted{RunID: s.runID, Settings: s.settings()}}
	for _, e := range edits {
		s.log.Info("applied a hand-edited budget", zap.String("issue", string(e.Task)),
			zap.Int64("paid_calls_used", e.PaidCalls))
		events = append(events, e)
	}
	for _, body := range append(events, workers.Listed(asked, list)) {
		if err := s.owner.Offer(body); err != nil {
			return err
		}
	}
	return nil
}

// newIntake creates the parts that read issues, comments and reviews on GitHub, or reply there.
func (s *session) newIntake() {
	s.issues = &intake.Issues{
		Owner: s.owner, GitHub: s.github.Issues, Offers: s.offers, Refusals: s.refusals, Config: &s.inForce,
	}
	s.answers = &intake.Answers{
		Owner: s.owner, Config: &s.inForce, Log: s.log,
		GitHub: struct {
			*inbox.Inbox
			*tracker.Writer
		}{s.github.Inbox, s.github.Labels},
	}
	s.strays = &intake.Strays{
		GitHub: s.github.Claims, Config: &s.inForce, Log: s.log,
		Checked: intake.NewPostponed(min(intake.PostponedFor, s.wholeEvery), nil),
	}
	s.replies = &effects.Replies{Owner: s.owner, GitHub: s.github, Setup: s.setup}
	s.reviews = intake.NewReviews(intake.ReviewSources{
		Owner: s.owner, GitHub: s.github.Deliveries, Config: &s.inForce, Record: s.recorder, Log: s.log,
	})
	s.polls = &intake.Polls{
		Owner: s.owner, GitHub: s.github.Inbox, Config: &s.inForce, Offers: s.offers, Reviews: s.reviews,
		Refusals: s.refusals,
		Comments: &intake.Comments{
			Owner: s.owner, Config: &s.inForce, Log: s.log,
			GitHub: struct {
				*inbox.Inbox
				*claims.Claims
				*ask.Asker
			}{s.github.Inbox, s.github.Claims, s.github.People},
		},
		Open: s.repositories.Open, Closed: s.withdrawals.End, Unusable: &s.unusable, Record: s.recorder,
		WholeEvery: s.wholeEvery, CommentsEvery: s.commentsEvery, Log: s.log,
	}
}

// serveWebhooks triggers an early poll for each webhook until ctx is done.
func (s *session) serveWebhooks(ctx context.Context) error {
	return s.webhooks.Serve(ctx, s.polls.Wake)
}

// sayHowWeBegin logs the session's main settings.
func (s *session) sayHowWeBegin() {
	s.log.Info("director started", zap.String("run", s.runID), zap.String("fleet", s.config.Director.Fleet),
		zap.Strings("repositories", s.config.GitHub.Repositories), zap.Bool("writes", s.config.GitHub.Writes),
		zap.String("bus", s.bus.WorkerURL(s.gateway)), zap.String("data_dir", s.config.Director.DataDir),
		zap.String("image", s.image()))
	if d := s.machineConfig(s.begun); d.Policy.ContinuesOnError() {
		s.log.Warn(record.ContinuesText)
	}
}

// sessionPart is one goroutine of a session. It returns when ctx is done. Its error ends the whole session.
type sessionPart func(context.Context) error

// parts lists the goroutines of a session other than the polls.
func (s *session) parts() []sessionPart {
	return []sessionPart{
		s.owner.Run,
		s.owner.HandOver,
		func(ctx context.Context) error {
			return s.bus.Reports().Consume(ctx, func(r bus.Report) func() { return s.reader.Received(ctx, r) })
		},
		endless(s.traces.Run),
		s.heartbeats.Watch,
		s.hellos.Serve,
		func(ctx context.Context) error { return s.runtime.Watch(ctx, s.list.Hint) },
		s.list.Run,
		func(ctx context.Context) error { return s.reload.Follow(ctx, s.begun, s.decideSettings) },
		s.watchGate,
		s.searchPrograms,
		(&effects.ContractWatch{
			Owner: s.owner, Contracts: s.contracts, Only: s.only.Issues(), Every: s.programsEvery, Log: s.log,
		}).Run,
		(&workers.Offences{Bus: s.bus, Ends: s.ends, Wake: s.offences, Log: s.log}).Run,
		s.running.WatchDrift,
		s.diskWatch().Run,
		s.diskGuard().Run,
		s.reviews.Run,
		(&effects.Incidents{
			Owner: s.owner, GitHub: s.github, Setup: s.setup, Repository: s.config.GitHub.Repositories[0], Log: s.log,
		}).Run,
		func(ctx context.Context) error { return s.bus.ServeBudget(ctx, s.broker) },
		func(ctx context.Context) error { return s.bus.ServeCheckouts(ctx, s.travel.Rules()) },
		endless(s.upkeep.Verify),
		s.views.Follow,
		s.upkeep.Run,
		(&intake.OnlyWatch{
			Only: s.only, Owner: s.owner, GitHub: s.github.Issues, Labels: s.config.GitHub.Labels, Log: s.log,
		}).Run,
		func(ctx context.Context) error {
			return s.bus.ServeSnapshot(ctx, func() wire.Snapshot { return s.status.Snapshot(ctx) })
		},
		endless(s.metrics.Follow),
	}
}

// searchPrograms searches for the stages' programs until ctx is done.
func (s *session) searchPrograms(ctx context.Context) error {
	if !s.searches {
		return nil
	}
	return (&preflight.Programs{
		Owner: s.owner, Setup: s.setup, Worker: s.workerBinary, Every: s.programsEvery, Reread: s.reread, Log: s.log,
	}).Run(ctx)
}

// pollsOf returns the polls of the repositories, then the operator's socket and the webhooks. The socket and the
// webhooks signal the polls, so they must start after Polls.Add has run for every repository.
func (s *session) pollsOf(repositories []string) (all []sessionPart) {
	for _, repo := range repositories {
		all = append(all, s.polls.Add(repo))
	}
	return append(all, s.serveOperator, s.serveWebhooks)
}

// endless adapts a part that cannot fail.
func endless(run func(context.Context)) sessionPart {
	return func(ctx context.Context) error {
		run(ctx)
		return nil
	}
}

// finish waits for running effects, and saves the state for the next session. The owner must have stopped.
func (s *session) finish(t *lead.Term) {
	s.traces.Finish()
	s.runner.Wait()
	late, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if t.Leads() {
		s.upkeep.Finish(late)
	}
}
