package fsm

import (
	"slices"
	"time"

	"retake/internal/recovery/policy"
)

// ownRows are those of verdicts that no policy is asked about: they are not about how an attempt ended, or
// grant what is no retry.
var ownRows = []string{
	rowDeliver, rowStale, rowRecheck, rowRebuilt, rowBaseMoved, rowWorkChanged, rowFenced,
	// an operator's edit
	"director." + policy.GuardIterations, "director." + policy.GuardPaidCalls, "director." + policy.GuardCost,
}

// ByPolicy reports whether the verdict is one that a policy was asked for, whoever had the last word: an
// incident may have had it.
func (f VerdictMade) ByPolicy() bool { return !slices.Contains(ownRows, f.Verdict.Row) }

// ByIncident reports whether an incident had the last word: the task waits free of charge. What the policy
// wanted is Verdict.NextIfAgain.
func (f VerdictMade) ByIncident() bool { return f.Verdict.Row == rowIncident }

// Redecide decides again what a journal's verdict is about, by this machine's configuration, and changes
// nothing but the time that it was decided at. The machine is as the journal had it just before the fact: the
// incidents have counted the failure then, so that canary says which task was tried for one before that (see
// Canary). An incident that the fact names is the failure's; otherwise the finding tells. It reports false for
// a verdict that no policy was asked for, or whose task the machine does not have.
func (m *Machine) Redecide(at time.Time, f VerdictMade, canary func(incident string) IssueKey) (VerdictMade, bool) {
	t := m.Task(f.Task)
	if t == nil || !f.ByPolicy() {
		return f, false
	}
	m.advance(at)
	v, key := m.judge(t, f.Finding, f.Stage), f.Incident
	if key == "" {
		key, _ = t.incidentOf(f.Finding, f.Stage)
	}
	if key != "" {
		v, key = m.underIncident(t, f.Finding, v, m.incident(key), canary(key) == t.Key)
	}
	f.Verdict, f.Incident, f.Validate = v, key, m.stillToValidate(t, f.Finding, v)
	return f, true
}

// Canary is the task that is tried for an incident; empty: none is.
func (m *memory) Canary(incident string) IssueKey {
	return IssueKey(m.incident(incident).Breaker.Canary)
}
