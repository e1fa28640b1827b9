package retryafter

import (
	"testing"
	"time"

	"retake/internal/recovery/recoverytest"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// FuzzRetryAfter checks that the wait is bounded for any text, header, current time and reason. Without a current time,
// only relative waits count.
func FuzzRetryAfter(f *testing.F) {
	for i, s := range recoverytest.Tricky {
		f.Add(s, recoverytest.Tricky[(i+5)%len(recoverytest.Tricky)],
			recoverytest.Tricky[(i+17)%len(recoverytest.Tricky)], int64(i)*100_000_000)
	}
	f.Add("resets 2am (Europe/Warsaw)", "0", "1d", int64(253402300799))
	f.Add("resets Jan 1", "1e300", "Saturday, 21-Nov-26 11:02:00 GMT", int64(-62135596800))
	f.Fuzz(func(t *testing.T, text, retry, reset string, now int64) {
		headers := map[string]string{
			"retry-after": retry, "x-ratelimit-reset-tokens": reset,
			"x-ratelimit-remaining-tokens": "0", "retry-after-ms": reset,
		}
		for _, at := range []time.Time{{}, time.Unix(now, 0), time.Unix(now, 0).UTC()} {
			e := recovery.Evidence{Stderr: plaintext.Clean(text), Headers: headers, At: at}
			for _, r := range []recovery.Reason{recovery.RateLimited, recovery.NetworkTransient, recovery.TestsFailed} {
				got := Read(e, r)
				if got < 0 || got > recovery.LongestWait {
					t.Errorf("%s at %s: %s", r, at, got)
				}
				if r == recovery.TestsFailed && got != 0 {
					t.Errorf("no time heals %s: %s", r, got)
				}
				if got != Read(e, r) {
					t.Errorf("%s at %s: %s, then another", r, at, got)
				}
			}
			l, _ := ReadLimit(headers, at)
			if w := l.Wait(at); w < 0 || w > recovery.LongestWait || l.RetryAfter < 0 ||
				l.RetryAfter > recovery.LongestWait || l.Remaining != nil && *l.Remaining < 0 {
				t.Errorf("at %s: %+v waits %s", at, l, w)
			}
		}
	})
}

func BenchmarkRetryAfter(b *testing.B) {
	e := recovery.Evidence{
		Stderr: recoverytest.Tail(64<<10) + "Your limit will reset at 3pm (Europe/Warsaw).\n",
		At:     saturday,
	}
	b.ReportAllocs()
	for b.Loop() {
		Read(e, recovery.RateLimited)
	}
}
