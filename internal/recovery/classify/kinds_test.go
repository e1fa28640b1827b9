package classify

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"retake/internal/bench"
	"retake/internal/recovery"
	"retake/internal/recovery/recoverytest"
)

// TestKinds checks that each kind of output is recognized at any length.
func TestKinds(t *testing.T) {
	c := newClassifier(t)
	want := map[string]recovery.Reason{
		"go test that fails": recovery.TestsFailed, "npm test": recovery.TestsFailed, "pytest": recovery.TestsFailed,
		"events of claude-code":         recovery.RateLimited,
		"words, and a provider's error": recovery.Overloaded, "a build's log with times": recovery.DiskFull,
		"no line matches a rule": recovery.Unknown, recoverytest.Adverse: recovery.Unknown,
	}
	for i := range recoverytest.Kinds {
		k := &recoverytest.Kinds[i]
		for _, size := range []int{4 << 10, 64 << 10} {
			text := k.Tail(size)
			if f := c.Classify(recovery.Evidence{Stderr: text, ExitCode: exit(1)}); f.Reason != want[k.Name] ||
				len(text) != size {
				t.Errorf("%s, %d bytes: %s by %s: %s, want %s", k.Name, len(text), f.Reason, f.Rule, f.Cause,
					want[k.Name])
			}
		}
	}
}

// TestBenchClassification measures the time of one classification, and compares it with the twin. The goals are for a
// tail with all kinds of output. The median and the worst of single kinds are only printed.
func TestBenchClassification(t *testing.T) {
	bench.Begin(t)
	c := newClassifier(t)
	runs := 300
	if bench.Quick() {
		runs = 60
	}
	measure := func(what, text string, goal bench.Goal) bench.Figure {
		e := recovery.Evidence{Stderr: text, ExitCode: exit(1), At: benchNow}
		tell := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
		twin := &classification{c: c, e: clean(e)}
		return bench.Figure{
			Section: "classification", What: fmt.Sprintf("%d KiB: %s", len(text)>>10, what), Unit: "µs", Goal: goal,
			Value:  tell(fastest(runs, func() { c.Classify(e) })),
			Beside: tell(fastest(2, func() { twin.byTwin() })), Of: "one rule after another",
		}
	}
	for _, size := range []struct {
		bytes int
		most  float64 // µs
	}{{4 << 10, 40}, {64 << 10, 300}} {
		bench.Record(t, measure("a tail of everything", recoverytest.Tail(size.bytes),
			bench.Goal{AtMost: size.most, Limit: "by the profile a quarter is the signature, a sixth each are the " +
				"search for literals, lines that were wrapped, and expressions, the rest is memory; a processor on " +
				"which the previous code took 90 µs reaches the goal, one on which it took 337 µs needs 0.18 of that"}))
		var all []bench.Figure
		for i := range recoverytest.Kinds {
			k := &recoverytest.Kinds[i]
			all = append(all, measure(k.Name, k.Tail(size.bytes), bench.Goal{}))
		}
		slices.SortFunc(all, func(a, b bench.Figure) int { return cmp.Compare(a.Value, b.Value) })
		for i, note := range map[int]string{len(all) / 2: " (the median kind)", len(all) - 1: " (the worst kind)"} {
			all[i].What += note
			bench.Record(t, all[i])
		}
	}
}
