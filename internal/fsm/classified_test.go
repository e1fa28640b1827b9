package fsm

import (
	"testing"

	"retake/internal/recovery"
)

// TestAFindingCountsForItsClassifierOnly checks that the classifier of a new configuration classifies again.
func TestAFindingCountsForItsClassifierOnly(t *testing.T) {
	ours, others := new(int), new(int)
	for name, c := range map[string]struct {
		classified *Classified
		want       recovery.Reason
	}{
		"not found before": {nil, recovery.TestsFailed},
		"by ours":          {&Classified{ours, recovery.Finding{Reason: recovery.DiskFull}}, recovery.DiskFull},
		"by another":       {&Classified{others, recovery.Finding{Reason: recovery.DiskFull}}, recovery.TestsFailed},
		"by nobody":        {&Classified{nil, recovery.Finding{Reason: recovery.DiskFull}}, recovery.TestsFailed},
	} {
		m := crowd(t, 1)
		m.cfg.Classify = func(recovery.Evidence) recovery.Finding {
			return recovery.Finding{Reason: recovery.TestsFailed}
		}
		if m.cfg.Classifier = ours; name == "by nobody" {
			m.cfg.Classifier = nil
		}
		facts, _ := m.Step(Event{At: at(5), Body: ReportReceived{
			Worker: "k1-1",
			Report: Report{Ref: ReportRef{ID: "k1-1/e"}, Final: true, Classified: c.classified},
		}})
		if got := facts[0].(ReportAccepted).Finding.Reason; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
