package workers

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/loop"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/metrics"
)

// Heartbeats passes workers' heartbeats and progress to the machine.
type Heartbeats struct {
	Bus     *bus.Bus
	Owner   *loop.Owner
	Metrics *metrics.Metrics
	List    *List         // read when a worker is silent
	TTL     time.Duration // a heartbeat proves its worker alive for this long
	Log     *zap.Logger
}

// Watch receives heartbeats and progress until ctx is done.
func (s *Heartbeats) Watch(ctx context.Context) error {
	return s.Bus.WatchWorkers(ctx,
		func(worker string, h wire.Heartbeat) { s.seen(seenInHeartbeat(worker, h)) },
		func(worker string, p wire.TaskProgress) {
			s.seen(fsm.WorkerSeen{
				Worker: worker, Activity: fsm.Activity{Stage: p.Stage, Step: p.Step, Percent: p.Percent},
			})
		})
}

func (s *Heartbeats) seen(w fsm.WorkerSeen) {
	s.Metrics.WorkerSeen(w.Worker)
	s.Owner.Seen(fsm.Sign{WorkerSeen: w, At: s.Owner.Clock.Now()})
}

// probeMost is the maximum wait for the answer to a probe.
const probeMost = 5 * time.Second

// Probe asks a silent worker for a heartbeat, and the runtime for its list of containers. A missing answer counts
// against the worker, except after a lost connection, or if this process was too slow to read an answer in time. If the
// director is late, Probe waits that much longer, up to probeMost.
func (s *Heartbeats) Probe(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.List.Hint()
	sent, began, wait := s.Owner.Clock.Now(), time.Now(), min(probeMost, s.TTL/4)+min(probeMost, s.Owner.Late().By)
	try, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	h, err := s.Bus.Probe(try, e.Worker)
	late := time.Since(began) - wait
	log := s.Log.With(zap.String("issue", string(e.Task)), zap.String("worker", e.Worker))
	switch {
	case err == nil:
		s.Owner.Send(ctx, seenInHeartbeat(e.Worker, h), nil)
	case ctx.Err() != nil:
	case errors.Is(err, bus.ErrNotSent):
		log.Info("probe failed; not counted against the worker", zap.Error(err))
	case late > wait/2:
		log.Warn("read the probe's reply too late; not counted against the worker",
			zap.Duration("late", late))
	default:
		log.Info("worker did not answer the probe", zap.Error(err))
		s.Owner.Send(ctx, fsm.ProbeUnanswered{Worker: e.Worker, SentAt: sent}, nil)
	}
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
