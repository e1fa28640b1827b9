package metrics

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool: Debian's package prometheus has it")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(stdin, "# HELP") && len(out) > 0 {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// promtool accepts the names and texts of all metrics.
func TestNamesAreClean(t *testing.T) {
	t.Parallel()
	s := newStory()
	s.ReadWith(func() Readings {
		return Readings{Webhooks: map[string]int{"taken": 1}, DeadLetters: map[string]uint64{"not_json": 1}}
	})
	s.Requested(Request{
		Method: "GET", Status: 200, Took: time.Second, Resource: "core", Left: 1, Limit: 2,
		Reset: noon,
	})
	s.facts(fsm.CommandTaken{Task: issue, Command: fsm.CommandRetry})
	s.run(fsm.Next{})
	s.fails(recovery.Timeout, recovery.Retry)
	s.run(fsm.Next{Action: recovery.Retry})
	s.fails(recovery.Timeout, recovery.Escalate)
	s.move(fsm.OnWithdrawn)
	text := s.scrape(t)
	for _, r := range Table {
		if !strings.Contains(text, "# HELP "+r.Name+" "+r.Help+".\n# TYPE "+r.Name+" "+string(r.Kind)+"\n") {
			t.Errorf("%s differs from its row in the table", r.Name)
		}
	}
	for l := range strings.Lines(text) {
		name, isHelp := strings.CutPrefix(l, "# TYPE "+Prefix)
		if name, _, _ = strings.Cut(Prefix+name, " "); isHelp && rowOf(name).Name == "" {
			t.Errorf("%s is not in the table", name)
		}
	}
	promtool(t, text, "check", "metrics")
}

func TestAlertsFire(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", alertsFile)
	promtool(t, "", "test", "rules", "../../deploy/alerts_test.yml")
}
