package worker

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"retake/internal/bus/wire"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Options are the inputs to Run.
type Options struct {
	PlanFile       string    // FromStdin selects Stdin
	Stdin          io.Reader // read until EOF
	Environ        []string  // os.Environ()
	Stdout, Stderr io.Writer
	Dial           Dialer
}

// Harden prepares the process for running next to an agent. Afterwards, processes of the same user cannot read its
// memory, stages cannot use io_uring, and a closed output does not end the process. Tests do not call Harden, because
// it would also restrict the test process.
func Harden() error {
	// Do not ignore SIGPIPE, because children would inherit that. A channel, even if unread, keeps the signal from
	// ending the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return errors.Join(hideMemory(), refuseRings())
}

// Run runs the worker. Cancelling ctx means that the container is being stopped. No other code in the process may start
// or wait for children during Run.
func Run(ctx context.Context, o Options) ExitCode {
	plan, removeErr, err := loadPlan(ctx, o)
	if ctx.Err() != nil {
		return ExitTerminated
	}
	if err != nil {
		_, _ = fmt.Fprintf(o.Stderr, "%s%v\n", logPrefix, err)
		return ExitBadPlan
	}
	own := ownSecrets(plan)
	hides := newMasks(append(slices.Clone(own), plan.Secrets...)...)
	mask := hides.redactor()
	stdout, stderr := &console{to: o.Stdout}, &console{to: o.Stderr}
	log := newLog(plan, logLines{stderr, mask})
	if removeErr != nil {
		log.Warn("could not remove plan, so stages can read the worker's bus credential", zap.Error(removeErr))
	}
	if err := adoptOrphans(); err != nil {
		log.Warn("cannot adopt orphaned processes, so they may outlive their stage", zap.Error(err))
	}
	reaper := startReaper()
	defer reaper.stop()

	w := newWorker(plan, o.Dial, log)
	w.mask, w.env = mask, childEnvironment(o.Environ, own...)
	w.runner = &processRunner{
		reaper: reaper, masks: hides, stdout: stdout, stderr: stderr, memory: containerMemory,
	}
	w.offersLeases = !plan.ValidateOnly
	if plan.MarkStages {
		w.mark = (&stageMarks{plan, stdout, stderr, 0}).begin
	}
	w.classify = classifyFailure
	code := w.run(ctx)
	log.Info("exit", zap.Int("code", int(code)))
	return code
}

// newLog returns a logger that writes one JSON object per line with the project's fixed keys. It omits debug lines,
// because the stages share the stream.
func newLog(p *wire.Plan, to zapcore.WriteSyncer) *zap.Logger {
	format := zap.NewProductionEncoderConfig()
	format.EncodeTime = zapcore.RFC3339TimeEncoder
	format.EncodeDuration = zapcore.StringDurationEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(format), to, zapcore.InfoLevel)
	log := zap.New(core).With(zap.String("worker", p.WorkerID), zap.String("issue", p.Issue.Key),
		zap.Int("attempt", p.Attempt))
	if attempt, ok := wire.ParseTraceParent(p.TraceParent); ok {
		log = log.With(zap.String("trace_id", hex.EncodeToString(attempt.Trace[:])))
	}
	return log
}

// ExitCode is the exit code of the worker. The exit codes of stages are in the report.
type ExitCode int

// The exit codes. 2 is reserved for Go runtime panics.
const (
	ExitResult     ExitCode = 0  // the result was acknowledged
	ExitError      ExitCode = 1  // the final error was acknowledged
	ExitBadPlan    ExitCode = 10 // the plan or the command line is unusable; no report was sent
	ExitRefused    ExitCode = 11 // the answer to hello was an incompatibility, or was for another attempt
	ExitStopped    ExitCode = 12 // the director sent a stop
	ExitWatchdog   ExitCode = 13 // the plan's watchdog expired; the final report might not have been acknowledged
	ExitTerminated ExitCode = 14 // SIGTERM or SIGINT, because the container is being stopped
	ExitBroken     ExitCode = 15 // the worker failed; a report, if it could be sent, gives details
)

// ExitRow explains one exit code to operators.
type ExitRow struct {
	Code  ExitCode
	Means string
	Sent  string // describes the messages sent to the director
}

// Exits lists every exit code once.
func Exits() []ExitRow {
	return []ExitRow{
		{ExitResult, "all stages succeeded", "worker_result.v1, acknowledged"},
		{ExitError, "a stage failed, or the agent asked a question", "worker_error.v1, acknowledged"},
		{ExitBadPlan, "the plan cannot be read or is truncated, or a flag is invalid", "nothing"},
		{
			ExitRefused, "the director refused the hello: wrong protocol version or wrong attempt",
			"no messages after the hello",
		},
		{ExitStopped, "the director sent stop.v1", "worker_error.v1 for shutdown and watchdog, if " +
			"acknowledged in time"},
		{ExitWatchdog, "watchdog_seconds have passed since the start", "worker_error.v1, if the bus was reachable"},
		{ExitTerminated, "SIGTERM or SIGINT", "none, because the director has already decided the outcome of a " +
			"stopped container"},
		{ExitBroken, "an internal error in the worker", "worker_error.v1, if the bus was reachable"},
	}
}
