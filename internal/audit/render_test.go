package audit

import (
	"strings"
	"testing"
)

func TestSummaryQuotesALogOnce(t *testing.T) {
	s := Summary(Meta{}, Output{BuildLog: "undefined: x\n", WorkerLog: "undefined: x\n\n"}, nil)
	if strings.Count(s, "undefined: x") != 1 || !strings.Contains(s, "The end of `build.log`") {
		t.Error(s)
	}
}

func TestSentence(t *testing.T) {
	for _, c := range []struct {
		on, means, why, want string
	}{
		{
			"final_report", "The worker sent its final report", "",
			"The worker sent its final report (Running → Stopping)",
		},
		{"escalate", "A person was asked", "x", "A person was asked: x (Running → Stopping)"},
		{"final report", "", "x", "final report: x (Running → Stopping)"}, // written by an older version
	} {
		if got := (Transition{On: c.on, Means: c.means, From: "Running", To: "Stopping", Why: c.why}).
			Sentence(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
