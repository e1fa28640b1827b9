package effects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
	"retake/internal/config"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

// Checkouts moves travelling checkouts (workspace.transport) between the workspace and the bus. The director
// publishes a checkout before an attempt and receives it afterwards. In between, the worker owns the checkout, and
// the bus stores the chunks that the worker sent.
type Checkouts struct {
	Bus       *bus.Bus
	Workspace *workspace.Workspaces
	Limits    config.Checkout
	Redact    func(string) string
	Log       *zap.Logger
}

// Rules returns the limits for checkouts that workers send.
func (c *Checkouts) Rules() bus.CheckoutRules {
	l := c.travelLimits()
	return bus.CheckoutRules{
		Limits: checkpoint.Limits{
			Files: l.Files, Entries: l.Entries, Depth: l.Depth, PathBytes: l.PathBytes,
			Bytes: l.Bytes,
		},
		Quota: c.Limits.QuotaBytes(), Task: nonceOf,
	}
}

func (c *Checkouts) travelLimits() wire.CheckoutLimits {
	l := c.Limits
	return wire.CheckoutLimits{
		Files: l.MaxFiles, Entries: l.MaxEntries, Depth: l.MaxDepth, PathBytes: l.MaxPathBytes,
		Bytes: int64(l.MaxBytes),
	}
}

func nonceOf(worker string) string {
	nonce, _, _ := fsm.ParseAttemptID(worker)
	return nonce
}

// Publish stores the checkout that an attempt starts from, and opens it for the attempt. It skips chunks that are
// already stored.
func (c *Checkouts) Publish(ctx context.Context, in *inforce.Setup, e fsm.Effect) (*wire.PlanCheckout, error) {
	if e.Start.Validate { // a director that takes over must be able to deliver the validated state
		if err := c.keep(ctx, e.Nonce, true); err != nil {
			return nil, err
		}
	}
	store, err := c.Bus.Checkouts().Open(ctx, e.Nonce)
	if err != nil {
		return nil, failure.OnBus(err)
	}
	var m *checkpoint.Manifest
	var record json.RawMessage
	if e.Start.Validate {
		m, err = c.Workspace.PublishValidation(ctx, e.Nonce, putInto(ctx, store))
	} else {
		m, record, err = c.Workspace.Publish(ctx, e.Nonce, c.sentBefore(ctx, store), putInto(ctx, store))
	}
	if err != nil {
		return nil, err
	}
	if err := store.Open(ctx, bus.OpenCheckout{Worker: e.Worker, Start: m.Root, Writes: !e.Start.Validate},
		record); err != nil {
		return nil, failure.OnBus(err)
	}
	plan := &wire.PlanCheckout{Manifest: m.Root.String()}
	if e.Start.Validate {
		return plan, nil
	}
	limits := c.travelLimits()
	plan.CheckpointSeconds, plan.Limits = in.Workspace.Checkpoint.Seconds(), &limits
	return plan, c.Workspace.Published(ctx, e.Nonce, m.Root)
}

// putInto returns a function that puts chunks into store.
func putInto(ctx context.Context, store *bus.CheckoutStore) func(checkpoint.Digest, []byte) error {
	return func(d checkpoint.Digest, data []byte) error {
		return failure.OnBus(store.Put(ctx, d, data))
	}
}

// keep stores a checkout on the bus, so that another director can take over. It stores the record, and also the files
// if they changed here or were never stored. It skips a checkout that is not on the bus, unless travels is set. Call
// it only while workers have no access to the checkout.
func (c *Checkouts) keep(ctx context.Context, nonce string, travels bool) error {
	record, changed := c.Workspace.Record(nonce)
	if record == nil {
		return nil
	}
	over := func(there json.RawMessage) bool { return !workspace.Newer(there, record) }
	state, there, err := c.Bus.Checkouts().State(ctx, nonce)
	stored := there && state.Manifest != (checkpoint.Digest{})
	switch {
	case err != nil:
		return failure.OnBus(err)
	case !stored && !travels:
		return nil
	case stored && !changed:
		return failure.OnBus(c.Bus.Checkouts().KeepRecord(ctx, nonce, record, over))
	}
	store, err := c.Bus.Checkouts().Open(ctx, nonce)
	if err != nil {
		return failure.OnBus(err)
	}
	m, record, err := c.Workspace.Publish(ctx, nonce, c.sentBefore(ctx, store), putInto(ctx, store))
	if err != nil {
		return err
	}
	if err := failure.OnBus(store.Replace(ctx, m.Root, record, over)); err != nil {
		return err
	}
	return c.Workspace.Published(ctx, nonce, m.Root)
}

// Mounted removes the stored copy of a checkout that used to travel and is now mounted. The copy is obsolete, because
// a mounted checkout changes locally.
func (c *Checkouts) Mounted(ctx context.Context, nonce string) error {
	_, there, err := c.Bus.Checkouts().State(ctx, nonce)
	if err == nil && there {
		err = c.Bus.Checkouts().Drop(ctx, nonce)
	}
	return failure.OnBus(err)
}

// sentBefore returns the stored tree of a checkout, or nil if the store has no readable tree.
func (c *Checkouts) sentBefore(ctx context.Context, store *bus.CheckoutStore) *checkpoint.Tree {
	state, there, err := store.State(ctx)
	if err != nil || !there || state.Manifest == (checkpoint.Digest{}) {
		return nil
	}
	m, err := store.Load(ctx, state.Manifest, checkpoint.Unlimited)
	if err != nil {
		return nil
	}
	for d := range m.Chunks {
		if !store.Has(d) { // the server has lost a chunk: store all of them again
			return nil
		}
	}
	return m.Tree
}

// Receive updates the director's copy of a checkout to the last state that a worker sent. It does nothing for a
// mounted checkout. If files is false, it receives only the record, because the caller is about to discard the files.
// Call it only while workers have no access to the checkout.
func (c *Checkouts) Receive(ctx context.Context, nonce string, files bool) error {
	state, there, err := c.Bus.Checkouts().State(ctx, nonce)
	if err != nil {
		return failure.OnBus(err)
	}
	if !there || state.Manifest == (checkpoint.Digest{}) {
		return nil
	}
	store, err := c.Bus.Checkouts().Open(ctx, nonce)
	if err != nil {
		return failure.OnBus(err)
	}
	lost := func(err error) error {
		if errors.Is(err, bus.ErrNoChunk) {
			return fmt.Errorf("%w: the bus lost chunks of the checkout: %w", workspace.ErrLost, err)
		}
		return failure.OnBus(err)
	}
	sent := workspace.Sent{
		Root: state.Manifest, Record: state.Record,
		Replace: func(ctx context.Context, record json.RawMessage) error {
			return failure.OnBus(c.Bus.Checkouts().KeepRecord(ctx, nonce, record,
				func(there json.RawMessage) bool { return bytes.Equal(there, state.Record) }))
		},
		Fetch: func(ctx context.Context, d checkpoint.Digest) ([]byte, error) {
			data, err := store.Chunk(ctx, d)
			return data, lost(err)
		},
	}
	if files {
		sent.Load = func(ctx context.Context) (*checkpoint.Manifest, error) {
			m, err := store.Load(ctx, state.Manifest, c.Rules().Limits)
			if isOfTheManifest(err) {
				return nil, err
			}
			return m, lost(err)
		}
	}
	return c.Workspace.Receive(ctx, nonce, sent)
}

// isOfTheManifest reports whether an error concerns the stored manifest rather than the bus.
func isOfTheManifest(err error) bool {
	_, exceeded := errors.AsType[*checkpoint.Exceeded](err)
	_, malformed := errors.AsType[*checkpoint.Malformed](err)
	return exceeded || malformed
}

// Received returns an executor that receives the checkout, then runs run, and then stores the result for a director
// that takes over. If the checkout can never be received, a delivery fails, and any other effect runs without it.
func (c *Checkouts) Received(run loop.Executor) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		if e.Kind == fsm.DoRelease && e.Release.Taken == "" { // the files are about to be discarded
			return run(ctx, e)
		}
		err := c.Receive(ctx, e.Nonce, true)
		if err != nil && (e.Kind == fsm.DoDeliver || !failure.NeverReceived(err)) {
			return failure.Ended(err)
		}
		out := run(ctx, e)
		if err != nil || ctx.Err() != nil { // after a failed receive, the local copy is out of date
			return out
		}
		if err := c.keep(ctx, e.Nonce, false); err != nil {
			c.Log.Warn("could not store the checkout for another director to take over", zap.String("task", e.Nonce),
				zap.Error(err))
		}
		return out
	}
}

// TakeBack makes the bus refuse further data for the checkout from an attempt, and receives the data sent so far. Call
// it when the attempt's container is gone, or when later data must not count.
func (c *Checkouts) TakeBack(ctx context.Context, e fsm.Effect) error {
	if _, err := c.Bus.Checkouts().Close(ctx, e.Nonce, e.Worker); err != nil {
		return failure.OnBus(err)
	}
	err := c.Receive(ctx, e.Nonce, true)
	if failure.NeverReceived(err) {
		c.Log.Warn("could not receive the attempt's checkout", zap.String("worker", e.Worker),
			zap.Error(err))
		return nil
	}
	return err
}

// HeldBack explains why the bus refused a worker's checkout. It returns "" if the bus accepted the checkout, or if the
// checkout does not travel.
func (c *Checkouts) HeldBack(ctx context.Context, worker string) (cause string) {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	state, there, err := c.Bus.Checkouts().State(ctx, nonceOf(worker))
	if err != nil {
		c.Log.Warn("could not check whether the bus refused the checkout", zap.String("worker", worker), zap.Error(err))
	}
	if err != nil || !there || state.Refused == nil || state.Refused.Worker != worker {
		return ""
	}
	return recovery.TooMuch + c.Redact(state.Refused.Text)
}

// LostWork describes the work lost with a worker that ended without a report. It returns "" if the checkout does not
// travel, or if its last checkpoint is unknown.
func (c *Checkouts) LostWork(ctx context.Context, worker string) string {
	state, there, err := c.Bus.Checkouts().State(ctx, nonceOf(worker))
	if err != nil || !there || state.At.IsZero() || state.Attempt != "" && state.Attempt != worker {
		return ""
	}
	return lostSince(state.At, state.Attempt == "", time.Now())
}

// lostSince describes the loss in one sentence. none means that the attempt has not sent a checkpoint. at is the time
// of the last checkpoint or, if none is set, of the attempt's start.
func lostSince(at time.Time, none bool, now time.Time) string {
	minutes := max(1, int(math.Ceil(now.Sub(at).Minutes())))
	unit := "minutes"
	if minutes == 1 {
		unit = "minute"
	}
	since := "since the last checkpoint at " + at.UTC().Format("2006-01-02 15:04 UTC") + " may be lost"
	if none {
		since = "may be lost: no checkpoint has arrived since the attempt began at " +
			at.UTC().Format("2006-01-02 15:04 UTC")
	}
	return fmt.Sprintf("up to %d %s of work %s", minutes, unit, since)
}
