package fsm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

// outage simulates tasks whose effects take a second, and fail while fails is true.
type outage struct {
	*fleet
	fails func(Effect) *EffectError
	under []Effect
	tries int // number of failed tries
}

func newOutage(t *testing.T, fails func(Effect) *EffectError, issues ...IssueKey) *outage {
	o := &outage{fleet: newFleet(t), fails: fails}
	for _, k := range issues {
		o.step(IssuesSeen{
			Repo: k.Repo(), AskedAt: o.now,
			Issues: []IssueView{{
				Key: k, Open: true, Labels: []Label{LabelTask},
				Nonce: fmt.Sprintf("n%d", k.Number()),
			}},
		})
	}
	return o
}

func (o *outage) step(body EventBody) {
	o.t.Helper()
	_, effects := mustStep(o.t, o.m, o.now, body)
	for _, e := range effects {
		if e.Kind.Durable() {
			o.under = append(o.under, e)
		}
	}
}

// until advances in steps of one second.
func (o *outage) until(at time.Time) {
	o.t.Helper()
	for o.now.Before(at) {
		o.now = o.now.Add(time.Second)
		under := o.under
		o.under = nil
		for _, e := range under {
			end := EffectEnded{Task: e.Task, Effect: e.ID, Failure: o.fails(e)}
			switch {
			case end.Failure != nil:
				o.tries++
			case e.Kind == DoClaim, e.Kind == DoRecheck:
				end.Claim = &ClaimResult{Ours: true}
			case e.Kind == DoStop:
				end.Stop = &StopResult{}
			}
			o.step(end)
		}
		o.step(Tick{})
	}
}

func unreachable(resource string) *EffectError {
	return &EffectError{Reason: recovery.NetworkTransient, Text: "error: 503", Transient: true, Resource: resource}
}

// A server's outage does not fail an attempt, is not charged, and does not lead to a question.
func TestOutageCostsNoAttempt(t *testing.T) {
	issues := []IssueKey{"a/a#1", "a/a#2", "a/a#3", "a/a#4"}
	for _, resource := range []string{recovery.GitHubGit, recovery.GitHubAPI} {
		for _, lasts := range []time.Duration{5 * time.Second, 30 * time.Second, 70 * time.Second, 5 * time.Minute} {
			var o *outage
			o = newOutage(t, func(e Effect) *EffectError {
				if o.now.Before(epoch.Add(lasts)) && (e.Kind == DoStart || resource == recovery.GitHubAPI) {
					return unreachable(resource)
				}
				return nil
			}, issues...)
			o.until(epoch.Add(lasts + 70*time.Second))
			if o.tries == 0 {
				t.Fatal("nothing failed")
			}
			for _, task := range o.m.Tasks() {
				if task.Attempt != 1 || task.UpAt.IsZero() || len(task.History) > 0 || task.Tally.Redispatches > 0 {
					t.Errorf("%s for %s: %s is %s in attempt %d, %d failed", resource, lasts, task.Key, task.State,
						task.Attempt, len(task.History))
				}
			}
			if i := o.m.Incidents(); len(i) > 0 {
				t.Errorf("%s for %s: %+v", resource, lasts, i)
			}
		}
	}
}

// A lasting outage counts as a failure, and tasks that fail in the same way make an incident.
func TestLongOutageIsAnIncident(t *testing.T) {
	o := newOutage(t, func(e Effect) *EffectError {
		if e.Kind == DoStart {
			return unreachable(recovery.GitHubGit)
		}
		return nil
	}, "a/a#1", "a/a#2", "a/a#3")
	o.until(epoch.Add(startFor - time.Minute))
	if len(o.m.AllIncidents()) > 0 {
		t.Fatalf("after %s: %+v", o.now.Sub(epoch), o.m.AllIncidents())
	}
	if w := o.m.WaitsFor(o.m.Task("a/a#1")); !strings.Contains(w.For, "another try after") ||
		w.Until.Sub(o.now) > outageWait {
		t.Errorf("it waits for %+v", w)
	}
	o.until(epoch.Add(startFor + 2*time.Minute))
	if i := o.m.Incidents(); len(i) != 1 || i[0].Key != "github.git/network_transient" {
		t.Errorf("after %s: %+v", o.now.Sub(epoch), i)
	}
}

// A fault of the director's machine still fails the attempt.
func TestHostIsNoOutage(t *testing.T) {
	o := newOutage(t, func(e Effect) *EffectError {
		if e.Kind == DoStart {
			return &EffectError{
				Reason: recovery.DockerDaemon, Text: "no engine", Transient: true,
				Resource: recovery.Host,
			}
		}
		return nil
	}, "a/a#1")
	o.until(epoch.Add(10 * time.Second))
	if task := o.m.Task("a/a#1"); len(task.History) == 0 {
		t.Errorf("%s in attempt %d, without a failure", task.State, task.Attempt)
	}
}

// Failures of effects do not close GitHub, because the gate sees every request and knows its state.
func TestFailuresOfEffectsCloseNothing(t *testing.T) {
	o := newOutage(t, func(Effect) *EffectError { return unreachable(recovery.GitHubAPI) }, "a/a#1", "a/a#2", "a/a#3",
		"a/a#4")
	o.until(epoch.Add(5 * time.Minute))
	if o.tries == 0 || o.m.Phase() != PhaseMonitor {
		t.Errorf("%s after %d failures", o.m.Phase(), o.tries)
	}
}

// A refusal of the gate closes the resource for the stated time, without counting a try.
func TestRefusedByTheGate(t *testing.T) {
	o := newOutage(t, func(Effect) *EffectError {
		return &EffectError{
			Reason: recovery.RateLimited, Text: "GitHub does not answer", Transient: true,
			Resource: recovery.GitHubAPI, Closed: GitHubAPI, Until: epoch.Add(time.Minute),
		}
	}, "a/a#1")
	o.until(epoch.Add(2 * time.Second))
	if c := o.m.Cooldowns(); len(c) != 1 || c[0].Resource != GitHubAPI || o.m.Task("a/a#1").Outbox[0].Tries != 0 {
		t.Errorf("%+v, %+v", c, o.m.Task("a/a#1").Outbox)
	}
}

// Failures during an outage do not count as refusals of a release, so the release still succeeds after a few permanent
// refusals.
func TestRefusedAfterAnOutage(t *testing.T) {
	var o *outage
	refused, released := 0, false
	o = newOutage(t, func(e Effect) *EffectError {
		switch {
		case e.Kind != DoRelease:
			return nil
		case o.now.Before(epoch.Add(20 * time.Minute)):
			return unreachable(recovery.GitHubAPI)
		case refused < releaseTries:
			refused++
			return &EffectError{Reason: recovery.PermissionDenied, Text: "error: 403", Resource: recovery.GitHubAPI}
		}
		released = true
		return nil
	}, "a/a#1")
	o.until(epoch.Add(5 * time.Second))
	o.step(IssuesSeen{Repo: "a/a", AskedAt: o.now, Issues: []IssueView{{Key: "a/a#1", Labels: []Label{LabelClaimed}}}})
	o.until(epoch.Add(time.Hour + 30*time.Minute))
	if !released {
		t.Errorf("the claim is not given back after %d tries, %d of them refused", o.tries, refused)
	}
}
