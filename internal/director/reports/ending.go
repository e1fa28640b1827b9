package reports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/failure"
	"retake/internal/director/internal/witness"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/circumstances"
)

// Ending collects the reports of attempts that have ended.
type Ending struct {
	Cache *Cache
	Bus   interface {
		Put(ctx context.Context, worker string, e wire.WorkerError) error
		TakeSpooled(ctx context.Context, worker string, data []byte) error
	}
	Spool interface {
		Spooled(nonce, attempt string, maxBytes int64) (reports [][]byte, err error)
	}
	Config func() config.Config
	Log    *zap.Logger
}

// Reports returns all reports of an ended attempt. If none of them is final, it adds the reports that the worker could
// not send. If there is still no final report, Reports stores the director's report of the exit.
func (d *Ending) Reports(ctx context.Context, e fsm.Effect, x container.Exit) ([]bus.Report, error) {
	stored, err := d.Cache.Of(ctx, e.Worker)
	if err != nil || hasEnd(stored) {
		return stored, err
	}
	if err := d.takeSpooled(ctx, e); err != nil {
		return nil, err
	}
	if stored, err = d.Cache.Of(ctx, e.Worker); err != nil || hasEnd(stored) {
		return stored, err
	}
	if err := d.Bus.Put(ctx, e.Worker, exitReport(e, x, witness.Exit(d.Config(), x.OOM, isWatchdog(e)))); err != nil {
		return nil, failure.OnBus(err)
	}
	return d.Cache.Of(ctx, e.Worker)
}

// takeSpooled stores the reports that a worker spooled because it got no acknowledgement. Only reports with the
// worker's signature count, because the agent can write to the spool.
func (d *Ending) takeSpooled(ctx context.Context, e fsm.Effect) error {
	log := d.Log.With(zap.String("issue", string(e.Task)), zap.String("worker", e.Worker))
	// the worker may have started with another agent_bus.max_message_bytes
	found, err := d.Spool.Spooled(e.Nonce, e.Worker, wire.LongestMessage)
	if err != nil {
		log.Warn("ignored a spooled report", zap.Error(err))
	}
	for _, data := range found {
		err := d.Bus.TakeSpooled(ctx, e.Worker, data)
		_, forged := errors.AsType[*wire.Malformed](err)
		switch {
		case err == nil:
			log.Info("read a report from the spool, because its worker could not send it")
		case forged:
			log.Warn("ignored a spooled report", zap.Error(err))
		default:
			return failure.OnBus(err)
		}
	}
	return nil
}

// WorkerEnded reports whether the worker itself wrote a final report, which it sends after all its other reports.
func WorkerEnded(reports []bus.Report) bool {
	return hasEnd(slices.DeleteFunc(slices.Clone(reports), func(r bus.Report) bool { return r.Own }))
}

func hasEnd(reports []bus.Report) bool {
	return slices.ContainsFunc(reports, func(r bus.Report) bool { return Translate(r).Final })
}

// isWatchdog reports whether the director ended the attempt because it took too long.
func isWatchdog(e fsm.Effect) bool { return e.Stop != nil && e.Stop.Reason == fsm.StopWatchdog }

// exitReport returns the final report for a worker that wrote none.
func exitReport(e fsm.Effect, x container.Exit, happened circumstances.Record) wire.WorkerError {
	kind := "docker_exit_nonzero"
	if x.OOM {
		kind = string(recovery.OOMKilled)
	}
	r := wire.WorkerError{
		ErrorID: bus.ExitID(e.Worker), WorkerID: e.Worker, AttemptID: e.Worker, IssueNumber: e.Task.Number(),
		Stage: wire.StageStart, Attempt: e.Attempt, ErrorType: kind, IsTransient: true, ShouldRetry: true,
		Signal:         x.Signal,
		Message:        "container ended without a report from its worker",
		LastStdoutTail: string(x.Stdout), LastStderrTail: string(x.Stderr), Circumstances: &happened,
	}
	if x.Known {
		r.ExitCode = &x.ExitCode
	}
	if x.Cause != "" {
		r.Message = ClusterSays(x)
	}
	if x.StartError != "" {
		r.Message = "the container did not start: " + x.StartError
	}
	return r
}

// ClusterSays returns the cluster's explanation of an attempt's end.
func ClusterSays(x container.Exit) string {
	return fmt.Sprintf("why the worker ended, according to the cluster: %s", cmp.Or(x.Words, string(x.Cause)))
}
