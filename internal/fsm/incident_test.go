package fsm

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

// fleet simulates tasks of two repositories, in steps of one second.
type fleet struct {
	t   *testing.T
	m   *Machine
	now time.Time
}

func newFleet(t *testing.T, issues ...IssueKey) *fleet {
	cfg := testConfig()
	cfg.MaxWorkers = 10
	cfg.Classify = func(e recovery.Evidence) recovery.Finding {
		f := classify(e)
		f.Signature = "sig:" + cmp.Or(e.Message, string(f.Reason))
		return f
	}
	f := &fleet{t, New(cfg), epoch}
	f.step(Booted{RunID: "r"})
	f.seen(issues...)
	return f
}

func (f *fleet) step(body EventBody) {
	f.t.Helper()
	f.now = f.now.Add(time.Second)
	mustStep(f.t, f.m, f.now, body)
}

func (f *fleet) seen(issues ...IssueKey) {
	f.t.Helper()
	for _, k := range issues {
		f.step(IssuesSeen{Repo: k.Repo(), AskedAt: f.now, Issues: []IssueView{{
			Key: k, Open: true, Labels: []Label{LabelTask},
			Nonce: strings.NewReplacer("/", "", "#", "").Replace(string(k)),
		}}})
	}
}

// carryOut makes the effects of a task succeed in order, until its worker runs or its outbox is empty.
func (f *fleet) carryOut(k IssueKey) {
	f.t.Helper()
	for range 5 {
		t := f.m.Task(k)
		if t == nil || len(t.Outbox) == 0 || t.soft.inFlight == "" {
			return
		}
		e := t.Outbox[0].Effect
		end := EffectEnded{Task: k, Effect: e.ID}
		switch e.Kind {
		case DoClaim, DoRecheck:
			end.Claim = &ClaimResult{Ours: true}
		case DoStop:
			end.Stop = &StopResult{}
		}
		f.step(end)
		if e.Kind == DoStart {
			f.step(Hello{Worker: t.AttemptID(), Token: 1})
			return
		}
	}
}

// fails runs the next attempt of a task and makes it fail.
func (f *fleet) fails(k IssueKey, stage string, e recovery.Evidence, u *recovery.Usage) {
	f.t.Helper()
	f.carryOut(k)
	t := f.m.Task(k)
	if t.State != Running {
		f.t.Fatalf("%s is %s", k, t.State)
	}
	f.step(ReportReceived{Worker: t.AttemptID(), Report: Report{
		Ref: ReportRef{ID: "e"}, Final: true, Stage: stage,
		Evidence: e, Usage: u,
	}})
	f.carryOut(k)
}

func (f *fleet) state(k IssueKey) State {
	if t := f.m.Task(k); t != nil {
		return t.State
	}
	return Forgotten
}

var (
	overloaded = recovery.Evidence{Message: "529", Assertion: recovery.Assertion{ErrorType: "overloaded"}}
	badKey     = recovery.Evidence{Message: "401", Assertion: recovery.Assertion{ErrorType: "auth_error"}}
	crashing   = recovery.Evidence{Message: "panic: nil map", Assertion: recovery.Assertion{ErrorType: "agent_crash"}}
	brokenMain = recovery.Evidence{Message: "undefined: x", Assertion: recovery.Assertion{ErrorType: "build_failed"}}
)

// A task with a used-up budget is blocked even during an incident, and the end of the incident does not unblock it.
func TestIncidentSparesNoBudget(t *testing.T) {
	f := newFleet(t, "a/a#1", "a/a#2", "a/a#3", "a/a#4", "a/a#5")
	spent := &recovery.Usage{PaidCalls: 10}
	for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3"} {
		f.fails(k, "CODE", overloaded, spent)
		if f.state(k) != Blocked {
			t.Fatalf("%s is %s", k, f.state(k))
		}
	}
	f.fails("a/a#4", "CODE", overloaded, nil)
	if f.state("a/a#4") != Backoff || len(f.m.Incidents()) != 1 {
		t.Fatalf("#4 is %s, incidents %+v", f.state("a/a#4"), f.m.Incidents())
	}
	for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3"} {
		f.carryOut(k) // complete the escalation
	}
	f.carryOut("a/a#5") // its claim began before the incident
	f.now = f.now.Add(2 * time.Hour)
	f.step(Tick{})
	f.step(WorkerSeen{Worker: "aa5-1"})
	f.carryOut("a/a#4")
	f.step(ReportReceived{Worker: f.m.Task("a/a#4").AttemptID(), Report: Report{
		Ref: ReportRef{ID: "r"}, Final: true,
		OK: true,
	}})
	f.carryOut("a/a#4")
	for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3"} {
		if f.state(k) != Blocked {
			t.Errorf("%s is %s after the incident", k, f.state(k))
		}
	}
}

// An incident of one repository holds back only that repository, and only its tasks can be the canary.
func TestIncidentOfARepository(t *testing.T) {
	f := newFleet(t, "a/a#1", "a/a#2", "a/a#3")
	for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3"} {
		f.fails(k, "CODE", crashing, nil)
	}
	if f.state("a/a#3") != Backoff { // the task waits and is not charged
		t.Fatalf("#3 is %s", f.state("a/a#3"))
	}
	f.seen("a/a#4", "b/b#1")
	if f.state("a/a#4") != Queued || f.state("b/b#1") != Claiming {
		t.Fatalf("a is %s, b is %s", f.state("a/a#4"), f.state("b/b#1"))
	}
	f.now = f.now.Add(time.Minute)
	f.seen("b/b#2")
	if f.state("b/b#2") != Claiming {
		t.Errorf("b is %s", f.state("b/b#2"))
	}
	if i := f.m.Incidents(); len(i) != 1 || i[0].Repo != "a/a" || !strings.HasPrefix(i[0].Breaker.Canary, "a/a#") {
		t.Errorf("%+v", i)
	}
}

// If the canary fails in a later stage than the tasks of the incident, the incident is over.
func TestCanaryThatFailsLaterHasDoneWell(t *testing.T) {
	f := newFleet(t, "a/a#1", "a/a#2", "a/a#3")
	for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3"} {
		f.fails(k, "CODE", badKey, nil)
	}
	for _, k := range []IssueKey{"a/a#1", "a/a#2"} {
		f.carryOut(k)
	}
	f.now = f.now.Add(2 * time.Minute)
	f.step(Tick{})
	f.fails("a/a#3", "VALIDATE", brokenMain, nil)
	if f.state("a/a#3") != Blocked || f.state("a/a#1") != Backoff || f.state("a/a#2") != Backoff {
		t.Errorf("#3 is %s; #1 %s and #2 %s should continue", f.state("a/a#3"), f.state("a/a#1"), f.state("a/a#2"))
	}
}

// Failures that concern only their tasks do not make an incident, even if they are equal.
func TestOwnFailuresMakeNoIncident(t *testing.T) {
	for _, about := range recovery.Reasons {
		if about.Scope != recovery.OneTask {
			continue
		}
		r := about.Reason
		f := newFleet(t, "a/a#1", "a/a#2", "a/a#3", "a/a#4")
		for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3", "a/a#4"} {
			f.fails(k, "CODE", recovery.Evidence{Message: "alike", Assertion: recovery.Assertion{ErrorType: string(r)}},
				nil)
		}
		if i := f.m.Incidents(); len(i) > 0 {
			t.Errorf("%s: %+v", r, i)
		}
	}
}

// TestWhoFailed checks that an incident concerns only a resource that the failed program has used.
func TestWhoFailed(t *testing.T) {
	cut := func(provider string) recovery.Evidence {
		return recovery.Evidence{
			Provider: provider, Message: "ECONNRESET",
			Assertion: recovery.Assertion{ErrorType: "network_transient"},
		}
	}
	limited := recovery.Evidence{Message: "429", Assertion: recovery.Assertion{ErrorType: "rate_limited"}}
	disk := recovery.Evidence{Message: "ENOSPC", Assertion: recovery.Assertion{ErrorType: "disk_full"}}
	engine := recovery.Evidence{Message: "docker", Assertion: recovery.Assertion{ErrorType: "docker_daemon"}}
	for name, c := range map[string]struct {
		stage    string
		evidence recovery.Evidence
		incident string
		closes   string
	}{
		"an agent":                       {"CODE", cut("anthropic"), "model.anthropic/network_transient", ""},
		"an agent in a check":            {"VALIDATE", cut("anthropic"), "model.anthropic/network_transient", ""},
		"a script's download":            {"CODE", cut(""), "", ""},
		"a check's download":             {"VALIDATE", cut(""), "", ""},
		"a script that is limited":       {"CODE", limited, "", "model.default"},
		"a check that is limited":        {"VALIDATE", limited, "", ""},
		"a script that a model refuses":  {"CODE", overloaded, "model.default/overloaded", ""},
		"a check that something refuses": {"VALIDATE", overloaded, "", ""},
		"a script with a refused login":  {"CODE", badKey, "model.default/auth_error", ""},
		"a check with a refused login":   {"VALIDATE", badKey, "", ""},
		"a check that fills the disk":    {"VALIDATE", disk, "host/disk_full", ""},
		"a check that needs an engine":   {"VALIDATE", engine, "", ""},
		"a check that fails":             {"VALIDATE", brokenMain, "a/a/sig:undefined: x", ""},
		"a program that crashes":         {"CODE", crashing, "a/a/sig:panic: nil map", ""},
	} {
		f := newFleet(t, "a/a#1", "a/a#2", "a/a#3")
		for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3"} {
			f.fails(k, c.stage, c.evidence, nil)
		}
		incident, closed := "", ""
		for _, i := range f.m.Incidents() {
			incident += i.Key
		}
		for _, x := range f.m.Cooldowns() {
			closed += x.Resource
		}
		if incident != c.incident || closed != c.closes {
			t.Errorf("%s: incident %q, closed %q; want %q and %q", name, incident, closed, c.incident, c.closes)
		}
	}
}

// TestDeterministicFailureIsOnlyTold checks that other tasks do not wait, because time and a canary would not help.
func TestDeterministicFailureIsOnlyTold(t *testing.T) {
	f := newFleet(t, "a/a#1", "a/a#2", "a/a#3")
	for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3"} {
		f.fails(k, "VALIDATE", brokenMain, nil)
		if f.state(k) != Blocked {
			t.Errorf("%s is %s", k, f.state(k))
		}
	}
	f.seen("a/a#4")
	if f.state("a/a#4") != Claiming {
		t.Errorf("a/a#4 is %s", f.state("a/a#4"))
	}
	if i := f.m.Incidents(); len(i) != 1 || i[0].Breaker.State(f.now) != recovery.BreakerTold ||
		i[0].Breaker.Canary != "" {
		t.Errorf("%+v", i)
	}
	f.now = f.now.Add(2 * time.Hour)
	f.step(Tick{})
	if i := f.m.Incidents(); len(i) != 0 {
		t.Errorf("two hours later: %+v", i)
	}
}

// TestIncidentsAreBounded checks that incidents that do not hold tasks back are forgotten, oldest first.
func TestIncidentsAreBounded(t *testing.T) {
	m := newFleet(t).m
	for n := range maxIncidents + 10 {
		told := recovery.Breaker{Told: true}
		for _, task := range []string{"a/a#1", "a/a#2", "a/a#3"} {
			told = told.Failed(m.now, task)
		}
		m.updateIncident(Incident{Key: fmt.Sprintf("a/a/%03d", n)}, told)
	}
	if n := len(m.hard.Incidents); n > maxIncidents || m.hard.Incidents[n-1].Key != fmt.Sprintf("a/a/%03d",
		maxIncidents+9) {
		t.Errorf("%d incidents, want at most %d, including the last one", n, maxIncidents)
	}
}

// TestNobodyIsTheCanaryTwiceInARow checks that a task that keeps failing as the canary does not hold the
// others back.
func TestNobodyIsTheCanaryTwiceInARow(t *testing.T) {
	f := newFleet(t, "a/a#1", "a/a#2", "a/a#3")
	for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3"} {
		f.fails(k, "CODE", overloaded, nil)
	}
	// both issues are closed
	f.step(IssuesSeen{Repo: "a/a", AskedAt: f.now, Issues: []IssueView{{Key: "a/a#1"}, {Key: "a/a#2"}}})
	f.carryOut("a/a#1")
	f.carryOut("a/a#2")
	f.seen("a/a#4")
	f.now = f.now.Add(2 * time.Minute)
	f.step(Tick{})
	if got := f.m.Incidents()[0].Breaker.Canary; got != "a/a#4" {
		t.Errorf("the canary is %q, and a/a#3 failed last", got)
	}
	if f.state("a/a#4") != Claiming {
		t.Errorf("a/a#4 is %s", f.state("a/a#4"))
	}
}
