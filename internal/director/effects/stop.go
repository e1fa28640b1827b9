package effects

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/director/failure"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/scope"
	"retake/internal/workspace"
)

// Stopper ends attempts.
type Stopper struct {
	Contracts   *Contracts
	Now         func() time.Time // the machine's clock
	Runtime     container.Runtime
	Workspace   *workspace.Workspaces
	Travel      *Checkouts
	Withdrawals *Withdrawals
	Secrets     *Secrets
	Ending      *reports.Ending
	Reader      *reports.Reader
	Credentials *Credentials
	Proxy       Proxy
	Outputs     *Outputs
	Control     interface {
		Send(ctx context.Context, worker string, p wire.Payload)
	}
	Leases interface{ Drop(worker string) }
	Record interface {
		Ended(e fsm.Effect, x container.Exit, stored []bus.Report, patch string, printed *audit.StoredOutput)
	}
	Redact func(string) string
	Log    *zap.Logger
}

// Stop ends the attempt's container. It returns once the container is confirmed gone or the attempt is fenced, and all
// of the worker's reports have been read. If no report ends the attempt, the director stores one on the worker's
// behalf.
func (s *Stopper) Stop(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	s.ask(ctx, e)
	exit, fenced, err := s.end(ctx, e)
	if err != nil {
		return failure.Ended(err)
	}
	s.shutOut(ctx, e, fenced)
	if err := s.Travel.TakeBack(ctx, e); err != nil {
		return failure.Ended(err)
	}
	stored, err := s.Ending.Reports(ctx, e, exit)
	if err != nil {
		return failure.Ended(err)
	}
	if err := s.Workspace.DropValidation(ctx, e.Nonce); err != nil {
		s.Log.Warn("could not remove validation copy", zap.String("worker", e.Worker), zap.Error(err))
	}
	printed := outputTime
	if fenced {
		printed = lostOutput
	}
	s.Record.Ended(e, exit, stored, s.maskedPatch(ctx, e), s.Outputs.finish(ctx, e, printed))
	return fsm.EffectEnded{Stop: s.result(ctx, e, exit, stored, fenced)}
}

// stopReasons maps the machine's reasons to those sent to a worker. A worker that has reported, is silent, or is gone
// does not get a message.
var stopReasons = map[fsm.StopReason]string{
	fsm.StopWithdrawn: wire.StopWithdrawn,
	fsm.StopWatchdog:  wire.StopWatchdog,
}

// ask sends the worker a stop message, so that the worker can report the state of its work. It waits up to half of the
// grace period for the worker to end.
func (s *Stopper) ask(ctx context.Context, e fsm.Effect) {
	reason, ok := stopReasons[e.Stop.Reason]
	if !ok || e.Stop.Grace <= 0 {
		return
	}
	patience := e.Stop.Grace / 2
	s.Control.Send(ctx, e.Worker, wire.Stop{Reason: reason, GraceSeconds: patience.Seconds()})
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ctx.Err() == nil && lists(ctx, s.Runtime, e.Worker, container.State.Live) {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// end stops the container. If the runtime cannot confirm that the container has stopped, end fences the attempt once
// the order allows it.
func (s *Stopper) end(ctx context.Context, e fsm.Effect) (exit container.Exit, fenced bool, err error) {
	exit, err = s.Runtime.Stop(ctx, e.Worker, e.Stop.Grace, func(x container.Exit) error {
		// Store the reports before the runtime removes the container, so that a crash in between cannot change the
		// verdict. Take the checkout back first, because it may contain reports that the worker could not send.
		if err := s.Travel.TakeBack(ctx, e); err != nil {
			return err
		}
		if _, err := s.Ending.Reports(ctx, e, unmarked(x)); err != nil {
			return err
		}
		s.Outputs.finish(ctx, e, outputTime)
		return nil
	})
	if s.mayFence(e.Stop, err) {
		return failure.Unconfirmed(err), true, s.Credentials.ShutOut(ctx, e.Worker)
	}
	return unmarked(exit), false, err
}

// mayFence reports whether to fence an attempt whose stop failed with err. The runtime must have failed to confirm that
// the container stopped, and the order must allow fencing now.
func (s *Stopper) mayFence(o *fsm.StopOrder, err error) bool {
	return errors.Is(err, container.ErrUnconfirmed) && !o.FenceAt.IsZero() && !s.Now().Before(o.FenceAt)
}

// unmarked returns an attempt's exit without the stage marks in its output.
func unmarked(x container.Exit) container.Exit {
	x.Stdout, x.Stderr = wire.WithoutStageMarks(x.Stdout), wire.WithoutStageMarks(x.Stderr)
	return x
}

// shutOut revokes the worker's access to the bus, the network and the models. A fenced attempt's credential has already
// been revoked.
func (s *Stopper) shutOut(ctx context.Context, e fsm.Effect, fenced bool) {
	if !fenced {
		s.Credentials.Revoke(ctx, e.Worker)
	}
	s.Proxy.Dismiss(e.Worker)
	s.Leases.Drop(e.Worker)
}

// result collects the evidence for the machine's verdict.
func (s *Stopper) result(ctx context.Context, e fsm.Effect, exit container.Exit, stored []bus.Report,
	fenced bool,
) *fsm.StopResult {
	gone := &fsm.StopResult{
		Fenced: fenced, Cause: fsm.EndCause(exit.Cause), Words: s.Redact(exit.Words),
		OOM: exit.OOM, Signal: exit.Signal, Killed: exit.Killed, Limit: s.Contracts.shown(ctx, e).Containers.Memory,
	}
	if !reports.WorkerEnded(stored) {
		gone.Lost = s.Travel.LostWork(ctx, e.Worker)
	}
	if exit.Known {
		gone.ExitCode = &exit.ExitCode
	}
	for _, r := range stored {
		gone.Reports = append(gone.Reports, s.Reader.Read(ctx, r))
	}
	return gone
}

// patchTime limits how long a verdict waits for a patch, because the patch is purely informational.
const patchTime = 20 * time.Second

// maskedPatch returns the patch of an attempt with secrets masked. It returns "" if the patch is not ready within
// patchTime, or if the secrets to mask are unknown.
func (s *Stopper) maskedPatch(ctx context.Context, e fsm.Effect) string {
	git, done := s.Withdrawals.During(ctx, e.Task)
	defer done()
	limited, cancel := context.WithTimeout(git, patchTime)
	defer cancel()
	patch, err := s.Workspace.Patch(limited, e.Nonce)
	if err == nil {
		var known *leak.Finder
		if known, err = s.Secrets.Known(limited, e.Worker); err != nil {
			patch = ""
		} else {
			patch, err = scope.Mask(limited, patch, known)
		}
	}
	if err != nil {
		s.Log.Info("could not store attempt patch in the audit",
			zap.String("issue", string(e.Task)), zap.String("worker", e.Worker),
			zap.Error(err))
	}
	return patch
}
