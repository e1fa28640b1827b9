package fsmtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

func nothingIntoOutage(d decision) string {
	return each(d, func(begins fsm.EffectPlanned) string {
		key := begins.Effect.Task
		t := d.p.m.Task(key)
		if begins.Effect.Kind != fsm.DoClaim && begins.Effect.Kind != fsm.DoRecheck ||
			t != nil && t.State == fsm.Parked { // the effect only restores its labels
			return ""
		}
		// Validation-only attempts and deliveries do not use a model.
		validates := t != nil && (t.Next.Validate || t.Next.Deliver)
		for _, i := range d.p.m.Incidents() {
			if !about(i, key, validates) {
				continue
			}
			switch i.Breaker.State(d.p.m.Now()) {
			case recovery.BreakerOpen, recovery.BreakerHeld:
				return fmt.Sprintf("%s is dispatched, although %s is open", key, i.Key)
			case recovery.BreakerHalfOpen:
				if i.Breaker.Canary != string(key) {
					return fmt.Sprintf("%s is dispatched, although the canary of %s is %q",
						key, i.Key, i.Breaker.Canary)
				}
			}
		}
		return ""
	})
}

func canariesTakeTurns(d decision) string {
	return each(d, func(f fsm.IncidentChanged) string {
		i := f.Incident
		last := len(i.Breaker.Strikes) - 1
		if f.Over || last < 0 || i.Breaker.Strikes[last].Task != i.Breaker.Canary ||
			i.Breaker.State(d.p.m.Now()) != recovery.BreakerHalfOpen ||
			!dispatched(d.facts, i.Breaker.Canary) { // the canary had been chosen earlier
			return ""
		}
		closed := slices.ContainsFunc(d.p.m.Cooldowns(),
			func(c fsm.Cooldown) bool { return strings.HasPrefix(c.Resource, "model.") })
		tasks := d.p.m.Tasks()
		for _, t := range tasks {
			if closed && !t.Next.Validate { // the task is waiting for the model
				continue
			}
			waits := t.State == fsm.Queued || t.State == fsm.Backoff && !t.Until.After(d.p.m.Now()) &&
				len(t.Outbox) == 0
			others := slices.ContainsFunc(d.p.m.Incidents(),
				func(o fsm.Incident) bool { return o.Key != i.Key && about(o, t.Key, t.Next.Validate) })
			if waits && d.mayBegin(tasks, t) && about(i, t.Key, t.Next.Validate) && !others {
				return fmt.Sprintf("%s failed last in %s and is the canary, although %s waits", i.Breaker.Canary, i.Key,
					t.Key)
			}
		}
		return ""
	})
}

// dispatched reports whether a task is dispatched in this step.
func dispatched(facts []fsm.Fact, task string) bool {
	return slices.ContainsFunc(facts, func(f fsm.Fact) bool {
		begins, ok := f.(fsm.EffectPlanned)
		return ok && string(begins.Effect.Task) == task && (begins.Effect.Kind == fsm.DoClaim ||
			begins.Effect.Kind == fsm.DoRecheck)
	})
}

// canaryStays checks that the canary does not change while its issue is being read again.
func canaryStays(r record, i fsm.IncidentChanged) string {
	if i.Over || i.Incident.Breaker.Canary != "" || !i.Incident.Breaker.RampFrom.IsZero() {
		return ""
	}
	was := fsm.IssueKey(r.incident(i.Incident.Key).Breaker.Canary)
	if c := r.claim(was); c != nil && c.rereads() {
		return fmt.Sprintf("%s lets another task through, although the issue of %s is being reread",
			i.Incident.Key, was)
	}
	return ""
}

// about reports whether an incident blocks a task. A shared resource's failure affects all tasks, as does a cause that
// the director itself observes. A deterministic failure affects only its task, and any other failure affects its
// repository. Validation-only attempts do not use a model.
func about(i fsm.Incident, k fsm.IssueKey, validates bool) bool {
	everybodys := strings.HasPrefix(i.Key, "model.") && !validates || strings.HasPrefix(i.Key, "host/") ||
		strings.HasPrefix(i.Key, "cluster/") || strings.HasPrefix(i.Key, "github.")
	if name, contract := strings.CutPrefix(i.Key, contractIncident); contract {
		return i.Breaker.Held && strings.EqualFold(name, k.Repo())
	}
	return (everybodys || i.Repo == k.Repo()) && !deterministic[i.Reason] || i.Breaker.Held
}

// deterministic lists the failures that waiting or a canary does not resolve. It is a copy, because the machine's table
// is under test.
var deterministic = map[recovery.Reason]bool{
	recovery.PermissionDenied: true, recovery.ToolNotFound: true, recovery.InvalidConfig: true,
	recovery.Validation: true, recovery.BuildFailed: true, recovery.TestsFailed: true, recovery.LintFailed: true,
	recovery.ContractViolation: true, recovery.CorruptState: true,
}

func lostWork(_ record, v fsm.VerdictMade) string {
	if v.Finding.Reason == recovery.WorkLost && v.Verdict.Row == "director.deliver" {
		return fmt.Sprintf("gave up on %s because its work is lost", v.Task)
	}
	return ""
}

func keepsNothingBack(_ record, f fsm.IncidentChanged) string {
	if b := f.Incident.Breaker; deterministic[f.Incident.Reason] && (!b.Until.IsZero() || b.Canary != "") {
		return f.Incident.Key + " holds up other tasks: " + string(f.Incident.Reason)
	}
	return ""
}

func waitsForNothing(_ record, f fsm.VerdictMade) string {
	if deterministic[f.Finding.Reason] && f.Verdict.Row == rowIncident {
		return fmt.Sprintf("%s waits for the end of %s", f.Task, f.Finding.Reason)
	}
	return ""
}

// neverStays checks that an incident does not make a task wait after a failure that the policy never retries, unless
// the policy sets incidents_outrank_never.
func neverStays(r record, f fsm.VerdictMade) string {
	set := r.set.of(r.c)
	row, ok := policies()[set.preset].Row(f.Finding.Reason, set.caller(f.Stage))
	if f.Verdict.Row != rowIncident || set.preset == "director" || set.preset == userPolicy || !ok {
		return ""
	}
	if len(row.Ladder) == 0 {
		return fmt.Sprintf("%s waits for the end of an incident, although %s never retries %s", f.Task, set.preset,
			f.Finding.Reason)
	}
	return ""
}

// decidesForCaller checks that a verdict names the stage's configured caller, and that the row matches this caller.
func decidesForCaller(r record, f fsm.VerdictMade) string {
	set := r.set.of(r.c)
	caller := set.caller(f.Stage)
	_, of, forOne := strings.Cut(f.Verdict.Row, "@")
	row, _ := policies()[set.preset].Row(f.Finding.Reason, caller)
	switch {
	case f.Failed() != caller:
		return fmt.Sprintf("%s failed in %s (caller %s), but the verdict is for %s", f.Task, f.Stage, caller,
			f.Failed())
	case forOne && of != caller, f.Verdict.Row == set.preset+"."+row.On && row.Caller == caller:
		return fmt.Sprintf("%s failed in %s (caller %s), but row %s decided", f.Task, f.Stage, caller, f.Verdict.Row)
	}
	return ""
}

// wordCounts checks that verdicts obey the explicit flags of a report. A person's answer resets the number of attempts.
func wordCounts(r record, f fsm.VerdictMade) string {
	w := r.c.end.word
	switch {
	case w == nil || r.c.state != fsm.Stopping || !f.Verdict.Action.Again():
	case w.Escalate:
		return fmt.Sprintf("%s asked for a person, but %s was chosen", f.Task, f.Verdict.Action)
	case !w.Retry && r.c.iterations > 0:
		return fmt.Sprintf("%s does not want a retry, but %s follows %d other retries",
			f.Task, f.Verdict.Action, r.c.iterations)
	}
	return ""
}

func countsWhatFailed(r record, f fsm.IncidentChanged) string {
	if s := r.fresh(r.at, f); s != nil && !r.used(fsm.IssueKey(s.Task), f.Incident.Key, f.Incident.Reason) {
		return fmt.Sprintf("%s counts for %s, which it did not use", s.Task, f.Incident.Key)
	}
	return ""
}

func closesWhatFailed(r record, f fsm.CooldownSet) string {
	if strings.HasPrefix(f.Resource, "model.") && r.cause == "effect_ended" &&
		!r.used(r.judged, f.Resource+"/", recovery.RateLimited) {
		return fmt.Sprintf("%s closes %s, which it did not use", r.judged, f.Resource)
	}
	return ""
}

// used reports whether an incident's resource (the part of key before the slash) could have made a task's attempt fail.
// The director can fail because of a resource that it used, and an agent because of its model. A command that runs
// instead of an agent uses the stage's model, but its network failures concern only its task.
func (h *history) used(task fsm.IssueKey, key string, why recovery.Reason) bool {
	c := h.claim(task)
	resource, _, _ := strings.Cut(key, "/")
	provider, model := strings.CutPrefix(resource, "model.")
	network := why == recovery.NetworkTransient || why == recovery.NetworkPermanent
	switch {
	case c == nil:
		return false
	case strings.HasPrefix(resource, "github."):
		return c.end.uses == resource && c.startedAt.IsZero()
	case model && provider == "default" && c.end.provider == "":
		return c.end.stage == "CODE" && !network
	case model:
		return c.end.reported && c.end.provider == provider
	case resource == "cluster":
		return c.end.uses == resource
	case resource == "host":
		return c.end.uses == resource || why == recovery.DiskFull
	}
	return strings.HasPrefix(key, task.Repo()+"/")
}

// threeToOpen checks that a breaker opens only after three tasks have failed. After that, the canary alone can reopen
// it.
func threeToOpen(r record, i fsm.IncidentChanged) string {
	if i.Over || i.Incident.Breaker.State(r.at) != recovery.BreakerOpen {
		return ""
	}
	was := r.incident(i.Incident.Key).Breaker
	if s := was.State(r.at); s == recovery.BreakerOpen || s == recovery.BreakerHalfOpen {
		return ""
	}
	tasks := map[string]bool{}
	for _, s := range r.strikes[i.Incident.Key] {
		tasks[s.Task] = true
	}
	if s := r.fresh(r.at, i); s != nil {
		tasks[s.Task] = true
	}
	if len(tasks) < 3 {
		return fmt.Sprintf("%s opens, although only %d tasks have failed since it healed", i.Incident.Key, len(tasks))
	}
	return ""
}

// fetchHeals checks that a canary ends a git incident as soon as its container starts, because the container needs a
// checkout.
func fetchHeals(d decision) string {
	return each(d, func(s fsm.ContainerStarted) string {
		for _, i := range d.p.m.Incidents() {
			if strings.HasPrefix(i.Key, "github.") && i.Breaker.Canary == string(s.Task) {
				return fmt.Sprintf("%s has its checkout, but %s is still half open", s.Task, i.Key)
			}
		}
		return ""
	})
}

func othersGoOn(d decision) string {
	open := d.p.m.Incidents()
	if len(open) == 0 || d.p.m.Phase() != fsm.PhaseMonitor || len(d.p.m.Cooldowns()) > 0 || d.p.mustSearch() {
		return ""
	}
	slots, waits, tasks := 0, "", d.p.m.Tasks()
	for _, t := range tasks {
		concerned := func(i fsm.Incident) bool { return about(i, t.Key, t.Next.Validate) }
		switch {
		case t.State.Info().Slot || t.State == fsm.Backoff && len(t.Outbox) > 0:
			slots++
		case waits == "" && (t.State == fsm.Queued || t.State == fsm.Backoff && !t.Until.After(d.p.m.Now())) &&
			!slices.ContainsFunc(open, concerned) && d.mayBegin(tasks, t):
			waits = fmt.Sprintf("%s waits although a slot is free and none of %d incidents concerns it", t.Key,
				len(open))
		}
	}
	if slots >= d.p.cfg.MaxWorkers {
		return ""
	}
	return waits
}

// startPatience is the maximum time that a start waits for a server. It is a copy, because the machine's constant is
// under test.
const startPatience = 10 * time.Minute

func outageWaited(r record, e fsm.EndingSet) string {
	if e.Known != recovery.NetworkTransient || !strings.HasPrefix(e.Resource, "github.") {
		return ""
	}
	if c := r.c; c.away.IsZero() || r.at.Sub(c.away) < startPatience {
		return fmt.Sprintf("attempt %d of %s failed because of %s, which has been down since %s", c.attempt, c.key,
			e.Resource,
			c.away)
	}
	return ""
}

// closedByGitHub checks that a GitHub resource closes only because of a reported limit or a verdict.
func closedByGitHub(d decision) string {
	for _, f := range d.facts {
		if _, ok := f.(fsm.VerdictMade); ok {
			return ""
		}
		c, ok := f.(fsm.CooldownSet)
		if !ok || !strings.HasPrefix(c.Resource, "github.") {
			continue
		}
		switch said := d.body.(type) {
		case fsm.CooldownReported:
			if c.Resource == said.Resource && c.Until.Equal(said.Until) {
				continue
			}
		case fsm.EffectEnded:
			if said.Failure != nil && c.Until.Equal(said.Failure.Until) {
				continue
			}
		}
		return fmt.Sprintf("%s is closed until %s without a report", c.Resource, clock(c.Until))
	}
	return ""
}
