package director

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/disk"
	"retake/internal/director/failure"
	"retake/internal/director/loop"
)

// Pauses between two tries to reopen the bus. They double up to a few seconds only, because everything waits for
// the bus.
const (
	reopenFirst = 500 * time.Millisecond
	reopenMost  = 5 * time.Second
)

// busFailed reports whether reopening the bus can fix the error that ended a session. A server that once failed to
// write refuses every later write, and a removed stream is recreated only when the bus is opened.
func busFailed(err error) bool {
	return errors.Is(err, loop.ErrReload) || errors.Is(err, failure.ErrBus)
}

// reopenBus reopens the bus. An embedded server restarts on the same files, port and keys, so workers reconnect on
// their own. With a joined server the connections and the lease remain valid, and only the streams are checked. It
// retries, even while the disk cannot be written, until it succeeds or ctx ends.
func (d *daemon) reopenBus(ctx context.Context) error {
	joined := d.config.AgentBus.URL != ""
	if d.bus != nil && !joined {
		if err := d.bus.Close(ctx); err != nil && ctx.Err() == nil { // never run two servers on one directory
			d.log.Warn("the bus was closed incompletely", zap.Error(err))
		}
	}
	return failure.Retry(ctx, failure.Pauses(reopenFirst, reopenMost), 0, func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		look := d.disk.Ask(ctx, true, disk.Slow)
		err := look.Unusable()
		if ctx.Err() == nil {
			d.disk.Keep(look)
		}
		switch {
		case err != nil:
		case joined:
			err = d.bus.Ensure(ctx)
		default:
			err = d.openBus(ctx)
		}
		if err == nil {
			d.log.Info("the bus was opened again")
		}
		return err
	}, func(err error, pause time.Duration) {
		d.operator.Say(err)
		d.log.Warn("the bus cannot be opened", zap.Error(err), zap.Duration("in", pause))
	})
}

// journalChecked ends a session whose journal the server has lost. A missing answer proves nothing.
func (s *session) journalChecked(ctx context.Context, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := s.bus.Journal().Check(ctx, last)
	if err != nil {
		return fmt.Errorf("%w: %w", loop.ErrReload, err)
	}
	return nil
}
