package leadership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"retake/internal/bus/lease"
	"retake/internal/bus/link"
)

// keyLeader is the only key in a lease bucket.
const keyLeader = "leader"

// The leader renews the lease every period/renewEvery. The other processes read it every period/lookParts.
const (
	renewEvery = 3
	lookParts  = 20
	// longestTry is the longest pause between two checks, so that a process soon notices a released lease or its own
	// suspension.
	longestTry = 500 * time.Millisecond
)

// Leader is the entry that the leader writes into the bucket.
type Leader struct {
	ID      string `json:"id"` // unique id of the process
	RunID   string `json:"run_id"`
	Host    string `json:"host"`
	DataDir string `json:"data_dir"`
	Dir     string `json:"dir"` // identifies the data directory and its copies
	// Lock identifies the data directory's file lock, and the boot of the machine that holds it. At most one process
	// holds the lock. Lock is empty if unknown.
	Lock  string    `json:"lock"`
	Since time.Time `json:"since"` // start of the lease, by the leader's wall clock
	Why   string    `json:"why"`   // why this process leads, a clause for people
	Time  time.Time `json:"time"`  // the state machine's time at the last renewal
}

// Lease is the right to carry out effects, for as long as package lease permits. A goroutine renews it three times per
// period. Release stops that goroutine and waits for it to exit.
type Lease struct {
	bucket Bucket
	kv     jetstream.KeyValue
	o      Options
	log    *zap.Logger

	clock func() time.Duration // nil means bootTime; tests set it

	mu   sync.Mutex
	term lease.Term // measured by clock

	revision uint64 // revision of the last renewal; owned by the renewing goroutine while leading
	// sent maps the Time of each unanswered renewal, in Unix nanoseconds, to the clock reading when it was sent. The
	// renewing goroutine owns it while leading.
	sent map[int64]time.Duration
	// expired is closed when the term ends without Release, because another process took the lease or the last renewal
	// came too late.
	expired chan struct{}
	stop    context.CancelFunc
	stopped chan struct{}

	seen   lease.Renewal // last renewal by another process, or zero
	at     time.Duration // when this process first read seen, by clock
	age    time.Duration // age of that renewal when first read
	theirs Leader
	live   bool // set if another process has renewed the lease since this process first read it
}

// bootTime reads the machine's monotonic clock, which also advances while the machine is suspended.
func bootTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // never fails on Linux
	return time.Duration(t.Nano())
}

// Bucket locates a lease on a server.
type Bucket struct {
	JS       jetstream.JetStream
	Name     string
	Replicas int
}

// Options describe a process that wants to lead.
type Options struct {
	Me     Leader           // entry of this process; Lease sets Since, Why and Time
	Period time.Duration    // time from a renewal to its expiry
	Now    func() time.Time // the state machine's time while this process leads; the wall clock if nil
	Able   func() bool      // reports whether this process may take and renew the lease; nil means always
}

// New opens the bucket of a lease. It does not take the lease.
func New(ctx context.Context, b Bucket, o Options, log *zap.Logger) (*Lease, error) {
	l := &Lease{
		bucket: b, o: o, log: log, term: lease.Term{Period: o.Period}, sent: map[int64]time.Duration{},
		expired: make(chan struct{}), stopped: make(chan struct{}),
	}
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// open creates the bucket unless it exists. If it fails, l keeps using the previous bucket.
func (l *Lease) open(ctx context.Context) error {
	kv, err := l.bucket.JS.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: l.bucket.Name, Description: "which director leads", History: 1, Replicas: l.bucket.Replicas,
	})
	if err != nil {
		return fmt.Errorf("bus: bucket %s: %w", l.bucket.Name, err)
	}
	l.kv = kv
	return nil
}

// Await blocks until this process has the lease or ctx is done. It retries during bus outages. While another process
// leads, it calls standby once for each new leader. After Await returns nil, a goroutine renews the lease until
// Release.
func (l *Lease) Await(ctx context.Context, standby func(Leader)) error {
	told := ""
	for failures := 0; ; {
		leads, err := l.try(ctx)
		switch {
		case leads:
			l.keep(ctx)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			l.log.Warn("could not read or take the lease; retrying", zap.Error(err))
			link.Pause(ctx, link.Backoff(failures))
			failures++
			continue
		}
		if failures = 0; l.theirs.ID != told {
			told = l.theirs.ID
			standby(l.theirs)
		}
		link.Pause(ctx, min(l.o.Period/lookParts, longestTry))
	}
}

// keep starts the goroutine that renews the lease. The goroutine outlives ctx, and Release stops it.
func (l *Lease) keep(ctx context.Context) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go func() {
		defer close(l.stopped)
		l.renew(running)
	}()
}

// Take is like Await, but stops waiting when another process renews the lease, and returns that leader. It also returns
// the first bus error instead of retrying.
func (l *Lease) Take(ctx context.Context) (other *Leader, err error) {
	for {
		leads, err := l.try(ctx)
		switch {
		case leads:
			l.keep(ctx)
			return nil, nil
		case err != nil:
			return nil, err
		case l.live:
			return &l.theirs, nil
		}
		if !link.Pause(ctx, min(l.o.Period/lookParts, longestTry)) {
			return nil, context.Cause(ctx)
		}
	}
}

// try reads the lease once, and takes it if it is free or has expired.
func (l *Lease) try(ctx context.Context) (leads bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.o.Period)
	defer cancel()
	e, err := l.kv.Get(ctx, keyLeader)
	if err != nil {
		return l.vacant(ctx, err)
	}
	var theirs Leader
	if err := json.Unmarshal(e.Value(), &theirs); err != nil {
		return false, fmt.Errorf("bucket %s, key %s: %w", l.kv.Bucket(), keyLeader, err)
	}
	now, renewal := l.now(), lease.Renewal{Revision: e.Revision(), At: e.Created().UnixNano()}
	if renewal != l.seen {
		l.live, l.age = l.seen.Revision != 0, 0 // a change since the last read is a new renewal
		if !l.live {
			if l.age, err = l.ageOf(ctx, e); err != nil {
				return false, err
			}
		}
		l.seen, l.at, l.theirs = renewal, now, theirs
	}
	l.mu.Lock()
	expired := l.term.Saw(renewal, now)
	l.mu.Unlock()
	if expired {
		return l.take(ctx, e.Revision(), fmt.Sprintf("%s on %s has not renewed its lease for %s", theirs.RunID,
			theirs.Host, l.o.Period))
	}
	// This process holds the lock of that leader's data directory, so that leader has ended.
	if theirs.ID != l.o.Me.ID && theirs.Dir == l.o.Me.Dir && theirs.Lock == l.o.Me.Lock && theirs.Lock != "" {
		return l.take(ctx, e.Revision(), theirs.RunID+", which used the same data directory, has exited")
	}
	return false, nil
}

// vacant takes a lease that has no value, if that is safe. A deletion mark shows that the last leader released the
// lease, so vacant takes it at once. Without a mark, the server may have lost the lease while a leader still holds it.
// In that case, vacant waits until the same bucket has been empty for one period by this process's clock. The argument
// unread is the error from reading the lease.
func (l *Lease) vacant(ctx context.Context, unread error) (leads bool, err error) {
	s, err := l.kv.Status(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		l.log.Warn("the server lost the lease's bucket; recreating it")
		return false, link.NoAnswer(l.open(ctx))
	case err != nil:
		return false, link.NoAnswer(err)
	case !errors.Is(unread, jetstream.ErrKeyNotFound):
		return false, link.NoAnswer(unread)
	case s.Values() > 0: // a deletion mark
		why := "no director was leading"
		if l.seen.Revision != 0 {
			why = l.theirs.RunID + " on " + l.theirs.Host + " released the lease"
		}
		return l.take(ctx, 0, why)
	}
	l.seen = lease.Renewal{}
	l.mu.Lock()
	expired := l.term.Saw(lease.Renewal{At: s.(*jetstream.KeyValueBucketStatus).StreamInfo().Created.UnixNano()},
		l.now())
	l.mu.Unlock()
	if !expired {
		return false, nil
	}
	return l.take(ctx, 0, fmt.Sprintf("no director has been seen leading for %s", l.o.Period))
}

// ageOf returns how long ago a lease was written. Both times come from the server's clock.
func (l *Lease) ageOf(ctx context.Context, e jetstream.KeyValueEntry) (time.Duration, error) {
	s, err := l.kv.Status(ctx)
	if err != nil {
		return 0, link.NoAnswer(err)
	}
	return max(0, s.(*jetstream.KeyValueBucketStatus).StreamInfo().TimeStamp.Sub(e.Created())), nil
}

// take writes the lease, unless another process has written it since revision.
func (l *Lease) take(ctx context.Context, revision uint64, why string) (leads bool, err error) {
	if !l.able() {
		return false, nil
	}
	l.o.Me.Since, l.o.Me.Why = time.Now().UTC().Round(0), why
	revision, sent, err := l.write(ctx, revision)
	switch {
	case err == nil:
		l.renewed(revision, sent)
		return true, nil
	case link.Refused(err) || errors.Is(err, jetstream.ErrKeyExists):
		return false, nil
	}
	return false, link.NoAnswer(err)
}

// write stores a renewal. It returns the revision, and the time when the renewal was sent.
func (l *Lease) write(ctx context.Context, revision uint64) (uint64, time.Duration, error) {
	me := l.o.Me
	if me.Time = time.Now().UTC(); l.o.Now != nil {
		me.Time = l.o.Now()
	}
	data, err := json.Marshal(me)
	if err != nil {
		return 0, 0, err
	}
	name := me.Time.UnixNano()
	if _, same := l.sent[name]; !same { // if two renewals have the same time, keep the earlier entry
		l.sent[name] = l.now()
	}
	if revision == 0 {
		revision, err = l.kv.Create(ctx, keyLeader, data)
	} else {
		revision, err = l.kv.Update(ctx, keyLeader, data, revision)
	}
	return revision, l.sent[name], err
}

var errTaken = errors.New("leadership: another director has the lease")

// now reads the clock that measures terms.
func (l *Lease) now() time.Duration {
	if l.clock == nil {
		return bootTime()
	}
	return l.clock()
}

// Leads reports whether this process holds the lease at this moment, by its local clock.
func (l *Lease) Leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term.Leads(l.now())
}

func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term.Left(l.now())
}

// renewed records a stored renewal. It discards earlier unanswered renewals, because the server now refuses them.
func (l *Lease) renewed(revision uint64, sent time.Duration) {
	l.revision = revision
	clear(l.sent)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term.Renewed(sent)
}

func (l *Lease) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term.End()
}

// Expired returns a channel that is closed when the lease ends without Release.
func (l *Lease) Expired() <-chan struct{} { return l.expired }

// Me returns this process's entry, which is complete once it leads.
func (l *Lease) Me() Leader { return l.o.Me }

// Before estimates the current time on the previous leader's clock. ok is false if that time is unknown.
func (l *Lease) Before() (at time.Time, ok bool) {
	return l.theirs.Time.Add(l.age + l.now() - l.at), !l.theirs.Time.IsZero()
}

// Release stops renewing and deletes the lease, so that another director can lead at once.
func (l *Lease) Release(ctx context.Context) {
	if l.stop == nil {
		return
	}
	l.stop()
	<-l.stopped
	if !l.Leads() {
		return
	}
	l.giveUp()
	err := l.kv.Delete(ctx, keyLeader, jetstream.LastRevision(l.revision))
	if link.Refused(err) { // the server may have stored our last renewal after we stopped waiting for the answer
		var e jetstream.KeyValueEntry
		var there Leader
		if e, err = l.kv.Get(ctx, keyLeader); err == nil {
			err = json.Unmarshal(e.Value(), &there)
		}
		if err == nil && there.ID == l.o.Me.ID {
			err = l.kv.Delete(ctx, keyLeader, jetstream.LastRevision(e.Revision()))
		}
	}
	if err != nil {
		l.log.Warn("could not release the lease; other directors must wait until it expires", zap.Error(err))
	}
}
