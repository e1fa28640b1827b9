package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// reporter turns the end of an attempt into its one final report.
type reporter struct {
	plan     *wire.Plan
	mask     *masker
	classify func(recovery.Evidence) recovery.Finding
}

// result is the report of an attempt that ended well. Which files changed is not known here: the director counts them
// when it commits.
func (r *reporter) result(a *attempt) *wire.WorkerResult {
	return &wire.WorkerResult{
		ResultID: r.plan.AttemptID + "/result", AttemptID: r.plan.AttemptID,
		IssueNumber: r.plan.Issue.Number, Attempt: r.plan.Attempt, Outcome: wire.OutcomeOK,
		Stages: a.results, Usage: onWire(a.used), Summary: fmt.Sprintf("all %d stages ended well, after %d CODE runs", len(r.plan.Stages), a.runs[wire.StageCode]),
	}
}

// failed is the report of an attempt that did not. reason, if not empty, is why it was ended from outside.
func (r *reporter) failed(a *attempt, f *failure, reason string) *wire.WorkerError {
	final := true
	e := &wire.WorkerError{
		ErrorID:  fmt.Sprintf("%s/%s-%d", r.plan.AttemptID, f.stage, f.number),
		WorkerID: r.plan.WorkerID, AttemptID: r.plan.AttemptID, IssueNumber: r.plan.Issue.Number, Attempt: r.plan.Attempt,
		Stage: f.stage, Final: &final, ContainerID: containerID(), WorktreePath: r.plan.Workdir,
		Signal: f.exit.signal, FixRounds: a.runs[wire.StageCode],
		Message:        r.mask.text(a.summary(f)),
		LastStdoutTail: r.mask.text(f.heard.essence("stdout", f.exit.stdout.text(tailBytes))),
		LastStderrTail: r.mask.text(f.heard.essence("stderr", f.exit.stderr.text(tailBytes))),
		Question:       r.mask.text(oldest(f.question, maxQuestionBytes)),
		Usage:          onWire(a.used),
	}
	if len(f.command) > 0 {
		e.Tool = filepath.Base(f.command[0])
	}
	if f.exit.err == nil && f.kind != panicked && f.kind != unable && f.kind != closed {
		e.ExitCode = &f.exit.code
	}
	if f.heard != nil {
		f.heard.evidence(e, r.mask)
	}
	if f.kind == closed {
		s := f.wait.Seconds()
		e.RetryAfterSeconds = &s
	}
	if reason != "" {
		e.Message += " (" + reason + ")"
	}
	r.claim(e, f, reason)
	return e
}

// certain are the kinds whose meaning the worker knows without reading anything.
var certain = map[kind]recovery.Reason{
	late: recovery.Timeout, missing: recovery.ToolNotFound, asked: recovery.NeedsHuman, starved: recovery.OOMKilled,
	panicked: recovery.Unknown, closed: recovery.RateLimited,
}

// stopReasons say what an end from outside means.
var stopReasons = map[string]recovery.Reason{wire.StopWatchdog: recovery.Timeout, wire.StopShutdown: recovery.WorkerLost}

// claim fills in what the worker thinks that the failure means. The director decides on the evidence itself.
func (r *reporter) claim(e *wire.WorkerError, f *failure, reason string) {
	found, known := certain[f.kind]
	if f.kind == late && f.heard.limited() {
		known = false // it ran out of time because it was held back
	}
	if f.kind == stopped {
		if found, known = stopReasons[reason]; !known {
			found, known = recovery.WorkerLost, true
		}
	}
	if !known {
		finding := r.classify(recovery.Evidence{
			Stage: e.Stage, Tool: e.Tool, ExitCode: e.ExitCode, Signal: e.Signal,
			Message: e.Message, Stdout: e.LastStdoutTail, Stderr: e.LastStderrTail,
			Provider: e.Provider, HTTPStatus: e.HTTPStatus, Headers: e.Headers, RetryAfter: waitOf(e),
		})
		found = finding.Reason
		if finding.Cause != "" && !strings.Contains(e.Message, finding.Cause) {
			e.Message += ": " + r.mask.text(finding.Cause)
		}
		if finding.RetryAfter > 0 && e.RetryAfterSeconds == nil {
			s := finding.RetryAfter.Seconds()
			e.RetryAfterSeconds = &s
		}
	}
	says := recovery.Flags(found)
	e.ErrorType = string(found) // our own list, which tells more than the founding document's eight words
	e.IsTransient, e.ShouldRetry, e.EscalateToHuman = says.Transient, says.Retry, says.Escalate
}

func waitOf(e *wire.WorkerError) time.Duration {
	if e.RetryAfterSeconds == nil {
		return 0
	}
	return seconds(*e.RetryAfterSeconds, 0)
}

// fit cuts a report to the bus's limit and renders it. What is returned is what will be sent, byte counts included.
func fit(p *wire.Plan, report wire.Payload, now time.Time) (wire.Payload, []byte, error) {
	// A sequence number longer than any that will be used: the real one is not known yet.
	data, err := wire.EncodeWithin(sender(p), 1<<53, now, report, p.Bus.MaxMessageBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("worker: %w", err)
	}
	e, err := wire.Decode(data)
	if err != nil {
		return nil, nil, fmt.Errorf("worker: %w", err)
	}
	return e.Payload, data, nil
}

func sender(p *wire.Plan) wire.Sender {
	return wire.Sender{Role: wire.RoleWorker, ID: p.WorkerID, RunID: p.RunID}
}

// containerID is the container's short id, which engines give as the host name; empty if it does not look like one.
func containerID() string {
	name, err := os.Hostname()
	if err != nil || len(name) != 12 || strings.Trim(name, "0123456789abcdef") != "" {
		return ""
	}
	return name
}

// idOf is a report's duplicate key.
func idOf(p wire.Payload) string {
	switch v := p.(type) {
	case *wire.WorkerError:
		return v.ErrorID
	case *wire.WorkerResult:
		return v.ResultID
	}
	return ""
}
