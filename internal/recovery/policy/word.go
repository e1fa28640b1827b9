package policy

import (
	"fmt"

	"retake/internal/recovery"
)

// Rows of verdicts decided by the reporter's explicit flags.
const (
	RowEscalateWord = "director.escalate_to_human"
	RowRetryWord    = "director.should_retry"
)

// Obey applies the reporter's explicit flags to a verdict, unless w is nil. Flags only make the director more careful:
// Obey never grants an attempt that the policy refuses.
func Obey(v recovery.Verdict, w *recovery.Assertion, tally recovery.Tally) recovery.Verdict {
	if !v.Action.Again() || !Forbids(w, tally) {
		return v
	}
	row, why := RowEscalateWord, "the report says escalate_to_human = true"
	if !w.Escalate {
		row, why = RowRetryWord, "the report says should_retry = false, and its one exceptional retry is used up"
	}
	return recovery.Verdict{
		Action: recovery.Escalate, Reason: v.Reason, Row: row, Counter: v.Counter, Error: true, Veto: v.Veto,
		Why:         fmt.Sprintf("%s: %s; row %s would have chosen %s", v.Reason, why, v.Row, v.Action),
		Ask:         "Read the report, and decide whether to make another attempt.",
		NextIfAgain: recovery.Escalate,
	}
}

// Forbids reports whether the reporter's explicit flags forbid another attempt. It does not depend on the policy.
func Forbids(w *recovery.Assertion, tally recovery.Tally) bool {
	return w != nil && (w.Escalate || !w.Retry && tally.Granted > 0)
}

// FollowsWord reports whether the reporter's flags decided a verdict.
func FollowsWord(v recovery.Verdict) bool { return v.Row == RowEscalateWord || v.Row == RowRetryWord }
