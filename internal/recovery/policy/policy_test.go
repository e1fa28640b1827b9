package policy

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"retake/internal/recovery"
)

// anyBackoff draws any backoff, even an unreasonable one.
func anyBackoff(t *rapid.T) recovery.Backoff {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1}
	return recovery.Backoff{
		Linear:  rapid.Bool().Draw(t, "linear"),
		Initial: time.Duration(rapid.Int64().Draw(t, "initial")),
		Max:     time.Duration(rapid.Int64().Draw(t, "max")),
		Factor:  rapid.OneOf(rapid.Float64(), rapid.Float64Range(1, 10), rapid.SampledFrom(odd)).Draw(t, "factor"),
		Jitter: rapid.SampledFrom([]recovery.Jitter{
			recovery.FullJitter, recovery.EqualJitter, recovery.NoJitter,
			recovery.AroundJitter, recovery.AdditiveJitter, "", "odd",
		}).
			Draw(t, "jitter"),
		Spread: rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 1), rapid.SampledFrom(odd)).Draw(t, "spread"),
		Add:    time.Duration(rapid.Int64().Draw(t, "add")),
	}
}

func TestBackoffStaysWithinCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, n := anyBackoff(t), rapid.Int().Draw(t, "n")
		lo, hi := b.Range(n)
		if lo < 0 || lo > hi || hi > b.Longest() || b.Longest() > 3*recovery.LongestWait {
			t.Fatalf("Range(%d) = %d, %d of %+v", n, lo, hi, b)
		}
		if beyond := b.Jitter == recovery.AroundJitter || b.Jitter == recovery.AdditiveJitter; !beyond &&
			hi > max(b.Max, 0) {
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

// TestFullJitterSpreads checks that the delays of many tasks differ.
func TestFullJitterSpreads(t *testing.T) {
	seen := map[time.Duration]bool{}
	var sum time.Duration
	const tasks = 1000
	for i := range tasks {
		d := recovery.DefaultBackoff.Delay(6, string(rune('a'+i%26))+string(rune(i)))
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

// TestNoPolicyRetriesForEver runs any policy on a long series of failures with refunds, successes and stated waits. The
// number of attempts and the waits are bounded, meters never decrease, and verdicts are complete.
func TestNoPolicyRetriesForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tally := anyPolicy(t), recovery.Tally{}
		granted, charged := 0, 0
		for range rapid.IntRange(1, 250).Draw(t, "failures") {
			f, facts := anyFinding(t), anyFacts(t)
			v := p.Decide(f, tally, facts, "seed")
			checkVerdict(t, p, f, tally, facts, v)
			before := tally
			tally = tally.After(f, v)
			if v.Action.Again() {
				granted++
			}
			if v.Charges != "" {
				charged++
			}
			switch rapid.IntRange(0, 5).Draw(t, "meanwhile") {
			case 0:
				tally = tally.Use(anyUsage(t))
			case 1:
				tally = tally.Succeeded()
			}
			checkTally(t, before, tally)
			if granted > engineCap || p.guards.MaxRetries >= 0 && charged > p.guards.MaxRetries {
				t.Fatalf("%d attempts, %d charged, under %+v", granted, charged, p.guards)
			}
		}
	})
}

// checkVerdict checks the properties of every verdict of every policy.
func checkVerdict(t *rapid.T, p *Policy, f recovery.Finding, tally recovery.Tally, facts DecisionInput,
	v recovery.Verdict,
) {
	if v.Why == "" || v.Row == "" && len(p.rows) > 0 || v.Action == "" || v.Delay < 0 || v.DelayMin > v.Delay ||
		v.Delay > v.DelayMax {
		t.Fatalf("%+v", v)
	}
	if v.Was == "" && v.Reason != f.Reason || v.Was != "" && v.Was != f.Reason {
		t.Fatalf("%s became %+v", f.Reason, v)
	}
	if !v.Action.Again() {
		if v.DelayMax != 0 || v.Charges != "" || v.Cools != "" || v.Restarts {
			t.Fatalf("the verdict ends the task, but waits or charges: %+v", v)
		}
		return
	}
	if v.Veto != "" || v.Fatal || facts.BudgetLeft != nil && *facts.BudgetLeft <= 0 {
		t.Fatalf("the verdict leads to an attempt: %+v", v)
	}
	g := p.guards
	if g.PaidCallBudget > 0 && tally.PaidCalls >= int64(g.PaidCallBudget) || g.CostBudgetUSD > 0 &&
		tally.CostUSD >= g.CostBudgetUSD ||
		g.IterationBudget > 0 && tally.Iterations-tally.Refunded >= g.IterationBudget {
		t.Fatalf("%+v past %+v with %+v", v, g, tally)
	}
	row := p.row(v.Reason, facts.Caller)
	b := p.backoff
	if row.Backoff != nil {
		b = recovery.Backoff(*row.Backoff)
	}
	most := b.Longest() + max(row.Wait.Longest, 0)
	if v.Action.About().Free {
		most += max(min(max(row.Wait.Cap, 0), recovery.LongestWait), longestUnstated)
	}
	if v.DelayMax > most {
		t.Fatalf("waits %s, past the caps of %+v and %+v", v.DelayMax, b, row.Wait)
	}
	if row.Wait.Longest > 0 && v.Action.About().Same && v.DelayMin < f.RetryAfter {
		t.Fatalf("waits %s, less than the stated %s", v.DelayMin, f.RetryAfter)
	}
}

// checkTally checks the properties of a tally after every step.
func checkTally(t *rapid.T, before, after recovery.Tally) {
	if after.Refunded > after.Iterations || after.Refunded < 0 || after.PaidCalls < before.PaidCalls ||
		after.CostUSD < before.CostUSD ||
		math.IsNaN(after.CostUSD) || after.Redispatches < before.Redispatches || after.Granted < before.Granted ||
		after.Consecutive < 0 {
		t.Fatalf("%+v, then %+v", before, after)
	}
	if len(after.Counts) > 64 || len(after.Signatures) > 32 {
		t.Fatalf("%d counters, %d signatures", len(after.Counts), len(after.Signatures))
	}
}

// TestDecideRepeats checks that equal inputs give equal verdicts, and are not modified.
func TestDecideRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, f, facts, tally := anyPolicy(t), anyFinding(t), anyFacts(t), recovery.Tally{}
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			g := anyFinding(t)
			tally = tally.After(g, p.Decide(g, tally, facts, "x"))
		}
		old, _ := json.Marshal(tally)
		a := p.Decide(f, tally, facts, "s")
		next := tally.After(f, a)
		if b := p.Decide(f, tally, facts, "s"); a != b {
			t.Fatalf("%+v, then %+v", a, b)
		}
		if now, _ := json.Marshal(tally); string(now) != string(old) {
			t.Fatalf("the tally was changed: %s, %s", old, now)
		}
		var back recovery.Tally
		data, _ := json.Marshal(next)
		if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, next) {
			t.Fatalf("%s: %v", data, err)
		}
	})
}

// TestNextIfAgain compares a verdict's NextIfAgain with the next decision.
func TestNextIfAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, f, facts, tally := anyPolicy(t), anyFinding(t), anyFacts(t), recovery.Tally{}
		for range rapid.IntRange(1, 20).Draw(t, "failures") {
			v := p.Decide(f, tally, facts, "s")
			tally = tally.After(f, v)
			facts.AlreadyCompacted = facts.AlreadyCompacted || v.Action == recovery.RetryCompact
			if facts.BudgetLeft != nil && v.Action.Again() {
				left := *facts.BudgetLeft - 1
				facts.BudgetLeft = &left
			}
			if next := p.Decide(f, tally, facts, "s"); next.Action != v.NextIfAgain {
				t.Fatalf("%+v, then %+v", v, next)
			}
		}
	})
}

// TestDamagedTallyGivesNothing checks that a damaged counter does not grant attempts.
func TestDamagedTallyGivesNothing(t *testing.T) {
	p := preset(t, "director")
	f := recovery.Finding{Reason: recovery.Overloaded}
	fresh := p.Decide(f, recovery.Tally{}, DecisionInput{}, "s")
	odd := recovery.Tally{
		Counts: []recovery.Count{{Of: "overloaded", N: -7, Step: -7}}, Redispatches: -7, Granted: -7, Consecutive: -7,
		Iterations: -7, Refunded: 900, PaidCalls: -7, CostUSD: -7,
	}
	if v := p.Decide(f, odd, DecisionInput{}, "s"); v != fresh {
		t.Errorf("%+v, want %+v", v, fresh)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, name := range Presets {
		b.Run(name, func(b *testing.B) {
			p, err := Preset(name)
			if err != nil {
				b.Fatal(err)
			}
			f := recovery.Finding{Reason: recovery.NetworkTransient, Signature: "sig:0123456789abcdef"}
			tally := recovery.Tally{}.After(f, p.Decide(f, recovery.Tally{}, DecisionInput{}, "s"))
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(f, tally, DecisionInput{HasAlternative: true}, "k3v9qx2m-2")
			}
		})
	}
}

func preset(t testing.TB, name string) *Policy {
	t.Helper()
	p, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// story decides a failure n times, and returns the last verdict.
func story(p *Policy, f recovery.Finding, facts DecisionInput, n int) (v recovery.Verdict, tally recovery.Tally) {
	for range n {
		v = p.Decide(f, tally, facts, "s")
		tally = tally.After(f, v)
	}
	return v, tally
}

// exhaustsAfter counts the attempts that a policy grants to a failure and its repetitions.
func exhaustsAfter(p *Policy, f recovery.Finding, facts DecisionInput) int {
	var tally recovery.Tally
	for n := range 40 {
		v := p.Decide(f, tally, facts, "s")
		if !v.Action.Again() {
			return n
		}
		tally = tally.After(f, v)
	}
	return 40
}

// TestFlagsAgreeWithClassAndPolicy checks that the flags of an assertion agree with the reason's class and with the
// policy's decision about the first failure.
func TestFlagsAgreeWithClassAndPolicy(t *testing.T) {
	p := directorPolicy(3, recovery.DefaultBackoff)
	for _, a := range recovery.Reasons {
		f := recovery.Assert(a.Reason)
		// Decide on the first failure, with every option available.
		again := p.Decide(recovery.Finding{Reason: a.Reason, RetryAfter: time.Second}, recovery.Tally{},
			DecisionInput{HasAlternative: true}, "").Action.Again()
		if f.ErrorType != recovery.ErrorType(a.Reason) || f.Transient != (a.Class == recovery.Transient) ||
			f.Retry != again || f.Escalate == again {
			t.Errorf("%s: %+v", a.Reason, f)
		}
		if a.Class == recovery.Transient && !f.Retry {
			t.Errorf("%s is transient, but the policy does not retry it", a.Reason)
		}
	}
	if f := recovery.Assert(recovery.TestsFailed); f != (recovery.Assertion{
		ErrorType: "tests_failed",
		Escalate:  true,
	}) {
		t.Errorf("the seed's own example: %+v", f)
	}
}
