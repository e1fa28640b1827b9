package fsm

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Waiting describes why a task waits, and until when, if known.
type Waiting struct {
	For   string
	Until time.Time
	Do    string // the action that a person must take, or empty
	Heard string // sentence about the last comment without a command, or empty
	// Work means that the fleet's other work must make progress first.
	Work bool
}

// Words returns the wait and the last comment as text.
func (w Waiting) Words() string {
	if w.Heard == "" {
		return w.For
	}
	return w.For + ". " + w.Heard
}

// WaitsAt is like WaitsFor, but for a given time. It serves machines that follow a journal and do not receive ticks.
func (m *agenda) WaitsAt(t *Task, now time.Time) Waiting {
	last := m.now
	defer func() { m.now = last }()
	m.advance(now)
	return m.WaitsFor(t)
}

// WaitsFor returns the first reason why the task waits now.
func (m *agenda) WaitsFor(t *Task) Waiting {
	switch t.State {
	case Queued:
		if !m.takes(t) {
			return Waiting{
				For: "a run that includes it: this run is limited to " + keyList(m.cfg.Only) + " (director run --only)",
				Do:  "Start the director without --only, or with this issue.",
			}
		}
		if len(t.Standing.After) > 0 {
			return Waiting{For: m.waitsForIssues(t)}
		}
		return m.waitsForTurn(t)
	case Backoff:
		if len(t.Outbox) > 0 {
			return m.waitsForGitHub("GitHub to confirm the claim")
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
				For:   "another try after a failed start",
				Until: t.Outbox[0].NotBefore,
			}
		}
	case Blocked:
		w := Waiting{For: "a person's answer", Heard: t.Heard.words("`/agent retry`")}
		if m.TakesReply(t) {
			w.For, w.Heard = w.For+": a plain comment is enough", t.Heard.words("a newer comment")
		}
		return w
	case Parked:
		return Waiting{For: "the time set by a person", Until: t.Until}
	case InReview:
		return Waiting{For: fmt.Sprintf("the review of pull request #%d", t.Work.PullRequest)}
	case Claiming:
		return m.waitsForStep(t, "GitHub, where the issue is being claimed")
	case Delivering:
		return m.waitsForStep(t, "GitHub, where the work is being delivered")
	case Done, Released, Forgotten:
		return m.waitsForStep(t, "GitHub, where the issue's labels are being set")
	}
	return Waiting{For: fmt.Sprintf("attempt %d, which is in progress", t.Attempt)}
}

// TakesReply reports whether a comment without a command answers the task's question.
func (m *agenda) TakesReply(t *Task) bool {
	return t != nil && m.cfg.PlainAnswers && t.Open != nil && t.Open.AgentAsked && t.Open.Comment > 0
}

// words explains that the next attempt gets the comment. starts names the action that starts the attempt.
func (r *Remark) words(starts string) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s commented at %s UTC, without a command. The comment will be passed to the next attempt, "+
		"which %s starts.", r.By, r.At.UTC().Format("15:04"), starts)
}

// waitsForGitHub describes a wait for GitHub, including a pause requested by GitHub.
func (m *agenda) waitsForGitHub(what string) Waiting {
	w := Waiting{For: what, Until: m.githubOpensAt()}
	if w.Until.After(m.now) {
		if w.For += "; it asked for a pause"; m.githubRefuses() {
			// Omit the deadline: it is only the time of the next probe, which GitHub may refuse as well.
			w = Waiting{For: what + "; it " + RefusesAccount, Do: RenewAccount}
		}
	}
	return w
}

// waitsForStep is like waitsForGitHub, but includes the pause before the next try of the task's effect.
func (m *agenda) waitsForStep(t *Task, what string) Waiting {
	w := m.waitsForGitHub(what)
	if len(t.Outbox) > 0 && w.Do == "" && t.Outbox[0].NotBefore.After(later(m.now, w.Until)) {
		w = Waiting{For: what + "; Retake pauses before the next try", Until: t.Outbox[0].NotBefore}
	}
	return w
}

// githubRefuses reports whether GitHub is closed because it refuses the account as a whole.
func (m *memory) githubRefuses() bool {
	c := m.opens(closesGitHub)
	return c.Until.After(m.now) && strings.HasPrefix(c.Why, recovery.RefusesAll)
}

// RefusesAccount explains a wait. It completes a sentence with the subject GitHub.
const RefusesAccount = "refuses every request of this account"

// RenewAccount is the action that makes GitHub accept the account again.
const RenewAccount = "Make the token or the App's installation valid again. The director then continues. To read " +
	"GitHub's message, run: director health"

// SupplyPrograms is the action that ends an incident about a missing program.
const SupplyPrograms = "Install it there, or correct the stage's command in the configuration. The director checks " +
	"again every minute and after a reload, and then continues automatically."

// keyList formats the first issues of a list.
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

// waitsForTurn explains why a ready task cannot begin an attempt.
func (m *agenda) waitsForTurn(t *Task) Waiting {
	if w, held := phaseWaits[m.hard.Phase]; held {
		if m.hard.Phase == PhaseDraining && m.hard.Aborted != "" {
			w.For = "the operator, since the policy aborted the run: " + m.hard.Aborted
			w.Do = "Fix the cause, then let attempts start again with: director resume"
		}
		return w
	}
	switch {
	case m.githubRefuses():
		return Waiting{For: "GitHub, which " + RefusesAccount, Do: RenewAccount}
	case m.githubOpensAt().After(m.now):
		c := m.opens(closesGitHub)
		return Waiting{For: "GitHub, where requests are paused: " + c.Why, Until: c.Until}
	case m.MissingPrograms() != "":
		return Waiting{For: "a program that the stages run: " + m.MissingPrograms(), Do: SupplyPrograms}
	case m.incident(contractKey(t.Key.Repo())).Breaker.Held:
		return Waiting{
			For: "the repository's contract, which has problems: " + m.incident(contractKey(t.Key.Repo())).Cause,
			Do:  MendContract,
		}
	case m.hostOpensAt().After(m.now):
		return Waiting{
			For: "the director's machine, or the cluster: " + m.closed(recovery.Host).Why,
			Do: "Repair it. The director checks again, and then continues automatically. For details, run: director " +
				"doctor",
		}
	case t.State == Queued && m.closed(GitHubClaims).Until.After(m.now):
		return Waiting{
			For: "GitHub's hourly limit on new comments and pull requests to reset; the rest is reserved for claimed " +
				"issues",
			Until: m.closed(GitHubClaims).Until,
		}
	case t.State == Queued && !m.mayClaim():
		return Waiting{
			For: fmt.Sprintf("the delivery of finished work: %d tasks must be delivered before another issue is "+
				"claimed", m.finished),
			Work: true,
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
	if n := m.slots.claiming(); 2*n > m.cfg.MaxWorkers {
		return Waiting{
			For:  fmt.Sprintf("a free slot (director.max_workers); %d are occupied by claims in progress on GitHub", n),
			Work: true,
		}
	}
	return Waiting{For: "a free slot (director.max_workers)", Work: true}
}

// claiming counts the tasks that are being claimed.
func (s *slots) claiming() (n int) {
	for t := range s.all() {
		if t.State == Claiming {
			n++
		}
	}
	return n
}

// Ahead estimates how many queued issues the director will claim before this task's issue. It assumes that the
// repositories take turns. It returns false if the task is not waiting for its turn in the queue.
func (m *agenda) Ahead(t *Task) (n int, queued bool) {
	list := t.ready.list
	if list == nil || !list.of.queued {
		return 0, false
	}
	n = list.before(placed{t.ready.place, t.Seq, t})
	own := n
	for _, l := range m.ready.lists {
		if l != list && l.of.queued {
			n += min(l.n, own)
		}
	}
	return n, true
}

// NextWaits explains why the next issue in the queue is not claimed at the given time. It returns false if no issue may
// be claimed.
func (m *agenda) NextWaits(now time.Time) (w Waiting, waits bool) {
	var next *Task
	for _, l := range m.ready.lists {
		if t, _ := l.first(); l.of.queued {
			next = m.firstOf(next, t)
		}
	}
	if next == nil {
		return Waiting{}, false
	}
	return m.WaitsAt(next, now), true
}

// phaseWaits maps the phases that prevent new attempts to their explanations.
var phaseWaits = map[Phase]Waiting{
	PhasePaused: {
		For: "the operator, because the director is paused",
		Do:  "Let attempts start again with: director resume",
	},
	PhaseDraining: {
		For: "the operator, because the director is draining",
		Do:  "Let attempts start again with: director resume",
	},
	PhaseShutdown: {For: "the next start of the director", Do: "Start the director again."},
}

// waitsForModel names the closed model and the workers that reported its limit.
func (m *agenda) waitsForModel() Waiting {
	c := m.opens(m.usesModel)
	w := Waiting{For: "the model, which is unavailable for now", Until: c.Until}
	if origin := c.Origin(); origin != "" {
		w.For = fmt.Sprintf("%s, which is unavailable, as reported by %s", c.Resource, origin)
	}
	return w
}
