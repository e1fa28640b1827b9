package advise

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
)

// Classifying configures Classify.
type Classifying struct {
	Classifier *classify.Classifier
	As         []string         // also print the reason's name in each of these presets
	Explain    bool             // also print all rules that matched, and why the others were not chosen
	Now        func() time.Time // supplies the time for lines without a timestamp
}

// Classify prints a finding for every line, and returns the number of unreadable lines.
func Classify(ctx context.Context, o Classifying, sources []Source, out io.Writer) (bad int, err error) {
	if err := o.check(); err != nil {
		return 0, err
	}
	return stream(ctx, sources, out, o.answer)
}

func (o *Classifying) check() error {
	for _, p := range o.As {
		if !slices.Contains(policy.Presets, p) {
			return fmt.Errorf("--as %s: want one or more of %s", p, strings.Join(policy.Presets, ", "))
		}
	}
	return nil
}

// finding is the JSON answer to one input line. The contract fixes the names and order of its fields.
type finding struct {
	ID         json.RawMessage       `json:"id,omitempty"`
	Reason     recovery.Reason       `json:"reason"`
	Class      recovery.Cause        `json:"class"`
	Retryable  bool                  `json:"retryable"`
	RetryAfter *float64              `json:"retry_after_seconds"` // null if no wait is stated
	Signature  string                `json:"signature"`
	Rule       string                `json:"rule"`
	Cause      string                `json:"cause"`
	Confidence float64               `json:"confidence"`
	Also       *classify.Also        `json:"also,omitempty"` // the second-best finding, if it is close
	As         map[string]string     `json:"as,omitempty"`   // each preset's name for the reason
	Considered []classify.Considered `json:"considered,omitempty"`
}

func (o *Classifying) answer(data []byte) (any, error) {
	q, err := o.question(data)
	if err != nil {
		return nil, err
	}
	return o.find(q), nil
}

// find classifies one line of evidence.
func (o *Classifying) find(q question) finding {
	var considered []classify.Considered
	if o.Explain {
		_, considered = o.Classifier.Explain(q.evidence())
	}
	f, also := o.Classifier.ClassifyAlso(q.evidence())
	about, _ := recovery.Describe(f.Reason)
	a := finding{
		ID: q.id, Reason: f.Reason, Class: about.Cause, Retryable: about.Retryable, Signature: f.Signature,
		Rule: f.Rule, Cause: f.Cause, Confidence: math.Round(f.Confidence*100) / 100, Also: also,
		Considered: considered,
	}
	if s := inSeconds(f.RetryAfter); s > 0 {
		a.RetryAfter = &s
	}
	if len(o.As) > 0 {
		a.As = make(map[string]string, len(o.As))
	}
	for _, preset := range o.As {
		a.As[preset], _ = recovery.As(preset, f) // check has already rejected unknown presets
	}
	return a
}

// question is one line of evidence.
type question struct {
	id   json.RawMessage
	text string
	e    recovery.Evidence
}

// questionFields lists the fields of a line of evidence. Each row gives the name in the contract, followed by the name
// in worker_error.v1 if that differs.
var questionFields = []field[question]{
	at(text, func(q *question) *string { return &q.text }, "text"),
	at(optional(integer), func(q *question) **int { return &q.e.ExitCode }, "exit_code"),
	at(signalName, func(q *question) *string { return &q.e.Signal }, "signal"),
	at(boolean, func(q *question) *bool { return &q.e.OOM }, "oom_killed"),
	at(status, func(q *question) *int { return &q.e.HTTPStatus }, "http_status"),
	at(headers, func(q *question) *map[string]string { return &q.e.Headers }, "headers"),
	at(text, func(q *question) *string { return &q.e.Stage }, "stage"),
	at(text, func(q *question) *string { return &q.e.Tool }, "tool"),
	at(text, func(q *question) *string { return &q.e.Provider }, "provider"),
	at(moment, func(q *question) *time.Time { return &q.e.At }, "at"),
	at(text, func(q *question) *string { return &q.e.Message }, "message"),
	at(text, func(q *question) *string { return &q.e.Stdout }, "stdout", "last_stdout_tail"),
	at(text, func(q *question) *string { return &q.e.Stderr }, "stderr", "last_stderr_tail"),
	at(text, func(q *question) *string { return &q.e.Question }, "question"),
	at(wait, func(q *question) *time.Duration { return &q.e.RetryAfter }, "retry_after_seconds"),
	at(text, func(q *question) *string { return &q.e.Assertion.ErrorType }, "error_type"),
	at(boolean, func(q *question) *bool { return &q.e.Assertion.Transient }, "is_transient"),
	at(boolean, func(q *question) *bool { return &q.e.Assertion.Retry }, "should_retry"),
	at(boolean, func(q *question) *bool { return &q.e.Assertion.Escalate }, "escalate_to_human"),
}

// evidenceForm is the smallest valid line of evidence.
const evidenceForm = `{"text": "…"}`

func (o *Classifying) question(data []byte) (question, error) {
	fields, err := parse(data, evidenceForm)
	if err != nil {
		return question{}, err
	}
	q := question{id: copied(fields["id"])}
	err = fill(&q, fields, "", questionFields)
	if code, said := fields["exit_code"]; said && q.e.ExitCode == nil && q.text+q.e.Stdout+q.e.Stderr != "" {
		q.e.Unended = code == nil || string(code) == "null" // the program ran until it was killed
	}
	if q.e.At.IsZero() {
		q.e.At = o.Now()
	}
	return q, err
}

// evidence converts the line to the classifier's types.
func (q *question) evidence() recovery.Evidence {
	e := q.e
	if q.text != "" {
		e.Stderr = strings.TrimPrefix(e.Stderr+"\n"+q.text, "\n") // the text may come from either stream
	}
	if e.Tool != "" {
		e.Tool = path.Base(e.Tool)
	}
	// A worker that reports OOMKilled has read the kernel's counter. From any other program, the reason is only an
	// assertion, so OOM also requires a SIGKILL.
	if e.Assertion.ErrorType == string(recovery.OOMKilled) {
		e.OOM = e.OOM || e.Signal == "SIGKILL" || e.ExitCode != nil && *e.ExitCode == 137
	}
	return e
}
