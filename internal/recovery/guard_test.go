package recovery

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestGuardsVeto: each guard can forbid a retry, and is then what is recorded.
func TestGuardsVeto(t *testing.T) {
	zero, one := 0, 1
	limits := Limits{MaxRetries: 3, MaxConsecutiveErrors: 5, IterationBudget: 10, PaidCallBudget: 4, CostBudgetUSD: 2.5}
	p := preset(t, "director").With(limits)
	for _, tc := range []struct {
		name   string
		reason Reason
		tally  Tally
		facts  Facts
		action Action
		veto   string
		why    string
	}{
		{"nothing used", WorkerLost, Tally{}, Facts{}, RestartWorker, "", "worker_lost: 1 of 2"},
		{"retries over all causes", WorkerLost, Tally{Redispatches: 3}, Facts{}, Escalate, "max_retries", "director.max_retries = 3 used up over all causes"},
		{"a wait for a limit is no retry", RateLimited, Tally{Redispatches: 3}, Facts{}, WaitReset, "", "rate_limited: no reset is stated: wait 1m"},
		{"iterations", WorkerLost, Tally{Iterations: 10}, Facts{}, Escalate, "iteration_budget", "budget of 10 is used up"},
		{"refunded iterations", WorkerLost, Tally{Iterations: 10, Refunded: 1}, Facts{}, RestartWorker, "", ""},
		{"a wait for a limit is an iteration", RateLimited, Tally{Iterations: 10}, Facts{}, Escalate, "iteration_budget", ""},
		{"paid calls", WorkerLost, Tally{PaidCalls: 4}, Facts{}, Escalate, "paid_call_budget", "4 paid calls"},
		{"cost", WorkerLost, Tally{CostUSD: 2.5}, Facts{}, Escalate, "cost_budget", "2.50 USD"},
		{"errors in a row", WorkerLost, Tally{Consecutive: 5}, Facts{}, Escalate, "consecutive_errors", "6 errors in a row, more than 5"},
		{"as many as are borne", WorkerLost, Tally{Consecutive: 4}, Facts{}, RestartWorker, "", ""},
		{"a wait is no error", RateLimited, Tally{Consecutive: 5}, Facts{}, WaitReset, "", ""},
		{"another budget", WorkerLost, Tally{}, Facts{BudgetLeft: &zero}, Escalate, "budget", "nothing is left"},
		{"the last of another budget", WorkerLost, Tally{}, Facts{BudgetLeft: &one}, RestartWorker, "", ""},
		{"the engine", RateLimited, Tally{Granted: engineCap}, Facts{}, Escalate, "engine", "100 attempts"},
		{"an end needs no guard", AuthError, Tally{Redispatches: 9, PaidCalls: 9, CostUSD: 9}, Facts{}, Escalate, "", "a retry cannot help"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := p.Decide(Finding{Reason: tc.reason}, tc.tally, tc.facts, "s")
			if v.Action != tc.action || v.Veto != tc.veto || !strings.Contains(v.Why, tc.why) {
				t.Errorf("%+v, want %s, veto %q, why %q", v, tc.action, tc.veto, tc.why)
			}
			if v.Veto != "" && (v.Charges != "" || v.Delay != 0 || v.Cools != "") {
				t.Errorf("a veto that charges: %+v", v)
			}
		})
	}
}

// TestEngineEndsWhatNoGuardDoes: a policy without any bound grants as much as the engine allows, whatever the units.
func TestEngineEndsWhatNoGuardDoes(t *testing.T) {
	for _, count := range []Unit{ByRow, ByCall, ByTask, BySignature, BySession} {
		for _, action := range []Action{WaitReset, Retry, RetryAlternative} {
			p := newPolicy("endless", []Row{{On: "*", Count: count, Charges: Free, Ladder: []Rung{{Action: action, Times: Unlimited}}}})
			var tally Tally
			granted := 0
			for i := range 3 * engineCap {
				f := Finding{Reason: Reasons[i%len(Reasons)].Reason, Signature: "sig:" + strings.Repeat("x", i%70)}
				v := p.Decide(f, tally, Facts{}, "s")
				if tally = tally.After(f, v).Use(Usage{CacheHits: 5}).Succeeded(); v.Action.Again() {
					granted++
				}
			}
			if granted != engineCap {
				t.Errorf("by %s: %s was granted %d times", count, action, granted)
			}
		}
	}
}

// TestContinueOnError: nothing ends the run.
func TestContinueOnError(t *testing.T) {
	p := preset(t, "prp").With(Limits{MaxRetries: Unlimited, ContinueOnError: true})
	for _, about := range Reasons {
		for _, caller := range []string{"", "initializeSession", "decomposePRD"} {
			v, _ := story(p, Finding{Reason: about.Reason}, Facts{Caller: caller}, 6)
			if v.Fatal || v.Action == Abort || v.Action == Stop {
				t.Errorf("%s in %q: %+v", about.Reason, caller, v)
			}
		}
	}
	if v := preset(t, "prp").Decide(Finding{Reason: CorruptState}, Tally{}, Facts{}, "s"); v.Action != Abort || !v.Fatal {
		t.Errorf("without it: %+v", v)
	}
}

// TestWaitRestartsTheBackoff: after a wait for a limit other retries wait from the first step on; their number stands.
func TestWaitRestartsTheBackoff(t *testing.T) {
	p, tally := preset(t, "gdd"), Tally{}
	for _, tc := range []struct {
		reason   Reason
		stated   time.Duration
		lo, hi   time.Duration
		leadsTo  Action
		reasonIs Reason
	}{
		{NetworkTransient, 0, 80 * time.Millisecond, 120 * time.Millisecond, Retry, NetworkTransient},
		{NetworkTransient, 0, 160 * time.Millisecond, 240 * time.Millisecond, Retry, NetworkTransient},
		{RateLimited, time.Minute, time.Minute + 80*time.Millisecond, time.Minute + 120*time.Millisecond, WaitReset, RateLimited},
		{NetworkTransient, 0, 80 * time.Millisecond, 120 * time.Millisecond, Retry, NetworkTransient},
		{NetworkTransient, 0, 0, 0, Escalate, NetworkPermanent},
	} {
		f := Finding{Reason: tc.reason, RetryAfter: tc.stated}
		v := p.Decide(f, tally, Facts{}, "s")
		if v.DelayMin != tc.lo || v.DelayMax != tc.hi || v.Action != tc.leadsTo || v.Reason != tc.reasonIs {
			t.Errorf("%+v, want %+v", v, tc)
		}
		tally = tally.After(f, v)
	}
}

// TestAbsentRungs: a rung whose condition came to fail by being taken does not take the next one's place away.
func TestAbsentRungs(t *testing.T) {
	p := preset(t, "director")
	co, quota := Finding{Reason: ContextOverflow}, Finding{Reason: QuotaExhausted}
	far, near := quota, quota
	far.RetryAfter, near.RetryAfter = 7*time.Hour, time.Hour
	for _, tc := range []struct {
		name     string
		findings []Finding
		facts    Facts
		want     []Action
	}{
		{"overflow", []Finding{co, co, co}, Facts{HasAlternative: true}, []Action{RetryCompact, RetryAlternative, Escalate}},
		{"overflow, no alternative", []Finding{co, co}, Facts{}, []Action{RetryCompact, Escalate}},
		{"overflow, compacted before", []Finding{co, co}, Facts{HasAlternative: true, AlreadyCompacted: true}, []Action{RetryAlternative, Escalate}},
		{"quota stated", []Finding{near, near, near, near, near}, Facts{HasAlternative: true}, []Action{WaitReset, WaitReset, WaitReset, RetryAlternative, Escalate}},
		{"quota not stated", []Finding{quota, quota}, Facts{HasAlternative: true}, []Action{RetryAlternative, Escalate}},
		{"quota not stated, no alternative", []Finding{quota}, Facts{}, []Action{Escalate}},
		{"quota far", []Finding{far, far}, Facts{HasAlternative: true}, []Action{RetryAlternative, Escalate}},
		{"quota far, no alternative", []Finding{far}, Facts{}, []Action{Escalate}},
		{"quota stated, then not", []Finding{near, quota, quota}, Facts{HasAlternative: true}, []Action{WaitReset, RetryAlternative, Escalate}},
		{"quota not stated, then stated", []Finding{quota, near}, Facts{HasAlternative: true}, []Action{RetryAlternative, WaitReset}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var tally Tally
			facts := tc.facts
			for i, f := range tc.findings {
				v := p.Decide(f, tally, facts, "s")
				if v.Action != tc.want[i] {
					t.Fatalf("failure %d: %+v, want %s", i+1, v, tc.want[i])
				}
				tally = tally.After(f, v)
				facts.AlreadyCompacted = facts.AlreadyCompacted || v.Action == RetryCompact
			}
		})
	}
}

// TestSuccessAndAnswer: what each of them clears.
func TestSuccessAndAnswer(t *testing.T) {
	f := Finding{Reason: NetworkTransient, Signature: "sig:1"}
	var tally Tally
	for _, name := range []string{"director", "gdd", "dispatch"} { // by row, by call, by signature
		tally = tally.After(f, preset(t, name).Decide(f, tally, Facts{Caller: "c"}, "s"))
	}
	tally = tally.Use(Usage{PaidCalls: 2, CostUSD: 1, CacheHits: 1})
	tally.Counts = append(tally.Counts, Count{Of: sessionCounter, N: 3})
	if tally.Consecutive != 3 || tally.Seen("sig:1") != 3 || tally.Refunded != 1 {
		t.Fatalf("%+v", tally)
	}
	s := tally.Succeeded()
	if s.Consecutive != 0 || s.Seen("sig:1") != 0 || len(s.Counts) != 2 || s.PaidCalls != 2 || s.Redispatches != tally.Redispatches {
		t.Errorf("after a success: %+v", s)
	}
	a := tally.Answered()
	if len(a.Counts) != 1 || a.Counts[0].N != 3 || a.PaidCalls != 0 || a.Redispatches != 0 || a.Granted != 0 || a.CostUSD != 0 {
		t.Errorf("after an answer: %+v", a)
	}
}

// TestMeterHolds: whatever is consumed and refunded, nothing goes below zero or above the budget.
func TestMeterHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)})
		amount := rapid.OneOf(rapid.Float64Range(0, 20), odd, rapid.Float64())
		m, err := NewMeter(amount.Draw(t, "budget"))
		if (err == nil) != (m.Check() == nil && err == nil) || err != nil && !errors.Is(err, ErrBudget) {
			t.Fatalf("%+v, %v", m, err)
		}
		for range 30 {
			a, before := amount.Draw(t, "amount"), m
			if rapid.Bool().Draw(t, "consume") {
				m, err = m.Consume(a)
			} else {
				m, err = m.Refund(a)
			}
			if err != nil && m != before || m.Remaining < 0 || m.Remaining > m.Budget || m.Refunded > m.Consumed {
				t.Fatalf("%+v, then %+v: %v", before, m, err)
			}
			if !(a > 0) && err == nil {
				t.Fatalf("%g was taken", a)
			}
		}
	})
}

// TestFractionsDoNotRoundUp: what is given back in fractions is never more than was taken.
func TestFractionsDoNotRoundUp(t *testing.T) {
	m := Meter{Budget: 1.75, Remaining: 0.7497558593750001, Consumed: 1.7502441406250002, Refunded: 0.7500000000000003}
	if m, err := m.Refund(1.5); err != nil || m.Refunded > m.Consumed || m.Remaining > m.Budget {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestDamagedMetersAreRefused: never silently full again.
func TestDamagedMetersAreRefused(t *testing.T) {
	for _, m := range []Meter{{Budget: 5, Remaining: -1, Consumed: 6}, {Budget: 5, Remaining: 6}, {Budget: math.NaN()}, {Budget: 5, Consumed: -1}} {
		for _, op := range []func(float64) (Meter, error){m.Consume, m.Refund} {
			if _, err := op(1); !errors.Is(err, ErrDamaged) {
				t.Errorf("%+v: %v", m, err)
			}
		}
	}
}

// TestMetersAgreeWithGuards: the meter that is shown is empty exactly when the guard vetoes.
func TestMetersAgreeWithGuards(t *testing.T) {
	p := preset(t, "gdd").With(Limits{MaxRetries: Unlimited, IterationBudget: 4, PaidCallBudget: 3})
	rapid.Check(t, func(t *rapid.T) {
		tally := Tally{
			Iterations: rapid.IntRange(-1, 8).Draw(t, "iterations"), Refunded: rapid.IntRange(-1, 8).Draw(t, "refunded"),
			PaidCalls: rapid.Int64Range(-1, 5).Draw(t, "paid"),
		}
		v := p.Decide(Finding{Reason: RateLimited}, tally, Facts{}, "s")
		i, _ := p.Iterations(tally)
		c, _ := p.PaidCalls(tally)
		if empty := i.Remaining <= 0 || c.Remaining <= 0; empty == v.Action.Again() {
			t.Fatalf("%+v, %+v, but %+v", i, c, v)
		}
	})
}
