package director

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/disk"
	"retake/internal/director/failure"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/record"
	"retake/internal/director/reports"
	"retake/internal/director/workers"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// executors lists the executor of each kind of effect.
func (s *session) executors() map[fsm.EffectKind]loop.Executor {
	all := map[fsm.EffectKind]loop.Executor{
		fsm.DoClaim:       s.warmed(s.claim),
		fsm.DoRecheck:     s.warmed(s.recheck),
		fsm.DoStart:       s.hostDisk.WithinQuota(s.start),
		fsm.DoStop:        s.stop,
		fsm.DoDeliver:     s.hostDisk.WithinQuota(s.travel.Received(s.delivery.Deliver)),
		fsm.DoEscalate:    s.travel.Received(s.questions.Escalate),
		fsm.DoRelease:     s.travel.Received(s.delivery.Release),
		fsm.DoRemind:      s.remind,
		fsm.DoWelcome:     s.hellos.Welcome,
		fsm.DoRefuse:      s.hellos.Refuse,
		fsm.DoFence:       s.hellos.Fence,
		fsm.DoProbe:       s.signs.Probe,
		fsm.DoRemove:      s.remove,
		fsm.DoReadIssue:   s.readIssue,
		fsm.DoProgress:    s.questions.Progress,
		fsm.DoReadAnswers: s.readAnswers,
		fsm.DoReadReview:  s.readReview,
		fsm.DoReply:       s.reply,
		fsm.DoReclaim:     s.reclaim,
		fsm.DoTidy:        s.tidy,
		fsm.DoPause:       s.control.Executor(wire.Pause{}),
		fsm.DoResume:      s.control.Executor(wire.Resume{}),
		fsm.DoForget:      s.forget,
	}
	for kind, run := range all {
		all[kind] = s.hostDisk.Await(run)
	}
	return all
}

// newWorkers creates the parts that talk to workers. It requires the owner.
func (s *session) newWorkers(ctx context.Context) {
	s.control = &workers.Control{Bus: s.bus, Log: s.log}
	s.hellos = &workers.Hellos{
		Bus: s.bus, Send: s.owner.Send, Control: s.control, RunID: s.runID,
		HeartbeatInterval: s.config.AgentBus.HeartbeatInterval, Log: s.log,
	}
	s.list = workers.NewList(s.owner, s.runtime, s.log)
	s.signs = &workers.Signs{Bus: s.bus, Owner: s.owner, Metrics: s.metrics, List: s.list, Log: s.log}
	s.ends = &workers.Ends{Bus: s.bus, Owner: s.owner, Log: s.log}
	s.broker = workers.NewBroker(ctx, s.owner, s.runID, s.begun.ModelLimits(), s.log)
	s.running = &workers.Checkouts{
		Owner: s.owner, Workspace: s.workspace, Checkout: s.origin.Checkout, Setup: s.setup, Control: s.control,
		Every: s.driftEvery, RunID: s.runID, Log: s.log,
	}
}

func (s *session) diskWatch() *lead.DiskWatch {
	return &lead.DiskWatch{
		Of: s.sharedKey(), Watermark: func() float64 { return s.setup().Director.DiskWatermark },
		Use:  func() (disk.Use, error) { return s.diskUse(s.sharedDir()) },
		Live: func(ctx context.Context) []fsm.Task { return workers.Live(ctx, s.owner) },
		Used: s.workspace.Used, Uploaded: s.bus.Uploaded, Log: s.log,
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
		Redact: d.github.Redact, Log: d.log,
	}
}

// newAttempts creates the parts that attempts need. It requires the owner.
func (s *session) newAttempts() {
	s.reader = &reports.Reader{
		Setup: s.setup, Secrets: s.github.Secrets, Cache: s.reports, Send: s.owner.Send,
		HeldBack: s.travel.HeldBack, QuotaUsedUp: s.hostDisk.QuotaUsedUp, Log: s.log,
	}
	s.ending = &reports.Ending{Cache: s.reports, Bus: s.bus, Spool: s.workspace, Log: s.log}
}

// remove ends a container of this fleet without a task.
func (s *session) remove(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	_, err := s.runtime.Stop(ctx, e.Worker, 0, nil)
	if err == nil {
		s.log.Info("removed a container that no task knows", zap.String("worker", e.Worker))
	}
	s.credentials.Revoke(ctx, e.Worker)
	return failure.Or(fsm.EffectEnded{}, err)
}

// forgetFor bounds the retries when a checkout is removed, for example while a leftover process still writes to it.
// The issue's next claim waits for the removal. Leftovers are removed at the next start.
const forgetFor = 30 * time.Second

// forget removes what a finished claim has left.
func (s *session) forget(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.credentials.Revoke(ctx, e.Worker)
	s.reports.Drop(e.Worker)
	return failure.Or(fsm.EffectEnded{}, failure.Retry(ctx, failure.Pauses(time.Second, 8*time.Second), forgetFor,
		func() error { return errors.Join(s.travel.Mounted(ctx, e.Nonce), s.workspace.Remove(ctx, e.Nonce)) },
		func(err error, wait time.Duration) {
			s.log.Info("a checkout is still there, trying again", zap.String("issue", string(e.Task)),
				zap.Duration("in", wait), zap.Error(err))
		}))
}

// pollPause returns the minimum pause between two tries of a request that GitHub refuses.
func (s *session) pollPause() time.Duration { return s.setup().GitHub.Poll }
