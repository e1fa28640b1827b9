package policy

import (
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

var guardsVetoCases = []struct {
	name   string
	reason recovery.Reason
	tally  recovery.Tally
	facts  DecisionInput
	action recovery.Action
	veto   string
	why    string
}{
	{
		"nothing used", recovery.WorkerLost,
		recovery.Tally{},
		DecisionInput{},
		recovery.RestartWorker, "",
		"worker_lost: 1 of 2",
	},
	{
		"retries over all causes", recovery.WorkerLost,
		recovery.Tally{Redispatches: 3},
		DecisionInput{},
		recovery.Escalate, "max_retries", "director.max_retries = 3 used up, counting all causes",
	},
	{
		"a wait for a limit does not count as a retry", recovery.RateLimited,
		recovery.Tally{Redispatches: 3},
		DecisionInput{},
		recovery.WaitReset, "", "rate_limited: the reset time is unknown: wait 1m",
	},
	{
		"iterations", recovery.WorkerLost,
		recovery.Tally{Iterations: 10},
		DecisionInput{},
		recovery.Escalate,
		"iteration_budget", "budget of 10 is used up",
	},
	{
		"refunded iterations", recovery.WorkerLost,
		recovery.Tally{Iterations: 10, Refunded: 1},
		DecisionInput{},
		recovery.RestartWorker, "", "",
	},
	{
		"a wait for a limit is an iteration", recovery.RateLimited,
		recovery.Tally{Iterations: 10},
		DecisionInput{},
		recovery.Escalate, "iteration_budget", "",
	},
	{
		"paid calls", recovery.WorkerLost,
		recovery.Tally{PaidCalls: 4},
		DecisionInput{},
		recovery.Escalate,
		"paid_call_budget", "4 paid calls",
	},
	{
		"cost", recovery.WorkerLost,
		recovery.Tally{CostUSD: 2.5},
		DecisionInput{},
		recovery.Escalate, "cost_budget",
		"2.50 USD",
	},
	{
		"errors in a row", recovery.WorkerLost,
		recovery.Tally{Consecutive: 5},
		DecisionInput{},
		recovery.Escalate,
		"consecutive_errors", "6 errors in a row, more than 5",
	},
	{
		"as many as are allowed", recovery.WorkerLost,
		recovery.Tally{Consecutive: 4},
		DecisionInput{},
		recovery.RestartWorker, "", "",
	},
	{
		"a wait does not count as an error", recovery.RateLimited,
		recovery.Tally{Consecutive: 5},
		DecisionInput{},
		recovery.WaitReset, "", "",
	},
	{
		"another budget", recovery.WorkerLost,
		recovery.Tally{},
		DecisionInput{BudgetLeft: new(0)},
		recovery.Escalate,
		"budget", "the budget is used up",
	},
	{
		"the last of another budget", recovery.WorkerLost,
		recovery.Tally{},
		DecisionInput{BudgetLeft: new(1)},
		recovery.RestartWorker, "", "",
	},
	{
		"the engine", recovery.RateLimited,
		recovery.Tally{Granted: engineCap},
		DecisionInput{},
		recovery.Escalate,
		"engine", "100 attempts",
	},
	{
		"guards do not veto an end", recovery.AuthError,
		recovery.Tally{Redispatches: 9, PaidCalls: 9, CostUSD: 9},
		DecisionInput{},
		recovery.Escalate, "", "an unchanged attempt would fail the same way",
	},
}

// TestGuardsVeto checks that each guard forbids a retry, and that the verdict names the guard.
func TestGuardsVeto(t *testing.T) {
	limits := Limits{MaxRetries: 3, MaxConsecutiveErrors: 5, IterationBudget: 10, PaidCallBudget: 4, CostBudgetUSD: 2.5}
	p := preset(t, "director").With(limits)
	for _, tc := range guardsVetoCases {
		t.Run(tc.name, func(t *testing.T) {
			v := p.Decide(recovery.Finding{Reason: tc.reason}, tc.tally, tc.facts, "s")
			if v.Action != tc.action || v.Veto != tc.veto || !strings.Contains(v.Why, tc.why) {
				t.Errorf("%+v, want %s, veto %q, why %q", v, tc.action, tc.veto, tc.why)
			}
			if v.Veto != "" && (v.Charges != "" || v.Delay != 0 || v.Cools != "") {
				t.Errorf("the veto charges a meter: %+v", v)
			}
		})
	}
}

// TestForbids checks that Forbids returns the veto that Decide gives for a charged attempt with the same tally.
func TestForbids(t *testing.T) {
	p := preset(t, "director").With(Limits{
		MaxRetries: 3, MaxConsecutiveErrors: 5, IterationBudget: 10,
		PaidCallBudget: 4, CostBudgetUSD: 2.5,
	})
	for name, tally := range map[string]recovery.Tally{
		"nothing": {},
		"nearly all": {
			Redispatches: 2, Iterations: 9, PaidCalls: 3, CostUSD: 2.4, Consecutive: 4,
			Granted: engineCap - 1,
		},
		"retries":          {Redispatches: 3},
		"iterations":       {Iterations: 10},
		"given back":       {Iterations: 10, Refunded: 1},
		"paid calls":       {PaidCalls: 4},
		"money":            {CostUSD: 2.5},
		"the engine's":     {Granted: engineCap},
		"several at once":  {Redispatches: 3, PaidCalls: 4},
		"damaged counters": {Iterations: -5, Refunded: 7, Redispatches: -1},
	} {
		v := p.Decide(recovery.Finding{Reason: recovery.WorkerLost}, tally, DecisionInput{}, "s")
		want := ""
		if v.Veto != "" {
			want = strings.TrimPrefix(v.Why, "worker_lost: ")
		}
		if got := p.Forbids(tally); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if why := p.Forbids(recovery.Tally{Redispatches: 3}); why !=
		"director.max_retries = 3 used up, counting all causes" {
		t.Error(why)
	}
}

// TestEngineEndsWhatNoGuardDoes checks that the engine's cap ends a policy without limits, for each unit of counting.
func TestEngineEndsWhatNoGuardDoes(t *testing.T) {
	for _, count := range []Unit{ByRow, ByCall, ByTask, BySignature, BySession} {
		for _, action := range []recovery.Action{recovery.WaitReset, recovery.Retry, recovery.RetryAlternative} {
			p := newPolicy("endless",
				[]Row{{On: "*", Count: count, Ladder: []Rung{{Action: action, Times: recovery.Unlimited}}}})
			var tally recovery.Tally
			granted := 0
			for i := range 3 * engineCap {
				f := recovery.Finding{Reason: recovery.Reasons[i%len(recovery.Reasons)].Reason, Signature: "sig:" +
					strings.Repeat("x", i%70)}
				v := p.Decide(f, tally, DecisionInput{}, "s")
				if tally = tally.After(f, v).Use(recovery.Usage{CacheHits: 5}).Succeeded(); v.Action.Again() {
					granted++
				}
			}
			if granted != engineCap {
				t.Errorf("by %s: %s was granted %d times", count, action, granted)
			}
		}
	}
}

// TestContinueOnError checks that with ContinueOnError, a verdict never ends the run.
func TestContinueOnError(t *testing.T) {
	p := preset(t, "prp").With(Limits{MaxRetries: recovery.Unlimited, ContinueOnError: true})
	for _, about := range recovery.Reasons {
		for _, caller := range []string{"", "initializeSession", "decomposePRD"} {
			v, _ := story(p, recovery.Finding{Reason: about.Reason}, DecisionInput{Caller: caller}, 6)
			if v.Fatal || v.Action == recovery.Abort || v.Action == recovery.Stop {
				t.Errorf("%s in %q: %+v", about.Reason, caller, v)
			}
		}
	}
	if v := preset(t, "prp").Decide(recovery.Finding{Reason: recovery.CorruptState}, recovery.Tally{}, DecisionInput{},
		"s"); v.Action != recovery.Abort || !v.Fatal {
		t.Errorf("without it: %+v", v)
	}
}

// TestWaitRestartsTheBackoff checks that after a wait for a limit, the backoff of other retries starts again with its
// first delay. The number of allowed retries does not change.
func TestWaitRestartsTheBackoff(t *testing.T) {
	p, tally := preset(t, "gdd"), recovery.Tally{}
	for _, tc := range []struct {
		reason   recovery.Reason
		stated   time.Duration
		lo, hi   time.Duration
		leadsTo  recovery.Action
		reasonIs recovery.Reason
	}{
		{
			recovery.NetworkTransient, 0, 80 * time.Millisecond, 120 * time.Millisecond, recovery.Retry,
			recovery.NetworkTransient,
		},
		{
			recovery.NetworkTransient, 0, 160 * time.Millisecond, 240 * time.Millisecond, recovery.Retry,
			recovery.NetworkTransient,
		},
		{
			recovery.RateLimited, time.Minute, time.Minute + 80*time.Millisecond, time.Minute + 120*time.Millisecond,
			recovery.WaitReset, recovery.RateLimited,
		},
		{
			recovery.NetworkTransient, 0, 80 * time.Millisecond, 120 * time.Millisecond, recovery.Retry,
			recovery.NetworkTransient,
		},
		{recovery.NetworkTransient, 0, 0, 0, recovery.Escalate, recovery.NetworkPermanent},
	} {
		f := recovery.Finding{Reason: tc.reason, RetryAfter: tc.stated}
		v := p.Decide(f, tally, DecisionInput{}, "s")
		if v.DelayMin != tc.lo || v.DelayMax != tc.hi || v.Action != tc.leadsTo || v.Reason != tc.reasonIs {
			t.Errorf("%+v, want %+v", v, tc)
		}
		tally = tally.After(f, v)
	}
}

// Findings for the ladders of absentRungsCases.
var (
	overflow  = recovery.Finding{Reason: recovery.ContextOverflow}
	quota     = recovery.Finding{Reason: recovery.QuotaExhausted}
	quotaNear = recovery.Finding{Reason: recovery.QuotaExhausted, RetryAfter: time.Hour}
	quotaFar  = recovery.Finding{Reason: recovery.QuotaExhausted, RetryAfter: 7 * time.Hour}
)

var absentRungsCases = []struct {
	name     string
	findings []recovery.Finding
	facts    DecisionInput
	want     []recovery.Action
}{
	{
		"overflow",
		[]recovery.Finding{overflow, overflow, overflow},
		DecisionInput{HasAlternative: true},
		[]recovery.Action{recovery.RetryCompact, recovery.RetryAlternative, recovery.Escalate},
	},
	{
		"overflow, no alternative",
		[]recovery.Finding{overflow, overflow},
		DecisionInput{},
		[]recovery.Action{recovery.RetryCompact, recovery.Escalate},
	},
	{"overflow, compacted before", []recovery.Finding{overflow, overflow}, DecisionInput{
		HasAlternative:   true,
		AlreadyCompacted: true,
	}, []recovery.Action{recovery.RetryAlternative, recovery.Escalate}},
	{
		"quota stated",
		[]recovery.Finding{quotaNear, quotaNear, quotaNear, quotaNear, quotaNear},
		DecisionInput{HasAlternative: true},
		[]recovery.Action{
			recovery.WaitReset, recovery.WaitReset, recovery.WaitReset, recovery.RetryAlternative,
			recovery.Escalate,
		},
	},
	{
		"quota not stated",
		[]recovery.Finding{quota, quota},
		DecisionInput{HasAlternative: true},
		[]recovery.Action{recovery.RetryAlternative, recovery.Escalate},
	},
	{
		"quota not stated, no alternative",
		[]recovery.Finding{quota},
		DecisionInput{},
		[]recovery.Action{recovery.Escalate},
	},
	{
		"quota far",
		[]recovery.Finding{quotaFar, quotaFar},
		DecisionInput{HasAlternative: true},
		[]recovery.Action{recovery.RetryAlternative, recovery.Escalate},
	},
	{"quota far, no alternative", []recovery.Finding{quotaFar}, DecisionInput{}, []recovery.Action{recovery.Escalate}},
	{
		"quota stated, then not",
		[]recovery.Finding{quotaNear, quota, quota},
		DecisionInput{HasAlternative: true},
		[]recovery.Action{recovery.WaitReset, recovery.RetryAlternative, recovery.Escalate},
	},
	{
		"quota not stated, then stated",
		[]recovery.Finding{quota, quotaNear},
		DecisionInput{HasAlternative: true},
		[]recovery.Action{recovery.RetryAlternative, recovery.WaitReset},
	},
}

// TestAbsentRungs checks that a step is skipped if its condition is not met, and that the next step keeps its attempts.
func TestAbsentRungs(t *testing.T) {
	p := preset(t, "director")

	for _, tc := range absentRungsCases {
		t.Run(tc.name, func(t *testing.T) {
			var tally recovery.Tally
			facts := tc.facts
			for i, f := range tc.findings {
				v := p.Decide(f, tally, facts, "s")
				if v.Action != tc.want[i] {
					t.Fatalf("failure %d: %+v, want %s", i+1, v, tc.want[i])
				}
				tally = tally.After(f, v)
				facts.AlreadyCompacted = facts.AlreadyCompacted || v.Action == recovery.RetryCompact
			}
		})
	}
}

// TestSuccessAndAnswer checks which counters a success and an answer clear.
func TestSuccessAndAnswer(t *testing.T) {
	f := recovery.Finding{Reason: recovery.NetworkTransient, Signature: "sig:1"}
	var tally recovery.Tally
	for _, name := range []string{"director", "gdd", "dispatch"} { // by row, by call, by signature
		tally = tally.After(f, preset(t, name).Decide(f, tally, DecisionInput{Caller: "c"}, "s"))
	}
	tally = tally.Use(recovery.Usage{PaidCalls: 2, CostUSD: 1, CacheHits: 1})
	tally.Counts = append(tally.Counts, recovery.Count{Of: recovery.SessionCounter, N: 3})
	if tally.Consecutive != 3 || tally.Seen("sig:1") != 3 || tally.Refunded != 1 {
		t.Fatalf("%+v", tally)
	}
	s := tally.Succeeded()
	if s.Consecutive != 0 || s.Seen("sig:1") != 0 || len(s.Counts) != 2 || s.PaidCalls != 2 ||
		s.Redispatches != tally.Redispatches {
		t.Errorf("after a success: %+v", s)
	}
	a := tally.Answered()
	if len(a.Counts) != 1 || a.Counts[0].N != 3 || a.PaidCalls != 0 || a.Redispatches != 0 || a.Granted != 0 ||
		a.CostUSD != 0 {
		t.Errorf("after an answer: %+v", a)
	}
}
