package recovery

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyBackoff draws backoffs that no one should configure, too.
func anyBackoff(t *rapid.T) Backoff {
	return Backoff{
		Linear:  rapid.Bool().Draw(t, "linear"),
		Initial: time.Duration(rapid.Int64().Draw(t, "initial")),
		Max:     time.Duration(rapid.Int64().Draw(t, "max")),
		Factor: rapid.OneOf(rapid.Float64(), rapid.Float64Range(1, 10),
			rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1})).Draw(t, "factor"),
		Jitter: rapid.SampledFrom([]Jitter{FullJitter, EqualJitter, NoJitter, "", "odd"}).Draw(t, "jitter"),
	}
}

func anyPolicy(t *rapid.T) Policy {
	p := Policy{
		Name:       "any",
		Rows:       map[Reason]Row{},
		MaxRetries: rapid.IntRange(-1, 10).Draw(t, "max_retries"),
		Backoff:    anyBackoff(t),
		DefaultFor: time.Duration(rapid.Int64().Draw(t, "default_for")),
	}
	for _, a := range Reasons {
		if rapid.Bool().Draw(t, "has row") {
			p.Rows[a.Reason] = Row{
				Reason:  a.Reason,
				Action:  rapid.SampledFrom([]Action{WaitReset, Retry, RestartWorker, Escalate, ""}).Draw(t, "action"),
				Retries: rapid.IntRange(-2, 25).Draw(t, "retries"),
				Longest: time.Duration(rapid.Int64().Draw(t, "longest")),
			}
		}
	}
	return p
}

func anyReason(t *rapid.T) Reason {
	if rapid.IntRange(0, 20).Draw(t, "unlisted") == 0 {
		return "no such reason"
	}
	return rapid.SampledFrom(Reasons).Draw(t, "reason").Reason
}

func TestBackoffStaysWithinCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, n := anyBackoff(t), rapid.Int().Draw(t, "n")
		lo, hi := b.Range(n)
		if lo < 0 || lo > hi || hi > max(b.Max, 0) {
			t.Fatalf("Range(%d) = %d, %d of %+v", n, lo, hi, b)
		}
	})
}

func TestDelayIsWithinRangeAndRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, n, seed := anyBackoff(t), rapid.Int().Draw(t, "n"), rapid.String().Draw(t, "seed")
		lo, hi := b.Range(n)
		d := b.Delay(n, seed)
		if d < lo || d > hi {
			t.Fatalf("Delay(%d) = %d, want within [%d, %d] of %+v", n, d, lo, hi, b)
		}
		if again := b.Delay(n, seed); again != d {
			t.Fatalf("Delay(%d) = %d, then %d", n, d, again)
		}
	})
}

func TestBackoffIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := anyBackoff(t)
		n := rapid.IntRange(-5, 1<<30).Draw(t, "n")
		m := rapid.IntRange(n, 1<<31).Draw(t, "m")
		_, before := b.Range(n)
		_, after := b.Range(m)
		if after < before {
			t.Fatalf("retry %d waits up to %d, retry %d only %d (%+v)", n, before, m, after, b)
		}
	})
}

// TestFullJitterSpreads: delays of many tasks must not fall together.
func TestFullJitterSpreads(t *testing.T) {
	seen := map[time.Duration]bool{}
	var sum time.Duration
	const tasks = 1000
	for i := range tasks {
		d := DefaultBackoff.Delay(6, string(rune('a'+i%26))+string(rune(i)))
		seen[d] = true
		sum += d
	}
	if len(seen) < tasks*9/10 {
		t.Errorf("%d different delays of %d", len(seen), tasks)
	}
	if mean := sum / tasks; mean < 13*time.Second || mean > 17*time.Second {
		t.Errorf("mean of [0, 30 s] is %s", mean)
	}
}

// TestNoPolicyRetriesForEver plays any policy against a long stream of failures: attempts and free waits end.
func TestNoPolicyRetriesForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		tally := Tally{ByReason: map[Reason]int{}}
		charged, free := 0, map[Reason]int{}
		for _, r := range rapid.SliceOfN(rapid.Custom(anyReason), 1, 300).Draw(t, "failures") {
			f := Finding{Reason: r, RetryAfter: time.Duration(rapid.Int64Range(-1, int64(8*time.Hour)).Draw(t, "retry_after"))}
			v := p.Decide(f, tally, "seed")
			checkVerdict(t, p, f, tally, v)
			switch {
			case v.Action == WaitReset:
				free[r]++
			case v.Action.Again():
				charged++
				tally.Redispatches++
			default:
				continue
			}
			tally.ByReason[r]++
			if charged > max(p.MaxRetries, 0) || free[r] > 25 {
				t.Fatalf("%d attempts of %d, %d waits for %s", charged, p.MaxRetries, free[r], r)
			}
		}
	})
}

// checkVerdict holds for every verdict of every policy.
func checkVerdict(t *rapid.T, p Policy, f Finding, tally Tally, v Verdict) {
	row, ok := p.Rows[f.Reason]
	if !ok {
		row = p.Rows[Unknown]
	}
	if v.Why == "" || v.Reason != f.Reason || v.Delay < 0 {
		t.Fatalf("%+v", v)
	}
	if !v.Action.Again() {
		if v.Delay != 0 || v.Charges != "" {
			t.Fatalf("an end that waits or charges: %+v", v)
		}
		return
	}
	if tally.ByReason[f.Reason] >= row.Retries {
		t.Fatalf("%+v has no room in %+v", v, row)
	}
	if v.Delay > max(p.Backoff.Max, row.Longest, 0) {
		t.Fatalf("waits %s, past the caps of %+v and %+v", v.Delay, p.Backoff, row)
	}
	if row.Longest > 0 && v.Delay < f.RetryAfter {
		t.Fatalf("waits %s, was told %s", v.Delay, f.RetryAfter)
	}
	if v.Action == WaitReset {
		if v.Charges != "" || v.Delay == 0 {
			t.Fatalf("a wait that charges or does not wait: %+v", v)
		}
		return
	}
	if tally.Redispatches >= p.MaxRetries || v.Charges == "" {
		t.Fatalf("%+v of tally %+v", v, tally)
	}
}

func TestDecideRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		f := Finding{Reason: anyReason(t), RetryAfter: time.Duration(rapid.Int64().Draw(t, "retry_after"))}
		tally := Tally{ByReason: map[Reason]int{f.Reason: rapid.IntRange(-3, 5).Draw(t, "used")}, Redispatches: rapid.IntRange(-3, 5).Draw(t, "redispatches")}
		if a, b := p.Decide(f, tally, "s"), p.Decide(f, tally, "s"); a != b {
			t.Fatalf("%+v, then %+v", a, b)
		}
	})
}

// TestNegativeTallyGivesNothing: a damaged counter must not buy attempts.
func TestNegativeTallyGivesNothing(t *testing.T) {
	p := DirectorPolicy(3, DefaultBackoff)
	fresh := p.Decide(Finding{Reason: Overloaded}, Tally{}, "s")
	odd := p.Decide(Finding{Reason: Overloaded}, Tally{ByReason: map[Reason]int{Overloaded: -7}, Redispatches: -7}, "s")
	if fresh != odd {
		t.Errorf("%+v, want %+v", odd, fresh)
	}
}

// TestDirectorPolicy names every reason once: what a first failure leads to, how often, and to which meter.
func TestDirectorPolicy(t *testing.T) {
	rows := []struct {
		reason  Reason
		action  Action
		retries int
		charges Cause
	}{
		{RateLimited, WaitReset, 20, ""},
		{QuotaExhausted, WaitReset, 3, ""},
		{Overloaded, Retry, 3, Infrastructure},
		{NetworkTransient, Retry, 3, Infrastructure},
		{NetworkPermanent, Escalate, 0, ""},
		{ContextOverflow, Escalate, 0, ""},
		{AuthError, Escalate, 0, ""},
		{PermissionDenied, Escalate, 0, ""},
		{ToolNotFound, Escalate, 0, ""},
		{InvalidConfig, Escalate, 0, ""},
		{Validation, Escalate, 0, ""},
		{BuildFailed, Escalate, 0, ""},
		{TestsFailed, Escalate, 0, ""},
		{LintFailed, Escalate, 0, ""},
		{GitConflict, Escalate, 0, ""},
		{DockerDaemon, Retry, 3, Infrastructure},
		{ImagePullFailed, Retry, 2, Infrastructure},
		{OOMKilled, RestartWorker, 1, Infrastructure},
		{DiskFull, Retry, 1, Infrastructure},
		{Timeout, RestartWorker, 1, Infrastructure},
		{WorkerLost, RestartWorker, 2, Infrastructure},
		{BusDisconnect, Retry, 3, Infrastructure},
		{PolicyViolation, Escalate, 0, ""},
		{ScopeViolation, Escalate, 0, ""},
		{ContractViolation, Escalate, 0, ""},
		{NeedsHuman, Escalate, 0, ""},
		{CorruptState, Escalate, 0, ""},
		{AgentCrash, Retry, 1, Agent},
		{NoProgress, Retry, 1, Agent},
		{Unknown, Retry, 1, Agent},
	}
	p := DirectorPolicy(100, DefaultBackoff)
	if len(rows) != len(Reasons) || len(p.Rows) != len(Reasons) {
		t.Fatalf("%d rows here and %d in the policy for %d reasons", len(rows), len(p.Rows), len(Reasons))
	}
	for i, want := range rows {
		if want.reason != Reasons[i].Reason {
			t.Errorf("row %d is %s, Reasons has %s", i, want.reason, Reasons[i].Reason)
		}
		if v := p.Decide(Finding{Reason: want.reason}, Tally{}, "s"); v.Action != want.action || v.Charges != want.charges {
			t.Errorf("%s: %s charging %q, want %s charging %q", want.reason, v.Action, v.Charges, want.action, want.charges)
		}
		tally := Tally{ByReason: map[Reason]int{}}
		for p.Decide(Finding{Reason: want.reason}, tally, "s").Action.Again() {
			tally.ByReason[want.reason]++
		}
		if got := tally.ByReason[want.reason]; got != want.retries {
			t.Errorf("%s: %d retries, want %d", want.reason, got, want.retries)
		}
	}
}

func TestDecideWaits(t *testing.T) {
	p := DirectorPolicy(3, Backoff{Initial: time.Second, Max: 30 * time.Second, Factor: 2, Jitter: NoJitter})
	for _, tc := range []struct {
		name       string
		reason     Reason
		used       int
		retryAfter time.Duration
		action     Action
		delay      time.Duration
	}{
		{"a stated reset is waited for exactly", RateLimited, 0, 95 * time.Second, WaitReset, 95 * time.Second},
		{"nothing stated: a minute", RateLimited, 0, 0, WaitReset, time.Minute},
		{"nothing stated again: doubled", RateLimited, 2, 0, WaitReset, 4 * time.Minute},
		{"nothing stated for long: an hour at most", RateLimited, 19, 0, WaitReset, time.Hour},
		{"a negative wait is none", RateLimited, 0, -time.Hour, WaitReset, time.Minute},
		{"a reset too far away", RateLimited, 0, 7 * time.Hour, Escalate, 0},
		{"backoff doubles", NetworkTransient, 2, 0, Retry, 4 * time.Second},
		{"an overloaded provider's Retry-After is obeyed past the backoff's cap", Overloaded, 0, 5 * time.Minute, Retry, 5 * time.Minute},
		{"a short Retry-After does not shorten the backoff", Overloaded, 2, time.Second, Retry, 4 * time.Second},
		{"a Retry-After of hours: a human is sooner", Overloaded, 0, 2 * time.Hour, Escalate, 0},
		{"a row that looks at no stated wait", AgentCrash, 0, 2 * time.Hour, Retry, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := p.Decide(Finding{Reason: tc.reason, RetryAfter: tc.retryAfter}, Tally{ByReason: map[Reason]int{tc.reason: tc.used}}, "s")
			if v.Action != tc.action || v.Delay != tc.delay {
				t.Errorf("%s after %s, want %s after %s (%s)", v.Action, v.Delay, tc.action, tc.delay, v.Why)
			}
		})
	}
}

// TestMaxRetriesCapsAllCauses: different reasons share the cap on re-dispatches, waits for a limit don't count.
func TestMaxRetriesCapsAllCauses(t *testing.T) {
	p := DirectorPolicy(3, DefaultBackoff)
	if v := p.Decide(Finding{Reason: WorkerLost}, Tally{Redispatches: 3}, "s"); v.Action != Escalate {
		t.Errorf("worker_lost after three re-dispatches: %+v", v)
	}
	if v := p.Decide(Finding{Reason: RateLimited}, Tally{Redispatches: 3}, "s"); v.Action != WaitReset {
		t.Errorf("rate_limited after three re-dispatches: %+v", v)
	}
}

func BenchmarkDecide(b *testing.B) {
	p := DirectorPolicy(3, DefaultBackoff)
	f := Finding{Reason: NetworkTransient}
	tally := Tally{ByReason: map[Reason]int{NetworkTransient: 1}, Redispatches: 1}
	b.ReportAllocs()
	for b.Loop() {
		p.Decide(f, tally, "k3v9qx2m-2")
	}
}
