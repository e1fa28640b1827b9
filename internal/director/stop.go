package director

import (
	"context"
	"slices"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// stop ends the attempt's container, and returns when it is confirmed gone and every report of its worker was read. If
// there is none that ends the attempt, the director writes one itself: same payload, same path.
func (s *session) stop(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	if reason, ok := stopReasons[fsm.Trigger(e.Stop.Why)]; ok && e.Stop.Grace > 0 {
		s.say(ctx, e.Worker, wire.Stop{Reason: reason, GraceSeconds: (e.Stop.Grace / 2).Seconds()})
		s.waitEnded(ctx, e.Worker, e.Stop.Grace/2)
	}
	exit, err := s.runtime.Stop(ctx, e.Worker, e.Stop.Grace, func(x container.Exit) error {
		_, err := s.reports(ctx, e, x) // before the container is removed: a kill in between must not change the verdict
		return err
	})
	if err != nil {
		return failed(err)
	}
	s.bus.Revoke(e.Worker)
	s.broker.drop(e.Worker)
	stored, err := s.reports(ctx, e, exit)
	if err != nil {
		return failed(err)
	}
	s.keepBundle(ctx, e, exit, stored)
	gone := &fsm.Gone{OOM: exit.OOM, Signal: exit.Signal, Killed: exit.Killed, Limit: s.config.Containers.Memory.String()}
	if exit.Known {
		gone.ExitCode = &exit.ExitCode
	}
	for _, r := range stored {
		gone.Reports = append(gone.Reports, report(r))
	}
	return fsm.EffectEnded{Gone: gone}
}

// reports returns every report of an attempt that has ended. If none ends it, the director's own is stored first.
func (s *session) reports(ctx context.Context, e fsm.Effect, x container.Exit) ([]bus.Report, error) {
	stored, err := s.bus.ReportsOf(ctx, e.Worker)
	if err != nil || hasEnd(stored) {
		return stored, err
	}
	if err := s.bus.Report(ctx, e.Worker, exitReport(e, x)); err != nil {
		return nil, err
	}
	return s.bus.ReportsOf(ctx, e.Worker)
}

// stopReasons maps why the machine stops an attempt to what its worker is told. A worker that is stopped for any other
// reason is not asked: it has reported, or is silent, or gone.
var stopReasons = map[fsm.Trigger]string{
	fsm.OnWithdrawn: wire.StopWithdrawn,
	fsm.OnWatchdog:  wire.StopWatchdog,
}

// waitEnded gives a worker that was told to stop the time to end by itself: it knows best what was going on.
func (s *session) waitEnded(ctx context.Context, worker string, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ctx.Err() == nil && s.alive(ctx, worker) {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// alive says whether the runtime lists a worker as living. One that does not answer lists nobody.
func (s *session) alive(ctx context.Context, worker string) bool {
	list, err := s.runtime.List(ctx)
	return err == nil && slices.ContainsFunc(list, func(c container.Status) bool {
		return c.AttemptID == worker && c.State.Live()
	})
}

func hasEnd(reports []bus.Report) bool {
	for _, r := range reports {
		if report(r).Final {
			return true
		}
	}
	return false
}

// exitReport is the report that the worker did not write.
func exitReport(e fsm.Effect, x container.Exit) wire.WorkerError {
	kind := "docker_exit_nonzero"
	if x.OOM {
		kind = string(recovery.OOMKilled)
	}
	r := wire.WorkerError{
		ErrorID: exitID(e.Worker), WorkerID: e.Worker, AttemptID: e.Worker, IssueNumber: e.Task.Number(), Stage: wire.StageStart,
		Attempt: e.Attempt, ErrorType: kind, IsTransient: true, ShouldRetry: true, Signal: x.Signal,
		Message:        "the container ended without a report of its worker",
		LastStdoutTail: string(x.Stdout), LastStderrTail: string(x.Stderr),
	}
	if x.Known {
		r.ExitCode = &x.ExitCode
	}
	if x.StartError != "" {
		r.Message = "the container did not start: " + x.StartError
	}
	return r
}

// exitID marks the director's own report of an attempt.
func exitID(worker string) string { return worker + "/exit" }
