package fsm

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"retake/internal/recovery"
)

// at returns the time a number of seconds after the epoch.
func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// running returns a machine whose issue 1 has the running worker k1-1, at second 8.
func running(t testing.TB) *Machine {
	t.Helper()
	m := New(testConfig())
	mustStep(t, m, at(0), Booted{RunID: "r"})
	mustStep(t, m, at(1), oneIssue("1"))
	mustStep(t, m, at(5), EffectEnded{Task: issueKey("1"), Effect: "k1-0/claim", Claim: &ClaimResult{Ours: true}})
	mustStep(t, m, at(7), EffectEnded{Task: issueKey("1"), Effect: "k1-1/start"})
	mustStep(t, m, at(8), Hello{Worker: "k1-1", Token: 1})
	if s := m.Task(issueKey("1")).State; s != Running {
		t.Fatalf("the fixture is %s", s)
	}
	return m
}

func TestTimeNeverGoesBack(t *testing.T) {
	m := running(t)
	mustStep(t, m, at(100), Tick{})
	mustStep(t, m, at(50), WorkerSeen{Worker: "k1-1"})
	if !m.Now().Equal(at(100)) {
		t.Fatalf("now is %s", m.Now())
	}
	if _, heard := m.Task(issueKey("1")).Activity(); !heard.Equal(at(100)) {
		t.Fatalf("heard at %s", heard)
	}
	data, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	again := New(testConfig())
	if err := again.Restore(data); err != nil {
		t.Fatal(err)
	}
	mustStep(t, again, at(2), Booted{RunID: "r2"})
	if again.Now().Before(at(8)) {
		t.Fatalf("after a restart now is %s, behind the journal", again.Now())
	}
}

// Different spellings of a repository's name do not create a second task for the same issue.
func TestOneTaskForAllSpellingsOfAnIssue(t *testing.T) {
	m := running(t)
	e := oneIssue("1")
	e.Issues[0].Key, e.Issues[0].Nonce = "Acme/Widgets#1", "other"
	e.Issues[0].Labels = []Label{LabelClaimed}
	e.AskedAt = at(9)
	mustStep(t, m, at(9), e)
	if n := len(m.Tasks()); n != 1 {
		t.Fatalf("%d tasks", n)
	}
	if task := m.Task("ACME/WIDGETS#1"); task == nil || task.Key != issueKey("1") {
		t.Fatalf("task %+v", task)
	}
}

func TestIssuesThatMakeNoSenseAreNotQueued(t *testing.T) {
	for name, v := range map[string]IssueView{
		"no number":  {Key: "acme/widgets", Nonce: "a"},
		"no owner":   {Key: "widgets#1", Nonce: "a"},
		"no key":     {Nonce: "a"},
		"no nonce":   {Key: "acme/widgets#1"},
		"used nonce": {Key: "acme/widgets#2", Nonce: "k1"},
		"claimed":    {Key: "acme/widgets#2", Nonce: "a", Labels: []Label{LabelClaimed}},
		"blocked":    {Key: "acme/widgets#2", Nonce: "a", Labels: []Label{LabelBlocked}},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(testConfig())
			mustStep(t, m, at(0), Booted{})
			if name == "used nonce" {
				mustStep(t, m, at(0), oneIssue("1"))
			}
			before := len(m.Tasks())
			v.Open, v.Labels = true, append(v.Labels, LabelTask)
			mustStep(t, m, at(1), IssuesSeen{Repo: "acme/widgets", AskedAt: at(1), Issues: []IssueView{v}})
			if len(m.Tasks()) != before {
				t.Fatal("was queued")
			}
		})
	}
}

// The cursor advances only after the machine has decided about every issue of the poll.
func TestCursorWaitsForWhatCannotBeDecided(t *testing.T) {
	m := New(testConfig())
	mustStep(t, m, at(0), Booted{})
	e := oneIssue("1")
	e.Cursor = "c1"
	mustStep(t, m, at(1), e)
	if got := m.Cursor("acme/widgets"); got != "c1" {
		t.Fatalf("cursor %q", got)
	}
	e.Cursor, e.AskedAt = "c2", at(2) // the claim is under way, so the view cannot be decided yet
	e.Issues[0].Open = false
	mustStep(t, m, at(2), e)
	if got := m.Cursor("acme/widgets"); got != "c1" {
		t.Fatalf("cursor %q while the claim is under way", got)
	}
	mustStep(t, m, at(5), EffectEnded{Task: issueKey("1"), Effect: "k1-0/claim", Claim: &ClaimResult{Ours: true}})
	e.AskedAt = at(6)
	mustStep(t, m, at(6), e)
	if got := m.Cursor("acme/widgets"); got != "c2" || m.Task(issueKey("1")).State != Stopping {
		t.Fatalf("cursor %q, state %s", got, m.Task(issueKey("1")).State)
	}
}

// One event queues a limited number of tasks. The cursor does not advance before the rest is queued.
func TestIntakeIsBounded(t *testing.T) {
	m := New(testConfig())
	mustStep(t, m, at(0), Booted{})
	e := IssuesSeen{Repo: "acme/widgets", Cursor: "c", AskedAt: at(1)}
	for i := range maxQueuedPerEvent + 1 {
		e.Issues = append(e.Issues, oneIssue(strconv.Itoa(i + 1)).Issues[0])
	}
	mustStep(t, m, at(1), e)
	if n := len(m.Tasks()); n != maxQueuedPerEvent || m.Cursor("acme/widgets") != "" {
		t.Fatalf("%d tasks, cursor %q", n, m.Cursor("acme/widgets"))
	}
	mustStep(t, m, at(2), e) // the first three are being claimed, so their views stay undecided
	if n := len(m.Tasks()); n != maxQueuedPerEvent+1 {
		t.Fatalf("%d tasks", n)
	}
}

func TestTitleIsKeptUpToDate(t *testing.T) {
	m := running(t)
	e := oneIssue("1")
	e.Issues[0].Title, e.Issues[0].Labels, e.AskedAt = "a better title", []Label{LabelClaimed}, at(9)
	facts, _ := mustStep(t, m, at(9), e)
	if len(facts) != 1 || m.Task(issueKey("1")).Title != "a better title" {
		t.Fatalf("%v", facts)
	}
	if facts, _ := mustStep(t, m, at(10), e); len(facts) != 0 {
		t.Fatalf("told again: %v", facts)
	}
}

// Each report from a worker is decided once, and the memory for reports is bounded.
func TestManyReportsOfOneAttempt(t *testing.T) {
	m := running(t)
	accepted := map[string]int{}
	send := func(id string, final, ok bool) {
		r := ReportReceived{Worker: "k1-1", Report: Report{Ref: ReportRef{ID: id}, Final: final, OK: ok}}
		facts, _ := mustStep(t, m, at(10), r)
		for _, f := range facts {
			if a, ok := f.(ReportAccepted); ok {
				accepted[a.Ref.ID]++
			}
		}
	}
	for range 2 {
		for i := range 3 * maxReports {
			send("note-"+strconv.Itoa(i), false, false)
		}
		send("end", true, true)
		for i := range 3 * maxReports {
			send("end-"+strconv.Itoa(i), true, false)
		}
	}
	for id, n := range accepted {
		if n != 1 {
			t.Errorf("%s was accepted %d times", id, n)
		}
	}
	if m.Task(issueKey("1")).Ending.Outcome != OutcomeOK {
		t.Fatal("the first final report did not find room")
	}
}

// If the director ends an attempt because of the worker's behaviour, it kills the worker at once. A worker that has
// sent its own final report gets a grace period.
func TestGraceOfAFinalReport(t *testing.T) {
	for known, want := range map[recovery.Reason]time.Duration{"": testConfig().StopGrace, recovery.ScopeViolation: 0} {
		r := Report{Ref: ReportRef{ID: "k1-1/end"}, Final: true, Evidence: recovery.Evidence{Known: known}}
		_, effects := mustStep(t, running(t), at(9), ReportReceived{Worker: "k1-1", Report: r})
		if i := slices.IndexFunc(effects, func(e Effect) bool { return e.Kind == DoStop }); i < 0 ||
			effects[i].Stop.Grace != want {
			t.Errorf("known %q: %+v", known, effects)
		}
	}
}

// A new attempt has room for its own reports.
func TestReportsOfEarlierAttemptsTakeNoRoom(t *testing.T) {
	task := &Task{Nonce: "k1", Attempt: 2}
	for i := range maxReports {
		task.Reports = append(task.Reports, "k1-1/"+strconv.Itoa(i))
	}
	if !task.hasRoomFor(false) {
		t.Fatal("no room for a notice of attempt 2")
	}
}

// After a restart, the silence of a worker counts only from the start of the new process.
func TestSilenceAfterARestartIsCountedFromIt(t *testing.T) {
	data, err := running(t).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	m := New(testConfig())
	if err := m.Restore(data); err != nil {
		t.Fatal(err)
	}
	mustStep(t, m, at(1000), Booted{RunID: "r2"})
	mustStep(t, m, at(1180), Tick{})
	mustStep(t, m, at(1190), ContainersListed{
		TakenAt:    at(1190),
		Containers: []Container{{Attempt: "k1-1", Running: true}},
	})
	mustStep(t, m, at(1191), ProbeUnanswered{Worker: "k1-1", SentAt: at(1185)})
	mustStep(t, m, at(1210), Tick{})
	end := m.Task(issueKey("1")).Ending
	if want := "no heartbeat for 3m30s and no answer to a probe, although its " +
		"container exists"; end.KnownCause != want {
		t.Fatalf("%s %q", end.Known, end.KnownCause)
	}
}

// If a start waits for GitHub's limit for longer than the watchdog allows, the worker has not timed out.
func TestWatchdogDoesNotCountWaitingForALimit(t *testing.T) {
	m := New(testConfig())
	mustStep(t, m, at(0), Booted{RunID: "r"})
	mustStep(t, m, at(1), oneIssue("1"))
	mustStep(t, m, at(5), EffectEnded{Task: issueKey("1"), Effect: "k1-0/claim", Claim: &ClaimResult{Ours: true}})
	mustStep(t, m, at(6), EffectEnded{Task: issueKey("1"), Effect: "k1-1/start", Failure: &EffectError{
		Reason: recovery.RateLimited, Text: "primary", Transient: true, Until: at(2 * 3600),
	}})
	if _, effects := mustStep(t, m, at(2*3600), Tick{}); len(effects) != 1 || effects[0].Kind != DoStart {
		t.Fatalf("%v, state %s", effects, m.Task(issueKey("1")).State)
	}
}

// A withdrawal is recorded once, however often it is seen.
func TestWithdrawalWhileStoppingIsRecordedOnce(t *testing.T) {
	m := running(t)
	closed := oneIssue("1")
	closed.Issues[0].Open, closed.AskedAt = false, at(10)
	mustStep(t, m, at(10), closed)
	for i := range 5 {
		closed.AskedAt = at(11 + i)
		if facts, _ := mustStep(t, m, at(11+i), closed); len(facts) != 0 {
			t.Fatalf("%v", facts)
		}
	}
}

// A reset in the past does not cause a hot loop.
func TestDeferredEffectWaitsALittle(t *testing.T) {
	m := New(testConfig())
	mustStep(t, m, at(0), Booted{})
	mustStep(t, m, at(1), oneIssue("1"))
	_, effects := mustStep(t, m, at(5), EffectEnded{
		Task: issueKey("1"), Effect: "k1-0/claim",
		Failure: &EffectError{Transient: true, Until: at(3)},
	})
	if len(effects) != 0 || !m.NextDeadline().After(at(5)) {
		t.Fatalf("%v, next %s", effects, m.NextDeadline())
	}
}

// Views older than our labels cause only one read, because a stopped clock must not cause a loop.
func TestOldViewsAskForOneLook(t *testing.T) {
	m := running(t)
	old := oneIssue("1")
	old.AskedAt = at(2)
	looks := 0
	for i := range 5 {
		_, effects := mustStep(t, m, at(10+i), old)
		looks += len(effects)
	}
	if looks != 1 {
		t.Fatalf("%d looks", looks)
	}
}

func TestSnapshotOfAnotherVersionIsRefused(t *testing.T) {
	for _, data := range []string{`{"version":1}`, `{`, `{"version":2,"tasks":[{"state":"Elsewhere"}]}`} {
		if err := New(testConfig()).Restore([]byte(data)); err == nil {
			t.Errorf("%s was read", data)
		}
	}
}

func TestAttemptIDs(t *testing.T) {
	if nonce, n, ok := ParseAttemptID("k3v9qx2m-12"); nonce != "k3v9qx2m" || n != 12 || !ok {
		t.Fatal(nonce, n, ok)
	}
	for _, id := range []string{
		"", "-1", "a", "a-", "a-0", "a-01", "a--1x", "a-+1", "a-1 ",
		"worker-3-170760000000000000000",
	} {
		if _, _, ok := ParseAttemptID(id); ok {
			t.Errorf("%q was read", id)
		}
	}
}

func TestTablesAreConsistent(t *testing.T) {
	for i, s := range States {
		if s.State != State(i+1) || s.Name == "" || s.Means == "" {
			t.Errorf("row %d of the states: %+v", i, s)
		}
		var back State
		if err := back.UnmarshalText([]byte(s.Name)); err != nil || back != s.State {
			t.Errorf("%s reads back as %s: %v", s.Name, back, err)
		}
		leaves := slices.ContainsFunc(Transitions, func(x Transition) bool { return slices.Contains(x.From, s.State) })
		enters := s.State == Queued ||
			slices.ContainsFunc(Transitions, func(x Transition) bool { return x.To == s.State })
		if over := s.Final || s.State == Forgotten; leaves == over || !enters {
			t.Errorf("%s: leaves %v, enters %v", s.Name, leaves, enters)
		}
	}
	type way struct {
		from State
		on   Trigger
	}
	seen := map[way]bool{}
	for _, x := range Transitions {
		for _, from := range x.From {
			if seen[way{from, x.On}] {
				t.Errorf("two rows for %s on %q", from, x.On)
			}
			seen[way{from, x.On}] = true
		}
	}
}

// The timer for the retry of an effect is not a deadline of the worker. In this test, the start seems to have failed,
// although its worker has already said hello.
func TestRetryOfAnEffectDoesNotMakeAWorkerSuspect(t *testing.T) {
	m := New(testConfig())
	mustStep(t, m, at(0), Booted{RunID: "r"})
	mustStep(t, m, at(1), oneIssue("1"))
	mustStep(t, m, at(500), EffectEnded{Task: issueKey("1"), Effect: "k1-0/claim", Claim: &ClaimResult{Ours: true}})
	mustStep(t, m, at(501), Hello{Worker: "k1-1"})
	mustStep(t, m, at(502), EffectEnded{
		Task: issueKey("1"), Effect: "k1-1/start",
		Failure: &EffectError{Transient: true, Until: at(510)},
	})
	_, effects := mustStep(t, m, at(510), Tick{})
	if s := m.Task(issueKey("1")).State; s != Running || len(effects) == 0 || effects[len(effects)-1].Kind != DoStart {
		t.Fatalf("%s, %v", s, effects)
	}
}

// After a crash, a worker may send messages before its start is confirmed again. Its budget counts nevertheless.
func TestBudgetsCountBeforeTheStartIsConfirmed(t *testing.T) {
	over := &recovery.Usage{PaidCalls: 11}
	for _, body := range []EventBody{
		WorkerSeen{Worker: "k1-1", Activity: Activity{Usage: over}},
		ReportReceived{Worker: "k1-1", Report: Report{Ref: ReportRef{ID: "r1"}, Usage: over}},
		BudgetEdited{Task: issueKey("1"), PaidCalls: 11},
	} {
		m := New(testConfig())
		mustStep(t, m, at(0), Booted{RunID: "r"})
		mustStep(t, m, at(1), oneIssue("1"))
		mustStep(t, m, at(5), EffectEnded{Task: issueKey("1"), Effect: "k1-0/claim", Claim: &ClaimResult{Ours: true}})
		mustStep(t, m, at(6), Booted{RunID: "r2"})
		if mustStep(t, m, at(7), body); m.Task(issueKey("1")).State != Stopping {
			t.Errorf("after %T: %s", body, m.Task(issueKey("1")).State)
		}
	}
}
