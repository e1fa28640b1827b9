package worker

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"retake/internal/bus/wire"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Options are what a worker needs from its process.
type Options struct {
	PlanFile       string
	Environ        []string // os.Environ()
	Stdout, Stderr io.Writer
	Dial           Dialer
}

// Harden prepares the process for its life next to an agent: nobody of the same user reads its memory, orphans come to
// it, and a reader of its output that goes away does not end it. It is for the program, not for tests.
func Harden() error {
	// Not ignored: children would inherit that. A channel nobody reads is what keeps the runtime from dying of it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return hideMemory()
}

// Run is the worker's whole life. Ending ctx means that the container is being stopped. Nothing else in the process
// may start or wait for children meanwhile.
func Run(ctx context.Context, o Options) ExitCode {
	plan, removeErr, err := loadPlan(o.PlanFile)
	if err != nil {
		_, _ = fmt.Fprintf(o.Stderr, "%s%v\n", logPrefix, err)
		return ExitBadPlan
	}
	mask := newMasker(append([]string{plan.Bus.Password}, plan.Secrets...))
	stdout, stderr := &console{to: o.Stdout}, &console{to: o.Stderr}
	log := newLog(plan, logLines{stderr, mask})
	if removeErr != nil {
		log.Warn("the plan cannot be removed: stages can read the worker's bus credential", zap.Error(removeErr))
	}
	if err := adoptOrphans(); err != nil {
		log.Warn("orphans of the stages may outlive them", zap.Error(err))
	}
	reaper := startReaper()
	defer reaper.stop()

	w := newWorker(plan, o.Dial, log)
	w.mask, w.env = mask, childEnvironment(o.Environ, plan.Bus.Password)
	w.runner = &programs{
		reaper: reaper, mask: mask, stdout: stdout, stderr: stderr, memory: ownMemory,
	}
	w.openDoor = openDoor
	w.classify = classify
	code := w.run(ctx)
	log.Info("exit", zap.Int("code", int(code)))
	return code
}

// newLog writes one JSON object per line with the project's fixed keys. Debug lines are left out: the stream belongs
// to the stages.
func newLog(p *wire.Plan, to zapcore.WriteSyncer) *zap.Logger {
	format := zap.NewProductionEncoderConfig()
	format.EncodeTime = zapcore.RFC3339TimeEncoder
	format.EncodeDuration = zapcore.StringDurationEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(format), to, zapcore.InfoLevel)
	return zap.New(core).With(zap.String("worker", p.WorkerID), zap.String("issue", p.Issue.Key), zap.Int("attempt", p.Attempt))
}
