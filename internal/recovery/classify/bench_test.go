package classify

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/recovery"
	"retake/internal/recovery/recoverytest"
	"retake/internal/testfiles"
)

var benchNow = time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)

func BenchmarkClassify(b *testing.B) {
	c := newClassifier(b)
	for _, bm := range []struct {
		name string
		text string
	}{
		{"tail-4KiB", recoverytest.Tail(4 << 10)},
		{"tail-64KiB", recoverytest.Tail(64 << 10)},
		{"stream-64KiB", recoverytest.Stream(64 << 10)},
		{"hostile-64KiB", recoverytest.Hostile(64 << 10)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.text)))
			b.ReportAllocs()
			for b.Loop() {
				c.Classify(recovery.Evidence{Stderr: bm.text, At: benchNow})
			}
		})
	}
}

// BenchmarkCorpus classifies the outputs of real programs in turn.
func BenchmarkCorpus(b *testing.B) {
	c := newClassifier(b)
	lines := testfiles.Corpus(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l := &lines[i%len(lines)]
		c.Classify(recovery.Evidence{Stderr: l.Text, ExitCode: l.ExitCode})
	}
}

// fastest returns the least processor time of several runs of f. Wall time would depend on the load of the machine: a
// long run is interrupted, and a short one often is not.
func fastest(runs int, f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	times := make([]time.Duration, runs)
	for i := range times {
		start := threadTime()
		f()
		times[i] = threadTime() - start
	}
	return slices.Min(times)
}

// threadTime returns the processor time that this thread has used.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// TestCostIsLinear checks that a text of eight times the length takes at most 24 times as long, for many kinds of text.
// With a quadratic cost it would take 64 times as long.
func TestCostIsLinear(t *testing.T) {
	c := newClassifier(t)
	for name, text := range map[string]func(int) string{
		"tail": recoverytest.Tail, "hostile": recoverytest.Hostile, "stream": recoverytest.Stream,
		"one line": func(n int) string { return strings.Repeat("error: retry in x http://a/b 0xff ", n/34+1)[:n] },
		"blanks":   func(n int) string { return strings.Repeat(" ", n) },
		"digits":   func(n int) string { return strings.Repeat("1", n) },
		"escapes":  func(n int) string { return strings.Repeat("\x1b]0;", n/4) },
		"retries":  func(n int) string { return strings.Repeat("retry after ", n/12) },
		"limits":   func(n int) string { return strings.Repeat("x-ratelimit-reset: 1\n", n/21) },
		"zones":    func(n int) string { return strings.Repeat("resets 3pm (Nowhere/Land)\n", n/26) },
		"objects":  func(n int) string { return strings.Repeat(`{"`, n/2) },
		"errors":   func(n int) string { return strings.Repeat(`error: {"error":{"message":"x"`+"\n", n/31) },
		"escaped":  func(n int) string { return strings.Repeat(`{\"a\n\n`, n/9) },
		"wrapped":  func(n int) string { return strings.Repeat(strings.Repeat("word ", 16)+"\n", n/81) },
		"logs":     func(n int) string { return strings.Repeat("2026-11-22 02:03:01 WARN x\n", n/27) },
		"braces":   func(n int) string { return strings.Repeat("{", n) },
	} {
		t.Run(name, func(t *testing.T) {
			cost := func(n int) time.Duration {
				e := recovery.Evidence{Stderr: text(n), At: benchNow}
				return fastest(7, func() { c.Classify(e) })
			}
			quietly(t, func() string {
				small, large := cost(16<<10), cost(128<<10)
				if ratio := float64(large) / float64(small); ratio > 24 {
					return fmt.Sprintf("16 KiB take %s, 128 KiB take %s, %.1f times as long", small, large, ratio)
				}
				return ""
			})
		})
	}
}

// quietly fails only if every try fails, because other load on the machine does not last through all tries.
func quietly(t *testing.T, measure func() (wrong string)) {
	t.Helper()
	wrong := ""
	for range 8 {
		if wrong = measure(); wrong == "" {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Error(wrong)
}

// TestCostIsSmall checks that a classification takes at most 15 times as long as its search for the rules' literals.
func TestCostIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	c := newClassifier(t)
	text := recoverytest.Tail(64 << 10)
	quietly(t, func() string {
		once := fastest(30, func() { c.literals.Scan(text, func(int, int) {}) })
		whole := fastest(30, func() { c.Classify(recovery.Evidence{Stderr: text, At: benchNow}) })
		t.Logf("64 KiB: one pass %s, classified in %s", once, whole)
		if whole > 15*once {
			return fmt.Sprintf("64 KiB are classified in %s, one pass takes %s", whole, once)
		}
		return ""
	})
}
