package fsm

import (
	"fmt"
	"slices"
	"time"

	"retake/internal/recovery"
)

// Incident is one outage, seen or suspected through many tasks. While its breaker is open nothing is dispatched into it;
// then one task is the canary, and when that one does well the others follow, a few more every minute.
type Incident struct {
	Key    string          `json:"key"`            // the resource and the reason, or the repository and the failures' signature
	Repo   string          `json:"repo,omitempty"` // that it is about; empty: all
	Reason recovery.Reason `json:"reason"`
	Cause  string          `json:"cause"` // of the last failure
	// Life is the longest that an attempt lived before it failed like that: a canary that lives twice as long does well.
	Life    time.Duration    `json:"life"`
	Breaker recovery.Breaker `json:"breaker"`
}

// incidentRules are those of every breaker.
var incidentRules = recovery.DefaultBreaker

// Bounds: of what is suspected at one time; of how often the same task is spared within one claim, since each time is
// free of charge.
const (
	maxIncidents = 64
	maxSpared    = 10
)

// rowIncident names the verdict on a failure that is the incident's, not the task's.
const rowIncident = "director.incident"

// own are failures that are each task's own, however alike they look, or that a cooldown tells better.
var own = []recovery.Reason{
	recovery.NeedsHuman, recovery.PolicyViolation, recovery.ScopeViolation, recovery.GitConflict, recovery.ContextOverflow,
	recovery.NoProgress, recovery.Timeout, recovery.OOMKilled, recovery.RateLimited, recovery.QuotaExhausted,
}

// shared are failures of what all tasks use: whatever their text, they are one.
var shared = map[recovery.Reason]string{
	recovery.Overloaded: "model", recovery.NetworkTransient: "model", recovery.NetworkPermanent: "model", recovery.AuthError: "model",
	recovery.DockerDaemon: "host", recovery.ImagePullFailed: "host", recovery.DiskFull: "host", recovery.BusDisconnect: "host",
}

// incidentOf says which failures are the same; without a key: this one is never an incident. What is not about a model or
// the host is a repository's: its base branch may be broken, or its stages.
func (t *Task) incidentOf(f recovery.Finding) (key, repo string) {
	about, _ := recovery.Describe(f.Reason)
	switch of, ok := shared[f.Reason]; {
	case ok && of == "model":
		return t.model() + "/" + string(f.Reason), ""
	case ok:
		return of + "/" + string(f.Reason), ""
	case slices.Contains(own, f.Reason), f.Signature == "", f.Cause == about.Means: // nothing was said that could be alike
		return "", ""
	}
	return t.Key.Repo() + "/" + f.Signature, t.Key.Repo()
}

// concerns says whether the incident keeps this task back.
func (i *Incident) concerns(t *Task) bool { return i.Repo == "" || i.Repo == t.Key.Repo() }

// NextChange is when time alone changes what the incident lets through; the zero time: it does not.
func (i *Incident) NextChange(now time.Time) time.Time {
	return i.Breaker.NextDeadline(incidentRules, now)
}

// Incidents lists the outages that keep work back now, or let only a little of it through.
func (m *Machine) Incidents() (open []Incident) {
	for _, i := range m.incidents {
		if i.Breaker.State(incidentRules, m.now) != recovery.BreakerClosed {
			open = append(open, i)
		}
	}
	return open
}

// weigh tells the breaker of a failure, and returns the verdict in the light of it: while others fail alike, the failure
// is not the task's, so that it waits free of charge. The canary goes on the policy's account: somebody has to, or nobody
// would ever be asked.
func (m *Machine) weigh(t *Task, f recovery.Finding, v recovery.Verdict) (recovery.Verdict, string) {
	key, repo := t.incidentOf(f)
	if key == "" {
		return v, ""
	}
	i := m.incident(key)
	canary := i.Breaker.Canary == string(t.Key)
	i.Repo, i.Reason, i.Cause = repo, f.Reason, f.Cause
	if !t.UpAt.IsZero() {
		i.Life = max(i.Life, min(m.now.Sub(t.UpAt), incidentRules.CanaryFor))
	}
	i.Breaker = i.Breaker.Failed(incidentRules, m.now, string(t.Key))
	m.changeIncident(i)
	switch {
	case v.Veto != "", m.usedUp(t) != "": // a budget stays used up, whoever is to blame; and no end of an incident unblocks it
		return v, ""
	case i.Breaker.State(incidentRules, m.now) != recovery.BreakerOpen:
		return v, key
	}
	wait := i.Breaker.Until.Sub(m.now)
	switch {
	case !canary && t.Spared < maxSpared:
		return recovery.Verdict{
			Action: recovery.CoolDown, Delay: wait, DelayMin: wait, DelayMax: wait, Reason: f.Reason, Row: rowIncident,
			Why: fmt.Sprintf("incident: %s in %s since %s; one attempt is tried in %s, the others wait for it", f.Reason,
				tasksOf(i.Breaker), i.Breaker.Since.Format(time.RFC3339), wait.Round(time.Second)),
			NextIfAgain: v.Action,
		}, key
	case v.Action.Again():
		v.Delay, v.DelayMin, v.DelayMax = max(v.Delay, wait), max(v.DelayMin, wait), max(v.DelayMax, wait)
	}
	return v, key
}

// usedUp names the budget that leaves the task no further attempt; empty: none does. A policy's veto says so only where it
// would have granted one.
func (m *Machine) usedUp(t *Task) string { return m.cfg.Policy.Guards().UsedUp(t.Tally) }

func tasksOf(b recovery.Breaker) string {
	if n := len(b.Strikes); n != 1 {
		return fmt.Sprintf("%d tasks", n)
	}
	return "1 task"
}

// incident returns what is known of a key; nothing, for one that is new.
func (m *Machine) incident(key string) Incident {
	for _, i := range m.incidents {
		if i.Key == key {
			return i
		}
	}
	return Incident{Key: key}
}

// changeIncident records a change, forgets what is over, and lets go on what the incident has kept back.
func (m *Machine) changeIncident(i Incident) {
	stood := stands(m.incident(i.Key).Breaker, m.now)
	m.record(IncidentChanged{Incident: i})
	for _, old := range slices.Clone(m.incidents) { // one that keeps something back is never forgotten: there are not so many
		closed := old.Breaker.State(incidentRules, m.now) == recovery.BreakerClosed
		if old.Breaker.Idle(incidentRules, m.now) || closed && len(m.incidents) > maxIncidents {
			m.record(IncidentOver{Key: old.Key})
		}
	}
	if stood && !stands(i.Breaker, m.now) {
		m.calm = m.now
		m.heal(i)
		m.reindex() // claims can go stale again
	}
}

func stands(b recovery.Breaker, now time.Time) bool {
	s := b.State(incidentRules, now)
	return s == recovery.BreakerOpen || s == recovery.BreakerHalfOpen
}

// heal lets tasks go on that were blocked by the incident before it was one. Only a matching cause does that, or a human.
func (m *Machine) heal(i Incident) {
	for _, t := range slices.Clone(m.order) {
		if t.State == Blocked && t.Incident == i.Key && t.Spared < maxSpared && !t.plans(DoEscalate) && m.usedUp(t) == "" {
			m.move(t, OnHealed, "the incident is over: "+i.Cause, m.now)
		}
	}
}

// open says whether one more attempt may begin, as far as it is not an incident's business.
func (m *Machine) open() bool {
	return m.phase == PhaseMonitor && m.slots < m.cfg.MaxWorkers && !m.modelOpens().After(m.now)
}

// nextReady returns the task that goes next; nil: none may.
func (m *Machine) nextReady() *Task {
	t, _ := m.ready.first()
	switch {
	case t == nil || !m.open():
		return nil
	case m.free(t):
		return t
	}
	for _, t := range m.ready.inOrder() { // the first ones may be of a repository that is kept back
		if m.free(t) {
			return t
		}
	}
	return nil
}

// free says whether no incident keeps the task back.
func (m *Machine) free(t *Task) bool {
	for n := range m.incidents {
		i := &m.incidents[n]
		if !i.concerns(t) {
			continue
		}
		if ok, _ := i.Breaker.Allow(incidentRules, m.now); !ok {
			return false
		}
		if i.Breaker.State(incidentRules, m.now) == recovery.BreakerRamp && m.slots >= i.Breaker.Limit(incidentRules, m.now) {
			return false
		}
	}
	return true
}

// dispatched makes the task the canary of every incident that concerns it and waits for one.
func (m *Machine) dispatched(t *Task) {
	for _, i := range slices.Clone(m.incidents) {
		if i.concerns(t) && i.Breaker.State(incidentRules, m.now) == recovery.BreakerHalfOpen {
			i.Breaker = i.Breaker.Dispatched(incidentRules, m.now, string(t.Key))
			m.changeIncident(i)
		}
	}
}

// spoken is what a failure says about others: a check that was reached says that the model works, a container that ran that
// the host does.
func (m *Machine) spoken(t *Task, f recovery.Finding, stage string) {
	key, _ := t.incidentOf(f)
	for _, i := range slices.Clone(m.incidents) {
		checked := stage == "VALIDATE" || f.Reason == recovery.NoProgress
		ran := !t.UpAt.IsZero() && i.Reason != recovery.DiskFull
		if i.Key != key && i.Breaker.Canary == string(t.Key) && (shared[i.Reason] == "model" && checked || shared[i.Reason] == "host" && ran) {
			i.Breaker = i.Breaker.Succeeded(incidentRules, m.now, string(t.Key))
			m.changeIncident(i)
		}
	}
}

// left tells the incidents that a task holds no slot any more: done well, or for reasons of its own.
func (m *Machine) left(t *Task, well bool) {
	for _, i := range slices.Clone(m.incidents) {
		b := i.Breaker
		struck := slices.ContainsFunc(b.Strikes, func(s recovery.Strike) bool { return s.Task == string(t.Key) })
		switch {
		case well && (struck || b.Canary == string(t.Key)):
			i.Breaker = b.Succeeded(incidentRules, m.now, string(t.Key))
		case b.Canary == string(t.Key):
			i.Breaker = b.Left(string(t.Key))
		default:
			continue
		}
		m.changeIncident(i)
	}
}

// provenAt is when a canary has done well enough; zero: there is none, or it does not run yet.
func (m *Machine) provenAt(i *Incident) time.Time {
	if i.Breaker.Canary == "" {
		return time.Time{}
	}
	t := m.Task(IssueKey(i.Breaker.Canary))
	if t == nil || !t.watched() || t.UpAt.IsZero() || !stands(i.Breaker, m.now) {
		return time.Time{}
	}
	return t.UpAt.Add(2*i.Life + time.Minute)
}

// prove ends the wait for canaries that have outlived the failure.
func (m *Machine) prove() {
	for n := 0; n < len(m.incidents); n++ {
		i := m.incidents[n]
		if at := m.provenAt(&i); !at.IsZero() && passed(m.now, at) {
			i.Breaker = i.Breaker.Succeeded(incidentRules, m.now, i.Breaker.Canary)
			m.changeIncident(i)
			n = -1 // the list is another one now
		}
	}
}

// incidentDeadline is when time alone changes what an incident lets through; zero: nothing waits for that.
func (m *Machine) incidentDeadline() (at time.Time) {
	waits := m.phase == PhaseMonitor && m.slots < m.cfg.MaxWorkers && m.ready.Len() > 0
	for n := range m.incidents {
		i := &m.incidents[n]
		at = sooner(at, m.provenAt(i))
		if waits {
			at = sooner(at, i.Breaker.NextDeadline(incidentRules, m.now))
		}
	}
	return at
}

// sooner is the earlier of two deadlines; zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
