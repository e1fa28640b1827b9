package demo

import (
	"strings"
	"testing"
)

var sample = []result{
	{
		Scenario: 7, Title: "worker killed mid-stage", Issue: "demo/widgets#7", Expected: "Done", Final: "Done",
		OK:       true,
		Attempts: 2, Verdicts: []string{"worker_lost: restart_worker", "worker_lost: escalate"}, Seconds: 6.449,
	},
	{
		Scenario: 1, Title: "a patch that makes the tests pass", Issue: "demo/widgets#1", Expected: "Done",
		Final:    "Blocked",
		Attempts: 1, Verdicts: []string{}, Seconds: 12, wrong: []string{`it ended Blocked, want Done`},
	},
}

func TestTable(t *testing.T) {
	var out strings.Builder
	writeTable(&out, sample)
	const want = `ISSUE   WHAT HAPPENED                       ATTEMPTS   VERDICTS                      FINAL     SECONDS   AS PROMISED
#7      worker killed mid-stage             2          worker_lost: restart_worker   Done      6.4       yes
                                                       worker_lost: escalate
#1      a patch that makes the tests pass   1          -                             Blocked   12.0      NO

SECONDS: from the poll that found the issue until its final state. The agents' scripts take most of this time.
AS PROMISED: attempts, verdicts, state, labels, comments and files are exactly those that the scenario lists.
demo/widgets#1: it ended Blocked, want Done
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestJSONLines(t *testing.T) {
	var out strings.Builder
	if err := writeJSON(&out, sample); err != nil {
		t.Fatal(err)
	}
	const want = `{"scenario":7,"title":"worker killed mid-stage","issue":"demo/widgets#7","expected":"Done","final":"Done","ok":true,"attempts":2,"verdicts":["worker_lost: restart_worker","worker_lost: escalate"],"seconds":6.4}
{"scenario":1,"title":"a patch that makes the tests pass","issue":"demo/widgets#1","expected":"Done","final":"Blocked","ok":false,"attempts":1,"verdicts":[],"seconds":12}
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestChecksAreShownWhenWrong(t *testing.T) {
	checks := []check{{what: "this holds"}, {what: "this does not", wrong: []string{"a", "b"}}}
	for all, want := range map[bool]string{
		true:  "[ok] this holds\n[NO] this does not: a; b\n",
		false: "[NO] this does not: a; b\n",
	} {
		var out strings.Builder
		if writeChecks(&out, checks, all); out.String() != want {
			t.Errorf("all %v: got %q, want %q", all, out.String(), want)
		}
	}
}
