package bus

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// Backoff of reconnects and of recreated consumers: doubling, half of it jitter, so that many workers do not return at
// the same moment. The upper end is short because the server is usually on the same machine.
const (
	backoffFirst = 50 * time.Millisecond
	backoffMax   = 5 * time.Second
)

// backoff is the pause before try number n (0, 1, …).
func backoff(n int) time.Duration {
	full := backoffMax
	if n < 10 {
		full = min(backoffFirst<<n, backoffMax)
	}
	return full/2 + rand.N(full/2)
}

// pause waits for d or until ctx ends, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// connOptions keep both sides connected: for ever, and through refused credentials too (a worker is admitted again once a
// restarted director has adopted it). Nothing is buffered while the connection is lost: its owner spools or drops it.
func connOptions(log *zap.Logger) []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(backoff),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(10 * time.Second), // a half-open connection is noticed within 30 s
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("bus connection lost", zap.Error(err))
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("bus connection back") }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			log.Warn("bus error", zap.String("subject", subject), zap.Error(err))
		}),
	}
}
