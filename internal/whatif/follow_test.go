package whatif

import (
	"slices"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

const issue = fsm.IssueKey("acme/widgets#7")

var epoch = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)

// history returns the journal of a task whose attempts fail for these reasons, an hour apart. An empty reason stands
// for an attempt that delivers the work.
func history(t *testing.T, cfg fsm.Config, key fsm.IssueKey, nonce string,
	reasons ...recovery.Reason,
) (out []fsm.Record) {
	t.Helper()
	m := fsm.New(cfg)
	add := func(at time.Time, f fsm.Fact) {
		m.Apply(at, f)
		out = append(out, fsm.Record{At: at, Facts: fsm.FactList{f}})
	}
	about := fsm.OfTask{Task: key}
	add(epoch, fsm.TaskQueued{Task: key, Nonce: nonce})
	for i, reason := range reasons {
		at := epoch.Add(time.Duration(i+1) * time.Hour)
		add(at, fsm.AttemptBegan{OfTask: about, N: i + 1})
		add(at, fsm.UsageCounted{OfTask: about, Usage: recovery.Usage{PaidCalls: 1}, Ended: true})
		if reason == "" {
			add(at, fsm.WorkDelivered{Task: key, Delivery: fsm.DeliverResult{Branch: "retake/7"}})
			continue
		}
		f := fsm.VerdictMade{
			OfTask: about, Attempt: i + 1, Stage: "CODE",
			Finding: recovery.Finding{Reason: reason, Cause: "it failed", Rule: "test", Confidence: 1},
		}
		f, ok := m.Redecide(at, f, m.Canary)
		if !ok {
			t.Fatal("no verdict")
		}
		add(at, f)
	}
	return out
}

// document parses a policy on top of the director's default, within the limits of config.
func document(t *testing.T, text string) fsm.Config {
	t.Helper()
	base, err := policy.Preset("director")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("mine", base, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b := recovery.DefaultBackoff
	b.Jitter = recovery.NoJitter
	return fsm.Config{Policy: p.With(policy.Limits{MaxRetries: 9, Backoff: b}), FixRounds: 3}
}

// Rows of another policy use other counters, which the journal's tally does not have. The claim is therefore charged
// under these names from its beginning.
func TestAnotherPolicysCountersAreKept(t *testing.T) {
	t.Parallel()
	records := history(t, config(t, policy.Limits{MaxRetries: 9}), issue, "n1", "network_transient", "timeout",
		"network_transient", "")
	r := follow(document(t, "[[row]]\non = \"network_transient\"\ncount = \"task\"\nladder = [{ action = \"retry\", "+
		"times = 1 }]\n"), Options{}, records)
	if len(r.Cases) != 1 || r.Counts != (Counts{Same: 2, Differ: 1}) {
		t.Fatalf("%+v: %+v", r.Counts, r.Cases)
	}
	c := r.Cases[0]
	if c.Attempt != 3 || c.Would.Action != recovery.Escalate || c.Kind != KindAction ||
		c.Then != (Then{Attempts: 1, Usage: recovery.Usage{PaidCalls: 1}, Delivered: true}) {
		t.Errorf("%+v", *c)
	}
	if want := (Totals{
		FewerAttempts: 1, MoreAsked: 1, SparedAttempts: 1, SparedUsage: recovery.Usage{PaidCalls: 1},
		SparedDelivered: 1,
	}); r.Totals != want {
		t.Errorf("%+v", r.Totals)
	}
}

// A verdict that differs only in its delay does not end the comparison of the claim.
func TestAnotherDelayIsNoOtherHistory(t *testing.T) {
	t.Parallel()
	records := history(t, config(t, policy.Limits{MaxRetries: 9}), issue, "n1", "network_transient",
		"network_transient", "network_transient", "network_transient")
	r := follow(document(t, "[[row]]\non = \"network_transient\"\nladder = [{ action = \"retry\", times = 3 }]\n"+
		"backoff = { formula = \"fixed\", base_seconds = 2, jitter = \"none\" }\n"),
		Options{}, records)
	var got []float64
	for _, c := range r.Cases {
		if c.Kind != KindDelay {
			t.Errorf("%+v", *c)
		}
		got = append(got, c.Was.DelaySeconds, c.Would.DelaySeconds)
	}
	if want := []float64{1, 2, 4, 2}; !slices.Equal(got, want) { // the second delays are equal
		t.Errorf("delays %v, want %v", got, want)
	}
	if r.Counts != (Counts{Same: 2, Differ: 2}) || r.Totals != (Totals{Longer: 1, Shorter: 1}) {
		t.Errorf("%+v %+v", r.Counts, r.Totals)
	}
}

// For a question that the other policy would not have asked, the report has the time until the answer, but not the
// later events.
func TestAQuestionThatWouldNotHaveBeenAsked(t *testing.T) {
	t.Parallel()
	records := history(t, config(t, policy.Limits{MaxRetries: 9}), issue, "n1", "tests_failed")
	answered := epoch.Add(3 * time.Hour)
	about := fsm.OfTask{Task: issue}
	records = append(records, fsm.Record{At: answered, Facts: fsm.FactList{
		fsm.TallyReset{OfTask: about, By: "ada"},
		fsm.AttemptBegan{OfTask: about, N: 2},
		fsm.UsageCounted{OfTask: about, Usage: recovery.Usage{PaidCalls: 5}, Ended: true},
	}})
	r := follow(document(t, "[[row]]\non = \"tests_failed\"\nladder = [{ action = \"fix_attempt\", times = 1 }]\n"),
		Options{}, records)
	if len(r.Cases) != 1 || r.Cases[0].Then != (Then{AnsweredSeconds: 7200}) ||
		r.Totals != (Totals{MoreAttempts: 1, FewerAsked: 1}) {
		t.Errorf("%+v %+v", r.Cases, r.Totals)
	}
}

// A claim is replayed from its start regardless of --since. After a verdict that would have changed the claim's
// history, later verdicts are not compared.
func TestSinceAndOnlySayWhatIsReported(t *testing.T) {
	t.Parallel()
	cfg := config(t, policy.Limits{MaxRetries: 9})
	records := history(t, cfg, issue, "n1", "network_transient", "network_transient", "network_transient")
	records = append(records, history(t, cfg, "acme/widgets#8", "n2", "network_transient", "network_transient")...)
	fewer := config(t, policy.Limits{MaxRetries: 1})
	for _, c := range []struct {
		o    Options
		want Counts
	}{
		{Options{}, Counts{Same: 2, Differ: 2, Later: 1}},
		{Options{Since: epoch.Add(150 * time.Minute)}, Counts{Later: 1}},
		{Options{Since: epoch.Add(2 * time.Hour)}, Counts{Differ: 2, Later: 1}},
		{Options{Only: func(k fsm.IssueKey) bool { return k == issue }}, Counts{Same: 1, Differ: 1, Later: 1}},
		{Options{Only: func(fsm.IssueKey) bool { return false }}, Counts{}},
	} {
		if r := follow(fewer, c.o, records); r.Counts != c.want {
			t.Errorf("%+v, want %+v", r.Counts, c.want)
		}
	}
}

// Tasks that start before the journal, and verdicts without a policy decision, are only counted.
func TestWhatCannotBeComparedIsCounted(t *testing.T) {
	t.Parallel()
	cfg := config(t, policy.Limits{MaxRetries: 9})
	records := history(t, cfg, issue, "n1", "network_transient", "network_transient")[1:]
	records = append(records,
		fsm.Record{At: epoch, Facts: fsm.FactList{fsm.TaskQueued{Task: issue, Nonce: "n2"}, fsm.VerdictMade{
			OfTask: fsm.OfTask{Task: issue}, Verdict: recovery.Verdict{
				Action: recovery.Escalate,
				Row:    "director.deliver",
			},
		}}})
	if r := follow(config(t, policy.Limits{}), Options{}, records); r.Counts != (Counts{Unknown: 2, NotAsked: 1}) {
		t.Errorf("%+v", r.Counts)
	}
}

// A difference that the current configuration also produces is marked.
func TestWhatIsSoAlreadyIsMarked(t *testing.T) {
	t.Parallel()
	records := history(t, config(t, policy.Limits{MaxRetries: 9}), issue, "n1", "network_transient",
		"network_transient", "network_transient")
	records = append(records, history(t, config(t, policy.Limits{MaxRetries: 9}), "acme/widgets#8", "n2",
		"tests_failed")...)
	today := follow(config(t, policy.Limits{MaxRetries: 1}), Options{}, records)
	r := follow(document(t, "[[row]]\non = \"tests_failed\"\nladder = [{ action = \"fix_attempt\", times = 1 }]\n"),
		Options{}, records)
	if r.Compare(today); r.Counts != (Counts{Same: 3, Differ: 1}) {
		t.Errorf("%+v", r.Counts)
	}
	r = follow(config(t, policy.Limits{MaxRetries: 1}), Options{}, records)
	if r.Compare(today); r.Counts != (Counts{Same: 2, Differ: 1, Later: 1, Already: 1}) || !r.Cases[0].Already {
		t.Errorf("%+v", r.Counts)
	}
	r = follow(config(t, policy.Limits{MaxRetries: 0}), Options{}, records) // asks a person sooner than today
	if r.Compare(today); r.Counts != (Counts{Same: 1, Differ: 1, Later: 2}) {
		t.Errorf("%+v", r.Counts)
	}
}
