package director

import (
	"strings"
	"testing"

	"retake/internal/audit"
	"retake/internal/fsm"
)

// TestEveryTriggerIsTold: what a summary says for people is no trigger of the machine as it is.
func TestEveryTriggerIsTold(t *testing.T) {
	for _, move := range fsm.Transitions {
		told := audit.Summary(audit.Bundle{}, []audit.Transition{{From: move.From.String(), To: move.To.String(), On: string(move.On)}})
		if strings.Contains(told, "00:00:00 "+string(move.On)) {
			t.Errorf("no words for %q in internal/audit", move.On)
		}
	}
}
