package audit

import (
	"encoding/json"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// Versions of the document formats.
const (
	metaSchema    = "retake-audit/v1"
	indexSchema   = "retake-audit-index/v1"
	statsSchema   = "retake-stats/v1"
	failureSchema = "retake-failure/v1"
)

// The outcomes of attempts.
const (
	OutcomeRunning   = "running"
	OutcomeOK        = "ok"
	OutcomeFailed    = "failed"
	OutcomeWithdrawn = "withdrawn"
)

// Meta is meta.json: one attempt.
type Meta struct {
	SchemaVersion string      `json:"schema_version"`
	AttemptID     string      `json:"attempt_id"`
	Issue         string      `json:"issue"` // owner/repo#n
	Title         string      `json:"title"`
	URL           string      `json:"url,omitempty"`
	Attempt       int         `json:"attempt"` // from 1
	RunID         string      `json:"run_id,omitempty"`
	Action        string      `json:"action,omitempty"` // the verdict before this attempt; empty for the first
	Why           string      `json:"why,omitempty"`    // failure and cause behind that verdict
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
	Failure       *Failure    `json:"failure,omitempty"` // nil without a failure
	Tried         []string    `json:"tried,omitempty"`   // fix rounds within the attempt
	Notes         []string    `json:"notes,omitempty"`   // observations other than the cause

	Output *StoredOutput `json:"output,omitempty"` // stored output of the attempt, or nil
}

// StoredOutput is a file with an attempt's output; see package output.
type StoredOutput struct {
	Path      string `json:"path"`   // relative to director.data_dir
	SHA256    string `json:"sha256"` // digest of the file, in hexadecimal
	Bytes     int64  `json:"bytes"`  // size of the file
	Truncated bool   `json:"truncated"`
}

// UnmarshalJSON also reads files of older versions, where the assertion has the key claim.
func (m *Meta) UnmarshalJSON(data []byte) error {
	type plain Meta
	if err := json.Unmarshal(data, (*plain)(m)); err != nil || m.Failure == nil || m.Failure.Assertion != "" {
		return err
	}
	var old struct {
		Failure struct {
			Claim string `json:"claim"`
		} `json:"failure"`
	}
	err := json.Unmarshal(data, &old)
	m.Failure.Assertion = old.Failure.Claim
	return err
}

// Failure is the classification of a failure and the verdict on it.
type Failure struct {
	DecidedAt         wire.Time `json:"decided_at,omitzero"` // when it failed; zero in older records
	ErrorID           string    `json:"error_id,omitempty"`
	Reason            string    `json:"reason"`
	Class             string    `json:"class"` // origin of the fault: rate_limit, infrastructure, agent, human
	Retryable         bool      `json:"retryable"`
	Cause             string    `json:"cause"`
	Rule              string    `json:"rule"`
	Confidence        float64   `json:"confidence"`
	Signature         string    `json:"signature"`
	RetryAfterSeconds float64   `json:"retry_after_seconds,omitempty"`
	Assertion         string    `json:"assertion,omitempty"` // the worker's assertion
	Action            string    `json:"action,omitempty"`
	DelaySeconds      float64   `json:"delay_seconds"`
	Charges           string    `json:"charges,omitempty"`
	Why               string    `json:"why,omitempty"`
	Row               string    `json:"row,omitempty"`
	Was               string    `json:"was,omitempty"`  // the reason before its retries were used up
	Veto              string    `json:"veto,omitempty"` // the guard that overruled the policy's row
	Fatal             bool      `json:"fatal,omitempty"`
	// the policy calls the failure fatal, but continue_on_error let the run continue
	Continued bool `json:"continued,omitempty"`
	// question to a person, if the policy replaces the default
	Ask string `json:"ask,omitempty"`
}

// NewFailure combines a finding and its verdict. The caller adds ErrorID and Assertion.
func NewFailure(f recovery.Finding, v recovery.Verdict) *Failure {
	about, _ := recovery.Describe(f.Reason)
	return &Failure{
		Reason: string(f.Reason), Class: string(about.Cause), Retryable: about.Retryable, Cause: f.Cause, Rule: f.Rule,
		Confidence: f.Confidence, Signature: f.Signature, RetryAfterSeconds: inSeconds(f.RetryAfter),
		Action:       string(v.Action),
		DelaySeconds: inSeconds(v.Delay), Charges: string(v.Charges), Why: v.Why, Row: v.Row,
		Was: string(v.Was), Veto: v.Veto, Fatal: v.Fatal, Continued: v.Continued, Ask: v.Ask,
	}
}

// inSeconds rounds to milliseconds, because further digits are meaningless.
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
	Means     string    `json:"means,omitempty"` // the trigger, as a sentence for people
	Why       string    `json:"why,omitempty"`
}

// Output holds an attempt's logs and its patch. Texts are cut to Options.MaxText bytes. The beginning of a long log and
// the end of a long patch are dropped.
type Output struct {
	WorkerLog string // output of the container
	BuildLog  string // output of stages that build, lint or prepare
	TestLog   string // stage VALIDATE
	Patch     string // a unified diff
}
