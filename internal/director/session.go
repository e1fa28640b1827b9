package director

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/effects"
	"retake/internal/director/inforce"
	"retake/internal/director/intake"
	"retake/internal/director/loop"
	"retake/internal/director/record"
	"retake/internal/director/reports"
	"retake/internal/director/telemetry"
	"retake/internal/director/view"
	"retake/internal/director/workers"
	"retake/internal/fsm"
	"retake/internal/projection"
	"retake/internal/projection/feed"
)

// A snapshot is saved after snapshotEvery batches, which bounds the replay after a restart, and after snapshotAfter
// if there was any batch. Only batches before a snapshot can leave the live journal.
const (
	snapshotEvery = 1000
	snapshotAfter = time.Hour
)

// session is one life of a machine, from reading the journal until the context ends or the journal fails.
type session struct {
	*daemon
	bus         *bus.Bus // copied, like met, because a request may outlast the session
	met         *meeting
	owner       *loop.Owner
	readAgain   func(error) // ends the session, so that the journal is read again
	runner      *loop.Runner
	control     *workers.Control
	hellos      *workers.Hellos
	signs       *workers.Signs
	list        *workers.List
	ends        *workers.Ends
	running     *workers.Checkouts
	refusals    *intake.Postponed // issues whose claim failed
	reclaims    *intake.Postponed // claims without a task that were checked recently
	broker      *workers.Broker
	recorder    *record.Recorder
	views       *view.Model
	traces      *telemetry.Follower // nil if tracing is off
	projections []projection.Projection
	reports     *reports.Cache
	reader      *reports.Reader
	ending      *reports.Ending
	offers      *intake.Offers
	polls       *intake.Polls
	reviews     *intake.Reviews
	withdrawals *effects.Withdrawals
	travel      *effects.Checkouts
	credentials *effects.Credentials
	hostDisk    *effects.Disk
	origin      effects.Origin
	delivery    *effects.Delivery
	questions   *effects.Questions
	workSecrets *effects.Secrets
	edited      sync.Map // edits of issues that the log already reports
	sent        []string // tasks whose checkouts were on the bus before the journal was read
	// present before the journal was read; those it does not know can be removed
	checkouts []string
	fleetKept string         // the fleet file as last written; used only by housekeeping
	begun     *inforce.Setup // the setup the machine decides by; used only by followSettings once the session has begun
	started   bool           // the session has begun, so later failures are not configuration errors
	saved     uint64         // journal sequence of the last snapshot; used only by housekeeping
	savedAt   time.Time      // when it was saved, or when the session began
	retires   retries
	resave    bool // a stored snapshot cannot be read, so save another; used only by housekeeping
}

func (d *daemon) newSession() *session {
	offers := &intake.Offers{GitHub: d.github, Config: &d.inForce, Unusable: &d.unusable, Log: d.log}
	s := &session{
		daemon: d, bus: d.bus, met: d.met, offers: offers,
		refusals: intake.NewPostponed(intake.PostponedFor, offers.AsksForWork),
		reclaims: intake.NewPostponed(min(intake.PostponedFor, d.wholeEvery), nil),
		travel: &effects.Checkouts{
			Bus: d.bus, Workspace: d.workspace, Limits: d.config.Checkout, Redact: d.github.Redact, Log: d.log,
		},
		hostDisk:    &effects.Disk{State: d.disk.Now, Use: d.diskUse, Workspace: d.workspace, Log: d.log},
		credentials: &effects.Credentials{Bus: d.bus, Log: d.log},
		savedAt:     time.Now(), reports: reports.NewCache(d.bus, d.github.Secrets),
		withdrawals: effects.NewWithdrawals(),
	}
	s.origin = effects.Origin{APIURL: d.config.GitHub.APIURL, BaseBranch: d.config.GitHub.BaseBranch}
	s.workSecrets = &effects.Secrets{Setup: d.setup, Token: d.token, Values: d.known, Bus: d.bus}
	s.delivery = &effects.Delivery{
		Setup: d.setup, GitHub: d.github, Workspace: d.workspace, Origin: s.origin, Secrets: s.workSecrets,
		Withdrawals: s.withdrawals, Reports: s.reports.Of, Log: d.log,
	}
	s.questions = &effects.Questions{
		Setup: d.setup, ConfigFile: d.reading.file, GitHub: d.github, Delivery: s.delivery, Failure: s.reports.Failure,
		Denied: d.outside.denied,
		Gone:   func(ctx context.Context, k fsm.IssueKey) { s.owner.Send(ctx, s.issueGone(k), nil) },
	}
	return s
}

// state is a machine with the state that the journal has.
type state struct {
	m     *fsm.Machine
	saved uint64 // sequence of the snapshot it was restored from
	head  bus.Head

	rebuild fsm.RebuildWritten // how much of a rebuild is in the journal, if the journal begins with one
}

// load reads the state from the journal. A state that a standby has followed is only brought up to date. A damaged
// journal, or one whose rebuild was interrupted, is rebuilt first if the configuration allows it. Otherwise the
// director ends.
func (s *session) load(ctx context.Context) (*fsm.Driver, error) {
	h, err := s.hot, error(nil)
	if s.hot = nil; h != nil && s.readOn(ctx, h) != nil {
		h = nil
	}
	if h == nil {
		h, err = s.loadState(ctx)
	}
	known, why, begun, failed := s.unsound(ctx, h, err)
	if failed != nil {
		return nil, failed
	}
	if why != "" && !begun && s.config.Journal.OnDamage != onDamageRebuild {
		return nil, s.damaged(err)
	}
	if why != "" {
		if _, _, err := s.rebuild(ctx, known, why); err != nil {
			return nil, err
		}
		if h, err = s.loadState(ctx); err != nil {
			return nil, err
		}
	}
	s.saved, s.begun = h.saved, s.setup()
	h.m.Configure(s.machineConfig(s.begun)) // a followed state may have an older configuration
	s.makeRoom(ctx, h)
	s.log.Info("state read", zap.Uint64("snapshot", h.saved), zap.Uint64("journal", h.head.Seq),
		zap.Int("tasks", len(h.m.Tasks())))
	return fsm.NewDriver(h.m, h.head.Seq, s.writer+"-"+loop.NewNonce()), nil
}

// loadState reads the newest snapshot and replays the journal after it. If it returns bus.ErrDamaged, the state is
// the one before the damage.
func (s *session) loadState(ctx context.Context) (*state, error) {
	h := &state{m: fsm.New(s.machineConfig(s.setup()))}
	from, err := s.bus.Journal().LoadSnapshot(ctx, h.m.Restore) // refuses a snapshot of another version
	if err != nil {
		return nil, err
	}
	h.saved, h.head = from.Seq, from
	return h, s.readOn(ctx, h)
}

// readOn replays the journal after the state.
func (s *session) readOn(ctx context.Context, h *state) error {
	var head bus.Head
	err := feed.Batches(ctx, func(ctx context.Context, fn func(uint64, []byte) error) (err error) {
		head, err = s.bus.Journal().Replay(ctx, h.head, fn)
		return err
	}, func(_ uint64, records []fsm.Record) error {
		h.m.Replay(records)
		h.rebuild = fsm.LastRebuild(h.rebuild, records)
		return nil
	})
	if errors.Is(err, feed.ErrUndecoded) {
		err = fmt.Errorf("%w: %w", errForGood, err) // a newer version wrote it
	}
	if err == nil {
		h.head = head
	}
	return err
}

// damaged returns the error for a damaged journal, with advice. Nothing has been changed so far, and nothing may
// start from the remaining records, because a missing record may have started work.
func (s *session) damaged(err error) error {
	return fmt.Errorf("director: %w: nothing was changed. Look with `director journal verify`; then bring back an "+
		"export with `director journal import FILE`, or what GitHub, the containers and the reports still know with "+
		"`director journal rebuild`", err)
}

// sayWhoWeAre logs the GitHub account, and whether its comments count as answers.
func (s *session) sayWhoWeAre(ctx context.Context) {
	switch login, bot, err := s.github.Account(ctx); {
	case err != nil:
		s.log.Warn("the token's account is not known", zap.Error(err))
	case bot:
		s.log.Info("GitHub account: "+login+", a bot: nothing that it writes counts as a person's answer",
			zap.String("account", login))
	default:
		s.log.Info("GitHub account: "+login+", a person's: what "+login+
			" writes by hand counts as an answer; what Retake writes carries a marker and does not",
			zap.String("account", login))
	}
}

// adopt tells the machine which containers run and which budgets people edited, before it decides anything else. It
// also removes everything that no task needs.
func (s *session) adopt(ctx context.Context, m *fsm.Machine, edits []fsm.BudgetEdited) error {
	var live []string
	for _, t := range m.Tasks() {
		if t.State.Info().Live && t.Attempt > 0 {
			live = append(live, t.AttemptID())
			s.outside.admit(t.AttemptID())
		}
	}
	s.bus.Admit(live...)
	if err := s.sweep(ctx, m); err != nil {
		return err
	}
	asked := s.owner.Clock.Now()
	list, err := s.runtime.List(ctx)
	if err != nil {
		return err
	}
	s.expectOutput(m, list)
	for _, c := range list {
		if t, current := m.Worker(c.AttemptID); current && c.State.MayRun() {
			err := s.runtime.Adopt(ctx, c.AttemptID) // captures new output; earlier output is in the runtime's log
			s.outputs.Begin(s.recording(t.Key, c.AttemptID, t.Attempt))
			s.log.Info("adopted a running container", zap.String("issue", c.Task), zap.String("worker", c.AttemptID),
				zap.Error(err))
		}
	}
	s.owner.Clock.Restart()
	events := []fsm.EventBody{fsm.Booted{RunID: s.runID, Settings: s.settings()}}
	for _, e := range edits {
		s.log.Info("took a hand-edited budget", zap.String("issue", string(e.Task)),
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

// watchGate reports GitHub's cooldowns to the machine.
func (s *session) watchGate(ctx context.Context) error {
	for {
		select {
		case c := <-s.cooldowns:
			s.owner.Send(ctx, fsm.CooldownReported{Resource: c.Resource, Until: c.Until, Why: c.Why}, nil)
		case <-ctx.Done():
			return nil
		}
	}
}

// housekeeping runs every director.interval_seconds. It publishes the state, saves a snapshot when one is due, and
// checks the journal.
func (s *session) housekeeping(ctx context.Context) error {
	for {
		select {
		case <-time.After(s.setup().Director.Interval):
		case <-ctx.Done():
			return nil
		}
		now := s.snapshot(ctx)
		if err := s.bus.PublishSnapshot(now); err != nil {
			s.log.Debug("snapshot not published", zap.Error(err))
		}
		s.running.WriteStates(ctx, now.Director.Phase)
		if fleet, err := loop.Look(ctx, s.owner,
			func(d *fsm.Driver) fleetState { return s.fleetOf(d.Machine()) }); err == nil {
			s.keepFleet(fleet)
		}
		crowded, err := s.bus.Journal().Crowded(ctx)
		if err != nil {
			s.log.Debug("how full the live journal is is not known", zap.Error(err))
		}
		if state, err := loop.Look(ctx, s.owner,
			func(d *fsm.Driver) savedState { return s.stateToSave(d, crowded || s.resave) }); err == nil {
			before := s.saved
			if s.save(ctx, state); s.saved != before || s.retires.due(time.Now()) {
				s.retireJournal(ctx)
			}
		}
		if last, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) uint64 { return d.Last() }); err == nil {
			if err := s.journalChecked(ctx, last); err != nil {
				return err
			}
		}
	}
}

// savedState is a snapshot of the machine at a position in the journal.
type savedState struct {
	head bus.Head
	data []byte // nil if no snapshot is due
}

// stateToSave runs on the owner's goroutine. It returns nothing while decisions are on their way to the journal,
// because they may never arrive there.
func (s *session) stateToSave(d *fsm.Driver, now bool) savedState {
	last := d.Last()
	due := last >= s.saved+snapshotEvery || last > s.saved && (now || time.Since(s.savedAt) >= snapshotAfter)
	head := s.owner.Head()
	if !due || !d.Idle() || head.Seq != last {
		return savedState{}
	}
	data, err := d.Machine().Snapshot()
	if err != nil {
		s.log.Warn("snapshot not made", zap.Error(err))
	}
	return savedState{head, data}
}

func (s *session) save(ctx context.Context, state savedState) {
	if state.data == nil {
		return
	}
	if err := s.bus.Journal().SaveSnapshot(ctx, state.head, state.data); err != nil {
		s.log.Warn("snapshot not saved", zap.Error(err))
		return
	}
	s.saved, s.savedAt = state.head.Seq, time.Now()
}
