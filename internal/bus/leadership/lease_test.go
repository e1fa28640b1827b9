package leadership

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// period is the period of leases. It exceeds the delay of a renewal on a busy machine.
const period = 8 * time.Second

// lessee returns the lease of a process that wants to lead. dir is "dir,lock", the name and the lock of its data
// directory.
func lessee(t *testing.T, js jetstream.JetStream, name, dir string, period time.Duration) *Lease {
	t.Helper()
	dir, lock, _ := strings.Cut(dir, ",")
	l, err := New(ctxFor(t), Bucket{JS: js, Name: "RETAKE_LEASE", Replicas: 1}, Options{
		Me: Leader{ID: name, RunID: name, Host: "host-" + name, Dir: dir, Lock: lock}, Period: period,
	}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if js.Conn().ConnectedAddr() == "pipe" { // in a bubble
		began := time.Now()
		l.clock = func() time.Duration { return time.Since(began) }
	}
	return l
}

// free releases a server's lease, so that the first process to arrive leads at once.
func free[S opener](t *testing.T, out S) S {
	t.Helper()
	before := lessee(t, out.open(t), "before", "d0", time.Second)
	if _, err := before.kv.Create(ctxFor(t), keyLeader, nil); err != nil {
		t.Fatal(err)
	}
	if err := before.kv.Delete(ctxFor(t), keyLeader); err != nil {
		t.Fatal(err)
	}
	return out
}

// awaits returns channels with Await's result and the reported leaders.
func awaits(t *testing.T, l *Lease) (leads chan error, led chan Leader) {
	leads, led = make(chan error, 1), make(chan Leader, 8)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		leads <- l.Await(ctx, func(leader Leader) { led <- leader })
	}()
	t.Cleanup(func() { cancel(); <-done; l.Release(context.Background()) })
	return leads, led
}

func TestOneLeadsAndTheOtherStandsBy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := startEmbedded(t)
		b := out.open(t)
		first, second := lessee(t, b, "first", "d1", period), lessee(t, out.open(t), "second", "d2", period)
		leads, _ := awaits(t, first)
		if err := <-leads; err != nil || !first.Leads() {
			t.Fatal(err)
		}
		leads, led := awaits(t, second)
		if l := <-led; l.ID != "first" || l.Host != "host-first" || l.Why == "" || l.Since.IsZero() {
			t.Errorf("it stands by for %+v", l)
		}
		select {
		case err := <-leads:
			t.Fatalf("two lead: %v", err)
		case <-time.After(2 * period):
		}
		first.Release(ctxFor(t))
		if err := <-leads; err != nil || !second.Leads() || first.Leads() {
			t.Errorf("after it was released: %v", err)
		}
		if why := second.Me().Why; !strings.Contains(why, "released the lease") {
			t.Errorf("why: %s", why)
		}
	})
}

// A leader that cannot renew knows that its lease is over before another process can take it, within two
// periods.
func TestALeaseThatIsNotRenewedIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := startEmbedded(t)
		b := out.open(t)
		first, second := lessee(t, b, "first", "d1", period), lessee(t, out.open(t), "second", "d2", period)
		leads, _ := awaits(t, first)
		if err := <-leads; err != nil {
			t.Fatal(err)
		}
		leads, led := awaits(t, second)
		<-led
		until(t, "a renewal was seen", func() bool { time.Sleep(period / 2); return true })
		began := time.Now()
		b.Conn().Close() // as if the network were cut
		select {
		case <-first.Expired():
		case <-leads:
			t.Error("the second one leads, and the first one does not know")
		}
		if first.Leads() {
			t.Error("its lease has expired, and it leads")
		}
		if err := <-leads; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*period {
			t.Errorf("it took %s", took)
		}
		if at, ok := second.Before(); !ok || time.Since(at).Abs() > period/2 {
			t.Errorf("the time continues at %s, %v", at, ok)
		}
		if why := second.Me().Why; !strings.Contains(why, "first on host-first has not renewed") {
			t.Errorf("why: %s", why)
		}
	})
}

// A process with the same data directory holds its lock, so the previous leader has ended and the lease is
// taken at once.
func TestASuccessorInTheSameFolderWaitsForNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startEmbedded(t))
		const period = time.Minute
		b := out.open(t)
		first := lessee(t, b, "first", "d1,lock", period)
		leads, _ := awaits(t, first)
		if err := <-leads; err != nil {
			t.Fatal(err)
		}
		// It is not taken at once with a copy of the directory, without a lock, or with another directory.
		for _, stranger := range []string{"d1,its own", "d1,", "d2,lock"} {
			l := lessee(t, out.open(t), stranger, stranger, period)
			if leads, err := l.try(ctxFor(t)); leads || err != nil {
				t.Errorf("%s: %v, %v; want it to wait", stranger, leads, err)
			}
		}
		began := time.Now()
		leads, _ = awaits(t, lessee(t, out.open(t), "again", "d1,lock", period))
		if err := <-leads; err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// TestTheLeaseIsGivenBackAlthoughARenewalWasUnderWay releases a lease after a renewal without an answer.
func TestTheLeaseIsGivenBackAlthoughARenewalWasUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startEmbedded(t))
		first, second := lessee(t, out.open(t), "first", "d1", time.Minute), lessee(t, out.open(t),
			"second", "d2", time.Minute)
		leads, _ := awaits(t, first)
		mustDo(t, <-leads)
		if _, _, err := first.write(ctxFor(t), first.revision); err != nil { // the result is dropped
			t.Fatal(err)
		}
		first.Release(ctxFor(t))
		if leads, err := second.try(ctxFor(t)); !leads || err != nil {
			t.Errorf("a free lease was not taken: %v", err)
		}
	})
}

// Take returns the leader as soon as it sees a renewal of the lease. If the lease is not renewed, it takes the lease.
func TestALeaseIsTakenOrNamesItsHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := startEmbedded(t)
		first := lessee(t, out.open(t), "first", "d1", period)
		if other, err := first.Take(ctxFor(t)); other != nil || err != nil {
			t.Fatal(other, err)
		}
		second := lessee(t, out.open(t), "second", "d2", period)
		if other, err := second.Take(ctxFor(t)); err != nil || other == nil || other.ID != "first" || second.Leads() {
			t.Errorf("%+v, %v", other, err)
		}
		first.stop() // as if it were killed
		<-first.stopped
		third := lessee(t, out.open(t), "third", "d3", period)
		if other, err := third.Take(ctxFor(t)); other != nil || err != nil {
			t.Errorf("the lease of a dead leader: %+v, %v", other, err)
		}
		third.Release(ctxFor(t))
	})
}

// TestTheTimeGoesOnFromTheFirstLook checks that a successor continues the leader's time even if it never saw a
// renewal, because the server knows the lease's age.
func TestTheTimeGoesOnFromTheFirstLook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startEmbedded(t))
		const ahead = 5 * time.Minute
		b := out.open(t)
		first := lessee(t, b, "first", "d1,its own", period)
		first.o.Now = func() time.Time { return time.Now().Add(ahead) }
		if held, err := first.try(ctxFor(t)); !held || err != nil {
			t.Fatal(held, err)
		}
		time.Sleep(period)
		for _, dir := range []string{"d2,its own", "d2,its own"} { // the second has the same lock and does not wait
			next := lessee(t, out.open(t), "next", dir, period)
			next.o.Now = first.o.Now
			held, _ := awaits(t, next)
			if err := <-held; err != nil {
				t.Fatal(err)
			}
			if at, ok := next.Before(); !ok || (time.Since(at)+ahead).Abs() > period/2 {
				t.Errorf("%s: the time continues at %s, %v; want %s ahead", next.Me().Why, at, ok, ahead)
			}
			next.stop()
			<-next.stopped
		}
	})
}

// deafBucket stores values and loses the answers.
type deafBucket struct {
	jetstream.KeyValue
	lost atomic.Int32 // remaining answers to lose
}

func (d *deafBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	at, err := d.KeyValue.Update(ctx, key, value, revision)
	if err == nil && d.lost.Add(-1) >= 0 {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return at, err
}

// TestALostAnswerCostsNoTerm checks that a stored renewal counts from when it was sent, even if the answer is lost.
func TestALostAnswerCostsNoTerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startEmbedded(t))
		const period = 8 * time.Second
		l := lessee(t, out.open(t), "first", "d1", period)
		deaf := &deafBucket{KeyValue: l.kv}
		l.kv = deaf
		leads, _ := awaits(t, l)
		if err := <-leads; err != nil {
			t.Fatal(err)
		}
		deaf.lost.Store(3) // three consecutive answers
		until(t, "the answers are lost", func() bool { return deaf.lost.Load() <= 0 || !l.Leads() })
		select {
		case <-l.Expired():
			t.Errorf("the term is over, with %d answers left to lose", deaf.lost.Load())
		case <-time.After(period):
		}
		if left := l.left(); left > period {
			t.Errorf("the lease lasts for %s more: longer than a period after it was sent", left)
		}
	})
}

// A sleeping machine stops the timers of its processes, but not the lease. A process that was suspended notices
// soon after it resumes.
func TestWhoWasSuspendedKnowsSoon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startEmbedded(t))
		l := lessee(t, out.open(t), "first", "d1", time.Minute)
		leads, _ := awaits(t, l)
		if err := <-leads; err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // until it waits for its next renewal
		l.giveUp()                         // its term has ended by the clock
		select {
		case <-l.Expired():
		case <-time.After(5 * time.Second):
			t.Error("it does not know that its lease is over")
		}
	})
}

// TestWhoStandsByLeadsAfterAWipe checks a takeover after the leader has died and the server has lost everything.
func TestWhoStandsByLeadsAfterAWipe(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	const period = time.Second
	first, second := lessee(t, out.open(t), "first", "d1", period), lessee(t, out.open(t),
		"second", "d2", period)
	leads, _ := awaits(t, first)
	if err := <-leads; err != nil {
		t.Fatal(err)
	}
	leads, led := awaits(t, second)
	<-led
	first.stop() // as if it were killed
	<-first.stopped
	out.Wipe()
	select {
	case err := <-leads:
		if err != nil || !second.Leads() {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("nobody leads")
	}
	if at, ok := second.Before(); !ok || time.Since(at).Abs() > 500*time.Millisecond {
		t.Errorf("the time continues at %s, %v", at, ok)
	}
}

// A server without a lease may have lost it, so a newcomer waits for as long as a lease can last.
func TestAStartAfterAWipeLeavesTheTermBeforeItsTime(t *testing.T) {
	t.Parallel()
	out := free(t, startOutside(t))
	const period = 4 * time.Second
	first := lessee(t, out.open(t), "first", "d1", period)
	leads, _ := awaits(t, first)
	if err := <-leads; err != nil {
		t.Fatal(err)
	}
	first.stop() // it still holds its lease but does not renew it
	<-first.stopped
	out.Wipe()
	leads, _ = awaits(t, lessee(t, out.open(t), "second", "d2", period))
	if err := <-leads; err != nil || first.Leads() {
		t.Errorf("two lead: %v", err)
	}
}

// TestALeaseThatCannotBeOpenedIsNone checks that a director stopped during an outage does not get a lease, because a
// lease without a bucket must not be used.
func TestALeaseThatCannotBeOpenedIsNone(t *testing.T) {
	t.Parallel()
	js := startEmbedded(t).open(t)
	ended, end := context.WithCancel(t.Context())
	end()
	bucket := Bucket{JS: js, Name: "RETAKE_LEASE", Replicas: 1}
	if l, err := New(ended, bucket, Options{Period: period}, zap.NewNop()); l != nil || err == nil {
		t.Errorf("a lease: %t, %v; want an error", l != nil, err)
	}
}
