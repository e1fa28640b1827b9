package recovery

import (
	"encoding/json"
	"reflect"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

// TestBreakerStory goes once around: three tasks fail, the canary fails, the next one succeeds, then the ramp.
func TestBreakerStory(t *testing.T) {
	r := DefaultBreaker
	var b Breaker
	at := func(d time.Duration, state BreakerState, limit int, allowed bool) {
		t.Helper()
		is, _ := b.Allow(r, after(d))
		if s, l := b.State(r, after(d)), b.Limit(r, after(d)); s != state || l != limit || is != allowed {
			t.Errorf("after %s: %s, limit %d, allowed %v; want %s, %d, %v", d, s, l, is, state, limit, allowed)
		}
	}
	b = b.Failed(r, after(0), "a").Failed(r, after(time.Minute), "a").Failed(r, after(2*time.Minute), "b")
	at(2*time.Minute, BreakerClosed, Unlimited, true) // one task, however often, is not an incident
	b = b.Failed(r, after(90*time.Minute), "c")
	at(90*time.Minute, BreakerOpen, 0, false)
	if end := b.NextDeadline(r, after(90*time.Minute)); end != after(91*time.Minute) {
		t.Errorf("open until %s", end)
	}
	b = b.Failed(r, after(90*time.Minute+30*time.Second), "d") // it ran already
	at(91*time.Minute, BreakerHalfOpen, 1, true)
	b = b.Dispatched(r, after(91*time.Minute), "e")
	at(91*time.Minute, BreakerHalfOpen, 1, false)
	b = b.Failed(r, after(92*time.Minute), "f") // not the canary
	at(92*time.Minute, BreakerHalfOpen, 1, false)
	b = b.Failed(r, after(93*time.Minute), "e")
	at(93*time.Minute, BreakerOpen, 0, false)
	at(94*time.Minute+59*time.Second, BreakerOpen, 0, false) // twice as long
	at(95*time.Minute, BreakerHalfOpen, 1, true)
	b = b.Dispatched(r, after(95*time.Minute), "a")
	b = b.Succeeded(r, after(96*time.Minute), "a")
	at(96*time.Minute, BreakerRamp, 2, true)
	at(97*time.Minute, BreakerRamp, 4, true)
	at(98*time.Minute, BreakerClosed, Unlimited, true)
	again := b.Failed(r, after(97*time.Minute), "b")
	if again.State(r, after(97*time.Minute)) != BreakerOpen || again.Until != after(101*time.Minute) {
		t.Errorf("a failure on the ramp: %+v", again)
	}
	b = b.Failed(r, after(3*time.Hour), "b")
	if b.State(r, after(3*time.Hour)) != BreakerClosed || b.Opened != 0 || !b.Since.IsZero() {
		t.Errorf("a failure after the ramp is the first of a new incident: %+v", b)
	}
}

func TestBreakerForgetsOldStrikes(t *testing.T) {
	r := DefaultBreaker
	b := Breaker{}.Failed(r, noon, "a").Failed(r, noon, "b").Failed(r, after(r.Window), "c")
	if b.State(r, after(r.Window)) != BreakerClosed {
		t.Errorf("%+v", b)
	}
	if b.Idle(r, after(r.Window)) || !b.Idle(r, after(3*r.Window)) {
		t.Errorf("idle: %+v", b)
	}
}

func TestBreakerGivesUpASilentCanary(t *testing.T) {
	r := DefaultBreaker
	b := Breaker{}.Failed(r, noon, "a").Failed(r, noon, "b").Failed(r, noon, "c").Dispatched(r, after(time.Minute), "d")
	if ok, until := b.Allow(r, after(2*time.Minute)); ok || until != after(time.Minute+r.CanaryFor) {
		t.Errorf("allowed %v, until %s", ok, until)
	}
	if ok, _ := b.Allow(r, after(time.Minute+r.CanaryFor)); !ok {
		t.Error("no second canary")
	}
	if ok, _ := b.Left("d").Allow(r, after(2*time.Minute)); !ok {
		t.Error("no second canary after the first was withdrawn")
	}
}

// TestBreakerHealsEarly: a task that failed with it and now succeeds shows that it is over.
func TestBreakerHealsEarly(t *testing.T) {
	r := DefaultBreaker
	b := Breaker{}.Failed(r, noon, "a").Failed(r, noon, "b").Failed(r, noon, "c")
	if s := b.Succeeded(r, after(time.Second), "z").State(r, after(time.Second)); s != BreakerOpen {
		t.Errorf("another task's success: %s", s)
	}
	if s := b.Succeeded(r, after(time.Second), "a").State(r, after(time.Second)); s != BreakerHalfOpen {
		t.Errorf("a struck task's success: %s", s)
	}
}

// TestBreakerAlwaysHeals: after any story, open is over within the cap, one canary is allowed, and if canaries succeed it
// closes; nothing is unbounded, and the JSON holds all.
func TestBreakerAlwaysHeals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := BreakerRules{
			Threshold: rapid.IntRange(1, maxStrikes).Draw(t, "threshold"), Canaries: rapid.IntRange(1, 4).Draw(t, "canaries"),
			Window: span(t, "window"), OpenFor: span(t, "open"), CanaryFor: span(t, "canary"), Step: span(t, "step"),
			RampTo: rapid.IntRange(1, 100).Draw(t, "ramp"),
		}
		r.Cap = max(r.OpenFor, span(t, "cap"))
		var b Breaker
		now := noon
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Hour)).Draw(t, "passes")))
			task := strconv.Itoa(rapid.IntRange(0, 40).Draw(t, "task"))
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0, 1:
				b = b.Failed(r, now, task)
			case 2:
				b = b.Succeeded(r, now, task)
			case 3:
				if ok, _ := b.Allow(r, now); ok {
					b = b.Dispatched(r, now, task)
				}
			}
			if len(b.Strikes) > maxStrikes || b.Until.Sub(now) > 2*LongestWait {
				t.Fatalf("%+v", b)
			}
			data, _ := json.Marshal(b)
			var back Breaker
			if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(b, back) {
				t.Fatalf("%s: %v\n%+v\n%+v", data, err, b, back)
			}
		}
		for range 1000 {
			if b.State(r, now) == BreakerClosed {
				return
			}
			if next := b.NextDeadline(r, now); !next.IsZero() {
				if !next.After(now) {
					t.Fatalf("deadline %s at %s", next, now)
				}
				now = next
			}
			if ok, _ := b.Allow(r, now); ok && b.State(r, now) == BreakerHalfOpen {
				b = b.Dispatched(r, now, "canary").Succeeded(r, now, "canary")
			}
		}
		t.Fatalf("never closes: %+v", b)
	})
}

func span(t *rapid.T, name string) time.Duration {
	return time.Duration(rapid.Int64Range(1, int64(LongestWait)).Draw(t, name))
}
