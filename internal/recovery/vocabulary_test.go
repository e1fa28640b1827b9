package recovery

import (
	"slices"
	"testing"
)

// TestWordsMapBothWays checks that every word has a reason and every reason a word.
func TestWordsMapBothWays(t *testing.T) {
	for _, h := range fromPresetWord {
		r, ok := FromWord(h.preset, h.word)
		if !ok || r != h.reason {
			t.Errorf("%s: %s means %s, %v", h.preset, h.word, r, ok)
		}
		if word, ok := As(h.preset, Finding{Reason: r}); !ok || word != h.word {
			t.Errorf("%s: %s means %s, which is called %s", h.preset, h.word, r, word)
		}
	}
	for _, preset := range vocabularies() {
		for _, a := range Reasons {
			word, ok := As(preset, Finding{Reason: a.Reason})
			if !ok {
				t.Errorf("%s has no word for %s", preset, a.Reason)
			}
			if _, ok := FromWord(preset, word); !ok {
				t.Errorf("%s calls %s %q, which it does not understand", preset, a.Reason, word)
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
	for _, tc := range []struct{ preset, word string }{
		{"cortex", "gremlins"},
		{"nobody", "fatal"},
		{"director", "fatal"},
	} {
		if r, ok := FromWord(tc.preset, tc.word); ok || r != Unknown {
			t.Errorf("%s: %s means %s", tc.preset, tc.word, r)
		}
	}
	if word, ok := As("nobody", Finding{Reason: Timeout}); ok || word != "" {
		t.Errorf("nobody says %q", word)
	}
}

// TestErrorTypesAreTakenBack checks that every reason maps to an error_type and back.
func TestErrorTypesAreTakenBack(t *testing.T) {
	for _, a := range Reasons {
		if r, ok := ReasonOf(ErrorType(a.Reason)); !ok || r != a.Reason {
			t.Errorf("%s is written as %q and read as %s", a.Reason, ErrorType(a.Reason), r)
		}
	}
	for r, word := range map[Reason]string{
		ToolNotFound: "missing_prereq", BusDisconnect: "agent_bus_disconnect", BuildFailed: "build_failed",
		Unknown:     "docker_exit_nonzero",
		RateLimited: "rate_limited", Timeout: "timeout", OOMKilled: "oom_killed",
	} {
		if got := ErrorType(r); got != word {
			t.Errorf("%s is written as %q, want %q", r, got, word)
		}
	}
}

// TestEveryColumnIsFilled checks that a reason has a value in each column of the table, and that columns agree.
func TestEveryColumnIsFilled(t *testing.T) {
	for _, a := range Reasons {
		if a.Title() == "" || a.Means == "" || a.Ask() == "" || a.Scope == "" ||
			!slices.Contains(Categories, a.Category) {
			t.Errorf("%s: %+v", a.Reason, a)
		}
		if a.Retryable && a.Class != Transient {
			t.Errorf("%s is retryable, but not transient", a.Reason)
		}
	}
	if about, _ := Describe(QuotaExhausted); about.Retryable {
		t.Error("quota_exhausted is retryable")
	}
}

func TestErrorTypesAreRead(t *testing.T) {
	for _, tc := range []struct {
		word   string
		reason Reason
	}{
		{"github_rate_limited", RateLimited},
		{"github_mcp_timeout", Timeout},
		{"agent_bus_disconnect", BusDisconnect},
		{"docker_exit_nonzero", Unknown},
		{"build_failed", BuildFailed},
		{"tests_failed", TestsFailed},
		{"invalid_config", InvalidConfig},
		{"missing_prereq", ToolNotFound},
	} {
		if r, ok := ReasonOf(tc.word); !ok || r != tc.reason {
			t.Errorf("%s means %s, want %s", tc.word, r, tc.reason)
		}
	}
	if r, ok := ReasonOf("gremlins"); ok || r != Unknown {
		t.Errorf("gremlins means %s, %v", r, ok)
	}
}
