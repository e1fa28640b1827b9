package classify

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"retake/internal/recovery/recoverytest"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// FuzzClassify classifies any bytes. The result has a known reason, a cause of one line, a bounded wait and a
// signature. It is the same for a second call, and the reading equals the reading of the twin.
func FuzzClassify(f *testing.F) {
	c := newClassifier(f)
	for i, s := range recoverytest.Tricky {
		f.Add(s, recoverytest.Tricky[(i+7)%len(recoverytest.Tricky)],
			recoverytest.Tricky[(i+13)%len(recoverytest.Tricky)], []string{"CODE", "VALIDATE", ""}[i%3], i%3*137)
	}
	f.Fuzz(func(t *testing.T, stderr, stdout, message, stage string, code int) {
		e := recovery.Evidence{
			Stderr: stderr, Stdout: stdout, Message: message, Stage: stage, ExitCode: &code,
			At: time.Unix(1e9, 0),
		}
		got := c.Classify(e)
		if _, ok := recovery.Describe(got.Reason); !ok {
			t.Errorf("reason %q", got.Reason)
		}
		if !utf8.ValidString(got.Cause) || len(got.Cause) > plaintext.MaxCause || got.Cause == "" ||
			strings.ContainsAny(got.Cause, "\n\r\x00\x1b") {
			t.Errorf("cause %q", got.Cause)
		}
		if got.RetryAfter < 0 || got.RetryAfter > recovery.LongestWait || got.Confidence < 0 || got.Confidence > 1 {
			t.Errorf("%+v", got)
		}
		if !strings.HasPrefix(got.Signature, "sig:") || len(got.Signature) != 20 {
			t.Errorf("signature %q", got.Signature)
		}
		if again := c.Classify(e); again != got {
			t.Errorf("%+v, then %+v", got, again)
		}
		if len(stderr)+len(stdout)+len(message) < 8<<10 { // the twin is slow
			if err := sameAsTwin(c, e); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestHugeLine classifies an error after a line of 10 MB.
func TestHugeLine(t *testing.T) {
	for _, noise := range []string{"x", "\xff", "\x00", "\x1b[", "é", "{\"", "retry ", "1"} {
		text := strings.Repeat(noise, 10<<20/len(noise)) + "\nHTTP 429 Too Many Requests, try again in 6s"
		f := newClassifier(t).Classify(recovery.Evidence{Stderr: text})
		if f.Reason != recovery.RateLimited || f.RetryAfter != 6*time.Second {
			t.Errorf("%q: %+v", noise, f)
		}
	}
}
