package fsm

import (
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// word returns evidence of an outage, with flags that the reporter decided.
func word(transient, retry, escalate bool) recovery.Evidence {
	return recovery.Evidence{Message: "connection reset", Assertion: recovery.Assertion{
		ErrorType: "network_transient", Transient: transient, Retry: retry, Escalate: escalate, Explicit: true,
	}}
}

// last returns the last decision about a task.
func (f *fleet) last(k IssueKey) Failure {
	f.t.Helper()
	h := f.m.Task(k).History
	return h[len(h)-1]
}

// If a reporter asks for a person, the director asks one, even if the evidence would justify another attempt.
func TestAsksForThePersonThatAReportWants(t *testing.T) {
	f := newFleet(t, "a/a#1")
	f.fails("a/a#1", "CODE", word(true, true, true), nil)
	if f.state("a/a#1") != Blocked {
		t.Errorf("it is %s", f.state("a/a#1"))
	}
}

// The director obeys a report's explicit flags at once, even during an incident, which would postpone the policy's
// question to a person.
func TestIncidentsDoNotOutrankAWord(t *testing.T) {
	for _, c := range []struct {
		name    string
		retried bool
		word    recovery.Assertion
		want    State
	}{
		{"derived flags", true, recovery.Assertion{}, Backoff},
		{"escalate_to_human = true", false, recovery.Assertion{Explicit: true, Retry: true, Escalate: true}, Blocked},
		{"should_retry = false, before the only retry", false, recovery.Assertion{Explicit: true}, Backoff},
		{"should_retry = false, after the only retry", true, recovery.Assertion{Explicit: true}, Blocked},
	} {
		f := newFleet(t, "a/a#1", "a/a#2", "a/a#3")
		if c.retried {
			f.fails("a/a#3", "CODE", word(true, true, false), nil)
			f.now = f.now.Add(time.Minute)
			f.step(Tick{})
		}
		for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3"} {
			e := recovery.Evidence{Message: "no"}
			if k == "a/a#3" {
				e.Assertion = c.word
			}
			e.Assertion.ErrorType = "auth_error"
			f.fails(k, "CODE", e, nil)
		}
		if got := f.state("a/a#3"); got != c.want {
			t.Errorf("%s: the third task is %s, want %s", c.name, got, c.want)
		}
	}
}

// With should_retry = false, one try remains.
func TestAsksAfterTheOneTryThatAReportLeaves(t *testing.T) {
	f := newFleet(t, "a/a#1")
	f.fails("a/a#1", "CODE", word(true, false, false), nil)
	if f.state("a/a#1") != Backoff {
		t.Fatalf("after one failure it is %s", f.state("a/a#1"))
	}
	f.now = f.now.Add(time.Minute)
	f.step(Tick{})
	f.fails("a/a#1", "CODE", word(true, false, false), nil)
	if f.state("a/a#1") != Blocked {
		t.Errorf("after two failures it is %s", f.state("a/a#1"))
	}
}

// Our own worker derives the flags from its reason, so they do not change anything.
func TestDerivedFlagsChangeNothing(t *testing.T) {
	f := newFleet(t, "a/a#1")
	e := word(false, false, true)
	e.Assertion.Explicit = false
	f.fails("a/a#1", "CODE", e, nil)
	if f.state("a/a#1") != Backoff {
		t.Errorf("it is %s", f.state("a/a#1"))
	}
}

// Explicit flags never grant a retry that the policy does not grant.
func TestAWordGrantsNothing(t *testing.T) {
	f := newFleet(t, "a/a#1")
	e := word(true, true, false)
	e.Assertion.ErrorType = "tests_failed"
	f.fails("a/a#1", "VALIDATE", e, nil)
	if f.state("a/a#1") != Blocked {
		t.Errorf("it is %s", f.state("a/a#1"))
	}
}

// Three tasks with the same refused login are an incident. A policy that never retries such a failure does not wait for
// the incident.
func TestIncidentsDoNotOutrankNever(t *testing.T) {
	for _, c := range []struct {
		preset, reason string
		want           recovery.Action
	}{
		{"dispatch", "auth_error", recovery.Stop},
		{"gdd", "auth_error", recovery.Escalate},
		{"cortex", "auth_error", recovery.Abort},
		{"prp", "disk_full", recovery.Abort},
		{"director", "auth_error", recovery.CoolDown},
	} {
		f := newFleet(t, "a/a#1", "a/a#2", "a/a#3")
		p, err := policy.Preset(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		f.m.cfg.Policy = p.With(policy.Limits{MaxRetries: 3, Backoff: testBackoff()})
		for _, k := range []IssueKey{"a/a#1", "a/a#2", "a/a#3"} {
			f.fails(k, "CODE", recovery.Evidence{
				Message: "no", Assertion: recovery.Assertion{ErrorType: c.reason},
			}, nil)
		}
		if got := f.last("a/a#3").Action; got != c.want {
			t.Errorf("%s, third %s: %s, want %s", c.preset, c.reason, got, c.want)
		}
	}
}

// The director shows an abort until the operator resumes the run, even after a restart.
func TestAbortIsShownUntilResumed(t *testing.T) {
	f := newFleet(t, "a/a#1")
	p, err := policy.Preset("prp")
	if err != nil {
		t.Fatal(err)
	}
	f.m.cfg.Policy = p.With(policy.Limits{MaxRetries: 3, Backoff: testBackoff()})
	f.fails("a/a#1", "CODE", recovery.Evidence{
		Message: "no space left on device", Assertion: recovery.Assertion{ErrorType: "disk_full"},
	}, nil)
	f.seen("a/a#2")
	f.step(SignalReceived{Signal: "SIGTERM"})
	f.step(Booted{RunID: "next"})
	if w := f.m.WaitsFor(f.m.Task("a/a#2")); f.m.Phase() != PhaseDraining || f.m.Aborted() == "" ||
		!strings.Contains(w.For, "the policy aborted the run") || !strings.Contains(w.Do, "director resume") {
		t.Errorf("phase %s, aborted %q, #2 waits for %+v", f.m.Phase(), f.m.Aborted(), w)
	}
	f.step(OperatorCommanded{Command: Resume})
	if f.m.Phase() != PhaseMonitor || f.m.Aborted() != "" {
		t.Errorf("after resume: phase %s, aborted %q", f.m.Phase(), f.m.Aborted())
	}
}
