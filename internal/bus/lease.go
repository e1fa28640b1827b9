package bus

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
)

// keyLeader is the one key of a lease's bucket.
const keyLeader = "leader"

// Parts of the period after which a leader renews its lease, and others look at it.
const (
	renewEvery = 3
	lookParts  = 20
	// between two looks: a leader that leaves is noticed at once, and so is a machine that slept
	longestTry = 500 * time.Millisecond
)

// Leader is who leads a fleet, in its own words.
type Leader struct {
	ID      string `json:"id"` // of the process; no other one ever has it
	RunID   string `json:"run_id"`
	Host    string `json:"host"`
	DataDir string `json:"data_dir"`
	Dir     string `json:"dir"` // names the data directory, and copies of it
	// names the lock of the data directory, which one process has, and the run of the machine that knows of it;
	// empty: unknown
	Lock  string    `json:"lock"`
	Since time.Time `json:"since"` // by the leader's wall clock
	Why   string    `json:"why"`   // it leads; a clause for people
	Time  time.Time `json:"time"`  // of its machine, when the lease was renewed last
}

// Lease is the right to carry out effects: package lease says for how long. It is renewed every third of its period.
type Lease struct {
	bus *Bus
	kv  jetstream.KeyValue
	o   LeaseOptions
	log *zap.Logger

	clock func() time.Duration // nil means bootTime; tests have their own

	mu   sync.Mutex
	term lease.Term // by clock

	revision uint64 // of the last renewal; the renewing goroutine's once it leads
	// by clock, when each renewal was sent whose answer is not known, by the time that it carries; as revision
	sent map[int64]time.Duration
	// closed when it is over and was not given back: another has it, or it was not renewed in time
	expired chan struct{}
	stop    context.CancelFunc
	stopped chan struct{}

	seen   lease.Renewal // of another's lease; zero: none was seen
	at     time.Duration // by clock, when it was first seen
	age    time.Duration // that it had then
	theirs Leader
	live   bool // a renewal was seen
}

// bootTime reads a clock that runs while the machine is suspended, and that nobody sets.
func bootTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // never fails on Linux
	return time.Duration(t.Nano())
}

// NewLease opens the fleet's lease, which this process does not have yet.
func (b *Bus) NewLease(ctx context.Context, o LeaseOptions) (*Lease, error) {
	l := &Lease{
		bus: b, o: o, log: b.log, term: lease.Term{Period: o.Period}, sent: map[int64]time.Duration{},
		expired: make(chan struct{}), stopped: make(chan struct{}),
	}
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// open makes the bucket, if it is not there. If it cannot, the one before is asked again.
func (l *Lease) open(ctx context.Context) error {
	name := l.bus.leaseBucket()
	kv, err := l.bus.ownJS.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: name, Description: "which director leads", History: 1, Replicas: l.bus.options.Replicas,
	})
	if err != nil {
		return fmt.Errorf("bus: bucket %s: %w", name, err)
	}
	l.kv = kv
	return nil
}

// Await returns when this process has the lease, or ctx ends. standby is told of each other leader, once. It
// outlasts a bus that is away.
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
			l.log.Warn("the lease cannot be read, trying again", zap.Error(err))
			pause(ctx, backoff(failures))
			failures++
			continue
		}
		if failures = 0; l.theirs.ID != told {
			told = l.theirs.ID
			standby(l.theirs)
		}
		pause(ctx, min(l.o.Period/lookParts, longestTry))
	}
}

// keep renews the lease from now on.
func (l *Lease) keep(ctx context.Context) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go func() {
		defer close(l.stopped)
		l.renew(running)
	}()
}

// Take is Await for who does not stand by: it gives up when it sees another process renew the lease, and
// returns who. A lease that nobody renews it waits for.
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
		if !pause(ctx, min(l.o.Period/lookParts, longestTry)) {
			return nil, context.Cause(ctx)
		}
	}
}

// try looks at the lease once, and takes it if nobody has it.
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
		l.live, l.age = l.seen.Revision != 0, 0 // renewed just now
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
	// its lock is ours
	if theirs.ID != l.o.Me.ID && theirs.Dir == l.o.Me.Dir && theirs.Lock == l.o.Me.Lock && theirs.Lock != "" {
		return l.take(ctx, e.Revision(), theirs.RunID+", which had the same data directory, has ended")
	}
	return false, nil
}

// vacant takes a lease that nobody has. If it was given back, that is said where it was. If nothing is said,
// the server may have lost it and somebody may have it still: for a period, by this process's clock, for which
// the same bucket was empty. unread is why it cannot be read.
func (l *Lease) vacant(ctx context.Context, unread error) (leads bool, err error) {
	s, err := l.kv.Status(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		l.log.Warn("the server has lost the lease's bucket; it is made again")
		return false, noAnswer(l.open(ctx))
	case err != nil:
		return false, noAnswer(err)
	case !errors.Is(unread, jetstream.ErrKeyNotFound):
		return false, noAnswer(unread)
	case s.Values() > 0: // the mark of its end
		why := "no director led"
		if l.seen.Revision != 0 {
			why = l.theirs.RunID + " on " + l.theirs.Host + " has given the lease back"
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
	return l.take(ctx, 0, fmt.Sprintf("no director is known to have led for %s", l.o.Period))
}

// ageOf is how long ago a lease was written, by the clock of the server, which has seen both moments.
func (l *Lease) ageOf(ctx context.Context, e jetstream.KeyValueEntry) (time.Duration, error) {
	s, err := l.kv.Status(ctx)
	if err != nil {
		return 0, noAnswer(err)
	}
	return max(0, s.(*jetstream.KeyValueBucketStatus).StreamInfo().TimeStamp.Sub(e.Created())), nil
}

// take writes the lease, if nobody else has since.
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
	case refused(err) || errors.Is(err, jetstream.ErrKeyExists):
		return false, nil
	}
	return false, noAnswer(err)
}

// write stores a renewal. It returns its revision, and when it was sent.
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
	if _, same := l.sent[name]; !same { // else the first one counts
		l.sent[name] = l.now()
	}
	if revision == 0 {
		revision, err = l.kv.Create(ctx, keyLeader, data)
	} else {
		revision, err = l.kv.Update(ctx, keyLeader, data, revision)
	}
	return revision, l.sent[name], err
}

// renew keeps the lease until ctx ends, or another process has it, or it could not be renewed in time.
func (l *Lease) renew(ctx context.Context) {
	next := l.now() + l.o.Period/renewEvery
	for l.rest(ctx, next) {
		if !l.Leads() {
			l.log.Warn("the lease is over: it could not be renewed in time")
			close(l.expired)
			return
		}
		if !l.able() {
			l.log.Warn("the lease is not renewed: this director cannot do a leader's work")
			next = l.now() + l.o.Period/lookParts
			continue
		}
		try, cancel := context.WithTimeout(ctx, l.o.Period/renewEvery)
		revision, sent, err := l.write(try, l.revision)
		if err != nil {
			revision, sent, err = l.anew(try, err)
		}
		cancel()
		next = l.now() + l.o.Period/lookParts
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errTaken):
			l.log.Warn("another director has the lease")
			l.giveUp()
			close(l.expired)
			return
		case err != nil:
			l.log.Warn("the lease is not renewed yet", zap.Error(err))
		default:
			l.renewed(revision, sent)
			next = max(next, sent+l.o.Period/renewEvery)
		}
	}
}

func (l *Lease) able() bool { return l.o.Able == nil || l.o.Able() }

// rest waits until a time by clock, or the end of the lease, and reports whether ctx is still alive. It looks
// at the clock all the while: timers stand still while the machine is suspended.
func (l *Lease) rest(ctx context.Context, until time.Duration) bool {
	for ctx.Err() == nil {
		left := min(until-l.now(), l.left())
		if left <= 0 {
			return true
		}
		pause(ctx, min(left, longestTry))
	}
	return false
}

var errTaken = errors.New("bus: the lease is another's")

// anew is the renewal that counts after one has failed, with its revision and when it was sent: ours that is
// stored although its answer was lost, or one that is written where the server has lost the lease. Others wait
// for a period when they find none, and longer if they find this one.
func (l *Lease) anew(ctx context.Context, failed error) (uint64, time.Duration, error) {
	if !refused(failed) && !errors.Is(failed, jetstream.ErrNoStreamResponse) {
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
	case s.Values() > 0: // somebody has led since
		return 0, 0, errTaken
	}
	if !l.Leads() { // it would count for whoever has its lock, such as this process
		return 0, 0, errTaken
	}
	l.log.Warn("the server has lost the lease; it is written again")
	revision, sent, err := l.write(ctx, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.term.Leads(sent) { // it does not count: somebody may have led meanwhile, in a bucket that is gone, too
		return 0, 0, errTaken
	}
	return revision, sent, err
}

// now reads the clock that terms are measured by.
func (l *Lease) now() time.Duration {
	if l.clock == nil {
		return bootTime()
	}
	return l.clock()
}

// Leads: the lease is this process's, at this moment, by its own clock.
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

// renewed: what was sent is stored. Nothing that was sent before can be any more.
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

// Expired is closed when the lease is over although it was not given back.
func (l *Lease) Expired() <-chan struct{} { return l.expired }

// Me is who leads, once it does.
func (l *Lease) Me() Leader { return l.o.Me }

// Before tells the time of the leader before, as it goes on; ok is false if it is not known.
func (l *Lease) Before() (at time.Time, ok bool) {
	return l.theirs.Time.Add(l.age + l.now() - l.at), !l.theirs.Time.IsZero()
}

// Release gives the lease back: another director may lead at once.
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
	if refused(err) { // perhaps by our own last renewal, whose answer was not waited for
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
		l.log.Warn("the lease was not given back; others wait for its end", zap.Error(err))
	}
}
