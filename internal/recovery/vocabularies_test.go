package recovery

import "testing"

// TestWordsMapBothWays: every word is understood, and spoken again for what it means; every reason has a word.
func TestWordsMapBothWays(t *testing.T) {
	for _, h := range heard {
		r, ok := FromWord(h.preset, h.word)
		if !ok || r != h.reason {
			t.Errorf("%s: %s means %s, %v", h.preset, h.word, r, ok)
		}
		if word, ok := As(h.preset, Finding{Reason: r}); !ok || word != h.word {
			t.Errorf("%s: %s means %s, which is called %s", h.preset, h.word, r, word)
		}
	}
	for _, preset := range Vocabularies() {
		for _, a := range Reasons {
			word, ok := As(preset, Finding{Reason: a.Reason})
			if !ok {
				t.Errorf("%s has no word for %s", preset, a.Reason)
			}
			if _, ok := FromWord(preset, word); !ok {
				t.Errorf("%s calls %s %q and does not understand that", preset, a.Reason, word)
			}
		}
	}
}

func TestWordsOfTheSeeds(t *testing.T) {
	for _, tc := range []struct {
		preset string
		reason Reason
		word   string
	}{
		{"gdd", QuotaExhausted, "rate_limited"},
		{"gdd", Timeout, "network_transient"},
		{"gdd", InvalidConfig, "validation"},
		{"cortex", PermissionDenied, "fatal"},
		{"cortex", CorruptState, "context"},
		{"prp", DiskFull, "fatal"},
		{"prp", TestsFailed, "non-fatal"},
		{"dispatch", ContextOverflow, "prompt_too_large"},
		{"reviewcat", OOMKilled, "docker_exit_nonzero"},
		{"director", OOMKilled, "oom_killed"},
		{"director", "gremlins", "unknown"},
	} {
		if word, ok := As(tc.preset, Finding{Reason: tc.reason}); !ok || word != tc.word {
			t.Errorf("%s calls %s %q, want %q", tc.preset, tc.reason, word, tc.word)
		}
	}
	if r, ok := FromWord("cortex", " FATAL "); !ok || r != AuthError {
		t.Errorf("FATAL means %s", r)
	}
	for _, tc := range []struct{ preset, word string }{{"cortex", "gremlins"}, {"nobody", "fatal"}, {"director", "fatal"}} {
		if r, ok := FromWord(tc.preset, tc.word); ok || r != Unknown {
			t.Errorf("%s: %s means %s", tc.preset, tc.word, r)
		}
	}
	if word, ok := As("nobody", Finding{Reason: Timeout}); ok || word != "" {
		t.Errorf("nobody says %q", word)
	}
}

// TestWordsAgreeWithFlags: a word that a worker claims survives the journey to the director and back.
func TestWordsAgreeWithFlags(t *testing.T) {
	for _, w := range words {
		if r, ok := FromWord("reviewcat", w.errorType); !ok || r != w.reason {
			t.Errorf("%s: %s by its preset, %s as a claim", w.errorType, r, w.reason)
		}
	}
	for _, a := range Reasons {
		if a.Retryable && a.Class != Transient {
			t.Errorf("%s is retryable, and time does not heal it", a.Reason)
		}
	}
	if about, _ := Describe(QuotaExhausted); about.Retryable {
		t.Error("quota_exhausted is retryable")
	}
}
