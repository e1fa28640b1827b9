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

// Pauses between two tries to open the bus again: doubling up to a bound that is a few seconds, because
// everything waits for it.
const (
	reopenFirst = 500 * time.Millisecond
	reopenMost  = 5 * time.Second
)

// busFailed reports whether a session ended for something that opening the bus again can mend. A server that
// once failed to write refuses every write from then on, and a stream that was removed is made again only when
// the bus is opened.
func busFailed(err error) bool {
	return errors.Is(err, loop.ErrReload) || errors.Is(err, failure.ErrBus)
}

// reopenBus opens the bus again, with an embedded server on the same files, port and keys: workers connect to
// it again by themselves. Of a server that was joined the connections, and with them the lease, are as good as
// before: only its streams are made sure of. It waits for a disk that cannot be written, and tries until it
// works; the error is that of ctx.
func (d *daemon) reopenBus(ctx context.Context) error {
	joined := d.config.AgentBus.URL != ""
	if d.bus != nil && !joined {
		if err := d.bus.Close(ctx); err != nil && ctx.Err() == nil { // never two servers on one folder
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

// journalChecked ends a session whose journal the server has lost. No answer is no word.
func (s *session) journalChecked(ctx context.Context, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := s.bus.Journal().Check(ctx, last)
	if err != nil {
		return fmt.Errorf("%w: %w", loop.ErrReload, err)
	}
	return nil
}
