package audit

import (
	"strings"
	"testing"
)

func TestSummaryQuotesALogOnce(t *testing.T) {
	s := Summary(Bundle{BuildLog: "undefined: x\n", WorkerLog: "undefined: x\n\n"}, nil)
	if strings.Count(s, "undefined: x") != 1 || !strings.Contains(s, "The end of `build.log`") {
		t.Error(s)
	}
}

func TestSentence(t *testing.T) {
	for _, c := range []struct {
		on, why, want string
	}{
		{"final report", "", "The worker sent its final report (Running → Stopping)"},
		{"verdict: ask a human", "x", "A person was asked: x (Running → Stopping)"},
		{"new", "x", "new: x (Running → Stopping)"}, // nobody's, told as it is
	} {
		if got := sentence(Transition{On: c.on, From: "Running", To: "Stopping", Why: c.why}); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
