package lead

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/loop"
)

// Candidate lets this process lead its fleet, or stand by. Set the exported fields before calling any method. The
// methods are safe for concurrent use, except Run and Take.
type Candidate struct {
	Joined   bool                       // the bus is shared, so another director may lead
	Identity func() (bus.Leader, error) // returns this process's entry in the lease; called until it succeeds
	Period   time.Duration              // the lease's period
	Able     func() bool                // reports whether this process could lead now; nil means always
	Bus      func() *bus.Bus
	Marker   Marker // publishes which director leads; may be nil
	// StandBy starts answering queries while another director leads, and returns a function that stops it. Take does
	// not need StandBy.
	StandBy func(ctx context.Context) (end func())
	Log     *zap.Logger

	term  atomic.Pointer[Term]       // the current term; nil before this process has led
	other atomic.Pointer[bus.Leader] // the leader for which this process stands by; nil if unknown
	me    bus.Leader                 // this process's lease entry without Since, Why and Time; zero until identify
}

// Leads reports whether effects may run now. Before the first term it returns true.
func (c *Candidate) Leads() bool { return c.term.Load().Leads() }

// MayWrite reports whether this process may write to the bus. On a shared bus it returns false before the first term,
// because another director may lead.
func (c *Candidate) MayWrite() bool {
	t := c.term.Load()
	return t.Leads() && (t != nil || !c.Joined)
}

// Me returns this process's entry in the lease, or nil with an embedded bus, which has no lease.
func (c *Candidate) Me() *bus.Leader {
	if t := c.term.Load(); t != nil && t.lease != nil {
		me := t.lease.Me()
		return &me
	}
	return nil
}

// Other returns the leader for which this process stands by, or nil if unknown.
func (c *Candidate) Other() *bus.Leader { return c.other.Load() }

// Run serves one term after another until ctx is done. A director that has lost its lease stands by, and may lead
// again. If a term ends for any other reason, Run returns.
func (c *Candidate) Run(ctx context.Context, serve func(*Term) error) error {
	c.unmark(ctx)
	for {
		t, err := c.stand(ctx)
		if err != nil || t == nil {
			return err
		}
		c.term.Store(t)
		c.mark(t)
		err = serve(t)
		t.Release()
		if !t.Expired() || ctx.Err() != nil {
			return err
		}
		c.Bus().DismissAll()
		c.Log.Warn("this director lost the lease", zap.Error(errors.Join(loop.ErrLeaseLost, err)))
	}
}

// stand blocks until this process leads. While another director leads on a shared bus, it stands by. It returns a nil
// term when ctx is done.
func (c *Candidate) stand(ctx context.Context) (*Term, error) {
	t := newTerm(ctx)
	if !c.Joined {
		t.clock.Store(loop.NewClock(t.now()))
		return t, nil
	}
	if err := c.identify(); err != nil {
		return nil, err
	}
	c.other.Store(nil)
	var err error
	var end func()
	if c.term.Load() != nil { // after a term, this process can answer queries at once
		end = c.StandBy(ctx)
	}
	if t.lease, err = c.newLease(ctx, t); t.lease != nil {
		err = t.lease.Await(ctx, func(l bus.Leader) {
			c.Log.Info("another director leads, so this one stands by", zap.String("run", l.RunID),
				zap.String("host", l.Host), zap.String("data_dir", l.DataDir), zap.Time("since", l.Since))
			if end == nil {
				end = c.StandBy(ctx)
			}
			c.other.Store(&l)
			t.takeover = true
		})
	}
	if end != nil {
		end()
	}
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if err != nil {
		t.end(nil)
		return nil, nil //nolint:nilerr // ctx ended
	}
	t.clock.Store(loop.NewClock(t.now()))
	t.watch()
	c.Log.Info("this director leads", zap.String("why", t.lease.Me().Why), zap.Duration("lease", c.Period))
	return t, nil
}

// Take returns a term for a command, without standing by. If another process leads, the error names that process.
func (c *Candidate) Take(ctx context.Context) (*Term, error) {
	t := newTerm(ctx)
	if c.Joined {
		if err := c.takeLease(ctx, t); err != nil {
			t.end(nil)
			return nil, err
		}
		t.watch()
	}
	c.term.Store(t)
	return t, nil
}

func (c *Candidate) takeLease(ctx context.Context, t *Term) error {
	err := c.identify()
	if err == nil {
		t.lease, err = c.newLease(ctx, t)
	}
	var other *bus.Leader
	if err == nil {
		other, err = t.lease.Take(ctx)
	}
	if other != nil {
		err = fmt.Errorf("%s on %s with director.data_dir %s leads this fleet: stop all of the fleet's directors first",
			other.RunID, other.Host, other.DataDir)
	}
	return err
}

// identify stores the result of Identity. After a success, it does not call Identity again, because the disk may fail
// later.
func (c *Candidate) identify() (err error) {
	if c.me.ID == "" {
		c.me, err = c.Identity()
	}
	return err
}

// newLease opens the fleet's lease. It retries while the bus is unreachable. Before the first term it returns the error
// instead, because the configuration may be wrong.
func (c *Candidate) newLease(ctx context.Context, t *Term) (*bus.Lease, error) {
	for {
		l, err := c.Bus().NewLease(ctx, bus.LeaseOptions{Me: c.me, Period: c.Period, Now: t.now, Able: c.Able})
		if err == nil || c.term.Load() == nil || ctx.Err() != nil {
			return l, err
		}
		c.Log.Warn("could not open lease; retrying", zap.Error(err))
		select {
		case <-time.After(pauseFirst):
		case <-ctx.Done():
		}
	}
}
