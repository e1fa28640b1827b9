package fsmtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// nothingIntoOutage: what is dispatched while a breaker is open, or beside its canary, runs into the same outage. An
// incident of one repository is no other's.
func nothingIntoOutage(_ *history, p *process, _ time.Time, _ fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	for _, f := range facts {
		begins, ok := f.(fsm.EffectPlanned)
		if !ok || begins.Effect.Kind != fsm.DoClaim && begins.Effect.Kind != fsm.DoRecheck {
			continue
		}
		if t := p.m.Task(begins.Effect.Task); t != nil && t.State == fsm.Parked { // only its labels are put back
			continue
		}
		for _, i := range p.m.Incidents() {
			if !about(i, begins.Effect.Task, validatesNext(p, begins.Effect.Task)) {
				continue
			}
			switch i.Breaker.State(p.m.Now()) {
			case recovery.BreakerOpen:
				return fmt.Sprintf("%s is dispatched, %s is open", begins.Effect.Task, i.Key)
			case recovery.BreakerHalfOpen:
				if i.Breaker.Canary != string(begins.Effect.Task) {
					return fmt.Sprintf("%s is dispatched, %s has let %q through", begins.Effect.Task, i.Key,
						i.Breaker.Canary)
				}
			}
		}
	}
	return ""
}

// canariesTakeTurns: who failed last is the canary only if nobody else waits who could be.
func canariesTakeTurns(_ *history, p *process, _ time.Time, _ fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	for _, f := range facts {
		c, ok := f.(fsm.IncidentChanged)
		if !ok || c.Over || !dispatched(facts, c.Incident.Breaker.Canary) { // it was chosen before
			continue
		}
		i, n := c.Incident, len(c.Incident.Breaker.Strikes)
		if n == 0 || i.Breaker.Strikes[n-1].Task != i.Breaker.Canary ||
			i.Breaker.State(p.m.Now()) != recovery.BreakerHalfOpen {
			continue
		}
		closed := slices.ContainsFunc(p.m.Cooldowns(),
			func(c fsm.Cooldown) bool { return strings.HasPrefix(c.Resource, "model.") })
		for _, t := range p.m.Tasks() {
			if closed && !t.Next.Validate { // it waits for the model
				continue
			}
			waits := t.State == fsm.Queued || t.State == fsm.Backoff && !t.Until.After(p.m.Now()) && len(t.Outbox) == 0
			others := slices.ContainsFunc(p.m.Incidents(), func(o fsm.Incident) bool {
				return o.Key != i.Key &&
					about(o, t.Key, t.Next.Validate)
			})
			if waits && mayBegin(p.m.Tasks(), t) && about(i, t.Key, t.Next.Validate) && !others {
				return fmt.Sprintf("%s failed last in %s and is the canary, and %s waits", i.Breaker.Canary, i.Key,
					t.Key)
			}
		}
	}
	return ""
}

// dispatched reports whether a task's turn has come in this step.
func dispatched(facts []fsm.Fact, task string) bool {
	return slices.ContainsFunc(facts, func(f fsm.Fact) bool {
		begins, ok := f.(fsm.EffectPlanned)
		return ok && string(begins.Effect.Task) == task && (begins.Effect.Kind == fsm.DoClaim ||
			begins.Effect.Kind == fsm.DoRecheck)
	})
}

// canaryStays: a canary whose issue is being read again is still the one that is on its way.
func canaryStays(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	i, ok := f.(fsm.IncidentChanged)
	if !ok || i.Over || i.Incident.Breaker.Canary != "" || !i.Incident.Breaker.RampFrom.IsZero() {
		return ""
	}
	was := fsm.IssueKey(h.incident(i.Incident.Key).Breaker.Canary)
	if c := h.claim(was); c != nil && c.rereads() {
		return fmt.Sprintf("%s lets another task through, and %s is on its way", i.Incident.Key, was)
	}
	return ""
}

// about reports whether an incident keeps a task back: a failure of what all use is everybody's, another its
// repository's; what fails like that again in any case keeps back nobody. What only validates uses no model.
func about(i fsm.Incident, k fsm.IssueKey, validates bool) bool {
	everybodys := strings.HasPrefix(i.Key, "model.") && !validates || strings.HasPrefix(i.Key, "host/") ||
		strings.HasPrefix(i.Key, "cluster/") || strings.HasPrefix(i.Key, "github.")
	return (everybodys || i.Repo == k.Repo()) && !deterministic[i.Reason]
}

// validatesNext reports whether what comes next of a task uses no model: an attempt that only validates, or a delivery.
func validatesNext(p *process, k fsm.IssueKey) bool {
	t := p.m.Task(k)
	return t != nil && (t.Next.Validate || t.Next.Deliver)
}

// deterministic are the failures that neither time nor a canary heals. (Written down once more: the table is
// what is searched.)
var deterministic = map[recovery.Reason]bool{
	recovery.PermissionDenied: true, recovery.ToolNotFound: true, recovery.InvalidConfig: true,
	recovery.Validation: true, recovery.BuildFailed: true,
	recovery.TestsFailed: true, recovery.LintFailed: true, recovery.ContractViolation: true,
	recovery.CorruptState: true,
}

// lostWork: nobody is asked about work that is merely to be done again.
func lostWork(_ *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	v, ok := f.(fsm.VerdictMade)
	if ok && v.Finding.Reason == recovery.WorkLost && v.Verdict.Row == "director.deliver" {
		return fmt.Sprintf("%s is given up because its work is lost", v.Task)
	}
	return ""
}

// onlyTold: an incident of a deterministic failure has no canary and opens nothing, and nobody waits for its end.
func onlyTold(_ *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.IncidentChanged:
		if b := f.Incident.Breaker; deterministic[f.Incident.Reason] && (!b.Until.IsZero() || b.Canary != "") {
			return f.Incident.Key + " keeps others back: " + string(f.Incident.Reason)
		}
	case fsm.VerdictMade:
		if deterministic[f.Finding.Reason] && f.Verdict.Row == rowIncident {
			return fmt.Sprintf("%s waits for the end of %s", f.Task, f.Finding.Reason)
		}
	}
	return ""
}

// ofWhatFailed: an incident, and what a verdict closes, is of what the failing part used.
func ofWhatFailed(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.IncidentChanged:
		if s := h.fresh(r.At, f); s != nil && !h.used(fsm.IssueKey(s.Task), f.Incident.Key, f.Incident.Reason) {
			return fmt.Sprintf("%s counts for %s, which it did not use", s.Task, f.Incident.Key)
		}
	case fsm.CooldownSet:
		if strings.HasPrefix(f.Resource, "model.") && r.Cause.Kind == "effect_ended" &&
			!h.used(h.judged, f.Resource+"/", recovery.RateLimited) {
			return fmt.Sprintf("%s closes %s, which it did not use", h.judged, f.Resource)
		}
	}
	return ""
}

// used reports whether the failure of a task's attempt can be of the resource before the slash: the director's
// is of what it used, an agent's of its model, and only what models do is a command's in an agent's place.
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

// threeToOpen: a breaker opens at the third task that fails since the incident was healed, or for its canary.
func threeToOpen(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	i, ok := f.(fsm.IncidentChanged)
	if !ok || i.Over || i.Incident.Breaker.State(r.At) != recovery.BreakerOpen {
		return ""
	}
	was := h.incident(i.Incident.Key).Breaker
	if s := was.State(r.At); s == recovery.BreakerOpen || s == recovery.BreakerHalfOpen {
		return ""
	}
	tasks := map[string]bool{}
	for _, s := range h.strikes[i.Incident.Key] {
		tasks[s.Task] = true
	}
	if s := h.fresh(r.At, i); s != nil {
		tasks[s.Task] = true
	}
	if len(tasks) < 3 {
		return fmt.Sprintf("%s opens, %d tasks have failed since it was healed", i.Incident.Key, len(tasks))
	}
	return ""
}

// fetchHeals: a canary whose container has started has got its checkout.
func fetchHeals(_ *history, p *process, _ time.Time, _ fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	for _, f := range facts {
		s, ok := f.(fsm.ContainerStarted)
		if !ok {
			continue
		}
		for _, i := range p.m.Incidents() {
			if strings.HasPrefix(i.Key, "github.") && i.Breaker.Canary == string(s.Task) {
				return fmt.Sprintf("%s has its checkout, and %s is still half open", s.Task, i.Key)
			}
		}
	}
	return ""
}

// othersGoOn: what no incident concerns is dispatched as ever.
func othersGoOn(_ *history, p *process, _ time.Time, _ fsm.EventBody, _ []fsm.Fact, _ []fsm.Effect) string {
	open := p.m.Incidents()
	if len(open) == 0 || p.m.Phase() != fsm.PhaseMonitor || len(p.m.Cooldowns()) > 0 {
		return ""
	}
	slots, waits := 0, ""
	for _, t := range p.m.Tasks() {
		switch {
		case t.State.Info().Slot || t.State == fsm.Backoff && len(t.Outbox) > 0:
			slots++
		case waits == "" && (t.State == fsm.Queued || t.State == fsm.Backoff && !t.Until.After(p.m.Now())):
			if !concerned(open, t) && mayBegin(p.m.Tasks(), t) {
				waits = fmt.Sprintf("%s waits beside a free slot, and none of %d incidents is about it", t.Key,
					len(open))
			}
		}
	}
	if slots >= p.cfg.MaxWorkers {
		return ""
	}
	return waits
}

func concerned(open []fsm.Incident, t *fsm.Task) bool {
	for _, i := range open {
		if about(i, t.Key, t.Next.Validate) {
			return true
		}
	}
	return false
}
