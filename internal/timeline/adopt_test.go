package timeline

import (
	"fmt"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// TestWhatCouldNotBeReadIsMarkedAndTheMachineIsRight checks that after a truncated reading, each timeline continues
// from the machine's state and marks the gap.
func TestWhatCouldNotBeReadIsMarkedAndTheMachineIsRight(t *testing.T) {
	broken, marked := 0, 0
	recorded(t, func(name string, batches [][]fsm.Record) {
		for cut := 0; cut < len(batches)-1; cut += 3 {
			whole, late := NewBook(config(t), DefaultLimits), NewBook(config(t), DefaultLimits)
			adopt := (cut + len(batches)) / 2
			for i, records := range batches {
				whole.Apply(uint64(i+1), records)
				if i < cut || i > adopt {
					late.Apply(uint64(i+1), records)
				}
				if i == adopt {
					state, err := whole.Machine().Snapshot()
					if err == nil {
						err = late.Restore(uint64(i+1), state)
					}
					if err != nil {
						t.Fatal(name, err)
					}
				}
				if i < adopt {
					continue
				}
				now := whole.Machine().Now()
				for _, task := range whole.Machine().Tasks() {
					s, ok := late.Task(task.Key, now)
					if !ok || s.State != task.State.String() || s.Attempt != task.Attempt ||
						!s.Since.Equal(task.Since) || (task.State == fsm.Blocked) && s.Asked == nil {
						t.Fatalf("%s, read to %d, adopted at %d, at %d: %s is %s in attempt %d since %s, "+
							"want %s in attempt %d since %s",
							name, cut, adopt+1, i+1, task.Key, s.State, s.Attempt, s.Since, task.State, task.Attempt,
							task.Since)
					}
				}
				for k, s := range late.tasks {
					if !s.Over && whole.Machine().Task(s.Issue) == nil {
						t.Fatalf("%s: %s has ended, but its timeline continues as %s", name, k, s.State)
					}
				}
			}
			broken++
			if all, _ := late.Events(Place{}, ""); containsKind(all, KindMissing) {
				marked++
			}
		}
	})
	if broken < 100 || marked != broken {
		t.Errorf("%d books of broken journals, and %d of them say that something is missing", broken, marked)
	}
}

func containsKind(all []Event, kind string) bool {
	for i, e := range all {
		if e.Kind == kind {
			return i == 0 || e.ID.After(all[i-1].ID)
		}
	}
	return false
}

// TestAStoryIsBounded retries an issue without end. Memory is bounded, and the timeline mentions omissions.
func TestAStoryIsBounded(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := NewBook(config(t), Limits{Attempts: 10})
	seq := uint64(0)
	k := fsm.OfTask{Task: "acme/widgets#1"}
	add := func(facts ...fsm.Fact) {
		seq++
		at = at.Add(time.Second)
		b.Apply(seq, []fsm.Record{{At: at, Facts: facts}})
	}
	add(fsm.TaskQueued{Task: k.Task, Nonce: "n", Title: "x"})
	const attempts, verdicts = 100, 30
	for n := 1; n <= attempts; n++ {
		add(fsm.AttemptBegan{OfTask: k, N: n})
		for i := range verdicts {
			add(fsm.VerdictMade{
				OfTask: k, Attempt: n, Finding: recovery.Finding{Reason: recovery.Overloaded, Cause: fmt.Sprint(i)},
				Verdict: recovery.Verdict{Action: recovery.Retry, Reason: recovery.Overloaded},
			})
		}
	}
	s, _ := b.Task(k.Task, at)
	if len(s.Attempts) > 10 || len(s.Attempts) < 9 || s.Earlier+len(s.Attempts) != attempts ||
		s.Attempts[len(s.Attempts)-1].N != attempts {
		t.Errorf("%d attempts and %d earlier ones, want %d in all and at most 10", len(s.Attempts), s.Earlier, attempts)
	}
	for _, a := range s.Attempts {
		if n := len(a.Decided); n > 10 || a.Dropped+n != verdicts || a.Decided[n-1].Cause != fmt.Sprint(verdicts-1) {
			t.Errorf("attempt %d: %d decisions and %d dropped, want %d in all and at most 10", a.N, n, a.Dropped,
				verdicts)
		}
	}
}

// TestAGrantSaysWhatItDoesNotGiveBack grants fewer attempts than configured, which does not reset that meter. The event
// must not mention a reset.
func TestAGrantSaysWhatItDoesNotGiveBack(t *testing.T) {
	b := NewBook(config(t), Limits{})
	k := fsm.OfTask{Task: "acme/widgets#1"}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b.Apply(1, []fsm.Record{{At: at, Facts: []fsm.Fact{
		fsm.TaskQueued{Task: k.Task, Nonce: "n"},
		fsm.TallyReset{OfTask: k, By: "octocat", Redispatches: 2},
		fsm.TallyReset{OfTask: k, By: "octocat"},
	}}})
	all, _ := b.Events(Place{Seq: 1}, "")
	if len(all) != 2 ||
		all[0].Text != "All meters are reset to zero, except that 2 re-dispatches count as used: octocat" ||
		all[1].Text != "All meters are reset to zero: octocat" {
		t.Errorf("%+v", all)
	}
}
