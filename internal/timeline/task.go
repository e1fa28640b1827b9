package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/projection"
	"retake/internal/recovery"
)

// Task is the history of one issue and its current state.
type Task struct {
	Issue fsm.IssueKey `json:"issue"`
	Title string       `json:"title"`
	URL   string       `json:"url"`

	State  string    `json:"state"`
	Means  string    `json:"means"` // the meaning of the state, for people
	Since  time.Time `json:"since"` // when the state was entered
	Over   bool      `json:"over"`  // the claim has ended or never existed
	Queued time.Time `json:"queued_at"`
	Claims int       `json:"claims"` // number of times the issue was queued, which can be more than once

	Attempt  int       `json:"attempt"` // last attempt of the last claim; 0 before its first attempt
	Priority int       `json:"priority,omitempty"`
	Why      string    `json:"why,omitempty"`       // reason for the state, as a sentence without a full stop
	Cause    string    `json:"cause,omitempty"`     // the line of evidence behind Why
	Next     string    `json:"next,omitempty"`      // advice for a person, in full sentences
	Waits    string    `json:"waits_for,omitempty"` // the pending event or closed resource, in words
	Heard    string    `json:"heard,omitempty"`     // the effect of the last comment without a command, in a sentence
	Until    time.Time `json:"until,omitzero"`      // zero if there is no time limit
	Asked    *Question `json:"asked,omitempty"`     // the open question to a person
	Can      []Remedy  `json:"can,omitempty"`       // a person's options

	Stopped bool `json:"director_stopped,omitempty"` // the timeline comes from a stopped director's journal

	Work   Work           `json:"work,omitzero"`
	Meters Meters         `json:"meters"` // current values
	Limits Meters         `json:"limits"` // the policy's limits, 0 if unlimited
	Spent  recovery.Usage `json:"spent,omitzero"`

	Attempts []Attempt `json:"attempts"`                   // attempts of all claims, oldest first
	Earlier  int       `json:"earlier_attempts,omitempty"` // number of attempts that are only in the journal
	Events   []Event   `json:"events"`                     // oldest first
	Dropped  int       `json:"dropped,omitempty"`          // number of events that are only in the journal
	came     came
	said     fsm.Hint       // the last comment by a person since the last question
	answered time.Time      // when a person last reset all meters; earlier failures do not count
	topic    recovery.Topic // topic of the last verdict's question
}

// Question is a question to a person.
type Question struct {
	At     time.Time       `json:"at"`
	Reason recovery.Reason `json:"reason"`
	Cause  string          `json:"cause"`
	Ask    string          `json:"ask"` // the instructions, worded as in the comment once that is published
	Why    string          `json:"why"`
	Title  string          `json:"title,omitempty"` // the comment's title
	Reply  string          `json:"reply,omitempty"` // the recommended comment; the person replaces <…>

	Question string `json:"question,omitempty"` // the agent's question, or "" if Retake itself asks
}

// Lines returns the non-blank lines of the agent's question.
func (q *Question) Lines() []string {
	return slices.DeleteFunc(strings.Split(q.Question, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
}

// Text returns the agent's question, or else Retake's instructions, on one line.
func (q *Question) Text() string { return Plain(cmp.Or(q.Question, q.Ask)) }

// Work is the pushed work.
type Work struct {
	Branch      string `json:"branch,omitempty"`
	SHA         string `json:"sha,omitempty"`
	URL         string `json:"url,omitempty"`
	PullRequest int    `json:"pull_request,omitempty"`
}

// Meters records how much of each limited resource a task has used.
type Meters struct {
	Redispatches int     `json:"redispatches"` // attempts granted and charged by verdicts
	Iterations   int     `json:"iterations"`   // attempts granted by verdicts, minus refunds for cache hits
	Errors       int     `json:"errors"`       // consecutive errors
	PaidCalls    int64   `json:"paid_calls"`
	Tokens       int64   `json:"tokens"`
	CostUSD      float64 `json:"cost_usd"`
}

// Attempt is one attempt, and the decisions about it.
type Attempt struct {
	ID      string    `json:"id"`
	N       int       `json:"attempt"`       // from 1, or 0 for decisions before the first attempt
	How     string    `json:"how,omitempty"` // why the attempt began; empty for the first
	Began   time.Time `json:"began_at,omitzero"`
	Up      time.Time `json:"up_at,omitzero"`    // when its container started
	Hello   time.Time `json:"hello_at,omitzero"` // when its worker said hello
	Ended   time.Time `json:"ended_at,omitzero"`
	Outcome string    `json:"outcome"` // running, ok, failed, withdrawn
	// why the end cannot be confirmed; empty if the container is gone or expected to end
	Fenced  string         `json:"fenced,omitempty"`
	Stage   string         `json:"stage,omitempty"` // the stage in its last report
	Usage   recovery.Usage `json:"usage,omitzero"`
	Decided []Decision     `json:"decided,omitempty"`
	// number of earlier decisions that are only in the journal
	Dropped  int `json:"decided_dropped,omitempty"`
	asserted string
	word     *recovery.Assertion // explicit flags in the report, or nil
	note     string              // a warning about a report
}

// Decision is a verdict on a failure: the observation, its interpretation, the action and its cost.
type Decision struct {
	At       time.Time       `json:"at"`
	Attempt  int             `json:"attempt"`
	Stage    string          `json:"stage,omitempty"`
	Observed string          `json:"observed"` // the source of the information about the failure
	Asserted string          `json:"asserted,omitempty"`
	Says     string          `json:"says,omitempty"` // the report's explicit flags, in words
	Note     string          `json:"note,omitempty"` // a warning about the report
	Reason   recovery.Reason `json:"reason"`
	Means    string          `json:"means"`
	Cause    string          `json:"cause"` // the line of evidence behind Reason
	Rule     string          `json:"rule"`
	Certain  float64         `json:"confidence"` // from 0 to 1
	Action   recovery.Action `json:"action"`
	Done     string          `json:"done"` // the action in the past tense
	Row      string          `json:"row"`  // the policy row that applied
	Why      string          `json:"why"`
	Veto     string          `json:"veto,omitempty"` // the guard that overruled the row
	Delay    time.Duration   `json:"delay"`          // in nanoseconds
	Charges  string          `json:"charges,omitempty"`
	Incident string          `json:"incident,omitempty"`
	Before   Meters          `json:"before"`
	After    Meters          `json:"after"`
}

// The outcomes of attempts.
const (
	OutcomeRunning   = "running"
	OutcomeOK        = "ok"
	OutcomeFailed    = "failed"
	OutcomeWithdrawn = "withdrawn"
	OutcomeUnknown   = "unknown" // the attempt ended, but its outcome is in an unreadable part of the journal
)

func metersOf(t recovery.Tally) Meters {
	return Meters{
		Redispatches: t.Redispatches, Iterations: max(t.Iterations-max(t.Refunded, 0), 0), Errors: t.Consecutive,
		PaidCalls: t.PaidCalls, Tokens: t.Tokens, CostUSD: t.CostUSD,
	}
}

// known holds a task's state before a fact was applied.
type known struct {
	state  fsm.State
	tally  recovery.Tally
	ending fsm.Ending
}

// follow applies one fact to the timeline. t is the task after the fact, or nil.
func (s *Task) follow(at time.Time, f fsm.Fact, t *fsm.Task, was known) {
	switch f := f.(type) {
	case fsm.TaskQueued:
		s.Title, s.URL, s.Queued, s.Attempt, s.Work, s.Asked, s.said = f.Title, f.URL, at, 0, Work{}, nil, fsm.Hint{}
		s.Claims++
		s.enter(fsm.Queued, at)
	case fsm.TaskRebuilt:
		s.Title, s.URL, s.Attempt, s.Claims = f.Rebuilt.Title, f.Rebuilt.URL, f.Rebuilt.Attempt, s.Claims+1
		s.Queued = at
		s.enter(f.Rebuilt.State, at)
		s.Spent = *s.Spent.Max(&f.Rebuilt.Spent)
	case fsm.TaskRenamed:
		s.Title, s.URL = f.Title, f.URL
	case fsm.AttemptBegan:
		s.Attempt = f.N
		a := Attempt{N: f.N, How: strings.TrimPrefix(nextText(f.Next), ": "), Began: at, Outcome: OutcomeRunning}
		if t != nil {
			a.ID = t.AttemptID()
		}
		s.Attempts = append(s.Attempts, a)
	case fsm.Moved:
		s.moved(at, f)
	case fsm.VerdictMade:
		s.judged(at, f, t, was)
	case fsm.TallyReset:
		s.answered = at
	case fsm.HintsGiven:
		if n := len(f.Hints); n > 0 {
			s.said = f.Hints[n-1]
		}
	case fsm.EffectPlanned:
		if e := f.Effect.Escalation; e != nil {
			s.said = fsm.Hint{}
			s.Asked = s.asked(at, e)
		}
	case fsm.EffectDone:
		if f.Asked != nil && s.Asked != nil { // the published question has more detail
			q := *s.Asked
			q.Title, q.Reply, q.Question = f.Asked.Title, f.Asked.Reply, f.Asked.Question
			q.Ask = askedAlone(q.Reason, f.Asked)
			s.Asked = &q
		}
	case fsm.WorkDelivered:
		s.Work = workOf(f.Delivery)
	case fsm.WorkPushed:
		s.Work = workOf(f.Work)
	default:
		s.attempted(at, f)
	}
	s.Spent = s.Spent.Plus(projection.Spent(f))
	if t != nil {
		s.Meters, s.Priority = metersOf(t.Tally), t.Standing.Priority
	}
}

// asked returns an escalation's question, for use until the comment is published. The instructions come from this
// version of Retake or from the operator's policy.
func (s *Task) asked(at time.Time, e *fsm.Escalation) *Question {
	topic := cmp.Or(e.Topic, s.topic) // old journals have only the verdict
	q := &Question{At: at, Reason: e.Reason, Cause: e.Cause, Ask: e.Ask, Why: e.Why}
	if topic != recovery.TopicPolicy {
		q.Ask = recovery.Case{Reason: e.Reason, Topic: topic}.Words().Alone
	}
	return q
}

// askedAlone returns the instructions of a published question without references to the rest of the comment. Journals
// of earlier releases have only the comment's own instructions, which may refer to the output below them. All questions
// from agents have the same instructions.
func askedAlone(r recovery.Reason, a *fsm.Asked) string {
	if r == recovery.NeedsHuman && a.Question != "" {
		return recovery.Case{Reason: r, Asked: true}.Words().Alone
	}
	return cmp.Or(a.Alone, strings.ReplaceAll(a.Ask, " below", ""))
}

func workOf(w fsm.DeliverResult) Work { return Work{w.Branch, w.SHA, w.URL, w.PullRequest} }

func (s *Task) enter(to fsm.State, at time.Time) {
	about := to.Info()
	s.State, s.Means, s.Since, s.Over = about.Name, about.Means, at, projection.Over(to)
	if to != fsm.Blocked {
		s.Asked = nil
	}
}

func (s *Task) moved(at time.Time, f fsm.Moved) {
	asked := s.Asked
	s.enter(f.To, at)
	s.came = cameBy(at, f)
	if f.On == fsm.OnMerged && s.Work.PullRequest > 0 {
		s.Means = fmt.Sprintf("pull request #%d is merged", s.Work.PullRequest)
	}
	if f.To == fsm.Blocked {
		s.Asked = asked
	}
	a := s.attempt(f.Attempt)
	switch {
	case a == nil:
	case f.To == fsm.Running && a.Hello.IsZero():
		a.Hello = at
	case projection.AttemptEnd(f) != "":
		a.Ended, a.Outcome = at, projection.AttemptEnd(f)
	}
}

// attempted applies a fact to the current attempt.
func (s *Task) attempted(at time.Time, f fsm.Fact) {
	a := s.attempt(s.Attempt)
	if a == nil {
		return
	}
	switch f := f.(type) {
	case fsm.ContainerStarted:
		a.Up = at
	case fsm.AttemptFenced:
		a.Fenced = f.Words
	case fsm.ReportAccepted:
		if f.Stage != "" {
			a.Stage = f.Stage
		}
		if f.Assertion != nil {
			a.asserted = f.Assertion.ErrorType
			if f.Assertion.Explicit {
				a.word = f.Assertion
			}
			a.note = cmp.Or(f.Note, a.note)
		}
	case fsm.UsageCounted:
		if f.PaidCalls == nil {
			a.Usage = f.Usage
		}
	}
}

func (s *Task) judged(at time.Time, f fsm.VerdictMade, t *fsm.Task, was known) {
	about, _ := recovery.Describe(f.Finding.Reason)
	s.topic = fsm.TopicOf(f.Verdict)
	d := Decision{
		At: at, Attempt: f.Attempt, Stage: f.Stage, Observed: observed(f, was), Reason: f.Finding.Reason,
		Means: about.Means, Cause: f.Finding.Cause,
		Rule: f.Finding.Rule, Certain: f.Finding.Confidence, Action: f.Verdict.Action,
		Done: f.Verdict.Action.About().Done, Row: f.Verdict.Row,
		Why: f.Verdict.Why, Veto: f.Verdict.Veto, Delay: f.Verdict.Delay, Charges: string(f.Verdict.Charges),
		Incident: f.Incident, Before: metersOf(was.tally),
	}
	d.After = d.Before
	if t != nil {
		d.After = metersOf(t.Tally)
	}
	a := s.attempt(f.Attempt)
	if a == nil {
		s.Attempts = append(s.Attempts, Attempt{N: f.Attempt, Began: at, Outcome: OutcomeFailed})
		a = &s.Attempts[len(s.Attempts)-1]
	}
	d.Asserted, d.Says = a.asserted, saysText(a.word, f.Disagrees)
	d.Note = a.note
	a.Decided = append(a.Decided, d)
}

// observed names the source of the information about a failure.
func observed(f fsm.VerdictMade, was known) string {
	e := was.ending
	switch {
	case was.state != fsm.Stopping || e.Outcome == fsm.OutcomeOK:
		return "Retake's own action"
	case e.Known != "" && (e.Known == f.Finding.Reason || e.KnownCause == f.Finding.Cause):
		return "Retake's observation of the attempt"
	case e.Report != nil && strings.HasSuffix(e.Report.ID, "/exit"): // the director wrote this report
		return "the container's exit"
	case e.Report != nil:
		return "the worker's report " + e.Report.ID
	}
	return "the container's exit"
}

// attempt returns the last attempt with the given number, or nil.
func (s *Task) attempt(n int) *Attempt {
	for i, a := range slices.Backward(s.Attempts) {
		if a.N == n {
			return &s.Attempts[i]
		}
	}
	return nil
}

// shorten drops the oldest attempts, and the oldest verdicts of the last attempt, so that at most the given number of
// each remains. 0 means no limit.
func (s *Task) shorten(most int) {
	var dropped int
	s.Attempts, dropped = bounded(s.Attempts, most)
	s.Earlier += dropped
	if n := len(s.Attempts); n > 0 {
		a := &s.Attempts[n-1]
		a.Decided, dropped = bounded(a.Decided, most)
		a.Dropped += dropped
	}
}
