package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Each property is tested in random worlds (see world), which also call sound after each step.

func TestNeverTwoAuthorisedAttempts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run() // take fails on a start while another container exists
		last := map[IssueKey]string{}
		for _, f := range w.history() {
			switch f := f.(type) {
			case EffectPlanned:
				if f.Effect.Kind != DoStart {
					continue
				}
				if running := last[f.Effect.Task]; running != "" {
					t.Fatalf("%s is planned while %s is not confirmed gone", f.Effect.Worker, running)
				}
				last[f.Effect.Task] = f.Effect.Worker
			case EffectDone:
				if strings.HasPrefix(f.Effect, last[f.Task]+"/stop") && f.Failed == "" {
					last[f.Task] = ""
				}
			}
		}
	})
}

func TestReplayReachesTheSameState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run()
		for !w.d.Idle() {
			w.land()
			w.flush()
		}
		fromStart := New(w.cfg)
		if err := w.journal.replay(fromStart, 0); err != nil {
			t.Fatal(err)
		}
		if err := sameState(w.m(), fromStart); err != nil {
			t.Fatal("from the start:", err)
		}
		if w.snapshot == nil {
			return
		}
		fromSnapshot := New(w.cfg)
		if err := fromSnapshot.Restore(w.snapshot); err != nil {
			t.Fatal(err)
		}
		if err := w.journal.replay(fromSnapshot, w.snapAt); err != nil {
			t.Fatal(err)
		}
		if err := sameState(w.m(), fromSnapshot); err != nil {
			t.Fatal("from the snapshot:", err)
		}
	})
}

// A replayed machine makes the same decisions as the machine that wrote the journal. Apart from soft state the two are
// equal. After Booted, their soft state is also equal.
func TestReplayedMachineDecidesAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run()
		for !w.d.Idle() {
			w.land()
			w.flush()
		}
		data, err := w.m().Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		a, b := New(w.cfg), New(w.cfg)
		if err := a.Restore(data); err != nil {
			t.Fatal(err)
		}
		if err := w.journal.replay(b, 0); err != nil {
			t.Fatal(err)
		}
		for _, body := range []EventBody{Booted{RunID: "r"}, w.view(w.issues...), w.list(), Tick{}} {
			fa, ea := a.Step(Event{At: w.now, Body: body})
			fb, eb := b.Step(Event{At: w.now, Body: body})
			if x, y := fmt.Sprint(lines(fa, ea)), fmt.Sprint(lines(fb, eb)); x != y {
				t.Fatalf("%T: restored\n%s\nreplayed\n%s", body, x, y)
			}
		}
	})
}

func lines(facts []Fact, effects []Effect) []string {
	var out []string
	for _, f := range facts {
		out = append(out, factLine(f))
	}
	for _, e := range effects {
		out = append(out, effectLine(e))
	}
	return out
}

func TestNoEffectBeforeItsFact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run() // take fails on an effect without its fact in the journal
	})
}

func TestReportIsDecidedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run()
		w.settle(100)
		if err := decidedOnce(w.history()); err != nil {
			t.Fatal(err)
		}
	})
}

// decidedOnce reports a report that was accepted twice, or an attempt or later delivery with two verdicts.
func decidedOnce(history []Fact) error {
	accepted, verdicts := map[string]bool{}, map[string]bool{}
	claim, attempt := map[IssueKey]string{}, map[IssueKey]string{}
	for _, f := range history {
		switch f := f.(type) {
		case TaskQueued:
			claim[f.Task] = f.Nonce
		case AttemptBegan:
			attempt[f.Task] = AttemptID(claim[f.Task], f.N)
		case ReportAccepted:
			k := f.Worker + "/" + f.Ref.ID
			if accepted[k] {
				return fmt.Errorf("report %s was accepted twice", k)
			}
			accepted[k] = true
		case Moved:
			if f.On == OnDeliverAgain {
				delete(verdicts, attempt[f.Task])
			}
		case VerdictMade:
			if f.Stage == "RETRY_WAIT" {
				continue // about the issue, not the attempt
			}
			k := AttemptID(claim[f.Task], f.Attempt)
			if verdicts[k] {
				return fmt.Errorf("two verdicts on attempt %d of %s", f.Attempt, f.Task)
			}
			verdicts[k] = true
		}
	}
	return nil
}

// An attempt gets a second verdict if its delivery fails permanently, and a second delivery of the same work finds
// nothing to deliver. Without the second delivery, decidedOnce rejects the second verdict.
func TestEachDeliveryIsDecidedOnce(t *testing.T) {
	t.Parallel()
	_, s := play(t, `
> 0s boot run-1
> 1s issues 21:task
> 2s done k21-0/claim
> 3s done k21-1/start
> 4s hello k21-1
> 5s report k21-1 r1 ok
> 6s gone k21-1/stop exit=0
> 7s failed k21-1/deliver permission_denied permanent text=403_Forbidden
> 8s done k21-1/escalate
> 9s answered 21 retry by=octocat
> 10s done k21-1/claim.1
> 11s done k21-1/deliver.1 nothing
> end 21 Backoff
`)
	history := s.journal.facts(t)
	if err := decidedOnce(history); err != nil {
		t.Error(err)
	}
	verdicts := 0
	for _, f := range history {
		if _, ok := f.(VerdictMade); ok {
			verdicts++
		}
	}
	if verdicts != 2 {
		t.Errorf("%d verdicts, want one for each delivery", verdicts)
	}
	again := func(f Fact) bool { m, ok := f.(Moved); return ok && m.On == OnDeliverAgain }
	if decidedOnce(slices.DeleteFunc(history, again)) == nil {
		t.Error("two verdicts without a second delivery go unnoticed")
	}
}

// No accepted success is lost: its attempt is delivered, unless it was withdrawn.
func TestAcceptedSuccessIsDelivered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run()
		outcome := map[IssueKey]Outcome{}
		for _, f := range w.history() {
			switch f := f.(type) {
			case AttemptBegan:
				delete(outcome, f.Task)
			case ReportAccepted:
				if _, decided := outcome[f.Task]; f.Final && !decided {
					outcome[f.Task] = map[bool]Outcome{true: OutcomeOK, false: OutcomeFailed}[f.OK]
				}
			case EndingSet:
				if f.Outcome == OutcomeWithdrawn {
					outcome[f.Task] = OutcomeWithdrawn
				}
			case Moved:
				if f.From == Stopping && outcome[f.Task] == OutcomeOK && f.To != Delivering {
					t.Fatalf("%s succeeded, and went to %s", f.Task, f.To)
				}
			}
		}
	})
}

func TestSlotsNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run() // sound counts the slots after every step
		held, most := map[IssueKey]bool{}, 0
		for _, f := range w.history() {
			if m, ok := f.(Moved); ok {
				delete(held, m.Task)
				if m.To.Info().Slot {
					held[m.Task] = true
				}
			}
			most = max(most, len(held))
		}
		if most > w.cfg.MaxWorkers {
			t.Fatalf("%d tasks held a slot, director.max_workers is %d", most, w.cfg.MaxWorkers)
		}
	})
}

func TestRedispatchesNeverExceedMaxRetries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run()
		w.settle(100)
		// granted means that the pending attempt was charged before a person reset the meters
		again, granted := map[IssueKey]int{}, map[IssueKey]bool{}
		for _, f := range w.history() {
			switch f := f.(type) {
			case TaskQueued:
				again[f.Task], granted[f.Task] = 0, false
			case TallyReset:
				again[f.Task], granted[f.Task] = f.Redispatches, f.Next.Reason != ""
			case VerdictMade:
				granted[f.Task] = false
			case AttemptBegan:
				if f.Next.Charges != "" && !granted[f.Task] {
					again[f.Task]++
				}
				granted[f.Task] = false
				if again[f.Task] > w.cfg.Policy.Guards().MaxRetries {
					t.Fatalf("%s was dispatched again %d times, director.max_retries is %d", f.Task, again[f.Task],
						w.cfg.Policy.Guards().MaxRetries)
				}
			}
		}
	})
}

func TestCooldownHoldsGitHubEffects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run() // offer fails on an effect that uses GitHub during its cooldown
		w.offer(CooldownReported{Resource: GitHubWrite, Until: w.now.Add(time.Hour), Why: "429"})
		w.now = w.now.Add(30 * time.Minute)
		w.offer(w.view(w.issues...))
		w.offer(Tick{})
	})
}

// After faults have stopped, failed tasks end Done, Blocked or Released, and all eligible issues start. Views are
// answered, effects succeed, and workers report.
func TestEveryTaskEndsSomewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run()
		const limit = 400 // 4 issues, at most 24 attempts of each issue, about 4 rounds for an attempt
		if n := w.settle(limit); n == limit {
			for _, task := range w.m().Tasks() {
				t.Logf("%+v", *task)
			}
			t.Fatalf("not at rest after %d rounds: phase %s", limit, w.m().Phase())
		}
	})
}

func TestEffectIDsAreStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run() // take fails if an id has different content
		w.settle(100)
		planned := map[string]bool{}
		for _, f := range w.history() {
			if p, ok := f.(EffectPlanned); ok {
				if planned[p.Effect.ID] {
					t.Fatalf("%s was planned twice", p.Effect.ID)
				}
				planned[p.Effect.ID] = true
			}
		}
	})
}

func TestOutOfTableNeverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run()
		w.settle(100)
		at := map[IssueKey]State{}
		for _, f := range w.history() {
			switch f := f.(type) {
			case TaskQueued:
				at[f.Task] = Queued
			case Moved:
				if to, ok := f.From.After(f.On); !ok || to != f.To {
					t.Fatalf("%s moved %s -> %s (%s), which is not in the table", f.Task, f.From, f.To, f.On)
				}
				if at[f.Task] != f.From {
					t.Fatalf("%s moved from %s, but was %s", f.Task, f.From, at[f.Task])
				}
				at[f.Task] = f.To
			}
		}
	})
}

func TestStepIgnoresStaleOutcomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run()
		for range 5 {
			w.stale()
		}
		facts, effects := w.m().Step(Event{At: w.m().now, Body: EffectEnded{Task: "no/such#1", Effect: "x-1/start"}})
		if len(facts)+len(effects) > 0 {
			t.Fatalf("an outcome of nothing decided %v and did %v", facts, effects)
		}
	})
}
