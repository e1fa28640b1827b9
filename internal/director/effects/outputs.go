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
	Secrets func() []string // returns the values that the director gives to workers
	Known   []leak.Value    // other values that must never be written
	Redact  func(string) string
	Log     *zap.Logger
}

// Begin starts storing an attempt's output.
func (o *Outputs) Begin(task fsm.IssueKey, worker string, attempt int) {
	o.Store.Begin(o.recording(task, worker, attempt))
}

// Resume continues to receive the output of unfinished tasks. It closes the stored output of attempts without a
// container in list.
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

// recording describes the stored output of an attempt, and the values to redact in it.
func (o *Outputs) recording(task fsm.IssueKey, worker string, attempt int) output.Recording {
	key := o.Bus.AttemptKey(worker)
	values := append(o.Secrets(), string(key), base64.StdEncoding.EncodeToString(key))
	for _, v := range o.Known {
		values = append(values, v.Text)
	}
	if seed, err := o.Bus.Seed(worker); err == nil { // fails if the seed was made with another director's key
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

// outputTime limits how long the end of an attempt waits for its last output. A fenced attempt is out of reach and
// may keep printing, so the director waits only lostOutput for it.
const (
	outputTime = 20 * time.Second
	lostOutput = time.Second
)

// finish closes an ended attempt's output and returns its file, or nil if the output could not be stored.
func (o *Outputs) finish(ctx context.Context, e fsm.Effect, within time.Duration) *audit.StoredOutput {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	stored, err := o.Store.Finish(ctx, o.recording(e.Task, e.Worker, e.Attempt))
	if err != nil {
		o.Log.Warn("could not store the output of an attempt", zap.String("issue", string(e.Task)),
			zap.String("worker", e.Worker), zap.Error(err))
		return nil
	}
	return new(audit.StoredOutput(stored))
}
