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

// TestBreakerStory follows one cycle: three tasks fail, a canary fails, the next one succeeds, and the ramp follows.
func TestBreakerStory(t *testing.T) {
	const unlimited = 100
	var b Breaker
	at := func(d time.Duration, state BreakerState, allowed int) {
		t.Helper()
		running := 0
		for running < unlimited && b.Allow(after(d), running) {
			running++
		}
		if s := b.State(after(d)); s != state || running != allowed {
			t.Errorf("after %s: %s, %d allowed; want %s, %d", d, s, running, state, allowed)
		}
	}
	b = b.Failed(after(0), "a").Failed(after(time.Minute), "a").Failed(after(2*time.Minute), "b")
	at(2*time.Minute, BreakerClosed, unlimited) // repeated failures of one task are not an incident
	b = b.Failed(after(90*time.Minute), "c")
	at(90*time.Minute, BreakerOpen, 0)
	if end := b.NextDeadline(after(90 * time.Minute)); end != after(91*time.Minute) {
		t.Errorf("open until %s", end)
	}
	b = b.Failed(after(90*time.Minute+30*time.Second), "d") // this task was already running
	at(91*time.Minute, BreakerHalfOpen, unlimited)
	b = b.Dispatched(after(91*time.Minute), "e")
	at(91*time.Minute, BreakerHalfOpen, 0)
	b = b.Failed(after(92*time.Minute), "f") // this is not the canary
	at(92*time.Minute, BreakerHalfOpen, 0)
	b = b.Failed(after(93*time.Minute), "e")
	at(93*time.Minute, BreakerOpen, 0)
	at(94*time.Minute+29*time.Second, BreakerOpen, 0) // 1.5 times as long
	at(94*time.Minute+30*time.Second, BreakerHalfOpen, unlimited)
	at(95*time.Minute, BreakerHalfOpen, unlimited)
	b = b.Dispatched(after(95*time.Minute), "a")
	b = b.Succeeded(after(96*time.Minute), "a")
	at(96*time.Minute, BreakerRamp, 2)
	at(97*time.Minute, BreakerRamp, 4)
	at(98*time.Minute, BreakerClosed, unlimited)
	again := b.Failed(after(97*time.Minute), "b").Failed(after(97*time.Minute), "b").Failed(after(97*time.Minute), "c")
	if again.State(after(97*time.Minute)) != BreakerRamp {
		t.Errorf("failures of two tasks on the ramp: %+v", again)
	}
	// the third consecutive opening
	if again = again.Failed(after(97*time.Minute), "d"); again.Until != after(99*time.Minute+15*time.Second) {
		t.Errorf("failures of three tasks on the ramp: %+v", again)
	}
	b = b.Failed(after(3*time.Hour), "b")
	if b.State(after(3*time.Hour)) != BreakerClosed || b.Opened != 0 || !b.Since.IsZero() {
		t.Errorf("a failure after the ramp is the first of a new incident: %+v", b)
	}
}

func TestBreakerForgetsOldStrikes(t *testing.T) {
	b := Breaker{}.Failed(noon, "a").Failed(noon, "b").Failed(after(breakerWindow), "c")
	if b.State(after(breakerWindow)) != BreakerClosed {
		t.Errorf("%+v", b)
	}
	if b.Idle(after(breakerWindow)) || !b.Idle(after(3*breakerWindow)) {
		t.Errorf("idle: %+v", b)
	}
}

func TestBreakerGivesUpASilentCanary(t *testing.T) {
	b := Breaker{}.Failed(noon, "a").Failed(noon, "b").Failed(noon, "c").Dispatched(after(time.Minute), "d")
	if b.Allow(after(2*time.Minute), 0) {
		t.Error("a second canary")
	}
	if until := b.NextDeadline(after(2 * time.Minute)); until != after(time.Minute+CanaryFor) {
		t.Errorf("until %s", until)
	}
	if !b.Allow(after(time.Minute+CanaryFor), 0) {
		t.Error("no second canary")
	}
	if !b.Left("d").Allow(after(2*time.Minute), 0) {
		t.Error("no second canary after the first was withdrawn")
	}
}

// TestBreakerHealsEarly checks that the success of a task that failed before ends the incident.
func TestBreakerHealsEarly(t *testing.T) {
	b := Breaker{}.Failed(noon, "a").Failed(noon, "b").Failed(noon, "c")
	if s := b.Succeeded(after(time.Second), "z").State(after(time.Second)); s != BreakerOpen {
		t.Errorf("another task's success: %s", s)
	}
	if s := b.Succeeded(after(time.Second), "a").State(after(time.Second)); s != BreakerHalfOpen {
		t.Errorf("a struck task's success: %s", s)
	}
}

// TestBreakerAlwaysHeals draws any history, and checks that the breaker's size and deadline are bounded, that JSON
// preserves it, and that it closes if each canary succeeds.
func TestBreakerAlwaysHeals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Breaker
		now := noon
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Hour)).Draw(t, "passes")))
			task := strconv.Itoa(rapid.IntRange(0, 40).Draw(t, "task"))
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0, 1:
				b = b.Failed(now, task)
			case 2:
				b = b.Succeeded(now, task)
			case 3:
				if b.Allow(now, 0) {
					b = b.Dispatched(now, task)
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
			if b.State(now) == BreakerClosed {
				return
			}
			if next := b.NextDeadline(now); !next.IsZero() {
				if !next.After(now) {
					t.Fatalf("deadline %s at %s", next, now)
				}
				now = next
			}
			if b.Allow(now, 0) && b.State(now) == BreakerHalfOpen {
				b = b.Dispatched(now, "canary").Succeeded(now, "canary")
			}
		}
		t.Fatalf("never closes: %+v", b)
	})
}
