package leadership

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus/link"
)

// renew renews the lease until ctx is done, another process takes the lease, or the term ends. In the last two cases it
// closes expired.
func (l *Lease) renew(ctx context.Context) {
	next := l.now() + l.o.Period/renewEvery
	for l.rest(ctx, next) {
		if !l.Leads() {
			l.log.Warn("lease expired, because it was not renewed in time")
			close(l.expired)
			return
		}
		if !l.able() {
			l.log.Warn("not renewing the lease, because this director cannot lead")
			next = l.now() + l.o.Period/lookParts
			continue
		}
		try, cancel := context.WithTimeout(ctx, l.o.Period/renewEvery)
		revision, sent, err := l.write(try, l.revision)
		if err != nil {
			revision, sent, err = l.recover(try, err)
		}
		cancel()
		next = l.now() + l.o.Period/lookParts
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errTaken):
			l.log.Warn("another director took the lease")
			l.giveUp()
			close(l.expired)
			return
		case err != nil:
			l.log.Warn("could not renew the lease; retrying", zap.Error(err))
		default:
			l.renewed(revision, sent)
			next = max(next, sent+l.o.Period/renewEvery)
		}
	}
}

func (l *Lease) able() bool { return l.o.Able == nil || l.o.Able() }

// rest waits until a time by clock or until the term ends. It returns false if ctx is done. It polls the clock, because
// timers do not run while the machine is suspended.
func (l *Lease) rest(ctx context.Context, until time.Duration) bool {
	for ctx.Err() == nil {
		left := min(until-l.now(), l.left())
		if left <= 0 {
			return true
		}
		link.Pause(ctx, min(left, longestTry))
	}
	return false
}

// recover handles a failed renewal. If the server stored an earlier renewal and only its answer was lost, recover
// returns that renewal's revision and the time when it was sent. If the server has lost the lease, recover writes it
// again. This is safe, because other processes wait one period before they take a missing lease, and wait again if they
// read the rewritten lease.
func (l *Lease) recover(ctx context.Context, failed error) (uint64, time.Duration, error) {
	if !link.Refused(failed) && !errors.Is(failed, jetstream.ErrNoStreamResponse) {
		return 0, 0, failed
	}
	e, unread := l.kv.Get(ctx, keyLeader)
	if unread == nil {
		var there Leader
		if json.Unmarshal(e.Value(), &there) != nil || there.ID != l.o.Me.ID {
			return 0, 0, errTaken
		}
		return e.Revision(), l.sent[there.Time.UnixNano()], nil
	}
	switch s, err := l.kv.Status(ctx); {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		if err := l.open(ctx); err != nil {
			return 0, 0, err
		}
	case err != nil:
		return 0, 0, err
	case !errors.Is(unread, jetstream.ErrKeyNotFound):
		return 0, 0, unread
	case s.Values() > 0: // another process has led and released the lease
		return 0, 0, errTaken
	}
	if !l.Leads() { // otherwise a process with our lock could take this renewal at once
		return 0, 0, errTaken
	}
	l.log.Warn("the server lost the lease; rewriting it")
	revision, sent, err := l.write(ctx, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	// If the term ended before the renewal was sent, another process may have led in a bucket that the server then
	// lost as well.
	if !l.term.Leads(sent) {
		return 0, 0, errTaken
	}
	return revision, sent, err
}
