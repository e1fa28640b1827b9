package recovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// tail makes n bytes as a failed run leaves them: noise, then a reason.
func tail(n int) string {
	const noise = "=== RUN   TestWidget/case_17\n    widget.go:31: fetching http://127.0.0.1:4711/v1/items?page=2 (attempt 3)\n--- PASS: TestWidget/case_17 (0.01s)\n"
	const end = "error: failed to push some refs to 'origin'\nfatal: unable to access 'https://x/': Connection reset by peer\n"
	return strings.Repeat(noise, n/len(noise)+1)[:n-len(end)] + end
}

// hostile makes n bytes with literals of many rules and times on every line.
func hostile(n int) string {
	const line = "error config certificate timeout http status model unknown token .go: .c: x problem found in, retry after reset in wait until\n"
	return strings.Repeat(line, n/len(line)+1)[:n]
}

// stream makes n bytes of an agent's JSON events, the last of which is an error.
func stream(n int) string {
	const event = `{"type":"assistant","message":{"content":[{"type":"text","text":"I run the tests; error: 429 is asserted in widget_test.go:31."}]},"session_id":"ses_e00b31b83ffeirO4A27tZp4zge"}` + "\n"
	const end = `{"type":"result","is_error":true,"result":"Claude AI usage limit reached|1795269600"}` + "\n"
	return strings.Repeat(event, n/len(event)+1)[:n-len(end)] + end
}

func BenchmarkClassify(b *testing.B) {
	c := newClassifier(b)
	for _, bm := range []struct {
		name string
		text string
	}{
		{"tail-4KiB", tail(4 << 10)},
		{"tail-64KiB", tail(64 << 10)},
		{"stream-64KiB", stream(64 << 10)},
		{"hostile-64KiB", hostile(64 << 10)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.text)))
			b.ReportAllocs()
			for b.Loop() {
				c.Classify(Evidence{Stderr: bm.text, At: saturday})
			}
		})
	}
}

// BenchmarkCorpus classifies one output of a real program after the other.
func BenchmarkCorpus(b *testing.B) {
	c := newClassifier(b)
	lines := readCorpus(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l := &lines[i%len(lines)]
		c.Classify(Evidence{Stderr: l.Text, ExitCode: l.ExitCode})
	}
}

func BenchmarkSignature(b *testing.B) {
	e := Evidence{Stage: "VALIDATE", Stderr: tail(64 << 10)}
	b.ReportAllocs()
	for b.Loop() {
		Signature(e, NetworkTransient)
	}
}

func BenchmarkRetryAfter(b *testing.B) {
	e := Evidence{Stderr: tail(64<<10) + "Your limit will reset at 3pm (Europe/Warsaw).\n", At: saturday}
	b.ReportAllocs()
	for b.Loop() {
		retryAfter(e, RateLimited)
	}
}

// fastest returns the least time of several runs of f, which is the least disturbed by other work on the machine.
func fastest(runs int, f func()) time.Duration {
	times := make([]time.Duration, runs)
	for i := range times {
		start := time.Now()
		f()
		times[i] = time.Since(start)
	}
	return slices.Min(times)
}

// TestCostIsLinear: eight times the text costs about eight times as much, of any kind of text. The bound is generous:
// a cost that grows with the square would be at 64.
func TestCostIsLinear(t *testing.T) {
	c := newClassifier(t)
	for name, text := range map[string]func(int) string{
		"tail": tail, "hostile": hostile, "stream": stream,
		"one line": func(n int) string { return strings.Repeat("error: retry in x http://a/b 0xff ", n/34+1)[:n] },
		"blanks":   func(n int) string { return strings.Repeat(" ", n) },
		"digits":   func(n int) string { return strings.Repeat("1", n) },
		"escapes":  func(n int) string { return strings.Repeat("\x1b]0;", n/4) },
		"retries":  func(n int) string { return strings.Repeat("retry after ", n/12) },
		"limits":   func(n int) string { return strings.Repeat("x-ratelimit-reset: 1\n", n/21) },
		"zones":    func(n int) string { return strings.Repeat("resets 3pm (Nowhere/Land)\n", n/26) },
		"braces":   func(n int) string { return strings.Repeat("{", n) },
	} {
		t.Run(name, func(t *testing.T) {
			cost := func(n int) time.Duration {
				e := Evidence{Stderr: text(n), At: saturday}
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

// quietly fails only if something is wrong every time: others use the machine, too, and no load lasts through all tries.
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

// TestCostIsSmall compares with one pass of the automaton for the rules' literals, in the same run: all the rest
// together may cost a few times as much as to look at every byte once.
func TestCostIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	c := newClassifier(t)
	text := tail(64 << 10)
	quietly(t, func() string {
		once := fastest(30, func() { c.literals.scan(text, func(int, int) {}) })
		whole := fastest(30, func() { c.Classify(Evidence{Stderr: text, At: saturday}) })
		t.Logf("64 KiB: one pass %s, classified in %s", once, whole)
		if whole > 15*once {
			return fmt.Sprintf("64 KiB are classified in %s, one pass takes %s", whole, once)
		}
		return ""
	})
}
