package effects

import (
	"context"
	"encoding/base64"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/secrets/leak"
)

// Outputs stores the output of attempts.
type Outputs struct {
	Store   *output.Store
	Bus     *bus.Bus
	Runtime container.Runtime
	Secrets func() []string // values that the director gives to workers
	Known   []leak.Value    // further values that must never be written
	Redact  func(string) string
	Log     *zap.Logger
}

// Begin starts to store an attempt's output.
func (o *Outputs) Begin(task fsm.IssueKey, worker string, attempt int) {
	o.Store.Begin(o.recording(task, worker, attempt))
}

// Resume prepares to receive the output of unfinished tasks. It finishes the stored output of containers that are not
// in the list.
func (o *Outputs) Resume(m *fsm.Machine, list []container.Status) {
	for _, t := range m.Tasks() {
		if !t.State.Info().Final {
			o.Store.Expect(string(t.Key))
		}
	}
	var there []string
	for _, c := range list {
		there = append(there, c.AttemptID)
	}
	o.Store.SealOthers(there)
}

// recording describes the stored output of an attempt, and the values to hide in it.
func (o *Outputs) recording(task fsm.IssueKey, worker string, attempt int) output.Recording {
	key := o.Bus.AttemptKey(worker)
	values := append(o.Secrets(), string(key), base64.StdEncoding.EncodeToString(key))
	for _, v := range o.Known {
		values = append(values, v.Text)
	}
	if seed, err := o.Bus.Seed(worker); err == nil { // fails if another director's key made the seed
		values = append(values, seed)
	}
	return output.Recording{
		Issue: string(task), ID: worker, N: attempt, Key: key,
		Secrets: leak.Redactor(values...), Mask: o.Redact,
		Source: func(ctx context.Context, take func(output.Chunk)) error {
			return o.Runtime.FollowOutput(ctx, worker, func(p container.Printed) { take(output.Chunk(p)) })
		},
	}
}

// outputTime bounds how long the end of an attempt waits for its last output. The director cannot reach a fenced
// attempt, which may keep printing, so it waits only lostOutput for that attempt.
const (
	outputTime = 20 * time.Second
	lostOutput = time.Second
)

// finish returns the file with an ended attempt's output, or nil if there is no output.
func (o *Outputs) finish(ctx context.Context, e fsm.Effect, within time.Duration) *audit.StoredOutput {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	stored, err := o.Store.Finish(ctx, o.recording(e.Task, e.Worker, e.Attempt))
	if err != nil {
		o.Log.Warn("output of an attempt not stored", zap.String("issue", string(e.Task)),
			zap.String("worker", e.Worker), zap.Error(err))
		return nil
	}
	return new(audit.StoredOutput(stored))
}
