package worker

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"retake/internal/bus/wire"
)

// The director knows the stage of each line of both streams, including fix rounds.
func TestWholeStagesAreMarked(t *testing.T) {
	w := newWorld(t)
	w.setting(1, "TEST_RIGHT_IN", "2")
	w.plan.MarkStages = true
	if code := w.run(t.Context()); code != ExitResult {
		t.Fatalf("exit %d\n%s", code, w.err)
	}
	for stream, printed := range map[string]string{
		wire.StreamStdout: w.out.String(),
		wire.StreamStderr: w.err.String(),
	} {
		var marks []string
		stage, refused := "", stream == wire.StreamStderr
		for line := range strings.Lines(printed) {
			line = strings.TrimSuffix(line, "\n")
			if m, ok := wire.ReadStageMark(line, w.plan.SignKey, w.plan.WorkerID, stream); ok {
				marks, stage = append(marks, fmt.Sprintf("%d %s %d", m.N, m.Stage, m.Run)), m.Stage
			} else if strings.Contains(line, "was told") && stage != wire.StageCode {
				t.Errorf("%s: %q is not from %q", stream, line, stage)
			} else if strings.HasPrefix(line, "--- FAIL") && stage == wire.StageValidate {
				refused = true
			}
		}
		if !refused {
			t.Error("VALIDATE printed no failure")
		}
		if want := []string{"1 CODE 1", "2 VALIDATE 1", "3 CODE 2", "4 VALIDATE 2"}; !slices.Equal(marks, want) {
			t.Errorf("%s: marks %q, want %q", stream, marks, want)
		}
		if left := string(wire.WithoutStageMarks([]byte(printed))); strings.Contains(left, wire.StageMarkPrefix) ||
			stream == wire.StreamStdout && !strings.Contains(left, "was told: VALIDATE") {
			t.Errorf("without marks:\n%s", left)
		}
	}
}

func TestAMarkStandsOnItsOwn(t *testing.T) {
	var out, errs bytes.Buffer
	plan := &wire.Plan{WorkerID: "k3v9qx2m-1", SignKey: []byte("key")}
	m := &stageMarks{plan, &console{to: &out}, &console{to: &errs}, 0}
	_, _ = m.stdout.Write([]byte("half a line"))
	m.begin("CODE", 1)
	half, line, _ := strings.Cut(out.String(), "\n")
	if _, ok := wire.ReadStageMark(strings.TrimSuffix(line, "\n"), plan.SignKey, plan.WorkerID,
		wire.StreamStdout); !ok || half != "half a line" {
		t.Errorf("got %q", out.String())
	}
	for _, c := range []struct{ worker, stream, key string }{
		{"another-1", wire.StreamStdout, "key"},
		{plan.WorkerID, wire.StreamStderr, "key"},
		{plan.WorkerID, wire.StreamStdout, "guessed"},
		{plan.WorkerID, wire.StreamStdout, ""},
	} {
		if _, ok := wire.ReadStageMark(strings.TrimSuffix(line, "\n"), []byte(c.key), c.worker, c.stream); ok {
			t.Errorf("a mark of %s on stdout counts as %+v", plan.WorkerID, c)
		}
	}
	if unsigned := (wire.StageMark{N: 1, Stage: "CODE"}).Line(nil, plan.WorkerID, wire.StreamStdout); unsigned != "" {
		t.Errorf("a mark without a key: %q", unsigned)
	}
}
