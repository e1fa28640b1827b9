package fsm

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Waiting describes a task's wait and its end, if known.
type Waiting struct {
	For   string
	Until time.Time
	Do    string // the action that a person must take, or empty
}

// WaitsAt is WaitsFor at a given time. A machine that only follows a journal does not get the events that
// advance its clock.
func (m *agenda) WaitsAt(t *Task, now time.Time) Waiting {
	last := m.now
	defer func() { m.now = last }()
	m.advance(now)
	return m.WaitsFor(t)
}

// WaitsFor returns the first condition that the task waits for now.
func (m *agenda) WaitsFor(t *Task) Waiting {
	switch t.State {
	case Queued:
		if !m.takes(t) {
			return Waiting{
				For: "a run that takes it: this one takes only " + keyList(m.cfg.Only) + " (director run --only)",
				Do:  "Start the director without --only, or with this issue.",
			}
		}
		if len(t.Standing.After) > 0 {
			return Waiting{For: m.waitsForIssues(t)}
		}
		return m.waitsForTurn(t)
	case Backoff:
		if len(t.Outbox) > 0 {
			return m.waitsForGitHub("GitHub, which is asked about the issue")
		}
		if t.Until.After(m.now) && m.incidentIssue(t) == "" {
			return Waiting{For: "the pause before the next attempt", Until: t.Until}
		}
		return m.waitsForTurn(t)
	case Starting:
		if t.Waits != nil {
			return t.placementWaits()
		}
		if t.plans(DoStart) && t.Outbox[0].NotBefore.After(m.now) {
			return Waiting{
				For:   "what the start needs, which has failed and is tried again",
				Until: t.Outbox[0].NotBefore,
			}
		}
	case Blocked:
		return Waiting{For: "an answer of a person"} // the question contains the instructions
	case Parked:
		return Waiting{For: "the time that a person has set", Until: t.Until}
	case InReview:
		return Waiting{For: fmt.Sprintf("the review of pull request #%d", t.Work.PullRequest)}
	case Claiming:
		return m.waitsForGitHub("GitHub, where the claim is being made")
	case Delivering:
		return m.waitsForGitHub("GitHub, where the work is being handed in")
	case Done, Released, Forgotten:
		return m.waitsForGitHub("GitHub, where its labels are set")
	}
	return Waiting{For: fmt.Sprintf("attempt %d, which is under way", t.Attempt)}
}

// waitsForGitHub describes a wait for GitHub, including a pause that GitHub asked for.
func (m *agenda) waitsForGitHub(what string) Waiting {
	opens := m.githubOpensAt()
	if opens.After(m.now) {
		what += "; it asked for a pause"
	}
	return Waiting{For: what, Until: opens}
}

// keyList names issues, the first of many.
func keyList(keys []IssueKey) string {
	const named = 10
	var names []string
	for _, k := range keys[:min(len(keys), named)] {
		names = append(names, string(k))
	}
	if more := len(keys) - named; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// waitsForTurn explains why a task that could begin an attempt must wait.
func (m *agenda) waitsForTurn(t *Task) Waiting {
	if w, held := phaseWaits[m.hard.Phase]; held {
		return w
	}
	switch {
	case m.githubOpensAt().After(m.now):
		return Waiting{For: "GitHub, which asked for a pause", Until: m.githubOpensAt()}
	case m.hostOpensAt().After(m.now):
		return Waiting{
			For: "the director's machine, or the cluster: " + m.closed(recovery.Host).Why,
			Do:  "Mend that: the director looks again, and goes on by itself. director doctor says more.",
		}
	case m.modelOpensAt().After(m.now) && t.Next.usesModel():
		return m.waitsForModel()
	case !m.admits(t):
		if issue := m.incidentIssue(t); issue != "" {
			return Waiting{For: "the end of the incident in " + string(issue)}
		}
		return Waiting{For: "the end of an incident"}
	}
	if label := m.cappedBy(t); label != "" {
		return Waiting{For: "another task with the label " + label + " to end (github.label_caps)"}
	}
	return Waiting{For: "a free slot (director.max_workers)"}
}

// phaseWaits are the phases in which no attempt begins.
var phaseWaits = map[Phase]Waiting{
	PhasePaused: {
		For: "the operator, who has paused the director",
		Do:  "Let attempts begin again with: director resume",
	},
	PhaseDraining: {For: "the operator, who drains the director", Do: "Let attempts begin again with: director resume"},
	PhaseShutdown: {For: "the next start of the director", Do: "Start the director again."},
}

// waitsForModel names the closed model and the source of that information.
func (m *agenda) waitsForModel() Waiting {
	c := m.opens(m.usesModel)
	w := Waiting{For: "the model, which is closed for now", Until: c.Until}
	if origin := c.Origin(); origin != "" {
		w.For = fmt.Sprintf("%s, which is closed on the word of %s", c.Resource, origin)
	}
	return w
}
