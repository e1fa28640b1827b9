package fsm

import (
	"strings"
	"testing"

	"retake/internal/recovery"
)

// TestLostWorkIsSaidAndChangesNothing checks that the cause of a failure mentions the lost work, and that the failure's
// signature does not depend on it.
func TestLostWorkIsSaidAndChangesNothing(t *testing.T) {
	m := New(Config{Classify: func(e recovery.Evidence) recovery.Finding {
		return recovery.Finding{Reason: e.Known, Cause: e.KnownCause, Signature: e.KnownCause}
	}})
	code := 137
	plain := m.exitFinding(&Task{}, StopResult{ExitCode: &code, Signal: "SIGKILL"})
	lost := m.exitFinding(&Task{}, StopResult{
		ExitCode: &code, Signal: "SIGKILL",
		Lost: "up to 2 minutes of work may be lost",
	})
	if lost.Cause != plain.Cause+": up to 2 minutes of work may be lost" || strings.Contains(plain.Cause, "lost") {
		t.Errorf("got %q, and without %q", lost.Cause, plain.Cause)
	}
	if lost.Signature != plain.Signature || lost.Reason != plain.Reason {
		t.Errorf("got %+v, want alike: %+v", lost, plain)
	}
}
