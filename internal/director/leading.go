package director

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/disk"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/github"
)

// term is a period in which this process leads its fleet, so that no other process decides or carries out effects.
// With an embedded bus the term lasts as long as the process, because the lock on the data directory suffices.
type term struct {
	ctx      context.Context // ends with the term
	end      context.CancelCauseFunc
	lease    *bus.Lease                 // nil with an embedded bus
	takeover bool                       // another director led when this one began to wait
	clock    atomic.Pointer[loop.Clock] // the machine's clock
	ended    sync.WaitGroup
}

// leads reports whether effects may run now, judged by this process's clock.
func (t *term) leads() bool { return t == nil || t.lease == nil || t.lease.Leads() }

// mayWrite reports whether no other director leads at this moment. On a joined bus this is unknown before the first
// term, so the result is false.
func (d *daemon) mayWrite() bool {
	t := d.term.Load()
	return t.leads() && (t != nil || d.config.AgentBus.URL == "")
}

// expired reports whether the term ended because the lease was lost.
func (t *term) expired() bool { return errors.Is(context.Cause(t.ctx), loop.ErrLeaseLost) }

// watch ends the term when its lease expires.
func (t *term) watch() {
	t.ended.Go(func() {
		select {
		case <-t.lease.Expired():
			t.end(loop.ErrLeaseLost)
		case <-t.ctx.Done():
		}
	})
}

// release ends the term and releases the lease, so that another director can lead at once. It waits for watch.
func (t *term) release() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if t.lease != nil {
		t.lease.Release(ctx)
	}
	t.end(nil)
	t.ended.Wait()
}

// now returns the machine's time. A director that takes over continues with its predecessor's time. Otherwise
// deadlines would come early or stall by the difference between the two clocks.
func (t *term) now() time.Time {
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

// stand blocks until this process leads. On a joined bus another director may lead. Then this one stands by,
// follows the journal, and answers on the operator's socket. stand returns a nil term when ctx ends.
func (d *daemon) stand(ctx context.Context) (*term, error) {
	t := &term{}
	t.ctx, t.end = context.WithCancelCause(ctx)
	if d.config.AgentBus.URL == "" {
		t.clock.Store(loop.NewClock(t.now()))
		return t, nil
	}
	if err := d.nameLeader(); err != nil {
		return nil, err
	}
	var err error
	var by *standby
	if d.term.Load() != nil { // this process has led before, so people may query it at once
		by = d.standBy(ctx)
	}
	if t.lease, err = d.newLease(ctx, t); t.lease != nil {
		err = t.lease.Await(ctx, func(l bus.Leader) {
			d.log.Info("another director leads; this one stands by", zap.String("run", l.RunID),
				zap.String("host", l.Host), zap.String("data_dir", l.DataDir), zap.Time("since", l.Since))
			if by == nil {
				by = d.standBy(ctx)
			}
			by.leader.Store(&l)
			t.takeover = true
		})
	}
	if by != nil {
		by.end()
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
	d.log.Info("this director leads", zap.String("why", t.lease.Me().Why),
		zap.Duration("lease", d.config.Director.Lease))
	return t, nil
}

// take returns a term for a command. It does not stand by: if another process leads, the error names that process.
func (d *daemon) take(ctx context.Context) (*term, error) {
	t := &term{}
	t.ctx, t.end = context.WithCancelCause(ctx)
	if d.config.AgentBus.URL == "" {
		return t, nil
	}
	err := d.nameLeader()
	if err == nil {
		t.lease, err = d.newLease(ctx, t)
	}
	var other *bus.Leader
	if err == nil {
		other, err = t.lease.Take(ctx)
	}
	if other != nil {
		err = fmt.Errorf("%s on %s with director.data_dir %s leads this fleet: stop all of the fleet's directors first",
			other.RunID, other.Host, other.DataDir)
	}
	if err != nil {
		t.end(nil)
		return nil, err
	}
	t.watch()
	return t, nil
}

// nameLeader sets the record that this process shows as leader. It reads the record once, because the disk may be
// gone later.
func (d *daemon) nameLeader() error {
	if d.me.ID != "" {
		return nil
	}
	dir, err := d.installation()
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // for people
	d.me = bus.Leader{
		ID: d.writer, RunID: d.runID, Host: host, DataDir: d.config.Director.DataDir, Dir: dir,
		Lock: d.lock.Name(),
	}
	return nil
}

// newLease opens the fleet's lease. It retries while the bus is away, except before the first term, when the
// configuration may be wrong.
func (d *daemon) newLease(ctx context.Context, t *term) (*bus.Lease, error) {
	for {
		l, err := d.bus.NewLease(ctx, bus.LeaseOptions{
			Me: d.me, Period: d.config.Director.Lease, Now: t.now,
			Able: d.disk.Able,
		})
		if err == nil || d.term.Load() == nil || ctx.Err() != nil {
			return l, err
		}
		d.log.Warn("the lease cannot be opened, trying again", zap.Error(err))
		select {
		case <-time.After(reloadAfter):
		case <-ctx.Done():
		}
	}
}

// Intervals at which a standby reads the journal: normally, and after a failure.
const (
	followEvery = 250 * time.Millisecond
	followAgain = 5 * time.Second
)

// standby is a director that follows the leader.
type standby struct {
	*daemon
	leader  atomic.Pointer[bus.Leader] // nil while the leader is unknown
	tasks   atomic.Int64
	failed  atomic.Pointer[string] // why the journal cannot be followed, or nil
	stop    context.CancelFunc
	stopped sync.WaitGroup
}

func (d *daemon) standBy(ctx context.Context) *standby {
	b := &standby{daemon: d}
	ctx, b.stop = context.WithCancel(ctx)
	b.stopped.Go(func() { b.follow(ctx) })
	b.stopped.Go(func() { b.watchDisk(ctx) })
	if err := d.listenOperator(ctx); err != nil {
		d.log.Warn("nobody can ask this standby", zap.Error(err))
		return b
	}
	b.stopped.Go(func() { d.operator.Serve(ctx, b.mux()) })
	return b
}

func (b *standby) end() {
	b.stop()
	b.stopped.Wait()
}

// follow keeps the state current, so that a takeover only has to read the last moment of the journal.
func (b *standby) follow(ctx context.Context) {
	s := b.newSession()
	for ctx.Err() == nil {
		pause := followEvery
		h := b.hot
		var err error
		if h == nil {
			h, err = s.loadState(ctx)
		} else {
			err = s.readOn(ctx, h)
		}
		switch {
		case err == nil:
			b.failed.Store(nil)
		case ctx.Err() == nil:
			b.failed.Store(new("the journal cannot be followed: " + err.Error()))
			b.log.Warn("the journal is not followed yet", zap.Error(err))
		}
		if err != nil {
			h, pause = nil, followAgain
		}
		if b.hot = h; h != nil {
			b.tasks.Store(int64(len(h.m.Tasks())))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// watchDisk checks the disk of the data directory, which this director needs in order to lead.
func (b *standby) watchDisk(ctx context.Context) {
	for ctx.Err() == nil {
		if l := b.disk.Ask(ctx, true, disk.Slow); ctx.Err() == nil {
			b.disk.Keep(l)
		}
		select {
		case <-time.After(disk.ProbeEvery):
		case <-ctx.Done():
		}
	}
}

func (b *standby) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+operator.LivePath, func(w http.ResponseWriter, _ *http.Request) {
		operator.Respond(w, http.StatusOK, operator.Health{RunID: b.runID, Phase: operator.PhaseStandby})
	})
	mux.HandleFunc("GET "+operator.HealthPath, func(w http.ResponseWriter, _ *http.Request) {
		h := operator.Health{
			RunID: b.runID, Phase: operator.PhaseStandby, Tasks: int(b.tasks.Load()), Problem: b.problem(),
			Leader: b.leads(),
		}
		status := http.StatusOK
		if h.OK = h.Problem == ""; !h.OK {
			status = http.StatusServiceUnavailable
		}
		operator.Respond(w, status, h)
	})
	mux.HandleFunc("GET /snapshot", func(w http.ResponseWriter, _ *http.Request) {
		var s wire.Snapshot
		s.Director = wire.SnapshotDirector{
			RunID: b.runID, Phase: operator.PhaseStandby, Since: wire.At(b.since),
			Leadership: b.leads(), Problem: b.problem(), Config: b.configState(),
		}
		operator.Respond(w, http.StatusOK, s)
	})
	mux.HandleFunc("POST /reload", b.reload)
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		no := operator.Refusal{Problem: "this director stands by, and no other one leads yet: ask again"}
		if l := b.leader.Load(); l != nil {
			no.Problem = fmt.Sprintf("this director stands by: ask the one that leads, %s on %s with "+
				"director.data_dir %s", l.RunID, l.Host, l.DataDir)
		}
		operator.Respond(w, http.StatusConflict, no)
	}
	mux.HandleFunc("POST /", refuse)
	mux.HandleFunc("PUT /", refuse)
	return mux
}

// problem returns what prevents the standby from leading, or "".
func (b *standby) problem() string {
	failed, bad := b.failed.Load(), b.disk.Now().Unusable()
	switch {
	case bad != nil:
		return bad.Error()
	case !b.bus.Connected():
		return busAway
	case failed != nil:
		return *failed
	}
	return ""
}

// leads returns the leader, as far as the standby knows.
func (b *standby) leads() *wire.SnapshotLeadership {
	if l := b.leader.Load(); l != nil {
		return leadership(*l)
	}
	return nil
}

func leadership(l bus.Leader) *wire.SnapshotLeadership {
	return &wire.SnapshotLeadership{RunID: l.RunID, Host: l.Host, Since: wire.At(l.Since), Why: l.Why}
}

// leads returns this process as leader during a session. It returns nil with an embedded bus, where no other
// director can lead.
func (d *daemon) leads() *wire.SnapshotLeadership {
	if t := d.term.Load(); t != nil && t.lease != nil {
		return leadership(t.lease.Me())
	}
	return nil
}

// leaseTransport blocks all writes to GitHub outside the lease, regardless of their origin.
type leaseTransport struct {
	http.RoundTripper
	term *atomic.Pointer[term]
}

func (l leaseTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !l.term.Load().leads() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("%w: %w", github.ErrNotSent, loop.ErrLeaseLost)
	}
	return l.RoundTripper.RoundTrip(r)
}
