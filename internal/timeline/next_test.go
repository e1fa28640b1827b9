package timeline

import (
	"strings"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// TestAStorySaysWhatToDoNext checks that a timeline in any state gives advice. For a question, the comment and the
// command that answer it come first.
func TestAStorySaysWhatToDoNext(t *testing.T) {
	seen := map[string]int{}
	recorded(t, func(name string, batches [][]fsm.Record) {
		b := NewBook(config(t), Limits{})
		for i, records := range batches {
			b.Apply(uint64(i+1), records)
			for _, k := range issues(b) {
				s, _ := b.Task(k, b.Machine().Now())
				seen[s.State]++
				if s.Next == "" || strings.Contains(s.Next, "  ") {
					t.Fatalf("%s: %s is %s, and next is %q", name, k, s.State, s.Next)
				}
				if (s.State == fsm.Blocked.String() || s.State == fsm.Released.String()) && s.Why == "" &&
					s.Claims > 0 && s.came != (came{}) {
					t.Errorf("%s: %s is %s without an explanation", name, k, s.State)
				}
				if s.State != fsm.Blocked.String() {
					continue
				}
				if len(s.Can) < 2 || !strings.HasPrefix(s.Can[0].Do, "/agent ") || !s.Can[0].Advised ||
					!strings.HasPrefix(s.Can[1].Do, "director ") || !s.Can[1].Advised {
					t.Fatalf("%s: %s: %+v", name, k, s.Can)
				}
				for _, want := range []string{
					"director snooze ", "director grant ", "director take ",
					"director logs ",
				} {
					n := 0
					for _, r := range s.Can {
						if strings.HasPrefix(r.Do, want) {
							n++
						}
					}
					if n != 1 && (want != "director logs " || s.Attempt > 0) {
						t.Fatalf("%s: %s: %d times %q in %+v", name, k, n, want, s.Can)
					}
				}
			}
		}
	})
	for _, i := range fsm.States {
		if seen[i.Name] == 0 {
			t.Errorf("no task was ever %s", i.Name)
		}
	}
}

// TestACommentAsACommand checks the translation of a comment to the equivalent command.
func TestACommentAsACommand(t *testing.T) {
	for comment, want := range map[string]string{
		"/agent resume":                     "director retry acme/widgets#21",
		"/agent retry":                      "director retry acme/widgets#21",
		"/agent retry use the table's rows": `director retry acme/widgets#21 --text 'use the table'\''s rows'`,
		"/agent retry <which one>":          "director retry acme/widgets#21 --text '<which one>'",
		"/agent fresh":                      "director fresh acme/widgets#21",
		"/agent snooze 2h":                  "director snooze acme/widgets#21 2h",
		"/agent budget 3":                   "director grant acme/widgets#21 +3",
		"/agent take":                       "director take acme/widgets#21",
		"/agent why":                        "",
		"thanks":                            "",
	} {
		if got, _ := typed("acme/widgets#21", comment); got != want {
			t.Errorf("%s: got %s, want %s", comment, got, want)
		}
	}
}

// TestAPausedDirectorIsSaidToBeResumed checks that waiting tasks explain how to resume, because only a person can.
func TestAPausedDirectorIsSaidToBeResumed(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := NewBook(config(t), Limits{})
	b.Apply(1, []fsm.Record{{At: at, Facts: []fsm.Fact{
		fsm.PhaseChanged{From: fsm.PhaseMonitor, To: fsm.PhasePaused, Why: "operator"},
		fsm.TaskQueued{Task: "acme/widgets#1", Nonce: "n1", Title: "x"},
	}}})
	s, ok := b.Task("acme/widgets#1", at)
	if !ok || !strings.Contains(s.Next, "director resume") {
		t.Errorf("%v %q", ok, s.Next)
	}
}

// TestStepsStandOnTheirOwnLines checks that each step before the answer is on a separate line.
func TestStepsStandOnTheirOwnLines(t *testing.T) {
	s := Task{
		Issue: "acme/widgets#1", State: fsm.Blocked.String(),
		Next: "Step 1: Raise the limit. Step 2: comment `/agent resume`; without step 1 it fails again.",
	}
	var out strings.Builder
	if err := s.Explain(&out, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if want := "DO NEXT  Step 1: Raise the limit.\n         Step 2: comment `/agent resume`"; !strings.Contains(
		out.String(), want) {
		t.Errorf("%s\nlacks %s", out.String(), want)
	}
}

// TestWorkThatIsShownHasAHistory checks that finished work lists the answers of people and the ends of earlier
// attempts.
func TestWorkThatIsShownHasAHistory(t *testing.T) {
	lost := Decision{Reason: recovery.NetworkTransient, Means: "a connection was cut"}
	s := Task{Attempt: 4, said: fsm.Hint{From: "octocat", Text: "use  B"}, Attempts: []Attempt{
		{N: 1, Decided: []Decision{lost}},
		{N: 2, Decided: []Decision{lost}},
		{N: 3, Decided: []Decision{{Stage: "REVIEW", Means: "a check refused it"}}},
		{N: 4},
	}}
	want := "Attempt 4 has passed all its stages, after octocat said: use B; attempts 1 and 2 failed: a connection " +
		"was cut; attempt 3 was sent back: a check refused it"
	if got := s.whyDone(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestAnErrorIsToldOnce checks that an error appears once per attempt.
func TestAnErrorIsToldOnce(t *testing.T) {
	all := []Attempt{{Decided: []Decision{{Cause: "boom"}}}, {Decided: []Decision{{Cause: "boom"}}}}
	told := causes{}
	for i, want := range []string{"The worker reports: boom", "It was given up", "boom and more"} {
		line := []string{"The worker reports: boom", "It was given up: boom", "boom and more"}[i]
		if got := told.once(line, all); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// After an upgrade, a pending question appears in the new version's text. The test replaces the texts in the recorded
// journals, to check that they are not used.
func TestAPendingQuestionHasTodaysWords(t *testing.T) {
	const other = "Words of another version."
	topics := map[recovery.Topic]int{}
	recorded(t, func(name string, batches [][]fsm.Record) {
		b := NewBook(config(t), Limits{})
		verdicts := map[fsm.IssueKey]fsm.VerdictMade{}
		for i, records := range batches {
			for n := range records {
				for k, f := range records[n].Facts {
					switch f := f.(type) {
					case fsm.VerdictMade:
						verdicts[f.Task] = f
					case fsm.EffectPlanned:
						if f.Effect.Escalation != nil {
							f.Effect.Escalation = new(*f.Effect.Escalation)
							f.Effect.Escalation.Ask = other
							records[n].Facts[k] = f
						}
					}
				}
			}
			b.Apply(uint64(i+1), records)
			for _, k := range issues(b) {
				s, _ := b.Task(k, b.Machine().Now())
				if s.Asked == nil || s.Asked.Title != "" { // the last question is on the issue, with its original text
					continue
				}
				veto := recovery.Topic(verdicts[k].Verdict.Veto)
				want := recovery.Case{Reason: s.Asked.Reason, Topic: veto}.Words().Alone
				if s.Next != want || s.Asked.Ask != want {
					t.Errorf("%s: %s: asks %q, want %q", name, k, s.Next, want)
				}
				topics[veto]++
			}
		}
	})
	for _, guard := range []recovery.Topic{"", "budget", "paid_call_budget"} {
		if topics[guard] == 0 {
			t.Errorf("no question about %q was pending", guard)
		}
	}
}
