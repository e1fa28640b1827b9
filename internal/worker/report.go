package worker

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/secrets/redact"

	"go.uber.org/zap"
)

// reporter turns the end of an attempt into its final report.
type reporter struct {
	plan     *wire.Plan
	mask     *redact.Redactor
	classify func(recovery.Evidence) recovery.Finding
}

// maxSummaryBytes is the maximum size of an agent's last message in a report.
const maxSummaryBytes = 4 << 10

// result returns the report of a successful attempt. The director determines the changed files when it commits.
func (r *reporter) result(a *attempt) *wire.WorkerResult {
	return &wire.WorkerResult{
		ResultID: r.plan.AttemptID + "/result", AttemptID: r.plan.AttemptID,
		IssueNumber: r.plan.Issue.Number, Attempt: r.plan.Attempt, Outcome: wire.OutcomeOK,
		Stages: a.results, Usage: onWire(a.used), Summary: firstBytes(strings.TrimSpace(r.mask.Text(a.answer)),
			maxSummaryBytes),
	}
}

// failed returns the report of a failed attempt. reason is the reason for an external stop, or empty.
func (r *reporter) failed(a *attempt, f *failure, reason string) *wire.WorkerError {
	e := &wire.WorkerError{
		ErrorID:  f.id(r.plan),
		WorkerID: r.plan.WorkerID, AttemptID: r.plan.AttemptID, IssueNumber: r.plan.Issue.Number,
		Attempt: r.plan.Attempt,
		Stage:   f.stage, Final: new(true), ContainerID: containerID(), WorktreePath: r.plan.Workdir,
		Signal: f.exit.signal, FixRounds: a.runs[wire.StageCode],
		Message:        r.mask.Text(a.summary(f)),
		LastStdoutTail: r.mask.Text(f.agent.withoutQuotes("stdout", f.exit.stdout.text(tailBytes))),
		LastStderrTail: r.stderrTail(f),
		Question:       r.mask.Text(firstBytes(f.question, maxQuestionBytes)),
		Usage:          onWire(a.used),
		Stages:         a.results,
	}
	if len(f.command) > 0 {
		e.Tool = filepath.Base(f.command[0])
	}
	if f.exit.err == nil && f.kind != failedPanic && f.kind != failedStart && f.kind != failedClosedModel &&
		f.kind != failedNoCalls && f.kind != failedCheckpoint {
		e.ExitCode = &f.exit.code
	}
	if f.agent != nil {
		f.agent.addEvidence(e, r.mask)
	}
	if f.kind == failedClosedModel {
		e.RetryAfterSeconds = new(f.wait.Seconds())
	}
	if reason != "" {
		e.Message += " (" + reason + ")"
	}
	found := r.assess(e, f, reason)
	e.Circumstances = r.circumstances(a, f, e, found, reason)
	return e
}

// stderrTail returns the tail of the program's log file, followed by the tail of stderr. The log file explains failures
// that agents do not print.
func (r *reporter) stderrTail(f *failure) string {
	log := r.mask.Text(f.log)
	return log + r.mask.Text(f.agent.withoutQuotes("stderr", f.exit.stderr.text(tailBytes-min(len(log), maxLogBytes))))
}

// knownReasons maps the kinds of failure that do not require classifying output to their reasons.
var knownReasons = map[kind]recovery.Reason{
	failedTimeout: recovery.Timeout, failedNoProgram: recovery.ToolNotFound, failedQuestion: recovery.NeedsHuman,
	failedMemory:     recovery.OOMKilled,
	failedCheckpoint: recovery.ScopeViolation,
	failedPanic:      recovery.Unknown, failedClosedModel: recovery.RateLimited, failedNoCalls: recovery.NeedsHuman,
}

// stopReasons maps the reasons for external stops to failure reasons.
var stopReasons = map[string]recovery.Reason{
	wire.StopWatchdog: recovery.Timeout,
	wire.StopShutdown: recovery.WorkerLost,
}

// assess sets the worker's own assessment of the failure, and returns it. The director judges the evidence
// independently.
func (r *reporter) assess(e *wire.WorkerError, f *failure, reason string) recovery.Reason {
	found, known := knownReasons[f.kind]
	if f.kind == failedTimeout && f.agent.rateLimited() {
		known = false // the rate limit caused the timeout
	}
	if f.kind == failedStopped {
		found, known = cmp.Or(stopReasons[reason], recovery.WorkerLost), true
	}
	if !known {
		finding := r.classify(recovery.Evidence{
			Stage: e.Stage, Tool: e.Tool, ExitCode: e.ExitCode, Signal: e.Signal,
			Message: e.Message, Stdout: e.LastStdoutTail, Stderr: e.LastStderrTail,
			Provider: e.Provider, HTTPStatus: e.HTTPStatus, Headers: e.Headers, RetryAfter: waitOf(e),
		})
		found = finding.Reason
		if finding.Cause != "" && !strings.Contains(e.Message, finding.Cause) {
			e.Message += ": " + r.mask.Text(finding.Cause)
		}
		if finding.RetryAfter > 0 && e.RetryAfterSeconds == nil {
			e.RetryAfterSeconds = new(finding.RetryAfter.Seconds())
		}
	}
	a := recovery.Assert(found)
	e.ErrorType, e.IsTransient, e.ShouldRetry, e.EscalateToHuman = a.ErrorType, a.Transient, a.Retry, a.Escalate
	if found == recovery.Unknown && (e.ExitCode == nil || *e.ExitCode == 0) {
		e.ErrorType = string(found) // the usual name for an unknown failure implies an exit code
	}
	return found
}

func waitOf(e *wire.WorkerError) time.Duration {
	if e.RetryAfterSeconds == nil {
		return 0
	}
	return duration(*e.RetryAfterSeconds, 0)
}

// fit truncates a report to the bus's size limit and encodes it. It returns the truncated report and the encoded
// message.
func fit(p *wire.Plan, report wire.Payload, now time.Time) (wire.Payload, []byte, error) {
	// The real sequence number is assigned later, so reserve room for the longest.
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
	return wire.Sender{Role: wire.RoleWorker, ID: p.WorkerID, RunID: p.RunID, Key: p.SignKey}
}

// containerID returns the container's short id, which engines use as the host name, or "" for other host names.
func containerID() string {
	name, err := os.Hostname()
	if err != nil || len(name) != 12 || strings.Trim(name, "0123456789abcdef") != "" {
		return ""
	}
	return name
}

// classifier is created at the first failure, because most attempts succeed.
var classifier = sync.OnceValues(func() (*classify.Classifier, error) { return classify.New() })

// classifyFailure classifies a program's failure. If the built-in rules do not load, it returns Unknown. The director
// can still classify the evidence.
func classifyFailure(e recovery.Evidence) recovery.Finding {
	c, err := classifier()
	if err != nil {
		return recovery.Finding{Reason: recovery.Unknown}
	}
	return c.Classify(e)
}

// spool keeps reports as files in the checkout. The director reads them if a report did not reach the bus, or the bus
// lost it. The worker sends the copy in memory and never reads the files, because the agent may have written them, and
// reports from an earlier attempt no longer count.
type spool struct {
	folder  *stateDir // nil without a workspace
	attempt string
	written int
	log     *zap.Logger
}

// add writes a report, encoded as data, before the worker sends it. If the write fails, add only logs the error,
// because the report must be sent even if the disk is full.
func (s *spool) add(report wire.Payload, data []byte) {
	if s.folder == nil {
		return
	}
	s.written++
	if err := s.folder.write(path.Join(spoolFolder, fmt.Sprintf("%s.%04d.json", s.attempt, s.written)), 0o600,
		data); err != nil {
		_, id := wire.ReportID(report)
		s.log.Warn("could not spool report; sending it from memory", zap.String("error_id", id), zap.Error(err))
	}
}
