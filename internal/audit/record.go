package audit

import (
	"strings"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// Versions of what is written.
const (
	MetaSchema    = "retake-audit/v1"
	IndexSchema   = "retake-audit-index/v1"
	StatsSchema   = "retake-stats/v1"
	FailureSchema = "retake-failure/v1"
)

// How an attempt stands.
const (
	OutcomeRunning   = "running"
	OutcomeOK        = "ok"
	OutcomeFailed    = "failed"
	OutcomeWithdrawn = "withdrawn"
)

// Meta is meta.json: one attempt. Fields that a later call leaves empty keep what an earlier one said.
type Meta struct {
	SchemaVersion string      `json:"schema_version"`
	AttemptID     string      `json:"attempt_id"`
	Issue         string      `json:"issue"` // owner/repo#n
	Title         string      `json:"title"`
	URL           string      `json:"url,omitempty"`
	Attempt       int         `json:"attempt"` // from 1
	RunID         string      `json:"run_id,omitempty"`
	Action        string      `json:"action,omitempty"` // the verdict that began it; empty: the first
	Why           string      `json:"why,omitempty"`    // of that verdict: the failure and its cause
	Agent         string      `json:"agent,omitempty"`
	Model         string      `json:"model,omitempty"`
	Image         string      `json:"image,omitempty"`
	Branch        string      `json:"branch,omitempty"`
	StartedAt     wire.Time   `json:"started_at,omitzero"`
	EndedAt       wire.Time   `json:"ended_at,omitzero"`
	Outcome       string      `json:"outcome"` // running, ok, failed, withdrawn
	Stage         string      `json:"stage,omitempty"`
	ExitCode      *int        `json:"exit_code,omitempty"`
	Signal        string      `json:"signal,omitempty"`
	OOM           bool        `json:"oom_killed,omitempty"`
	Usage         *wire.Usage `json:"usage,omitempty"`
	Failure       *Failure    `json:"failure,omitempty"` // nil: it did not fail
}

// Failure is what a failure means and what was decided about it.
type Failure struct {
	ErrorID           string  `json:"error_id,omitempty"`
	Reason            string  `json:"reason"`
	Class             string  `json:"class"` // whose fault: rate_limit, infrastructure, agent, human
	Retryable         bool    `json:"retryable"`
	Cause             string  `json:"cause"`
	Rule              string  `json:"rule"`
	Confidence        float64 `json:"confidence"`
	Signature         string  `json:"signature"`
	RetryAfterSeconds float64 `json:"retry_after_seconds,omitempty"`
	Claim             string  `json:"claim,omitempty"` // the worker's own word for it
	Action            string  `json:"action,omitempty"`
	DelaySeconds      float64 `json:"delay_seconds"`
	Charges           string  `json:"charges,omitempty"`
	Why               string  `json:"why,omitempty"`
	Row               string  `json:"row,omitempty"`
	Was               string  `json:"was,omitempty"`  // the reason before its retries were used up
	Veto              string  `json:"veto,omitempty"` // the guard that forbade what the row wanted
	Fatal             bool    `json:"fatal,omitempty"`
	Ask               string  `json:"ask,omitempty"` // what a person is asked, where the policy says something else than the reason
}

// NewFailure puts a finding and its verdict down. The caller adds ErrorID and Claim.
func NewFailure(f recovery.Finding, v recovery.Verdict) *Failure {
	about, _ := recovery.Describe(f.Reason)
	return &Failure{
		Reason: string(f.Reason), Class: string(about.Cause), Retryable: about.Retryable, Cause: f.Cause, Rule: f.Rule,
		Confidence: f.Confidence, Signature: f.Signature, RetryAfterSeconds: inSeconds(f.RetryAfter), Action: string(v.Action),
		DelaySeconds: inSeconds(v.Delay), Charges: string(v.Charges), Why: v.Why, Row: v.Row,
		Was: string(v.Was), Veto: v.Veto, Fatal: v.Fatal, Ask: v.Ask,
	}
}

// inSeconds keeps milliseconds: more digits are jitter's, and nobody's business.
func inSeconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// Transition is one line of transitions.jsonl.
type Transition struct {
	At        wire.Time `json:"at"`
	AttemptID string    `json:"attempt_id"`
	Issue     string    `json:"issue"`
	Attempt   int       `json:"attempt"`
	From      string    `json:"from"`
	To        string    `json:"to"`
	On        string    `json:"on"`
	Why       string    `json:"why,omitempty"`
}

// Bundle is what is kept of an attempt that is over. Texts are cut to Options.MaxText, oldest bytes first, a patch at its end.
type Bundle struct {
	Meta
	WorkerLog string // what the container printed
	BuildLog  string // stages that build, lint or prepare
	TestLog   string // stage VALIDATE
	Patch     string // a unified diff
	Tried     []string
	Notes     []string // observations beside the cause
}

// Classified is one classification that led to a retry or was shown to a person: a line of events.jsonl.
type Classified struct {
	At        time.Time
	RunID     string
	Stage     string
	AttemptID string
	Issue     string
	Attempt   int
	Caller    string // who classified: "worker", "director", "github", …
	Failure   *Failure
	Context   map[string]any // anything else; values of keys that sound secret are hidden
}

// Event is one line of events.jsonl as it stands there.
type Event struct {
	Type      string            `json:"type"`
	Timestamp wire.Time         `json:"timestamp"`
	SessionID string            `json:"sessionId"`
	Stage     string            `json:"stage,omitempty"`
	Cycle     string            `json:"cycle,omitempty"` // the attempt id
	Payload   any               `json:"payload"`
	Meta      map[string]string `json:"_meta,omitempty"`
	Truncated bool              `json:"_truncated,omitempty"`
}

// Task is where a task stands after a verdict, or at its end: stats.json, and last_failure.json if something failed.
type Task struct {
	Issue, State      string
	Title, URL, RunID string // empty: as it was
	Stage             string // empty: as it was
	Attempt           int
	At                time.Time

	PaidCallsUsed, PaidCallBudget int // a budget of 0: unlimited
	Iterations                    Iterations
	Tokens                        int64
	CostUSD, CostBudgetUSD        float64

	StagesCompleted []string // nil: as it was
	DependsOn       []string // issues that must be done first, if known; nil: as it was
	// Seen adds to the count of a signature. Succeeded clears all of them.
	Seen      *Sighting
	Succeeded bool
	// LastFailure, if not nil, becomes last_failure.json. What it leaves empty of issue, title, time, state, stage and
	// count is filled in.
	LastFailure *LastFailure
}

// Sighting is one failure with a signature.
type Sighting struct {
	Signature string
	Class     string // in the vocabulary of the policy in force
	Count     int    // how often by now, if the caller counts; 0: one more
}

// Iterations is the iteration budget.
type Iterations struct {
	Used     int `json:"used"`
	Refunded int `json:"refunded"`
	Budget   int `json:"budget"` // 0: unlimited
}

// classified is the payload of a line of telemetry. Reason and retryable are always there.
type classified struct {
	Caller    string `json:"caller"`
	Issue     string `json:"issue"`
	Attempt   int    `json:"attempt"`
	AttemptID string `json:"attempt_id"`
	Failure
	Context map[string]any `json:"context,omitempty"`
}

// event is the line of telemetry.
func (c Classified) event() Event {
	payload := classified{Caller: c.Caller, Issue: c.Issue, Attempt: c.Attempt, AttemptID: c.AttemptID}
	if c.Failure != nil {
		payload.Failure = *c.Failure
	}
	if len(c.Context) > 0 {
		payload.Context = RedactContext(c.Context)
	}
	return Event{
		Type: "error.classified", Timestamp: wire.At(c.At), SessionID: c.RunID, Stage: c.Stage, Cycle: c.AttemptID, Payload: payload,
	}
}

// oneLine is text fit for a heading or a list: no line breaks, no control characters.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}
