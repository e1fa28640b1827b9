package recovery

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// tricky are bytes that broke readers of failures before.
var tricky = []string{
	"", "\x00", "\xff\xfe\x00", "\x1b", "\x1b[", "\x1b[31", "\x1b[31m\xff\x00", "\x1b]0;t", "\x1b]0;t\n", "\x1b\n[31m", "\r\r\n", "é\xcc", "\u2028", "\u202f",
	"Error: 429", "try again in 99999999999999999 days", "limit reached|9999999999", "retry-after: 1e300", "resets at 9999-12-31T23:59:59Z",
	"resets Feb 31 25:61 (Europe/", "resets 3pm (Europe/Warsaw)", "x-ratelimit-remaining: 0\nx-ratelimit-reset: -1", "retry in 1h2m3.5s ago", "again in a",
	"Your limit will reset at 0000-00-00 00:00:60+99:99", "Retry-After: Sat, 99 Nov 99999 99:99:99 GMT", "|1760000400", "\"retryDelay\": \"\"",
	`{"type":"error","message":1e999}`, `[{"error":{"data":[]}}]`, `{"error":{"error":{"error":{"message":"x"}}}}`,
	strings.Repeat("a.go:1:2: undefined: x\n", 50), strings.Repeat("[", 5000), strings.Repeat("x", 10<<10) + "\n429",
	"http://", "http://<n>@<n>:<n>/", "C:\\", "~/", "////", "2026-02-18T", "worker abcdefgh-1", "Bearer ", "0x", "1.2.3.", "12µ", "<path>/a.go",
}

// FuzzClassify: any bytes get a reason, a cause of one line, a bounded wait and a signature, the same every time.
func FuzzClassify(f *testing.F) {
	c := newClassifier(f)
	for i, s := range tricky {
		f.Add(s, tricky[(i+7)%len(tricky)], tricky[(i+13)%len(tricky)], []string{"CODE", "VALIDATE", ""}[i%3], i%3*137)
	}
	f.Fuzz(func(t *testing.T, stderr, stdout, message, stage string, code int) {
		e := Evidence{Stderr: stderr, Stdout: stdout, Message: message, Stage: stage, ExitCode: &code, At: time.Unix(1e9, 0)}
		got := c.Classify(e)
		if _, ok := Describe(got.Reason); !ok {
			t.Errorf("reason %q", got.Reason)
		}
		if !utf8.ValidString(got.Cause) || len(got.Cause) > maxCause || got.Cause == "" || strings.ContainsAny(got.Cause, "\n\r\x00\x1b") {
			t.Errorf("cause %q", got.Cause)
		}
		if got.RetryAfter < 0 || got.RetryAfter > maxRetryAfter || got.Confidence < 0 || got.Confidence > 1 {
			t.Errorf("%+v", got)
		}
		if !strings.HasPrefix(got.Signature, "sig:") || len(got.Signature) != 20 {
			t.Errorf("signature %q", got.Signature)
		}
		if again := c.Classify(e); again != got {
			t.Errorf("%+v, then %+v", got, again)
		}
	})
}

// FuzzRetryAfter: whatever a text, a header and a now say, the wait is within its bounds, for every reason; and
// without a now there is none that needs one.
func FuzzRetryAfter(f *testing.F) {
	for i, s := range tricky {
		f.Add(s, tricky[(i+5)%len(tricky)], tricky[(i+17)%len(tricky)], int64(i)*100_000_000)
	}
	f.Add("resets 2am (Europe/Warsaw)", "0", "1d", int64(253402300799))
	f.Add("resets Jan 1", "1e300", "Saturday, 21-Nov-26 11:02:00 GMT", int64(-62135596800))
	f.Fuzz(func(t *testing.T, text, retry, reset string, now int64) {
		headers := map[string]string{"retry-after": retry, "x-ratelimit-reset-tokens": reset, "x-ratelimit-remaining-tokens": "0", "retry-after-ms": reset}
		for _, at := range []time.Time{{}, time.Unix(now, 0), time.Unix(now, 0).UTC()} {
			e := Evidence{Stderr: text, Headers: headers, At: at}.clean()
			for _, r := range []Reason{RateLimited, NetworkTransient, TestsFailed} {
				got := retryAfter(e, r)
				if got < 0 || got > maxRetryAfter {
					t.Errorf("%s at %s: %s", r, at, got)
				}
				if r == TestsFailed && got != 0 {
					t.Errorf("no time heals %s: %s", r, got)
				}
				if got != retryAfter(e, r) {
					t.Errorf("%s at %s: %s, then another", r, at, got)
				}
			}
			l, _ := ReadLimit(headers, at)
			if w := l.Wait(at); w < 0 || w > maxRetryAfter || l.RetryAfter < 0 || l.RetryAfter > maxRetryAfter || l.Remaining != nil && *l.Remaining < 0 {
				t.Errorf("at %s: %+v waits %s", at, l, w)
			}
			if m := (Limit{}).Merge(l, at); m.Wait(at) != l.Wait(at) {
				t.Errorf("at %s: %+v is merged into nothing as %+v", at, l, m)
			}
		}
	})
}

// FuzzSignature: what is normalised stays so, keeps its bounds, and is what the plain twin says.
func FuzzSignature(f *testing.F) {
	for _, s := range tricky {
		f.Add(s)
	}
	for _, s := range signatureWords {
		f.Add(s + " " + s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		clean := cleanText(s)
		if !utf8.ValidString(clean) || cleanText(clean) != clean {
			t.Errorf("%q is cleaned to %q", s, clean)
		}
		text := normalise(clean)
		if !utf8.ValidString(text) || utf8.RuneCountInString(text) > signatureCharacters+1 || strings.Count(text, "\n") > signatureLines {
			t.Errorf("%q becomes %q", s, text)
		}
		if a, b := Signature(Evidence{Stderr: s}, Unknown), Signature(Evidence{Stderr: clean}, Unknown); a != b {
			t.Errorf("%q has the signatures %s and %s", s, a, b)
		}
		for line := range strings.SplitSeq(clean[:min(len(clean), 2<<10)], "\n") {
			line = single(strings.ToValidUTF8(line, ""))
			once := string(normaliseLine(nil, line))
			if again := string(normaliseLine(nil, once)); again != once {
				t.Errorf("%q becomes %q becomes %q", line, once, again)
			}
			if len(line) < 200 && once != twinLine(line) {
				t.Errorf("%q becomes %q, by the twin %q", line, once, twinLine(line))
			}
		}
	})
}

// TestHugeLine: of a line of 10 MB the newest bytes are read, whatever stands before them.
func TestHugeLine(t *testing.T) {
	for _, noise := range []string{"x", "\xff", "\x00", "\x1b[", "é", "{\"", "retry ", "1"} {
		text := strings.Repeat(noise, 10<<20/len(noise)) + "\nHTTP 429 Too Many Requests, try again in 6s"
		f := newClassifier(t).Classify(Evidence{Stderr: text})
		if f.Reason != RateLimited || f.RetryAfter != 6*time.Second {
			t.Errorf("%q: %+v", noise, f)
		}
	}
}
