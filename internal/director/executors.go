package director

import (
	"context"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/disk"
	"retake/internal/director/effects"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/record"
	"retake/internal/director/reports"
	"retake/internal/director/workers"
	"retake/internal/fsm"
	"retake/internal/github/gate"
	"retake/internal/recovery"
)

// executors lists the executor of each kind of effect.
func (s *session) executors() map[fsm.EffectKind]loop.Executor {
	all := map[fsm.EffectKind]loop.Executor{
		fsm.DoClaim:       effects.Warmed(s.warm, s.claims.Claim),
		fsm.DoRecheck:     effects.Warmed(s.warm, s.claims.Recheck),
		fsm.DoStart:       s.hostDisk.WithinQuota(s.starter.Start),
		fsm.DoStop:        s.stopper.Stop,
		fsm.DoDeliver:     s.hostDisk.WithinQuota(s.travel.Received(s.delivery.Deliver)),
		fsm.DoEscalate:    s.travel.Received(s.questions.Escalate),
		fsm.DoRelease:     s.travel.Received(s.delivery.Release),
		fsm.DoRemind:      s.replies.Remind,
		fsm.DoWelcome:     s.hellos.Welcome,
		fsm.DoRefuse:      s.hellos.Refuse,
		fsm.DoFence:       s.hellos.Fence,
		fsm.DoProbe:       s.heartbeats.Probe,
		fsm.DoRemove:      s.remains.Remove,
		fsm.DoReadIssue:   s.issues.Read,
		fsm.DoProgress:    s.questions.Progress,
		fsm.DoReadAnswers: s.answers.Read,
		fsm.DoReadReview:  s.reviews.Read,
		fsm.DoReply:       s.replies.Reply,
		fsm.DoReclaim:     s.strays.Reclaim,
		fsm.DoTidy:        s.replies.Tidy,
		fsm.DoPause:       s.control.Executor(wire.Pause{}),
		fsm.DoResume:      s.control.Executor(wire.Resume{}),
		fsm.DoForget:      s.remains.Forget,
	}
	check := func(ctx context.Context, repo string) error { return s.github.API.Check(ctx, repo) }
	for kind, run := range all {
		all[kind] = s.hostDisk.Await(effects.OfAccount(check, run))
	}
	return all
}

// onBatch updates the projections with a durable batch. The owner calls it before onDurable.
func (s *session) onBatch(seq uint64, records []fsm.Record) {
	for _, p := range s.projections {
		p.Apply(seq, records)
	}
}

// onDurable logs a durable record and reacts to it.
func (s *session) onDurable(r fsm.Record) {
	for _, f := range r.Facts {
		record.Log(s.log, f)
		s.react(f)
		if m, ok := f.(fsm.Moved); ok && (m.On == fsm.OnDelivered || m.On == fsm.OnInReview) {
			s.delivered.Note(r.At)
		}
		s.only.Note(f)
	}
}

// react updates the parts of this process that depend on a durable fact, such as the gate after a cooldown.
func (s *session) react(f fsm.Fact) {
	switch f := f.(type) {
	case fsm.VerdictMade:
		if f.Verdict.Action == recovery.Abort {
			s.aborted = string(f.Task) + ": " + f.Verdict.Why
		}
	case fsm.EndingSet:
		if f.Outcome == fsm.OutcomeWithdrawn {
			s.withdrawals.End(f.Task)
		}
	case fsm.Moved:
		if f.On == fsm.OnWithdrawn {
			s.withdrawals.End(f.Task)
		}
		if f.To.Info().Final || f.To == fsm.Forgotten {
			s.outputs.Over(string(f.Task))
		}
	case fsm.TaskQueued:
		s.outputs.Expect(string(f.Task))
	case fsm.CooldownSet:
		s.broker.Close(f)
		s.github.API.Gate.Prime(gate.Cooldown{Resource: f.Resource, Until: f.Until, Why: f.Why})
	case fsm.CooldownLifted:
		s.broker.Open(f.Resource)
		s.github.API.Gate.Lift(f.Resource)
	}
}

// newWorkers creates the parts that talk to workers. Create the owner first.
func (s *session) newWorkers(ctx context.Context) {
	s.control = &workers.Control{Bus: s.bus, Log: s.log}
	s.hellos = &workers.Hellos{
		Bus: s.bus, Send: s.owner.Send, Control: s.control, RunID: s.runID,
		HeartbeatInterval: s.config.AgentBus.HeartbeatInterval, Log: s.log,
	}
	s.list = workers.NewList(s.owner, s.runtime, s.log)
	s.heartbeats = &workers.Heartbeats{
		Bus: s.bus, Owner: s.owner, Metrics: s.metrics, List: s.list, TTL: s.begun.Timeouts.WorkerHeartbeatTTL,
		Log: s.log,
	}
	s.ends = &workers.Ends{Bus: s.bus, Owner: s.owner, Log: s.log}
	s.broker = workers.NewBroker(ctx, s.owner, s.runID, s.begun.ModelLimits(), s.log)
	s.running = &workers.Checkouts{
		Owner: s.owner, Workspace: s.workspace, Checkout: s.origin.Checkout, Setup: s.setup, Control: s.control,
		Every: s.driftEvery, RunID: s.runID, Log: s.log,
	}
}

func (s *session) diskWatch() *lead.DiskWatch {
	return &lead.DiskWatch{
		Of: s.config.SharedKey(), Watermark: func() float64 { return s.setup().Director.DiskWatermark },
		Use:  func() (disk.Use, error) { return s.diskUse(s.config.SharedDir()) },
		Live: func(ctx context.Context) []fsm.Task { return workers.Live(ctx, s.owner) },
		Used: s.workspace.Used, Uploaded: s.bus.Checkouts().Uploaded, Log: s.log,
		Stop: func(ctx context.Context, worker, why string) {
			s.ends.End(ctx, worker, bus.DiskID(worker), recovery.ScopeViolation, recovery.TooMuch+why)
		},
	}
}

func (s *session) diskGuard() *lead.DiskGuard {
	return &lead.DiskGuard{Disk: s.disk, Owner: s.owner, Reload: s.readAgain, Log: s.log}
}

// recordOptions configures the recorder.
func (d *daemon) recordOptions() record.Options {
	return record.Options{
		Out: d.audit, Dir: d.config.Director.DataDir, RunID: d.runID, Image: d.image(), Setup: d.setup,
		Redact: d.github.Text.Redact, Log: d.log,
	}
}

func (s *session) warm(ctx context.Context) { s.runtime.Warm(ctx) }

// newAttempts creates the parts that begin and end attempts. Create the owner first.
func (s *session) newAttempts() {
	s.reader = &reports.Reader{
		Setup: s.setup, Secrets: s.github.Text.Secrets, Cache: s.reports, Send: s.owner.Send,
		HeldBack: s.travel.HeldBack, QuotaUsedUp: s.hostDisk.QuotaUsedUp, Log: s.log,
	}
	s.claims = &effects.Claims{
		GitHub: s.github, Labels: s.config.GitHub.Labels, RunID: s.runID, Refused: s.refusals.Note,
	}
	texts := effects.NewIssueTexts(s.github, s.log)
	s.printed = &effects.Outputs{
		Store: s.outputs, Bus: s.bus, Runtime: s.runtime, Secrets: s.environ.AllSecrets, Known: s.known,
		Redact: s.github.Text.Redact, Log: s.log,
	}
	s.starter = &effects.Starter{
		Contracts: s.contracts, Texts: texts, Runtime: s.runtime, Bus: s.bus, Workspace: s.workspace, Origin: s.origin,
		Travel: s.travel, Withdrawals: s.withdrawals, Reports: s.reports,
		Specs: &effects.Specs{
			Workspace: s.workspace, Environ: s.environ.Variables, WorkerBinary: s.workerBinary,
			LifeAfter: workerLifeAfter,
		},
		Proxy: s.network, Outputs: s.printed, Record: s.recorder, Trace: s.telemetry.Parent, RunID: s.runID,
		Image: s.image(), WorkerURL: s.bus.WorkerURL(s.gateway), Secrets: s.environ.Secrets, Log: s.log,
	}
	s.stopper = &effects.Stopper{
		Contracts: s.contracts, Now: func() time.Time { return s.owner.Clock.Now() }, Runtime: s.runtime,
		Workspace: s.workspace, Travel: s.travel, Withdrawals: s.withdrawals, Secrets: s.workSecrets,
		Ending: &reports.Ending{
			Cache: s.reports, Bus: s.bus.Reports(), Spool: s.workspace, Log: s.log,
			Config: func() config.Config { return s.setup().Config },
		},
		Reader: s.reader, Credentials: s.credentials, Proxy: s.network, Outputs: s.printed, Control: s.control,
		Leases: s.broker, Record: s.recorder, Redact: s.github.Text.Redact, Log: s.log,
	}
	s.remains = &effects.Remains{
		Runtime: s.runtime, Workspace: s.workspace, Travel: s.travel, Credentials: s.credentials, Reports: s.reports,
		Texts: texts, Log: s.log,
	}
}
