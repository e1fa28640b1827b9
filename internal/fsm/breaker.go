package fsm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Incident groups failures that presumably share a cause. If several tasks fail, its breaker opens, and the director
// stops starting affected tasks. Then one task starts as the canary. If it succeeds, the others follow, a few more
// every minute. An incident of deterministic failures is only listed and does not hold up tasks, unless the director
// itself observed the cause.
type Incident struct {
	// Key joins the resource and the reason, or the repository and the signature of the failures.
	Key    string          `json:"key"`
	Repo   string          `json:"repo,omitempty"` // the only affected repository; empty means all
	Reason recovery.Reason `json:"reason"`
	Cause  string          `json:"cause"` // cause of the last failure
	// Life is the longest time that an attempt ran before this failure. A canary counts as a success once it has run
	// twice as long, plus a minute.
	Life    time.Duration    `json:"life"`
	Issue   IssueKey         `json:"issue,omitempty"` // the GitHub issue that reports the incident
	Breaker recovery.Breaker `json:"breaker"`
}

// Limits on suspected incidents, and on how often incidents can postpone a task without an answer from a human.
// Postponements do not charge the task.
const (
	maxIncidents     = 64
	maxIncidentWaits = 10
)

// rowIncident names the verdict on a failure blamed on an incident instead of the task.
const rowIncident = "director.incident"

// incidentOf returns the key shared by failures with the same presumed cause, or "" for a failure that never belongs to
// an incident. The key contains the resource, or the repository if its base branch or its stages might be broken.
func (t *Task) incidentOf(f recovery.Finding, stage string) (key, repo string) {
	about, _ := recovery.Describe(f.Reason)
	resource, ofRepo := t.failedResource(f.Reason, stage), about.Scope == recovery.OneRepository
	switch {
	case ofRepo && f.Signature != "" && f.Cause != about.Means: // generic text would match unrelated failures
		return t.Key.Repo() + "/" + f.Signature, t.Key.Repo()
	case ofRepo, about.Scope == recovery.OneTask, resource == "":
		return "", ""
	}
	return resource + "/" + string(f.Reason), ""
}

// failedResource returns the resource that made an attempt fail, or "" if the cause affects only the task.
func (t *Task) failedResource(r recovery.Reason, stage string) string {
	e := &t.Ending
	return recovery.Origin{Director: e.Known == r, Uses: e.Resource, Stage: stage, Provider: e.Provider}.Resource(r)
}

// concerns reports whether the incident affects this task. A model's incident does not affect a task that next needs
// validation or delivery.
func (i *Incident) concerns(t *Task) bool {
	if !t.Next.usesModel() && i.ofModel() {
		return false
	}
	return i.Repo == "" || strings.EqualFold(i.Repo, t.Key.Repo())
}

func (i *Incident) ofModel() bool { return strings.HasPrefix(i.Key, recovery.ModelPrefix) }

// Incidents lists the outages that block or limit work now, and the incidents that are only reported.
func (m *memory) Incidents() []Incident {
	return slices.DeleteFunc(slices.Clone(m.hard.Incidents), func(i Incident) bool {
		return i.Breaker.State(m.now) == recovery.BreakerClosed
	})
}

// AllIncidents lists all known outages, including suspected and past ones.
func (m *memory) AllIncidents() []Incident { return slices.Clone(m.hard.Incidents) }

// applyBreaker counts a failure in the breaker of its incident, and returns the resulting verdict. While other tasks
// fail in the same way, the task waits and is not charged. The policy still charges the canary, because otherwise the
// director would never ask a human.
func (m *attempts) applyBreaker(t *Task, f recovery.Finding, stage string,
	v recovery.Verdict,
) (recovery.Verdict, string) {
	key, repo := t.incidentOf(f, stage)
	if key == "" {
		return v, ""
	}
	i := m.incident(key)
	canary := i.Breaker.Canary == string(t.Key)
	i.Repo, i.Reason, i.Cause = repo, f.Reason, f.Cause
	if !t.UpAt.IsZero() {
		i.Life = max(i.Life, min(m.now.Sub(t.UpAt), recovery.CanaryFor))
	}
	i.Breaker.Told = f.Reason.Deterministic()
	b := i.Breaker.Failed(m.now, string(t.Key))
	m.updateIncident(i, b)
	return m.underIncident(t, f, stage, v, Incident{Key: key, Breaker: b}, canary)
}

// underIncident adjusts the verdict on a failure to the state of its incident. The caller has already counted the
// failure in i. underIncident also returns the incident's key, or "" if the end of the incident must not unblock the
// task.
func (m *attempts) underIncident(t *Task, f recovery.Finding, stage string, v recovery.Verdict, i Incident,
	canary bool,
) (recovery.Verdict, string) {
	key, b := i.Key, i.Breaker
	switch {
	case b.Told:
		return v, key
	case m.isFinal(t, v, f, stage):
		return v, "" // the end of the incident must not retry this task
	case v.Veto != "", m.usedUp(t) != "":
		// The end of an incident does not refill a budget.
		return v, ""
	case b.State(m.now) != recovery.BreakerOpen:
		return v, key
	}
	wait := b.Until.Sub(m.now)
	switch {
	case !canary && t.IncidentWaits < maxIncidentWaits:
		return recovery.Verdict{
			Action: recovery.CoolDown, Delay: wait, DelayMin: wait, DelayMax: wait, Reason: f.Reason, Row: rowIncident,
			Why: fmt.Sprintf("incident: %s since %s, tasks: %d; one attempt starts in %s, and the others wait for it",
				f.Reason,
				b.Since.Format(time.RFC3339), len(b.Strikes), wait.Round(time.Second)),
			NextIfAgain: v.Action,
		}, key
	case v.Action.Again():
		v.Delay, v.DelayMin, v.DelayMax = max(v.Delay, wait), max(v.DelayMin, wait), max(v.DelayMax, wait)
	}
	return v, key
}

// incident returns the incident with the given key, or an empty incident with that key.
func (m *memory) incident(key string) Incident {
	if n := slices.IndexFunc(m.hard.Incidents, func(i Incident) bool { return i.Key == key }); n >= 0 {
		return m.hard.Incidents[n]
	}
	return Incident{Key: key}
}

// updateIncident records the new state of an incident's breaker and forgets incidents that are over. If the breaker no
// longer holds up tasks, updateIncident releases the incident's tasks.
func (m *recorder) updateIncident(i Incident, b recovery.Breaker) {
	stood := i.Breaker.KeepsBack(m.now)
	i.Breaker = b
	m.record(IncidentChanged{Incident: i})
	// Keep incidents that hold up tasks, even beyond maxIncidents, because there are only a few.
	for _, old := range slices.Clone(m.hard.Incidents) {
		state := old.Breaker.State(m.now)
		free := state == recovery.BreakerClosed || state == recovery.BreakerTold
		if old.Breaker.Idle(m.now) && old.Issue == "" || free && len(m.hard.Incidents) > maxIncidents {
			m.record(IncidentChanged{Incident: Incident{Key: old.Key}, Over: true})
		}
	}
	if stood && !i.Breaker.KeepsBack(m.now) {
		m.dispatchableSince = m.now
		m.resumeBlocked(i)
		m.revisitAll() // claims can go stale again
	}
}

// The waiting tasks' comments must link to the new issue.
func (b IncidentShown) step(m *Machine) {
	i := m.incident(b.Key)
	if i.Reason == "" || i.Issue == b.Issue {
		return
	}
	i.Issue = b.Issue
	m.record(IncidentChanged{Incident: i})
	for _, t := range m.hard.Tasks {
		if t.Incident == i.Key && t.State == Backoff && i.Issue != "" {
			t.soft.commentDue = true
			m.revisit(t)
		}
	}
}

// incidentIssue returns the issue about the outage that a task waits for, or "" if there is no outage or no issue.
func (m *memory) incidentIssue(t *Task) IssueKey {
	if i := m.incident(t.Incident); t.State == Backoff && t.Incident != "" && i.Breaker.KeepsBack(m.now) {
		return i.Issue
	}
	return ""
}

// resumeBlocked resumes tasks that failed in the same way but were blocked before the incident was recognised. After
// maxIncidentWaits incidents, only a human can resume a task.
func (m *recorder) resumeBlocked(i Incident) {
	for _, t := range slices.Clone(m.hard.Tasks) {
		if t.State == Blocked && t.Incident == i.Key && t.IncidentWaits < maxIncidentWaits && !t.plans(DoEscalate) &&
			m.usedUp(t) == "" {
			m.move(t, OnIncidentOver, "the incident is over: "+i.Cause, m.now)
		}
	}
}

// missingPrograms is the key of the incident caused by missing stage programs. The configuration is at fault, so the
// incident holds up all tasks.
const missingPrograms = "stages/tool_not_found"

// ProgramsSearched is the outcome of a search for the stages' programs.
type ProgramsSearched struct {
	For string `json:"for"` // Config.Programs when the search began
	// Missing describes the programs that were not found, for the operator. It is empty if the search found all
	// programs.
	Missing string `json:"missing,omitempty"`
	// Failed is set if the search itself failed.
	Failed bool `json:"failed,omitempty"`
}

func (ProgramsSearched) eventKind() string { return "programs_searched" }

// MissingPrograms describes the stage programs that the last search did not find, or returns "".
func (m *agenda) MissingPrograms() string {
	if i := m.incident(missingPrograms); i.Breaker.Held {
		return i.Cause
	}
	return ""
}

// mustSearch reports whether the configured programs still have to be searched for.
func (m *agenda) mustSearch() bool { return m.cfg.Programs != "" && m.searched != m.cfg.Programs }

// A failed search keeps the incident if the programs are unchanged. If they changed, it ends the incident, because then
// only attempts can show whether a program is missing.
func (p ProgramsSearched) step(m *Machine) {
	if p.For != m.cfg.Programs {
		return // the search began before a reload
	}
	again, i := m.searched == p.For, m.incident(missingPrograms)
	if m.searched = p.For; !again {
		m.dispatchableSince = m.now
		m.revisitAll() // claims can go stale again
	}
	switch {
	case p.Failed && again, i.Breaker.Held && i.Cause == p.Missing:
	case p.Missing != "":
		i.Reason, i.Cause = recovery.ToolNotFound, p.Missing
		m.updateIncident(i, i.Breaker.Hold(m.now))
	case i.Breaker.Held:
		m.updateIncident(i, i.Breaker.Release())
	}
}

// makeCanary makes the task the canary of every incident that concerns the task and needs a canary.
func (m *recorder) makeCanary(t *Task) {
	for _, i := range slices.Clone(m.hard.Incidents) {
		if i.concerns(t) && i.Breaker.State(m.now) == recovery.BreakerHalfOpen {
			m.updateIncident(i, i.Breaker.Dispatched(m.now, string(t.Key)))
		}
	}
}

// noteHealthEvidence counts evidence against incidents. Even a failed attempt is evidence: a container that ran shows
// that GitHub and the host work, and a check that ran shows that the model works.
func (m *recorder) noteHealthEvidence(t *Task, f recovery.Finding, stage string) {
	key, _ := t.incidentOf(f, stage)
	m.countSuccess(t, func(i *Incident) bool {
		works := !t.UpAt.IsZero() && i.Reason != recovery.DiskFull && (i.Reason != recovery.BusDisconnect ||
			stage != "")
		if i.ofModel() {
			works = stage == "VALIDATE" && !t.Validates || f.Reason == recovery.NoProgress
		}
		return works && i.Repo == "" && i.Key != key
	})
}

// countSuccess counts the task's success in each incident that disproves selects, if the task has failed in that
// incident or is its canary.
func (m *recorder) countSuccess(t *Task, disproves func(*Incident) bool) {
	for _, i := range slices.Clone(m.hard.Incidents) {
		struck := slices.ContainsFunc(i.Breaker.Strikes,
			func(s recovery.Strike) bool { return s.Task == string(t.Key) })
		if (struck || i.Breaker.Canary == string(t.Key)) && disproves(&i) {
			m.updateIncident(i, i.Breaker.Succeeded(m.now, string(t.Key)))
		}
	}
}

// slotReleased updates the incidents of a task that no longer has a slot. The task stops being a canary, and its
// outcome may disprove an incident.
func (m *recorder) slotReleased(t *Task, disproves func(*Incident) bool) {
	m.countSuccess(t, disproves)
	for _, i := range slices.Clone(m.hard.Incidents) {
		if i.Breaker.Canary == string(t.Key) {
			m.updateIncident(i, i.Breaker.Left(string(t.Key)))
		}
	}
}

// provesWell reports whether an attempt with this ending disproves an incident. A validation-only attempt is not
// evidence about a model. An attempt that still awaits validation is not evidence about a repository, because it has
// not passed a check yet.
func (t *Task) provesWell(on Trigger, i *Incident) bool {
	switch on {
	case OnValidate:
		return i.Repo == ""
	case OnGoneOK:
		return !t.Validates || !i.ofModel()
	}
	return false
}

// provenAt returns the time at which the incident's canary will have run long enough to disprove it, or zero if no
// canary runs.
func (m *agenda) provenAt(i *Incident) time.Time {
	t := m.Task(IssueKey(i.Breaker.Canary))
	if t == nil || !t.watched() || t.UpAt.IsZero() || !i.Breaker.KeepsBack(m.now) {
		return time.Time{}
	}
	return t.UpAt.Add(2*i.Life + time.Minute)
}

// closeProvenCanaries counts a success for each canary that has run long enough.
func (m *recorder) closeProvenCanaries() {
	for _, i := range slices.Clone(m.hard.Incidents) {
		if at := m.provenAt(&i); !at.IsZero() && passed(m.now, at) {
			m.updateIncident(i, i.Breaker.Succeeded(m.now, i.Breaker.Canary))
		}
	}
}

// incidentDeadline returns the next time at which an incident lets more attempts begin or counts its canary as a
// success. It returns zero if no incident has a deadline.
func (m *agenda) incidentDeadline() (at time.Time) {
	waits := m.slotFree() && m.ready.n > 0
	for n := range m.hard.Incidents {
		i := &m.hard.Incidents[n]
		at = sooner(at, m.provenAt(i))
		if waits {
			at = sooner(at, i.Breaker.NextDeadline(m.now))
		}
	}
	return at
}
