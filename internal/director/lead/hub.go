package lead

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/config"
	"retake/internal/director/disk"
	"retake/internal/director/failure"
)

// Parts of the journal that are stored outside the bus's directory, so that they survive damage to that directory.
const (
	MirrorFile = "journal.head" // the last known sequence of the journal
	ArchiveDir = "journal"      // batches that were moved out of the live journal
)

// BusOptions derives bus options from a configuration with an absolute data directory.
func BusOptions(c config.Config) bus.Options {
	return bus.Options{
		URL: c.AgentBus.URL, Prefix: c.AgentBus.Prefix, Fleet: c.Director.Fleet, Replicas: c.AgentBus.Replicas,
		Dir: filepath.Join(c.Director.DataDir, "bus"), Mirror: filepath.Join(c.Director.DataDir, MirrorFile),
		Archive: bus.Archive{
			Dir:  filepath.Join(c.Director.DataDir, ArchiveDir),
			Keep: time.Duration(c.Journal.KeepDays) * 24 * time.Hour,
		},
	}
}

// Pauses between two attempts to reopen the bus. They double only up to a few seconds, because everything waits for
// the bus.
const (
	reopenFirst = 500 * time.Millisecond
	reopenMost  = 5 * time.Second
)

// Hub holds the current bus, and replaces it when it reopens a failed embedded server. Its methods are safe for
// concurrent use, but only one goroutine may open and close the bus.
type Hub struct {
	Joined  bool // the server runs in another process
	Connect func(context.Context) (*bus.Bus, error)
	Disk    *disk.Guard
	DataDir string
	Say     func(error) // tells people why no session is running
	Log     *zap.Logger

	bus    atomic.Pointer[bus.Bus]
	closed bool // Close has closed the current bus
}

// Bus returns the bus, or nil before the first Open.
func (h *Hub) Bus() *bus.Bus { return h.bus.Load() }

// How long a start waits for a joined server that does not answer. A director that has used the bus before waits
// longer, because its server is probably restarting. For a new director, the address is probably wrong.
const (
	firstPatience = 5 * time.Second
	laterPatience = 2 * time.Minute
)

// Open opens the bus.
func (h *Hub) Open(ctx context.Context) error {
	patience := firstPatience
	if _, err := os.Stat(filepath.Join(h.DataDir, MirrorFile)); err == nil {
		patience = laterPatience
	}
	return failure.Retry(ctx, failure.Pauses(reopenFirst, reopenMost), patience, func() error {
		b, err := h.Connect(ctx)
		switch {
		case err == nil:
			h.bus.Store(b)
			h.closed = false
		case !h.Joined || !errors.Is(err, bus.ErrUnreachable):
			return backoff.Permanent(err)
		}
		return err
	}, func(err error, pause time.Duration) {
		h.Say(fmt.Errorf("waiting for the agent bus: %w", err))
		h.Log.Warn("waiting for the agent bus", zap.Duration("in", pause), zap.Error(err))
	})
}

// Close closes the bus if it is open.
func (h *Hub) Close(ctx context.Context) error {
	b := h.Bus()
	if b == nil || h.closed {
		return nil
	}
	h.closed = true
	return b.Close(ctx)
}

// Reopen opens the bus again. An embedded server restarts with the same files, port and keys, so workers reconnect
// automatically. On a shared server, the connections and the lease remain valid, and only the streams are checked.
// Reopen retries until it succeeds or ctx is done, even while the disk is not writable.
func (h *Hub) Reopen(ctx context.Context) error {
	if !h.Joined {
		if err := h.Close(ctx); err != nil && ctx.Err() == nil { // never run two servers on one directory
			h.Log.Warn("could not close bus cleanly", zap.Error(err))
		}
	}
	return failure.Retry(ctx, failure.Pauses(reopenFirst, reopenMost), 0, func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		look := h.Disk.Ask(ctx, true, disk.Slow)
		err := look.Unusable()
		if ctx.Err() == nil {
			h.Disk.Keep(look)
		}
		switch {
		case err != nil:
		case h.Joined:
			err = h.Bus().Ensure(ctx)
		default:
			err = h.Open(ctx)
		}
		if err == nil {
			h.Log.Info("reopened the bus")
		}
		return err
	}, func(err error, pause time.Duration) {
		h.Say(err)
		h.Log.Warn("could not open bus", zap.Error(err), zap.Duration("in", pause))
	})
}
