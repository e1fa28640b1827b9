package classify

import (
	"testing"

	"retake/internal/recovery"
)

// TestClassifyAlso checks which outputs have a close second reading.
func TestClassifyAlso(t *testing.T) {
	c := newClassifier(t)
	for name, tc := range map[string]struct {
		e    recovery.Evidence
		want Also
	}{
		"two failures": {recovery.Evidence{
			Stderr: "curl: (6) Could not resolve host: a.test\nread ECONNRESET\n", ExitCode: exit(1),
		}, Also{recovery.NetworkPermanent, "network.dns"}},
		"a verdict and a quote": {recovery.Evidence{
			Stderr: "--- FAIL: TestA (0.00s)\nread ECONNRESET\n", ExitCode: exit(1), Stage: "VALIDATE",
		}, Also{recovery.NetworkTransient, "network.cut"}},
		"one failure":           {recovery.Evidence{Stderr: "read ECONNRESET\n", ExitCode: exit(1)}, Also{}},
		"a failure and a guess": {recovery.Evidence{Stderr: "unsupported x\nread ECONNRESET\n"}, Also{}},
		"a fact":                {recovery.Evidence{Stderr: "read ECONNRESET\n", OOM: true}, Also{}},
		"an exit code":          {recovery.Evidence{ExitCode: exit(127)}, Also{}},
	} {
		f, also := c.ClassifyAlso(tc.e)
		if plain := c.Classify(tc.e); plain != f {
			t.Errorf("%s: %+v, but Classify returns %+v", name, f, plain)
		}
		var got Also
		if also != nil {
			got = *also
		}
		if got != tc.want {
			t.Errorf("%s: %s with also=%+v, want %+v", name, f.Reason, got, tc.want)
		}
	}
}
