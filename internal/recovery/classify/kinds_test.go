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

// TestKinds: each kind of output is read as what it is, whatever its length.
func TestKinds(t *testing.T) {
	c := newClassifier(t)
	want := map[string]recovery.Reason{
		"go test that fails": recovery.TestsFailed, "npm test": recovery.TestsFailed, "pytest": recovery.TestsFailed, "events of claude-code": recovery.RateLimited,
		"words, and a provider's error": recovery.Overloaded, "a build's log with times": recovery.DiskFull,
		"nothing that a rule knows": recovery.Unknown, "words of many rules, of which none applies": recovery.Unknown,
	}
	for i := range recoverytest.Kinds {
		k := &recoverytest.Kinds[i]
		for _, size := range []int{4 << 10, 64 << 10} {
			text := k.Tail(size)
			if f := c.Classify(recovery.Evidence{Stderr: text, ExitCode: exit(1)}); f.Reason != want[k.Name] || len(text) != size {
				t.Errorf("%s, %d bytes: %s by %s: %s, want %s", k.Name, len(text), f.Reason, f.Rule, f.Cause, want[k.Name])
			}
		}
	}
}

// TestBenchClassification measures how long one classification takes of each kind of output, beside the twin of its reading.
func TestBenchClassification(t *testing.T) {
	bench.Begin(t)
	c := newClassifier(t)
	runs := 300
	if bench.Quick() {
		runs = 60
	}
	for _, size := range []struct {
		bytes int
		most  float64 // µs
		limit string
	}{
		{4 << 10, 40, ""},
		{64 << 10, 300, ""},
	} {
		var all []bench.Figure
		for i := range recoverytest.Kinds {
			k := &recoverytest.Kinds[i]
			e := recovery.Evidence{Stderr: k.Tail(size.bytes), ExitCode: exit(1)}
			tell := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
			twin := &classification{c: c, e: clean(e)}
			all = append(all, bench.Figure{
				Section: "classification", What: fmt.Sprintf("%d KiB: %s", size.bytes>>10, k.Name), Unit: "µs",
				Value:  tell(fastest(runs, func() { c.Classify(e) })),
				Beside: tell(fastest(2, func() { twin.byTwin() })), Of: "each rule by itself",
			})
		}
		slices.SortFunc(all, func(a, b bench.Figure) int { return cmp.Compare(a.Value, b.Value) })
		for i, f := range all {
			f.Goal = bench.Goal{AtMost: size.most, Limit: size.limit}
			switch i {
			case len(all) / 2:
				f.What += " (the median kind)"
			case len(all) - 1:
				f.What += " (the worst kind)"
			default:
				f.Goal = bench.Goal{}
			}
			bench.Record(t, f)
		}
	}
}
