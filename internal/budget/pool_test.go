package budget

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
)

const model = "model.anthropic"

var t0 = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// at returns a time, in seconds of the test's clock.
func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

// expect asks for a lease. It compares the answer with "lease", or with a reason and its wait in seconds.
func expect(t *testing.T, p *Pool, now float64, worker, want string) Grant {
	t.Helper()
	g := p.Acquire(at(now), model, worker)
	got := "lease"
	if g.ID == "" {
		got = fmt.Sprintf("%s %v", g.Why, g.Wait.Seconds())
	}
	if got != want {
		t.Fatalf("%s at %v: got %s, want %s", worker, now, got, want)
	}
	return g
}

// reference is the founding harness's configuration: one call at a time, a second apart, ten seconds after an error.
var reference = Limits{MaxConcurrent: 1, Spacing: time.Second, Cooldown: 10 * time.Second}

func TestOneAtATime(t *testing.T) {
	p := New("run_1", reference)
	a := expect(t, p, 0, "a", "lease")
	if a.ID != "run_1.1" || a.Lease != 2*time.Minute || !p.Own(a.ID) || p.Own("run_0.1") || p.Own("run_1.x") {
		t.Errorf("%+v", a)
	}
	expect(t, p, 0.1, "b", "busy 1")
	expect(t, p, 0.2, "c", "queue 1")
	p.Release(at(0.5), a.ID, "b") // b does not hold the lease
	expect(t, p, 0.6, "b", "busy 1")
	p.Release(at(0.7), a.ID, "a")
	expect(t, p, 0.8, "c", "queue 1")     // b was first
	expect(t, p, 0.9, "b", "spacing 0.1") // a began at 0
	b := expect(t, p, 1, "b", "lease")
	p.Release(at(1.1), b.ID, "b")
	expect(t, p, 1.2, "b", "queue 1") // c was first, and b had its turn
	expect(t, p, 2, "c", "lease")
}

func TestPlaceIsKeptForAWhile(t *testing.T) {
	p := New("run_1", reference)
	a := expect(t, p, 0, "a", "lease")
	expect(t, p, 0, "gone", "busy 1")
	expect(t, p, 0, "patient", "queue 1")
	p.Release(at(2), a.ID, "a")
	expect(t, p, 3, "patient", "queue 1") // the other worker may still be late
	expect(t, p, 5.9, "patient", "queue 1")
	expect(t, p, 6.1, "patient", "lease")
}

func TestLeaseExpires(t *testing.T) {
	p := New("run_1", Limits{Lease: 10 * time.Second})
	a := expect(t, p, 0, "a", "lease")
	expect(t, p, 5, "b", "busy 1")
	expect(t, p, 9.6, "b", "busy 0.4")
	expect(t, p, 10, "b", "lease")
	p.Release(at(11), a.ID, "a") // too late to have an effect
	expect(t, p, 11, "c", "busy 1")
	if r := p.resources; len(r) != 1 || len(r[0].leases) != 1 || r[0].leases[0].Worker != "b" || len(r[0].queue) != 1 ||
		r[0].queue[0].worker != "c" {
		t.Errorf("%+v", r[0])
	}
}

func TestCooldown(t *testing.T) {
	p := New("run_1", Limits{MaxConcurrent: 3, Spacing: time.Second, Cooldown: 10 * time.Second})
	a := expect(t, p, 0, "a", "lease")
	b := expect(t, p, 1, "b", "lease")
	if c := p.Report(at(2), a.ID, "b", RateLimited, time.Hour); c != nil {
		t.Errorf("b reported for a: %+v", c)
	}
	if c := p.Report(at(2), a.ID, "a", RateLimited, 30*time.Second); c == nil ||
		*c != (Cooldown{model, at(32), "rate_limited"}) {
		t.Errorf("%+v", c)
	}
	if c := p.Report(at(3), b.ID, "b", Failed, 0); c != nil {
		t.Errorf("10 s are less than the remaining time: %+v", c)
	}
	p.Release(at(4), a.ID, "a")
	p.Release(at(4), b.ID, "b")
	expect(t, p, 12, "c", "cooldown 20")
	expect(t, p, 12, "d", "cooldown 21") // the workers must not return together
	c := expect(t, p, 32, "c", "lease")
	expect(t, p, 33, "d", "busy 1") // the first call after a cooldown is alone …
	p.Report(at(34), c.ID, "c", OK, 0)
	expect(t, p, 34, "d", "lease") // … until it has gone well
	expect(t, p, 35, "e", "lease")
}

func TestCooldownWithoutAWordEndsByTheLimits(t *testing.T) {
	p := New("run_1", reference)
	a := expect(t, p, 0, "a", "lease")
	if c := p.Report(at(1), a.ID, "a", Failed, 0); c == nil || c.Until != at(11) || c.Why != "error" {
		t.Errorf("%+v", c)
	}
	if c := p.Report(at(1), a.ID, "a", RateLimited, 1000*time.Hour); c == nil || c.Until != at(1).Add(24*time.Hour) {
		t.Errorf("longer than the maximum: %+v", c)
	}
}

func TestCloseAndAdopt(t *testing.T) {
	p := New("local", reference)
	p.Close(model, at(60))
	if p.Close(model, at(30)) {
		t.Error("made shorter")
	}
	expect(t, p, 0, "a", "cooldown 60")
	p.Adopt(at(60), model, "run_1.7", "a", time.Minute)
	expect(t, p, 61, "a", "busy 1")
	p.Release(at(62), "run_1.7", "a")
	expect(t, p, 63, "a", "lease")
	if r := p.resources[0]; r.closed != at(60) {
		t.Errorf("%+v", r)
	}
}

// TestNote returns the requested cooldown to the owner. Until the owner decides, one lease is granted at a time.
func TestNote(t *testing.T) {
	p := New("run_1", Limits{MaxConcurrent: 3, Cooldown: 10 * time.Second})
	a := expect(t, p, 0, "a", "lease")
	if c := p.Note(at(1), a.ID, "a", RateLimited, time.Hour); c == nil ||
		*c != (Cooldown{model, at(3601), "rate_limited"}) {
		t.Errorf("%+v", c)
	}
	expect(t, p, 1, "b", "busy 1")
	p.Release(at(2), a.ID, "a")
	b := expect(t, p, 2, "b", "lease")
	if c := p.Note(at(3), b.ID, "b", OK, 0); c != nil {
		t.Errorf("%+v", c)
	}
	expect(t, p, 3, "c", "lease")
}

// TestOpen: an operator ends a cooldown. Places kept for its end do not block new requests.
func TestOpen(t *testing.T) {
	p := New("run_1", Limits{MaxConcurrent: 3})
	p.Expire(at(0))
	p.Close(model, at(3600))
	expect(t, p, 0, "gone", "cooldown 3600")
	expect(t, p, 1, "here", "cooldown 3599")
	p.Open(at(2), model)
	expect(t, p, 3, "here", "queue 1")
	for now := 4.0; now < 37; now++ {
		expect(t, p, now, "here", "queue 1")
	}
	expect(t, p, 37.1, "here", "lease") // 30 s between rare requests, and 5 s of tolerance
	expect(t, p, 38, "next", "busy 1")  // only one first call
	p.Open(at(39), "model.none")
}

func TestDrop(t *testing.T) {
	p := New("run_1", Limits{MaxConcurrent: 2})
	a := expect(t, p, 0, "a", "lease")
	expect(t, p, 0, "b", "lease")
	expect(t, p, 0, "a", "busy 1")
	if held := p.Drop(at(0), "a"); !slices.Equal(held, []string{a.ID}) {
		t.Errorf("%q", held)
	}
	expect(t, p, 0, "c", "lease")
}

func TestTimeNeverGoesBack(t *testing.T) {
	p := New("run_1", Limits{Lease: 10 * time.Second})
	expect(t, p, 0, "a", "lease")
	expect(t, p, 11, "b", "lease")
	expect(t, p, 0, "c", "busy 1")
	expect(t, p, 21, "c", "lease")
}

func TestBounds(t *testing.T) {
	p := New("run_1", Limits{Lease: time.Hour})
	why := func(name, worker string) string { return p.Acquire(t0, name, worker).Why }
	for i := range maxPerWorker {
		if got := why(fmt.Sprintf("model.mad%d", i), "mad"); got != "" {
			t.Fatalf("lease %d: %s", i, got)
		}
	}
	if got := why("model.more", "mad"); got != WhyFull {
		t.Errorf("one worker's share: %q", got)
	}
	if got := why("model.more", "sane"); got != "" {
		t.Errorf("another worker: %q", got)
	}
	for i := range maxQueue {
		if got := why("model.more", fmt.Sprint("w", i)); got != WhyBusy && got != WhyQueue {
			t.Fatalf("place %d: %q", i, got)
		}
	}
	if got := why("model.more", "late"); got != WhyFull {
		t.Errorf("the queue's end: %q", got)
	}
	for i := range maxResources {
		why(fmt.Sprintf("model.r%d", i), fmt.Sprint("v", i))
	}
	if n := len(p.resources); n != maxResources {
		t.Errorf("%d resources", n)
	}
	if got := why("model.new", "late"); got != WhyFull {
		t.Errorf("one resource too many: %q", got)
	}
	if p.Drop(t0, "v3"); why("model.new", "late") != "" {
		t.Error("a new resource did not replace the idle one")
	}
	if !slices.IsSortedFunc(p.resources, func(a, b *resource) int { return strings.Compare(a.name, b.name) }) {
		t.Error("not by name")
	}
}

func TestResourceNames(t *testing.T) {
	p := New("run_1", reference)
	for name, ok := range map[string]bool{
		DefaultResource: true, "model.open-ai_2.x": true, "": false, "model.": false, "github.write": false,
		"model.a b":                         false,
		"model." + string(make([]byte, 65)): false,
	} {
		if err := CheckResource(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if g := p.Acquire(t0, name, "w-"+name); ok != (g.ID != "") || !ok && g.Why != WhyName {
			t.Errorf("%q: %+v", name, g)
		}
	}
}

func TestMessages(t *testing.T) {
	want := wire.BudgetGrant{WaitSeconds: 12.5, Why: "cooldown"}
	if got := (Grant{Wait: 12500 * time.Millisecond, Why: WhyCooldown}).Message(); got != want {
		t.Errorf("%+v", got)
	}
	for said, want := range map[float64]time.Duration{1.5: 1500 * time.Millisecond, -1: 0, 1e300: 24 * time.Hour} {
		if got := RetryAfter(wire.BudgetReport{RetryAfterSeconds: &said}); got != want {
			t.Errorf("%v: %v, want %v", said, got, want)
		}
	}
	if got := RetryAfter(wire.BudgetReport{}); got != 0 {
		t.Errorf("not said: %v", got)
	}
}
