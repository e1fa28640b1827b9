package signature

import (
	"strings"
	"testing"
	"unicode/utf8"

	"retake/internal/recovery/recoverytest"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// FuzzSignature checks that normalised text is stable and bounded.
func FuzzSignature(f *testing.F) {
	for _, s := range recoverytest.Tricky {
		f.Add(s)
	}
	for _, s := range signatureWords {
		f.Add(s + " " + s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		clean := plaintext.Clean(s)
		if !utf8.ValidString(clean) || plaintext.Clean(clean) != clean {
			t.Errorf("%q is cleaned to %q", s, clean)
		}
		text := normalise(clean)
		if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxCharacters+1 ||
			strings.Count(text, "\n") > maxLines {
			t.Errorf("%q becomes %q", s, text)
		}
		if a, b := Of(recovery.Evidence{Stderr: s}, recovery.Unknown), Of(recovery.Evidence{Stderr: clean},
			recovery.Unknown); a != b {
			t.Errorf("%q has the signatures %s and %s", s, a, b)
		}
		for line := range strings.SplitSeq(clean[:min(len(clean), 2<<10)], "\n") {
			line = single(strings.ToValidUTF8(line, ""))
			once := string(normaliseLine(nil, line, new(found)))
			if want := twinLine(line); once != want {
				t.Errorf("%q becomes %q, want %q", line, once, want)
			}
			if again := string(normaliseLine(nil, once, new(found))); again != once {
				t.Errorf("%q becomes %q becomes %q", line, once, again)
			}
		}
	})
}

func BenchmarkSignature(b *testing.B) {
	e := recovery.Evidence{Stage: "VALIDATE", Stderr: recoverytest.Tail(64 << 10)}
	b.ReportAllocs()
	for b.Loop() {
		Of(e, recovery.NetworkTransient)
	}
}
