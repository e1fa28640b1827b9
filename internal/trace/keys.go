package trace

import "retake/internal/fsm"

// The keys of attributes; docs/specs/tracing.md says what each means.
const (
	KeyIssue      = "retake.issue"
	keyTitle      = "retake.title"
	keyURL        = "retake.url"
	keyAttempt    = "retake.attempt"
	keyAttempts   = "retake.attempts"
	keyWorker     = "retake.worker"
	keyOutcome    = "retake.outcome"
	keyEndedBy    = "retake.ended_by"
	keyWhy        = "retake.why"
	keyUntil      = "retake.until"
	keyReason     = "retake.reason"
	keyCause      = "retake.cause"
	keyRule       = "retake.rule"
	keyConfidence = "retake.confidence"
	keyRow        = "retake.row"
	keyAction     = "retake.action"
	keyVeto       = "retake.veto"
	keyDelay      = "retake.delay_seconds"
	keyCharges    = "retake.charges"
	keyIncident   = "retake.incident"
	keyStage      = "retake.stage"
	keyRun        = "retake.run"
	keyExitCode   = "retake.exit_code"
	keyCommand    = "retake.command"
	keyEstimated  = "retake.estimated"
	keyValidates  = "retake.validates"
	keyIncomplete = "retake.incomplete"
	keyTokens     = "retake.tokens"
	keyPaidCalls  = "retake.paid_calls"
	keyCost       = "retake.cost_usd"
	keyBranch     = "retake.branch"
	keySHA        = "retake.sha"
	keyDelivered  = "retake.delivered"
	keyEffect     = "retake.effect"
	keyTries      = "retake.tries"
	keyIssues     = "retake.issues"
	keyOK         = "retake.ok"
	keyFinal      = "retake.final"
	keyErrorID    = "retake.error_id"
)

// taskOf is the issue that a fact is about; empty: none that its trace has to know.
func taskOf(f fsm.Fact) fsm.IssueKey {
	switch f := f.(type) {
	case fsm.TaskQueued:
		return f.Task
	case fsm.TaskRebuilt:
		return f.Rebuilt.Key
	case fsm.CommandTaken:
		return f.Task
	case fsm.WorkDelivered:
		return f.Task
	case fsm.EffectPlanned:
		return f.Effect.Task
	case fsm.EffectDone:
		return f.Task
	case fsm.EffectDeferred:
		return f.Task
	case fsm.TaskRenamed:
		return f.Task
	case fsm.StandingChanged:
		return f.Task
	case fsm.Moved:
		return f.Task
	case fsm.AttemptBegan:
		return f.Task
	case fsm.ContainerWaits:
		return f.Task
	case fsm.ContainerStarted:
		return f.Task
	case fsm.AttemptFenced:
		return f.Task
	case fsm.ReportAccepted:
		return f.Task
	case fsm.EndingSet:
		return f.Task
	case fsm.VerdictMade:
		return f.Task
	case fsm.UsageCounted:
		return f.Task
	}
	return ""
}
