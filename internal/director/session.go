package director

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/effects"
	"retake/internal/director/inforce"
	"retake/internal/director/intake"
	"retake/internal/director/loop"
	"retake/internal/director/preflight"
	"retake/internal/director/record"
	"retake/internal/director/reports"
	"retake/internal/director/restore"
	"retake/internal/director/serve"
	"retake/internal/director/telemetry"
	"retake/internal/director/upkeep"
	"retake/internal/director/view"
	"retake/internal/director/workers"
	"retake/internal/fsm"
	"retake/internal/projection"
)

// session holds one machine and the parts around it. It begins when the director reads the journal, and ends when the
// context is done or the journal fails.
type session struct {
	*daemon
	bus         *bus.Bus // copied from the daemon, because a request may outlast the session
	meeting     *inforce.Meeting
	owner       *loop.Owner
	readAgain   func(error) // ends the session, so that the next one rereads the journal
	runner      *loop.Runner
	control     *workers.Control
	hellos      *workers.Hellos
	heartbeats  *workers.Heartbeats
	list        *workers.List
	ends        *workers.Ends
	running     *workers.Checkouts
	refusals    *intake.Postponed // issues whose claim failed
	issues      *intake.Issues
	answers     *intake.Answers
	strays      *intake.Strays
	replies     *effects.Replies
	broker      *workers.Broker
	recorder    *record.Recorder
	views       *view.Model
	status      *serve.Status
	timelines   *serve.Timelines
	commands    *serve.TaskCommands
	traces      *telemetry.Follower // nil if tracing is off
	projections []projection.Projection
	reports     *reports.Cache
	reader      *reports.Reader
	claims      *effects.Claims
	starter     *effects.Starter
	stopper     *effects.Stopper
	remains     *effects.Remains
	printed     *effects.Outputs
	offers      *intake.Offers
	polls       *intake.Polls
	reviews     *intake.Reviews
	withdrawals *effects.Withdrawals
	travel      *effects.Checkouts
	credentials *effects.Credentials
	hostDisk    *effects.Disk
	origin      effects.Origin
	contracts   *effects.Contracts
	delivery    *effects.Delivery
	questions   *effects.Questions
	workSecrets *effects.Secrets
	leftovers   *restore.Leftovers
	upkeep      *upkeep.Upkeep
	delivered   serve.Rate
	begun       *inforce.Setup // the setup at the start of the session
	started     bool           // the session has started, so later failures are not configuration errors
}

func (d *daemon) newSession() *session {
	offers := d.newOffers()
	s := &session{
		daemon: d, bus: d.hub.Bus(), meeting: d.meeting, offers: offers,
		refusals: intake.NewPostponed(intake.PostponedFor, offers.AsksForWork),
		travel: &effects.Checkouts{
			Bus: d.hub.Bus(), Workspace: d.workspace, Limits: d.config.Checkout, Redact: d.github.Text.Redact,
			Log: d.log,
		},
		hostDisk:    &effects.Disk{State: d.disk.Now, Use: d.diskUse, Workspace: d.workspace, Log: d.log},
		credentials: &effects.Credentials{Bus: d.hub.Bus(), Log: d.log},
		reports:     reports.NewCache(d.hub.Bus().Reports(), d.github.Text.Secrets),
		withdrawals: effects.NewWithdrawals(), upkeep: &upkeep.Upkeep{
			Journal: d.hub.Bus().Journal(), Interval: func() time.Duration { return d.setup().Director.Interval },
			Fleet: d.fleetFile(), Unusable: &d.unusable, Log: d.log,
		},
		leftovers: &restore.Leftovers{
			Dir: d.config.SharedDir(), Leads: d.candidate.Leads, Workspace: d.workspace, Bus: d.hub.Bus(), Log: d.log,
		},
	}
	s.origin = effects.Origin{APIURL: d.config.GitHub.APIURL, BaseBranch: d.baseBranch}
	s.contracts = &effects.Contracts{Setup: d.setup, Workspace: d.workspace, Origin: s.origin}
	s.workSecrets = &effects.Secrets{Contracts: s.contracts, Token: d.token, Values: d.known, Bus: d.hub.Bus()}
	s.delivery = &effects.Delivery{
		Setup: d.setup, Contracts: s.contracts, GitHub: d.github, Workspace: d.workspace, Origin: s.origin,
		Secrets:     s.workSecrets,
		Withdrawals: s.withdrawals, Reports: s.reports.Of, Log: d.log,
	}
	s.questions = &effects.Questions{
		Setup: d.setup, Contracts: s.contracts, ConfigFile: d.configFile, GitHub: d.github, Delivery: s.delivery,
		Failure: s.reports.Failure,
		Denied:  d.network.Denied,
		Gone:    func(ctx context.Context, k fsm.IssueKey) { s.issues.Gone(ctx, k) },
	}
	return s
}

// load reads the state from the journal.
func (s *session) load(ctx context.Context) (*fsm.Driver, error) {
	h, err := s.restorer.Load(ctx)
	if err != nil {
		return nil, err
	}
	s.begun = s.setup()
	h.Machine.Configure(s.machineConfig(s.begun)) // a standby may have built the state with an older configuration
	s.upkeep.Begin(ctx, h)
	s.log.Info("state read", zap.Uint64("snapshot", h.Saved), zap.Uint64("journal", h.Head.Seq),
		zap.Int("tasks", len(h.Machine.Tasks())))
	return fsm.NewDriver(h.Machine, h.Head.Seq, s.writer+"-"+loop.NewNonce()), nil
}

// sayWhoWeAre logs the GitHub account, and whether its comments count as answers.
func (s *session) sayWhoWeAre(ctx context.Context) {
	switch login, bot, err := s.github.Account(ctx); {
	case err != nil:
		s.log.Warn("could not determine which GitHub account the token belongs to", zap.Error(err))
	case bot:
		s.log.Info("GitHub account: "+login+", a bot: its comments never count as a person's answer",
			zap.String("account", login))
	default:
		s.log.Info("GitHub account: "+login+", a person: comments by "+login+
			" count as answers, except those from Retake, which carry a marker",
			zap.String("account", login))
	}
}

// watchGate reports the gate's cooldowns to the machine.
func (s *session) watchGate(ctx context.Context) error {
	var refused time.Time // start of the last refusal that was logged
	for {
		select {
		case c := <-s.cooldowns:
			if since, why := s.github.API.Gate.Refused(); !since.IsZero() && !since.Equal(refused) {
				refused = since
				s.log.Error("GitHub is refusing every request from this account; work waits until it accepts one",
					zap.String("cause", why))
			}
			s.owner.Send(ctx, fsm.CooldownReported{Resource: c.Resource, Until: c.Until, Why: c.Why}, nil)
		case <-ctx.Done():
			return nil
		}
	}
}

// watched returns the repositories to poll, which are configured or have an unfinished task.
func (s *session) watched(m *fsm.Machine) []string {
	all := slices.Clone(s.config.GitHub.Repositories)
	for _, t := range m.Tasks() {
		if repo := t.Key.Repo(); !slices.ContainsFunc(all, func(r string) bool { return strings.EqualFold(r, repo) }) {
			all = append(all, repo)
		}
	}
	return all
}

// publish sends the state to the bus, and writes it to a file in each checkout.
func (s *session) publish(ctx context.Context) {
	now := s.status.Snapshot(ctx)
	if err := s.bus.PublishSnapshot(now); err != nil {
		s.log.Debug("could not publish snapshot", zap.Error(err))
	}
	s.running.WriteStates(ctx, now.Director.Phase)
}

// setup returns the setup in force. For keys that need a restart, d.config has the same values.
func (d *daemon) setup() *inforce.Setup {
	if c := d.inForce.Load(); c != nil {
		return c
	}
	return &inforce.Setup{Config: d.config} // before the adapters are open
}

// machineConfig returns the machine's configuration for a setup.
func (d *daemon) machineConfig(c *inforce.Setup) fsm.Config {
	cfg := c.Machine(d.only.Issues())
	if d.searches {
		cfg.Programs = preflight.ProgramsOf(c.Config)
	}
	if d.decides != nil {
		d.decides(&cfg)
	}
	return cfg
}

// decideSettings applies a changed setup to the machine, and then to the parts that copy values from the setup. It
// returns false if the session ended before the machine's decision was durable. The next session then starts with the
// new setup.
func (s *session) decideSettings(ctx context.Context, now *inforce.Setup) bool {
	if s.server != nil {
		s.server.Admit(now.Director.MaxWorkers)
	}
	cfg := s.machineConfig(now)
	if !s.owner.Decided(ctx, fsm.SettingsRead{SettingsChanged: *now.Change, Config: &cfg}) {
		return false
	}
	s.reread.Signal()
	s.views.Configure(cfg)
	s.metrics.Slots(now.Director.MaxWorkers)
	s.broker.Limit(now.ModelLimits())
	return true
}

// settings returns the settings that the journal records when a run starts.
func (d *daemon) settings() *fsm.Settings { return d.setup().Settings(d.image()) }
