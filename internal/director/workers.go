package director

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/director/loop"
	"retake/internal/director/reports"
	"retake/internal/fsm"
)

func (s *session) watchWorkers(ctx context.Context) error {
	return s.bus.WatchWorkers(ctx,
		func(worker string, h wire.Heartbeat) {
			s.metrics.WorkerSeen(worker)
			s.owner.Seen(fsm.Sign{WorkerSeen: seenInHeartbeat(worker, h), At: s.owner.Clock.Now()})
		},
		func(worker string, p wire.TaskProgress) {
			s.metrics.WorkerSeen(worker)
			s.owner.Seen(fsm.Sign{WorkerSeen: seenInProgress(worker, p), At: s.owner.Clock.Now()})
		})
}

func seenInHeartbeat(worker string, h wire.Heartbeat) fsm.WorkerSeen {
	a := fsm.Activity{Stage: h.State.Stage}
	if h.State.Progress != nil {
		a.Step, a.Percent = h.State.Progress.Step, h.State.Progress.Percent
		a.Paused = a.Step == wire.StepPaused
	}
	if id := h.State.LastErrorID; id != nil {
		a.ErrorID = *id
	}
	if h.Usage != nil {
		a.Usage = reports.Usage(h.Usage)
	}
	return fsm.WorkerSeen{Worker: worker, Activity: a}
}

func seenInProgress(worker string, p wire.TaskProgress) fsm.WorkerSeen {
	return fsm.WorkerSeen{Worker: worker, Activity: fsm.Activity{Stage: p.Stage, Step: p.Step, Percent: p.Percent}}
}

func (s *session) serveHello(ctx context.Context) error {
	return s.bus.ServeHello(ctx, func(worker string, h wire.Hello) wire.Payload {
		return s.hellos.Exchange(ctx, worker, h, s.owner.Send)
	})
}

func (s *session) welcome(_ context.Context, e fsm.Effect) fsm.EffectEnded {
	s.hellos.Answer(e.Token, wire.Welcome{
		ProtocolVersion: wire.ProtocolVersion, Director: wire.WelcomeDirector{RunID: s.runID},
		AttemptID: e.Worker, HeartbeatIntervalSeconds: s.config.AgentBus.HeartbeatInterval.Seconds(),
	})
	return fsm.EffectEnded{}
}

func (s *session) refuse(_ context.Context, e fsm.Effect) fsm.EffectEnded {
	if no := wire.CheckVersion(e.Why); no != nil {
		s.hellos.Answer(e.Token, *no)
	}
	return fsm.EffectEnded{}
}

func (s *session) fence(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.log.Info("fenced a worker that has no attempt (any more)", zap.String("worker", e.Worker))
	s.sendControl(ctx, e.Worker, wire.Stop{Reason: wire.StopFenced})
	s.hellos.Answer(e.Token, nil)
	return fsm.EffectEnded{}
}

// sendControl sends a worker a control message. The message is only a hint: the runtime enforces what must happen.
func (s *session) sendControl(ctx context.Context, worker string, p wire.Payload) {
	if err := s.bus.Send(ctx, worker, p); err != nil {
		s.log.Debug("control message not sent", zap.String("worker", worker), zap.Error(err))
	}
}

// control returns an executor that sends a worker one control message.
func (s *session) control(p wire.Payload) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		s.sendControl(ctx, e.Worker, p)
		return fsm.EffectEnded{}
	}
}

func (s *session) probe(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.relist() // the second witness
	h, err := s.bus.Probe(ctx, e.Worker)
	if err != nil {
		s.log.Info("worker does not answer", zap.String("issue", string(e.Task)), zap.String("worker", e.Worker),
			zap.Error(err))
		return fsm.EffectEnded{}
	}
	s.owner.Send(ctx, seenInHeartbeat(e.Worker, h), nil)
	return fsm.EffectEnded{}
}

// listEvery is the longest pause between two reads of the runtime's list.
const listEvery = 5 * time.Second

// relist requests a read of the runtime's list. Requests coalesce.
func (s *session) relist() {
	select {
	case s.relists <- struct{}{}:
	default:
	}
}

// listContainers reads the list regularly, and after each hint. Only the list counts. A container engine that does
// not answer reveals nothing about its containers.
func (s *session) listContainers(ctx context.Context) error {
	for {
		select {
		case <-s.relists:
		case <-time.After(listEvery):
		case <-ctx.Done():
			return nil
		}
		asked := s.owner.Clock.Now()
		list, err := s.runtime.List(ctx)
		if err != nil {
			s.log.Warn("containers cannot be listed", zap.Error(err))
			continue
		}
		s.owner.Send(ctx, listed(asked, list), nil)
	}
}

func listed(asked time.Time, list []container.Status) fsm.ContainersListed {
	l := fsm.ContainersListed{TakenAt: asked}
	for _, c := range list {
		l.Containers = append(l.Containers, fsm.Container{
			Attempt: c.AttemptID, Running: c.State.Live(), Pending: c.State == container.StatePending,
			Waiting: c.Waiting,
		})
	}
	return l
}
