package lead

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"retake/internal/bus"
	"retake/internal/director/loop"
)

// Term is a period in which this process leads its fleet. Only the leader decides and carries out effects. With an
// embedded bus, the lock on the data directory ensures that, so the term lasts as long as the process.
type Term struct {
	ctx      context.Context // ends with the term
	end      context.CancelCauseFunc
	lease    *bus.Lease                 // nil with an embedded bus
	takeover bool                       // another director was leading when this one began to wait
	clock    atomic.Pointer[loop.Clock] // the machine's clock
	ended    sync.WaitGroup
}

func newTerm(ctx context.Context) *Term {
	t := &Term{}
	t.ctx, t.end = context.WithCancelCause(ctx)
	return t
}

// Context returns the context that ends with the term.
func (t *Term) Context() context.Context { return t.ctx }

// Clock returns the machine's clock, which all sessions of the term share.
func (t *Term) Clock() *loop.Clock { return t.clock.Load() }

// Leads reports whether effects may run now, by this process's clock. A nil Term leads.
func (t *Term) Leads() bool { return t == nil || t.lease == nil || t.lease.Leads() }

// Expired reports whether the term ended because the lease was lost.
func (t *Term) Expired() bool { return errors.Is(context.Cause(t.ctx), loop.ErrLeaseLost) }

// watch ends the term when its lease expires.
func (t *Term) watch() {
	t.ended.Go(func() {
		select {
		case <-t.lease.Expired():
			t.end(loop.ErrLeaseLost)
		case <-t.ctx.Done():
		}
	})
}

// Release ends the term and releases the lease, so that another director can lead at once. It waits for the term's
// goroutines.
func (t *Term) Release() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if t.lease != nil {
		t.lease.Release(ctx)
	}
	t.end(nil)
	t.ended.Wait()
}

// now returns the machine's time. After a takeover it continues from the predecessor's time. Otherwise the difference
// between the two clocks would shift all deadlines.
func (t *Term) now() time.Time {
	if c := t.clock.Load(); c != nil {
		return c.Now()
	}
	if t.lease != nil {
		if at, ok := t.lease.Before(); ok {
			return at
		}
	}
	return time.Now().UTC()
}
