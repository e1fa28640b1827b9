package workers

import (
	"context"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/loop"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/metrics"
)

// Signs passes the heartbeats and progress of workers to the machine.
type Signs struct {
	Bus     *bus.Bus
	Owner   *loop.Owner
	Metrics *metrics.Metrics
	List    *List // asked when a worker is silent
	Log     *zap.Logger
}

// Watch receives heartbeats and progress until ctx ends.
func (s *Signs) Watch(ctx context.Context) error {
	return s.Bus.WatchWorkers(ctx,
		func(worker string, h wire.Heartbeat) { s.seen(seenInHeartbeat(worker, h)) },
		func(worker string, p wire.TaskProgress) {
			s.seen(fsm.WorkerSeen{
				Worker: worker, Activity: fsm.Activity{Stage: p.Stage, Step: p.Step, Percent: p.Percent},
			})
		})
}

func (s *Signs) seen(w fsm.WorkerSeen) {
	s.Metrics.WorkerSeen(w.Worker)
	s.Owner.Seen(fsm.Sign{WorkerSeen: w, At: s.Owner.Clock.Now()})
}

// Probe asks a silent worker for a heartbeat, and the runtime for its list.
func (s *Signs) Probe(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.List.Hint()
	h, err := s.Bus.Probe(ctx, e.Worker)
	if err != nil {
		s.Log.Info("worker did not answer", zap.String("issue", string(e.Task)), zap.String("worker", e.Worker),
			zap.Error(err))
		return fsm.EffectEnded{}
	}
	s.Owner.Send(ctx, seenInHeartbeat(e.Worker, h), nil)
	return fsm.EffectEnded{}
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
