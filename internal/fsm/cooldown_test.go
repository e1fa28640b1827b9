package fsm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"retake/internal/recovery"
)

const claude = "model.anthropic"

// limit returns evidence of a limit with a stated wait.
func limit(wait time.Duration) recovery.Evidence {
	return recovery.Evidence{
		Provider: "anthropic", Message: "429", RetryAfter: wait,
		Assertion: recovery.Assertion{ErrorType: "rate_limited"},
	}
}

// runningFleet returns a fleet in which each task has a running worker.
func runningFleet(t *testing.T, n int) (*fleet, []IssueKey) {
	var keys []IssueKey
	for i := range n {
		keys = append(keys, IssueKey(fmt.Sprintf("a/a#%d", i+1)))
	}
	f := newFleet(t, keys...)
	// Deadlines must not disturb these tests.
	f.m.cfg.HeartbeatTTL, f.m.cfg.Watchdog, f.m.cfg.ClaimStale = 100*time.Hour, 100*time.Hour, 0
	for _, k := range keys {
		f.carryOut(k)
	}
	return f, keys
}

// says makes a task's worker report a limit.
func (f *fleet) says(k IssueKey, wait time.Duration) {
	f.t.Helper()
	f.step(LimitReported{
		Worker: f.m.Task(k).AttemptID(), Resource: claude, Until: f.now.Add(time.Second + wait),
		Text: "429",
	})
}

// closedFor returns the time until the model opens.
func (f *fleet) closedFor() time.Duration { return max(f.m.closed(claude).Until.Sub(f.now), 0) }

func (f *fleet) later(d time.Duration) {
	f.t.Helper()
	f.now = f.now.Add(d - time.Second)
	f.step(Tick{})
}

// TestOneTaskClosesAModelForACap checks that one task closes a model for at most MaxStatedWait in total per day. The
// number and the form of its statements do not matter.
func TestOneTaskClosesAModelForACap(t *testing.T) {
	f, k := runningFleet(t, 2)
	f.says(k[0], 999999*time.Second)
	if got := f.closedFor(); got != 15*time.Minute {
		t.Errorf("closed for %s", got)
	}
	for range 20 {
		f.later(5 * time.Minute)
		f.says(k[0], 24*time.Hour)
	}
	if got := f.closedFor(); got != 0 {
		t.Errorf("repeated for more than an hour: closed for %s more", got)
	}
	f.fails(k[0], "CODE", limit(5*time.Hour), nil)
	if got := f.closedFor(); got != 0 {
		t.Errorf("its attempt's end closes the model for %s more", got)
	}
	if own := f.m.Task(k[0]).Until.Sub(f.now); f.state(k[0]) != Backoff || own < 5*time.Hour-time.Minute {
		t.Errorf("its own task is %s for %s, but the limit is 5h", f.state(k[0]), own)
	}
	f.later(24 * time.Hour)
	f.carryOut(k[0])
	f.says(k[0], time.Hour)
	if got := f.closedFor(); got != 15*time.Minute {
		t.Errorf("on the next day: closed for %s", got)
	}
}

// TestUnderOtherNamesATaskClosesNoLonger checks that a task cannot exceed MaxStatedWait by reporting limits of many
// models. Without configured models, attempts wait for each closed model.
func TestUnderOtherNamesATaskClosesNoLonger(t *testing.T) {
	f, k := runningFleet(t, 1)
	f.m.cfg.Models = nil
	closed := time.Duration(0)
	for n := range 40 {
		f.step(LimitReported{
			Worker: f.m.Task(k[0]).AttemptID(), Resource: fmt.Sprintf("model.m%d", n/5),
			Until: f.now.Add(24 * time.Hour), Text: "429",
		})
		if opens := f.m.modelOpensAt(); opens.After(f.now) {
			closed += min(opens.Sub(f.now), 5*time.Minute)
		}
		f.later(5 * time.Minute)
	}
	if closed > 15*time.Minute {
		t.Errorf("attempts were blocked for %s because of one task's statement", closed)
	}
}

// A statement that does not prolong a cooldown is kept as evidence, but does not use up the task's MaxStatedWait. Later
// statements about other resources still do.
func TestEvidenceCoversNoTime(t *testing.T) {
	f, k := runningFleet(t, 1)
	states := func(resource string, wait time.Duration) {
		f.step(LimitReported{
			Worker: f.m.Task(k[0]).AttemptID(), Resource: resource, Until: f.now.Add(wait), Text: "429",
		})
	}
	f.step(CooldownReported{Resource: claude, Until: f.now.Add(14*time.Minute + 50*time.Second), Why: "429"})
	states(claude, 2*time.Hour)
	states("model.b", 10*time.Minute)
	f.later(15 * time.Minute)
	states("model.c", 2*time.Hour)
	if got := f.m.closed("model.c").Until.Sub(f.now); got <= 0 || got > 5*time.Minute+2*time.Second {
		t.Errorf("closed for %s after ten of fifteen minutes", got)
	}
}

// TestANewDayStartsWithoutTheOldDeadline checks that a deadline of the day before does not cover time of the new day.
// The second statement about the first model only remains as evidence.
func TestANewDayStartsWithoutTheOldDeadline(t *testing.T) {
	f, k := runningFleet(t, 1)
	f.m.cfg.Watchdog = 48 * time.Hour
	states := func(model string, wait time.Duration) {
		f.step(LimitReported{Worker: f.m.Task(k[0]).AttemptID(), Resource: model, Until: f.now.Add(wait), Text: "429"})
	}
	states("model.a", 2*time.Second)
	f.now = f.now.Add(24*time.Hour - 5*time.Minute)
	states(claude, 2*time.Hour)
	f.step(CooldownReported{Resource: claude, Until: f.now.Add(4 * time.Hour), Why: "429"})
	f.now = f.now.Add(6 * time.Minute)
	states(claude, 20*time.Hour)
	closed := time.Duration(0)
	for range 10 {
		states("model.b", 20*time.Hour)
		closed += max(0, min(f.m.closed("model.b").Until.Sub(f.now), 4*time.Minute))
		f.now = f.now.Add(4 * time.Minute)
	}
	if closed > 15*time.Minute+time.Second || closed < 14*time.Minute {
		t.Errorf("one task closed a model for %s of a day", closed)
	}
}

// TestAVerdictClosesForACap checks that the report at an attempt's end also counts as one task's statement, for any
// resource of the policy.
func TestAVerdictClosesForACap(t *testing.T) {
	f, k := runningFleet(t, 1)
	f.fails(k[0], "CODE", limit(5*time.Hour), nil)
	if got := f.closedFor(); got > 15*time.Minute || got < 14*time.Minute {
		t.Errorf("closed for %s", got)
	}
	c := f.m.Cooldowns()[0]
	if len(c.By) != 1 || c.By[0].Task != k[0] || c.By[0].Attempt != 1 || c.Since.IsZero() ||
		c.Origin() != "a/a#1, attempt 1" {
		t.Errorf("of unknown origin: %+v", c)
	}
	if own := f.m.Task(k[0]).Until.Sub(f.now); own < 5*time.Hour-time.Minute {
		t.Errorf("the task waits %s, but the limit is 5h", own)
	}
}

// TestASecondTaskIsEvidence checks that a limit stated by two tasks lasts until the earlier of both deadlines.
func TestASecondTaskIsEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		by     int           // of the second statement
		after  time.Duration // after the first statement
		says   time.Duration
		closed time.Duration // time for which the model then stays closed
	}{
		"another within the cap":     {1, time.Minute, 5 * time.Hour, 5*time.Hour - time.Minute - time.Second},
		"another right after it":     {1, 16 * time.Minute, 5 * time.Hour, 5*time.Hour - 16*time.Minute - time.Second},
		"another that knows of less": {1, time.Minute, 2 * time.Hour, 2 * time.Hour},
		"another that knows of more": {1, time.Minute, 20 * time.Hour, 5*time.Hour - time.Minute - time.Second},
		"another task that knew about the closing": {
			1, time.Minute, 14*time.Minute + 9*time.Second,
			14*time.Minute - time.Second,
		},
		"another long after the cap": {1, 31 * time.Minute, 5 * time.Hour, 15 * time.Minute},
		"the same again":             {0, 16 * time.Minute, 5 * time.Hour, 0},
	} {
		f, k := runningFleet(t, 2)
		f.says(k[0], 5*time.Hour)
		f.later(c.after)
		f.says(k[c.by], c.says)
		if got := f.closedFor(); got != c.closed {
			t.Errorf("%s: closed for %s, want %s", name, got, c.closed)
		}
	}
}

// TestNoEvidenceOfOneTask checks that two attempts of a task, or a second claim of its issue, do not count as two
// tasks.
func TestNoEvidenceOfOneTask(t *testing.T) {
	f, k := runningFleet(t, 1)
	f.fails(k[0], "CODE", limit(20*time.Minute), nil)
	first := f.m.Task(k[0]).AttemptID()
	f.later(21 * time.Minute)
	f.carryOut(k[0])
	if second := f.m.Task(k[0]).AttemptID(); second == first {
		t.Fatalf("no second attempt: %s", f.state(k[0]))
	}
	f.says(k[0], 10*time.Hour)
	if got := f.closedFor(); got != 0 {
		t.Errorf("two attempts of one task close the model for %s", got)
	}
}

// TestAQuotaOfFiveHours checks that a task that runs into a quota waits for its reset, that another task tries the
// model after MaxStatedWait, and that all tasks wait after this task has confirmed the quota.
func TestAQuotaOfFiveHours(t *testing.T) {
	f, k := runningFleet(t, 1)
	resets := f.now.Add(5 * time.Hour)
	f.fails(k[0], "CODE", limit(resets.Sub(f.now)), nil)
	f.seen("a/a#2", "a/a#3")
	if f.state("a/a#2") != Queued || f.m.WaitsFor(f.m.Task("a/a#2")).For != "model.anthropic, which is unavailable, "+
		"as reported by a/a#1, attempt 1" {
		t.Errorf("#2 is %s and waits for %+v", f.state("a/a#2"), f.m.WaitsFor(f.m.Task("a/a#2")))
	}
	f.later(15 * time.Minute)
	f.carryOut("a/a#2")
	f.fails("a/a#2", "CODE", limit(resets.Sub(f.now)), nil)
	if got := f.m.closed(claude); got.Until.Sub(resets).Abs() > time.Minute || len(got.By) != 2 {
		t.Errorf("after the second: %+v, it resets at %s", got, resets)
	}
	f.seen("a/a#4")
	for _, late := range []IssueKey{"a/a#4"} {
		if f.state(late) != Queued {
			t.Errorf("%s is %s", late, f.state(late))
		}
	}
	f.now = resets.Add(time.Minute)
	f.step(Tick{})
	if f.state("a/a#4") != Claiming {
		t.Errorf("after the reset #4 is %s", f.state("a/a#4"))
	}
}

// TestStatementsAreBounded checks the limits on the resources of one task and on the number of statements. The machine
// does not record each statement of a deadline that rises in small steps.
func TestStatementsAreBounded(t *testing.T) {
	f, k := runningFleet(t, 1)
	for n := range 20 {
		f.step(LimitReported{
			Worker: f.m.Task(k[0]).AttemptID(), Resource: fmt.Sprintf("model.m%d", n),
			Until: f.now.Add(time.Hour),
		})
	}
	if got := len(f.m.Cooldowns()); got != maxStatedOfTask {
		t.Errorf("one task closes %d resources", got)
	}
	for n := range maxStatements + 10 {
		f.m.Apply(f.now, LimitStated{Resource: claude, Stated: Stated{
			Task: IssueKey(fmt.Sprintf("a/b#%d", n)),
			At:   f.now,
		}})
	}
	if got := len(f.m.hard.Statements); got != maxStatements {
		t.Errorf("%d statements", got)
	}
	f.later(time.Hour)
	f.step(LimitReported{Worker: f.m.Task(k[0]).AttemptID(), Resource: "model.new", Until: f.now.Add(time.Hour)})
	if got := f.m.hard.Statements[0].Task; got != "a/b#10" || f.m.closed("model.new").Until.After(f.now) {
		t.Errorf("%s is the oldest that is known, and there is room for more", got)
	}
	g, k := runningFleet(t, 1)
	facts := 0
	for n := range 10_000 {
		at := g.now.Add(time.Duration(n) * time.Millisecond)
		said, _ := g.m.Step(Event{At: at, Body: LimitReported{
			Worker: g.m.Task(k[0]).AttemptID(), Resource: claude,
			Until: at.Add(time.Minute),
		}})
		facts += len(said)
	}
	if facts > 20 {
		t.Errorf("10,000 reports in ten seconds made %d facts", facts)
	}
}

// TestAStatementOfTheDeadCountsForNothing checks that the machine ignores statements of ended and unknown attempts.
func TestAStatementOfTheDeadCountsForNothing(t *testing.T) {
	f, _ := runningFleet(t, 1)
	f.step(LimitReported{Worker: "aa1-7", Resource: claude, Until: f.now.Add(time.Hour)})
	f.step(LimitReported{Worker: "nobody-1", Resource: claude, Until: f.now.Add(time.Hour)})
	if got := f.closedFor(); got != 0 {
		t.Errorf("closed for %s", got)
	}
}

// TestLift checks that waiting tasks continue at once when an operator opens a resource, and that earlier
// statements no longer count.
func TestLift(t *testing.T) {
	f, k := runningFleet(t, 2)
	f.fails(k[0], "CODE", limit(5*time.Hour), nil)
	f.says(k[1], 5*time.Hour)
	f.seen("a/a#3")
	if got := f.closedFor(); got < 4*time.Hour {
		t.Fatalf("closed for %s", got)
	}
	f.step(LiftCommanded{Resource: claude})
	if got := f.m.Cooldowns(); len(got) != 0 || f.state("a/a#3") != Claiming {
		t.Errorf("lifted, and there is %+v; #3 is %s", got, f.state("a/a#3"))
	}
	if !f.m.Task(k[0]).plans(DoRecheck) {
		t.Errorf("#1 is %s until %s", f.state(k[0]), f.m.Task(k[0]).Until)
	}
	f.says(k[1], 5*time.Hour)
	if got := f.closedFor(); got != 15*time.Minute {
		t.Errorf("one task's statement after the lift closes it for %s", got)
	}
	before := len(f.m.facts)
	f.step(LiftCommanded{Resource: "model.open"})
	if len(f.m.facts) != 0 || before == 0 {
		t.Errorf("lifting an open resource decided %v", f.m.facts)
	}
}

// TestLiftGitHub checks that a lift of GitHub ends the waits of the director and of deferred effects.
func TestLiftGitHub(t *testing.T) {
	f := newFleet(t, "a/a#1")
	f.step(EffectEnded{Task: "a/a#1", Effect: f.m.Task("a/a#1").Outbox[0].Effect.ID, Failure: &EffectError{
		Reason: recovery.RateLimited, Text: "429", Transient: true, Resource: recovery.GitHubAPI,
		Until: f.now.Add(time.Hour),
	}})
	if f.m.Phase() != PhaseCooldown || f.m.githubOpensAt().Before(f.now) {
		t.Fatalf("phase %s", f.m.Phase())
	}
	f.step(LiftCommanded{Resource: GitHubWrite})
	if t1 := f.m.Task("a/a#1"); f.m.Phase() != PhaseMonitor || t1.soft.inFlight == "" {
		t.Errorf("phase %s, #1 waits for %+v", f.m.Phase(), t1.Outbox)
	}
}

// TestABudgetOfItsOwnClosesNothingElse checks that an exhausted quota of GraphQL or search does not close GitHub.
func TestABudgetOfItsOwnClosesNothingElse(t *testing.T) {
	for resource, want := range map[string]Phase{
		"github.graphql": PhaseMonitor, "github.search": PhaseMonitor,
		GitHubRead: PhaseCooldown, GitHubAPI: PhaseCooldown,
	} {
		f := newFleet(t)
		f.step(CooldownReported{Resource: resource, Until: f.now.Add(time.Hour), Why: "no points left"})
		if got := f.m.Phase(); got != want || f.m.githubOpensAt().After(f.now) != (want == PhaseCooldown) {
			t.Errorf("%s: %s until %s, want %s", resource, got, f.m.githubOpensAt(), want)
		}
		if c := f.m.Cooldowns(); len(c) != 1 || c[0].Resource != resource {
			t.Errorf("%s: shown are %+v", resource, c)
		}
	}
}

// TestCooldownsOfOldJournals checks that cooldowns without an origin, as in old journals, are read and can be lifted.
func TestCooldownsOfOldJournals(t *testing.T) {
	records, err := ReadBatch(
		[]byte(`{"at":"2026-11-21T10:00:00Z","cause":{"kind":"cooldown_reported","body":{}},"facts":[` +
			`{"kind":"cooldown_set","body":{"resource":"model.anthropic","until":"2026-11-22T10:00:00Z","why":"rate_limited"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := New(testConfig())
	m.Replay(records)
	c := m.Cooldowns()
	if len(c) != 1 || !c[0].Since.IsZero() || c[0].Origin() != "" {
		t.Fatalf("%+v", c)
	}
	mustStep(t, m, epoch.Add(time.Hour), LiftCommanded{Resource: claude})
	if len(m.Cooldowns()) != 0 {
		t.Error("not lifted")
	}
	if kinds := slices.IndexFunc(facts, func(r factRow) bool { return r.kind == "cooldown_lifted" }); kinds < 0 {
		t.Error("no such kind")
	}
}

// TestEndedCooldownsAreKept checks that cooldowns that ended a day ago are dropped, and that the oldest are dropped if
// there are more than mostEnded. The others must stay, because they decide when a claim becomes stale.
func TestEndedCooldownsAreKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	all := []Cooldown{
		{Resource: "model.old", Until: now.Add(-keptAfterEnd)},
		{Resource: "model.x", Until: now.Add(-time.Minute)},
		{Resource: "github.write", Until: now.Add(time.Minute)},
	}
	if left := withoutLongEnded(slices.Clone(all), now); len(left) != 2 || left[0].Resource != "model.x" {
		t.Errorf("left %+v, want the model that opened a minute ago, and the closed resource", left)
	}
	for i := range 2 * mostEnded {
		all = append(all, Cooldown{Resource: fmt.Sprint("model.", i), Until: now.Add(-time.Second)})
	}
	left := withoutLongEnded(all, now)
	if n := len(left); n != mostEnded+1 || left[n-1].Resource != fmt.Sprint("model.", 2*mostEnded-1) {
		t.Errorf("%d cooldowns are left, the last one is %+v", n, left[n-1])
	}
}
