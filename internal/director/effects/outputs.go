package effects

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/fsm"
	"retake/internal/output"
)

// Outputs stores the output of attempts.
type Outputs struct {
	Store *output.Store
	// Recording describes the stored output of an attempt.
	Recording func(task fsm.IssueKey, worker string, attempt int) output.Recording
	Log       *zap.Logger
}

// Begin starts to store an attempt's output.
func (o *Outputs) Begin(task fsm.IssueKey, worker string, attempt int) {
	o.Store.Begin(o.Recording(task, worker, attempt))
}

// outputTime bounds how long the end of an attempt waits for its last output. A fenced attempt may keep printing out of
// reach, so its output only gets lostOutput.
const (
	outputTime = 20 * time.Second
	lostOutput = time.Second
)

// finish returns the file with an ended attempt's output, or nil if there is no output.
func (o *Outputs) finish(ctx context.Context, e fsm.Effect, within time.Duration) *audit.StoredOutput {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	stored, err := o.Store.Finish(ctx, o.Recording(e.Task, e.Worker, e.Attempt))
	if err != nil {
		o.Log.Warn("an attempt's output is not kept", zap.String("issue", string(e.Task)),
			zap.String("worker", e.Worker), zap.Error(err))
		return nil
	}
	return new(audit.StoredOutput(stored))
}
