package fsm

import (
	"testing"
	"time"

	"retake/internal/recovery"
)

// rebuild builds a journal from the evidence, and starts a new machine on that journal. It returns the machine and the
// effects of its first step.
func rebuild(t *testing.T, known *Machine, found ...FoundTask) (*Machine, []Effect) {
	t.Helper()
	d := NewDriver(New(testConfig()), 0, "p0")
	j := &journal{}
	for _, e := range Rebuild("r1", known, found, nil, "the journal is gone") {
		if err := d.Offer(Event{At: epoch, Body: e}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for r := d.Ready(); r.Batch != nil; r = d.Ready() {
		d.Appended(j.append(r.Batch))
	}
	m := New(testConfig())
	if err := j.replay(m, 0); err != nil {
		t.Fatal(err)
	}
	lived, _ := d.Machine().Snapshot()
	read, _ := m.Snapshot()
	if string(lived) != string(read) {
		t.Fatalf("the rebuilt journal gives\n%s\nand not\n%s", read, lived)
	}
	_, effects := m.Step(Event{At: epoch.Add(time.Second), Body: Booted{RunID: "run-2"}})
	if err := sound(m); err != nil {
		t.Error(err)
	}
	return m, effects
}

const rebuiltKey = IssueKey("acme/widgets#7")

// The test checks the state and the first effect of a task for each row of RebuildRows.
func TestRebuiltFromWhatWasFound(t *testing.T) {
	t.Parallel()
	for name, c := range foundRows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.found.Key, c.found.Title = rebuiltKey, "Parse dates"
			if c.row != "over" {
				c.found.Nonce = "k7"
			}
			if row, _ := New(testConfig()).rebuilt(&c.found); row.Name != c.row {
				t.Fatalf("row %s; want %s", row.Name, c.row)
			}
			m, effects := rebuild(t, nil, c.found)
			task := m.Task(rebuiltKey)
			switch {
			case task == nil && c.state == 0:
				return
			case task == nil || task.State != c.state || task.Attempt != c.found.Attempt || task.Nonce != "k7" ||
				task.Title != "Parse dates":
				t.Fatalf("task %+v; want state %s, attempt %d", task, c.state, c.found.Attempt)
			}
			first := ""
			for _, e := range effects {
				if e.Kind.Durable() && first == "" {
					first = e.ID
				}
			}
			if first != c.does {
				t.Errorf("first it does %q; want %q", first, c.does)
			}
			if c.found.Work.PullRequest > 0 && task.Work != c.found.Work {
				t.Errorf("work %+v; want %+v", task.Work, c.found.Work)
			}
		})
	}
}

// After a rebuild, the next attempt has a higher number than all known attempts, and the known attempts count against
// the budgets.
func TestRebuiltAttemptsGoOnCounting(t *testing.T) {
	t.Parallel()
	m, _ := rebuild(t, nil, FoundTask{
		Key: rebuiltKey, Nonce: "k7", Attempt: 3, Labels: []Label{LabelClaimed},
		Used: recovery.Usage{PaidCalls: 4},
	})
	if task := m.Task(rebuiltKey); task.Tally.Redispatches != 2 || task.Tally.PaidCalls != 4 {
		t.Errorf("after three attempts the tally is %+v; want two redispatches, four paid calls", task.Tally)
	}
	m.Step(Event{At: epoch.Add(2 * time.Second), Body: EffectEnded{
		Task: rebuiltKey, Effect: "k7-3/recheck",
		Claim: &ClaimResult{Ours: true},
	}})
	if task := m.Task(rebuiltKey); task.Attempt != 4 || task.State != Starting {
		t.Errorf("attempt %d is %s; want 4, Starting", task.Attempt, task.State)
	}
}

// If the journal was lost before the decision about a reported success, the work is delivered without another attempt.
func TestRebuiltSuccessIsDelivered(t *testing.T) {
	t.Parallel()
	m, _ := rebuild(t, nil, FoundTask{
		Key: rebuiltKey, Nonce: "k7", Attempt: 1, Reported: true, Checkout: true,
		Labels: []Label{LabelClaimed},
	})
	m.Step(Event{At: epoch.Add(2 * time.Second), Body: EffectEnded{
		Task: rebuiltKey, Effect: "k7-1/stop",
		Stop: &StopResult{Reports: []Report{{Ref: ReportRef{ID: "r1"}, OK: true, Final: true}}},
	}})
	if task := m.Task(rebuiltKey); task.State != Delivering || task.Attempt != 1 {
		t.Errorf("attempt %d is %s; want 1, Delivering", task.Attempt, task.State)
	}
}

// The undamaged part of the journal determines the state unless the evidence is newer. Newer evidence is combined with
// the decisions in the journal.
func TestRebuiltFromAPrefix(t *testing.T) {
	t.Parallel()
	known := New(testConfig())
	known.Apply(epoch, TaskQueued{Task: rebuiltKey, Nonce: "k7", Title: "Parse dates"})
	for _, f := range []Fact{
		Moved{OfTask: OfTask{rebuiltKey}, From: Queued, To: Claiming, On: OnDispatch},
		AttemptBegan{OfTask: OfTask{rebuiltKey}, N: 1},
		Moved{OfTask: OfTask{rebuiltKey}, From: Claiming, To: Starting, On: OnWon},
		Moved{OfTask: OfTask{rebuiltKey}, From: Starting, To: Running, On: OnHello},
		VerdictMade{OfTask: OfTask{rebuiltKey}, Attempt: 1, Finding: recovery.Finding{Reason: recovery.Timeout}},
		PhaseChanged{From: PhaseMonitor, To: PhasePaused},
		CursorAdvanced{Repo: "acme/widgets", Cursor: "c1"},
	} {
		known.Apply(epoch, f)
	}
	found := FoundTask{Key: rebuiltKey, Nonce: "k7", Attempt: 1, Live: 1, Labels: []Label{LabelClaimed}, Checkout: true}
	m, _ := rebuild(t, known, found)
	if task := m.Task(rebuiltKey); task.State != Running || len(task.History) != 1 || m.Phase() != PhasePaused ||
		m.Cursor("acme/widgets") != "c1" {
		t.Errorf("agreed: %s, %d failures, phase %s, cursor %q", task.State, len(task.History), m.Phase(),
			m.Cursor("acme/widgets"))
	}
	found.Attempt, found.Live, found.Question, found.Landed, found.Labels = 2, 0, "k7-2", true, []Label{LabelBlocked}
	m, effects := rebuild(t, known, found)
	if task := m.Task(rebuiltKey); task.State != Blocked || task.Attempt != 2 || len(task.History) != 1 {
		t.Errorf("newer: %s, attempt %d, %d failures; want Blocked, 2, 1", task.State, task.Attempt, len(task.History))
	}
	for _, e := range effects {
		if e.Kind.Durable() {
			t.Errorf("newer: it does %s", e.ID)
		}
	}
	if m, _ = rebuild(t, known, FoundTask{Key: rebuiltKey}); m.Task(rebuiltKey) != nil {
		t.Errorf("a claim that has ended is %s", m.Task(rebuiltKey).State)
	}
}

// There are more tasks than one event takes, and the running tasks are among the last. No attempt begins before the
// machine knows all tasks.
func TestRebuiltDispatchesNothingBeforeTheRun(t *testing.T) {
	t.Parallel()
	var found []FoundTask
	for i := range 2*rebuiltPerEvent + 1 {
		k := IssueKey("acme/widgets#" + string(rune('1'+i/10)) + string(rune('0'+i%10)))
		found = append(found, FoundTask{
			Key: k, Nonce: "k" + string(rune('a'+i/26)) + string(rune('a'+i%26)),
			Attempt: 1, Labels: []Label{LabelClaimed},
		})
	}
	for i := range 3 {
		found[len(found)-1-i].Live = 1
	}
	m, effects := rebuild(t, nil, found...)
	for _, e := range effects {
		if e.Kind.Durable() {
			t.Errorf("%s begins although all slots are taken", e.ID)
		}
	}
	if len(m.Tasks()) != len(found) {
		t.Errorf("%d tasks; want %d", len(m.Tasks()), len(found))
	}
}

// In the undamaged part of the journal the task is queued, but its issue already has the claimed label. The task is
// therefore dropped.
func TestRebuiltFromBeforeAClaim(t *testing.T) {
	t.Parallel()
	for labels, want := range map[Label]State{LabelTask: Queued, LabelClaimed: 0} {
		known := New(testConfig())
		known.Apply(epoch, TaskQueued{Task: rebuiltKey, Nonce: "k7", Title: "Parse dates"})
		known.Apply(epoch, PhaseChanged{From: PhaseMonitor, To: PhasePaused})
		m, _ := rebuild(t, known, FoundTask{Key: rebuiltKey, Labels: []Label{LabelTask, labels}})
		if task := m.Task(rebuiltKey); (task != nil) != (want > 0) {
			t.Errorf("with the label %s there is a task: %t", labels, task != nil)
		}
	}
}

// The undamaged part of the journal is older than the evidence, but has the same attempt and question.
func TestRebuiltFromBeforeWhatIsShown(t *testing.T) {
	t.Parallel()
	for name, c := range shownRows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := New(testConfig())
			c.known.Key, c.known.Nonce, c.found.Key, c.found.Nonce = rebuiltKey, "k7", rebuiltKey, "k7"
			known.Apply(epoch, TaskRebuilt{Row: "known", Rebuilt: c.known})
			c.found.Known = known.Task(rebuiltKey)
			if row, _ := New(testConfig()).rebuilt(&c.found); row.Name != c.row {
				t.Errorf("row %s; want %s", row.Name, c.row)
			}
			m, effects := rebuild(t, known, c.found)
			task := m.Task(rebuiltKey)
			if task.State != c.state || task.Attempt != 2 {
				t.Errorf("it is %s, attempt %d; want %s, 2", task.State, task.Attempt, c.state)
			}
			for _, e := range effects {
				if e.Kind == DoStart && c.found.Live == 0 {
					t.Errorf("%s is carried out again", e.ID)
				}
			}
			if about, answers := c.found.asked(); task.State == InReview && about == 2 && task.Answers <= answers {
				t.Errorf("the next question would have the name of %s", c.found.Question)
			}
		})
	}
}

// If only a branch on GitHub shows a later attempt, the next attempt gets a higher number. A task that waits for the
// end of an attempt, or for an answer about it, keeps the number of that attempt.
func TestRebuiltNumbersAreAboveBranches(t *testing.T) {
	t.Parallel()
	claimed := []Label{LabelClaimed}
	for name, c := range map[string]struct {
		found FoundTask
		want  int
	}{
		"claimed":  {FoundTask{Attempt: 1, Labels: claimed}, 5},
		"answered": {FoundTask{Attempt: 2, Labels: claimed, Question: "k7-2", Landed: true}, 5},
		"in review": {FoundTask{
			Attempt: 2, Labels: []Label{LabelReview},
			Work: DeliverResult{Branch: "retake/7-a2", PullRequest: 12},
		}, 5},
		"question gone": {FoundTask{Attempt: 2, Labels: []Label{LabelBlocked}}, 5},
		"asked":         {FoundTask{Attempt: 2, Labels: []Label{LabelBlocked}, Question: "k7-2", Landed: true}, 2},
		"running":       {FoundTask{Attempt: 2, Live: 2, Labels: claimed, Checkout: true}, 2},
		"finished":      {FoundTask{Attempt: 2, Labels: claimed, Checkout: true}, 2},
	} {
		c.found.Key, c.found.Nonce, c.found.Branch = rebuiltKey, "k7", 5
		if m, _ := rebuild(t, nil, c.found); m.Task(rebuiltKey).Attempt != c.want {
			t.Errorf("%s: attempt %d; want %d", name, m.Task(rebuiltKey).Attempt, c.want)
		}
	}
}

// The branch has a higher number than the attempt in the undamaged part of the journal. Without a checkout of that
// attempt, the branch may be from a later attempt. With its checkout, the branch belongs to an earlier claim.
func TestRebuiltNumbersOfAnOldJournal(t *testing.T) {
	t.Parallel()
	for _, state := range []State{Starting, Running, Stopping, Delivering, Backoff, Parked} {
		for _, left := range []bool{false, true} {
			known := New(testConfig())
			known.Apply(epoch, TaskRebuilt{Row: "known", Rebuilt: Task{
				Key: rebuiltKey, Nonce: "k7", State: state,
				Attempt: 2,
			}})
			f := FoundTask{
				Key: rebuiltKey, Nonce: "k7", Attempt: 2, Branch: 5, Labels: []Label{LabelClaimed},
				Checkout: left, Known: known.Task(rebuiltKey),
			}
			_, task := New(testConfig()).rebuilt(&f)
			want := 5
			if left && state != Backoff && state != Parked {
				want = 2
			}
			if task.Attempt != want {
				t.Errorf("%s, traces are left %t: attempt %d, %s; want %d", state, left, task.Attempt,
					task.State, want)
			}
		}
	}
}

// The undamaged part of the journal has a later attempt than the remaining question, because the later question was
// deleted. The number of an attempt is never used again.
func TestRebuiltAttemptsNeverFall(t *testing.T) {
	t.Parallel()
	known := New(testConfig())
	known.Apply(epoch, TaskRebuilt{Row: "known", Rebuilt: Task{
		Key: rebuiltKey, Nonce: "k7", State: Blocked, Attempt: 3,
		Answers: 1,
	}})
	for name, landed := range map[string]bool{"asked": true, "half asked": false} {
		found := FoundTask{
			Key: rebuiltKey, Nonce: "k7", Attempt: 2, Labels: []Label{LabelBlocked}, Question: "k7-2",
			Landed: landed,
		}
		m, _ := rebuild(t, known, found)
		if task := m.Task(rebuiltKey); task.Attempt != 3 || task.State != Blocked {
			t.Errorf("%s: attempt %d is %s; want 3, Blocked", name, task.Attempt, task.State)
		}
	}
}
