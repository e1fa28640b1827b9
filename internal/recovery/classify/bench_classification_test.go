package classify

import (
	"fmt"
	"testing"
	"time"

	"retake/internal/bench"
	"retake/internal/recovery"
	"retake/internal/recovery/recoverytest"
)

// TestBenchClassification measures what it takes to find out what the end of an output means, beside asking each rule on each line by its own expression,
// which is what a classifier without the rest would do, and finds the same.
func TestBenchClassification(t *testing.T) {
	bench.Begin(t)
	c := newClassifier(t)
	for _, m := range []struct {
		what string
		text string
		goal float64 // in µs; 0: none
	}{
		{"4 KiB of a build and its tests", recoverytest.Tail(4 << 10), 40},
		{"64 KiB of a build and its tests", recoverytest.Tail(64 << 10), 300},
		{"64 KiB of an agent's events", recoverytest.Stream(64 << 10), 300},
		{"4 KiB made to cost much", recoverytest.Hostile(4 << 10), 0},
		{"64 KiB made to cost much", recoverytest.Hostile(64 << 10), 0},
	} {
		e := recovery.Evidence{Stderr: m.text, At: benchNow}
		f := bench.Figure{
			Section: "classification", What: m.what, Value: micros(fastest(200, func() { c.Classify(e) })), Unit: "µs", Goal: bench.Goal{AtMost: m.goal},
			Beside: micros(fastest(10, func() { byEachRule(c, e) })), Of: "each rule by itself",
		}
		bench.Record(t, f)
		if err := sameAsTwin(c, e); err != nil {
			t.Error(fmt.Errorf("%s: %w", m.what, err))
		}
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// byEachRule reads evidence as the twin does.
func byEachRule(c *Classifier, e recovery.Evidence) {
	q := &classification{c: c, e: clean(e)}
	q.byTwin()
}
