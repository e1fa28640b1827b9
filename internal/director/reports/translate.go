package reports

import (
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// Translate returns a stored report in the machine's form. It includes the evidence, which the journal omits.
func Translate(r bus.Report) fsm.Report {
	out := fsm.Report{Ref: fsm.ReportRef{Seq: r.Seq, SHA256: r.SHA256}, Final: true}
	switch b := r.Body.(type) {
	case *wire.WorkerResult:
		out.Ref.ID, out.OK, out.Stage, out.Usage = b.ResultID, true, wire.StageDone, Usage(b.Usage)
	case *wire.WorkerError:
		out.Ref.ID, out.Final, out.Stage, out.Usage = b.ErrorID, b.IsFinal(), b.Stage, Usage(b.Usage)
		out.Exit = r.Own && b.ErrorID == bus.ExitID(r.Worker)
		out.Evidence = Evidence(b, r.Received)
		out.Issue, out.N, out.Persons = b.IssueNumber, b.Attempt, !r.Own && !r.Signed
		// The worker derives the flags from the error type before signing. In a signed report, flags are therefore
		// explicit only if they differ from the derived ones.
		said := &out.Evidence.Assertion
		said.Explicit = !r.Own && (!r.Signed || said.Differs())
		if r.Own && b.ErrorID == bus.OffenceID(r.Worker) {
			out.Evidence.Known, out.Evidence.KnownCause = recovery.PolicyViolation, b.Message
		}
		if r.Own && b.ErrorID == bus.DiskID(r.Worker) {
			out.Evidence.Known, out.Evidence.KnownCause = recovery.ScopeViolation, b.Message
		}
		out.Evidence.OOM = out.Evidence.OOM || out.Exit && b.ErrorType == string(recovery.OOMKilled)
	}
	return out
}

// Evidence returns the evidence in a worker's report of a failure. at is when the report was received.
func Evidence(b *wire.WorkerError, at time.Time) recovery.Evidence {
	e := recovery.Evidence{
		At: at, Stage: b.Stage, Tool: b.Tool, Provider: b.Provider, ExitCode: b.ExitCode, Signal: b.Signal,
		HTTPStatus: b.HTTPStatus, Headers: b.Headers, Message: b.Message, Stdout: b.LastStdoutTail,
		Stderr:   b.LastStderrTail,
		Question: b.Question,
		Assertion: recovery.Assertion{
			ErrorType: b.ErrorType, Transient: b.IsTransient, Retry: b.ShouldRetry, Escalate: b.EscalateToHuman,
		},
	}
	// A worker reports this from the kernel's counter. Without a matching exit, it is only an assertion.
	e.OOM = b.ErrorType == string(recovery.OOMKilled) &&
		(b.Signal == "SIGKILL" || b.ExitCode != nil && *b.ExitCode == 137)
	if e.OOM {
		e.KnownCause = b.Message // the message names the limit
	}
	if b.RetryAfterSeconds != nil {
		e.RetryAfter = seconds(*b.RetryAfterSeconds)
	}
	return e
}

// Usage returns the plausible part of the usage that a worker reports for its attempt, or nil if the report has no
// usage.
func Usage(u *wire.Usage) *recovery.Usage {
	if u == nil {
		return nil
	}
	return new(recovery.Usage{
		Tokens: u.Tokens, PaidCalls: int64(u.PaidCalls), CacheHits: int64(u.CacheHits), CostUSD: u.CostUSD,
	}.Plausible())
}

// seconds converts a worker's number of seconds without overflow. It caps the result at a month, because quotas last
// days or months.
func seconds(f float64) time.Duration {
	const month = 31 * 24 * time.Hour
	if f >= month.Seconds() {
		return month
	}
	return time.Duration(max(f, 0) * float64(time.Second))
}
