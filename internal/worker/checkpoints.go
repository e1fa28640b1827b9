package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// chunksAtOnce is the maximum number of chunks sent concurrently, because the director queues only a few.
// checkpointTimeout is long, because the director needs some time for a checkpoint with many files.
const (
	chunksAtOnce      = 8
	checkpointTimeout = time.Minute
	checkpointTries   = 3 // a retry helps if the director lost chunks, or a directory moved during the scan
)

// checkpointer fetches an attempt's checkout and sends its changes. Only soon may be called concurrently with the other
// methods.
type checkpointer struct {
	plan      *wire.PlanCheckout
	attempt   string
	dir       string
	bus       Bus
	log       *zap.Logger
	due       chan struct{} // holds one token after a stage has ended
	scan      *checkpoint.Scanner
	root      checkpoint.Digest // root of the last accepted checkpoint
	lastError string            // last logged error, or empty after a successful checkpoint

	before map[checkpoint.Digest]int64 // sizes of the previous checkpoint's chunks

	mu     sync.Mutex
	stored map[checkpoint.Digest]bool // chunks of the last two checkpoints, which the director keeps
}

func newCheckpointer(p *wire.Plan, b Bus, log *zap.Logger) *checkpointer {
	return &checkpointer{
		plan: p.Checkout, attempt: p.AttemptID, dir: p.Workdir, bus: b, log: log, due: make(chan struct{}, 1),
		stored: map[checkpoint.Digest]bool{},
	}
}

// sends reports whether the worker sends its work to the director. It is false for a nil checkpointer.
func (c *checkpointer) sends() bool { return c != nil && c.plan.CheckpointSeconds > 0 && c.scan != nil }

func (c *checkpointer) limits() checkpoint.Limits {
	if l := c.plan.Limits; l != nil {
		return checkpoint.Limits{
			Files: l.Files, Entries: l.Entries, Depth: l.Depth, PathBytes: l.PathBytes,
			Bytes: l.Bytes,
		}
	}
	return checkpoint.Unlimited
}

// permanent reports whether retrying a request that failed with err is pointless.
func permanent(err error) bool {
	r, refused := errors.AsType[*bus.RefusedError](err)
	return refused && r.Why != wire.RefusedBusy
}

// patiently repeats a request until the director accepts it or refuses it permanently, or until ctx is done.
func patiently(ctx context.Context, timeout time.Duration, ask func(context.Context) error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = backoffInitial, backoffMax
	for {
		limited, cancel := context.WithTimeout(ctx, timeout)
		err := ask(limited)
		cancel()
		if err == nil || permanent(err) {
			return err
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return fmt.Errorf("worker: %w: %w", context.Cause(ctx), err)
		}
	}
}

func (c *checkpointer) chunk(ctx context.Context, d checkpoint.Digest) (data []byte, err error) {
	err = patiently(ctx, callTimeout, func(ctx context.Context) (err error) {
		data, err = c.bus.Chunk(ctx, d.String())
		return err
	})
	return data, err
}

// fetch fills the workdir with the attempt's checkout.
func (c *checkpointer) fetch(ctx context.Context) error {
	var root checkpoint.Digest
	if err := root.UnmarshalText([]byte(c.plan.Manifest)); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	began := time.Now()
	m, err := checkpoint.Load(root, checkpoint.Unlimited,
		func(d checkpoint.Digest) ([]byte, error) { return c.chunk(ctx, d) })
	if err == nil {
		err = m.Tree.Check(checkpoint.Unlimited)
	}
	if err == nil {
		err = checkpoint.Apply(ctx, c.dir, nil, m.Tree, c.chunk)
	}
	if err != nil {
		return fmt.Errorf("worker: fetch checkout: %w", err)
	}
	c.root = root
	c.keep(m)
	c.scan = &checkpoint.Scanner{Dir: c.dir, Limits: c.limits()}
	if err := c.scan.Begin(ctx, m.Tree); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	c.log.Info("fetched checkout", zap.Int("files", len(m.Tree.Entries)), zap.Int64("bytes", m.Tree.Bytes()),
		zap.Duration("took", time.Since(began)))
	return nil
}

// soon requests a checkpoint after a stage, without waiting for it.
func (c *checkpointer) soon() {
	select {
	case c.due <- struct{}{}:
	default:
	}
}

// start sends checkpoints periodically until the caller calls stop, which cancels a running checkpoint and waits for
// it.
func (c *checkpointer) start(ctx context.Context) (stop func()) {
	if !c.sends() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		every := duration(c.plan.CheckpointSeconds, time.Minute)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-c.due:
			case <-ctx.Done():
				return
			}
			limited, end := context.WithTimeout(ctx, max(every, checkpointTimeout))
			err := c.save(limited, false)
			end()
			if ctx.Err() == nil {
				c.note(err)
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// note logs when checkpoints begin to fail and when they succeed again.
func (c *checkpointer) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == c.lastError:
	case text != "":
		c.log.Warn("checkpoint failed; retrying", zap.Error(err))
	default:
		c.log.Info("checkpoints are working again")
	}
	c.lastError = text
}

// last sends the final checkpoint after all processes have ended. It reads every file again. It returns when the
// director has accepted the checkpoint or refused it permanently, or when ctx is done.
func (c *checkpointer) last(ctx context.Context) error {
	return patiently(ctx, 24*time.Hour, func(ctx context.Context) error {
		err := c.save(ctx, true)
		if over, ok := errors.AsType[*checkpoint.Exceeded](err); ok {
			return c.holdBack(ctx, over)
		}
		return err
	})
}

// holdBack reports to the director which limit the work exceeds, instead of sending the work. It always returns an
// error.
func (c *checkpointer) holdBack(ctx context.Context, over *checkpoint.Exceeded) error {
	return patiently(ctx, callTimeout, func(ctx context.Context) error {
		_, err := c.bus.SaveCheckpoint(ctx, wire.Checkpoint{
			AttemptID: c.attempt, Manifest: c.root.String(),
			Final: true, TooMuch: over.Text,
		})
		if err == nil {
			err = &bus.RefusedError{Why: wire.RefusedTooMuch, Text: over.Text}
		}
		return err
	})
}

// save sends one checkpoint.
func (c *checkpointer) save(ctx context.Context, final bool) error {
	if c.scan.Spool = ""; final {
		c.scan.Spool = c.attempt + "."
	}
	var err error
	for range checkpointTries {
		var missing []string
		if missing, err = c.saveOnce(ctx, final); err == nil && len(missing) == 0 {
			return nil
		}
		if _, over := errors.AsType[*checkpoint.Exceeded](err); over || permanent(err) || ctx.Err() != nil {
			return err
		}
		if err == nil { // the director has lost chunks, so read everything again
			err = fmt.Errorf("worker: %d chunks are missing", len(missing))
			c.forget(missing)
		}
	}
	return err
}

func (c *checkpointer) forget(missing []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range missing {
		var d checkpoint.Digest
		if d.UnmarshalText([]byte(name)) == nil {
			delete(c.stored, d)
		}
	}
	c.scan = &checkpoint.Scanner{Dir: c.dir, Limits: c.scan.Limits, Spool: c.scan.Spool}
}

func (c *checkpointer) saveOnce(ctx context.Context, final bool) (missing []string, err error) {
	sending, sendCtx := errgroup.WithContext(ctx)
	sending.SetLimit(chunksAtOnce)
	emit := func(d checkpoint.Digest, data []byte) error {
		c.mu.Lock()
		known := c.stored[d]
		c.mu.Unlock()
		if known {
			return nil
		}
		sending.Go(func() error {
			err := patiently(sendCtx, callTimeout, func(ctx context.Context) error { return c.bus.PutChunk(ctx, data) })
			if err == nil {
				c.mu.Lock()
				c.stored[d] = true
				c.mu.Unlock()
			}
			return err
		})
		return sendCtx.Err()
	}
	c.scan.Emit = emit
	var m *checkpoint.Manifest
	tree, err := c.scan.Scan(ctx, final)
	if err == nil {
		m, err = tree.Encode(emit)
	}
	if sent := sending.Wait(); sent != nil {
		err = sent // the scan failed because sending failed
	}
	if err != nil {
		return nil, err
	}
	err = patiently(ctx, checkpointTimeout, func(ctx context.Context) (err error) {
		missing, err = c.bus.SaveCheckpoint(ctx, wire.Checkpoint{
			AttemptID: c.attempt, Manifest: m.Root.String(),
			Final: final,
		})
		return err
	})
	if err == nil && len(missing) == 0 {
		if c.root != m.Root {
			c.keep(m)
		}
		c.root = m.Root
		c.scan.Keep(tree)
	}
	return missing, err
}

// keep records that the director now has the chunks of m and of the previous checkpoint.
func (c *checkpointer) keep(m *checkpoint.Manifest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = map[checkpoint.Digest]bool{}
	for _, chunks := range []map[checkpoint.Digest]int64{c.before, m.Chunks} {
		for d := range chunks {
			c.stored[d] = true
		}
	}
	c.before = m.Chunks
}
