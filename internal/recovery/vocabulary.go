package recovery

import "strings"

// fromPresetWord maps the words of the founding documents to reasons. A word for several reasons means the most
// usual one.
var fromPresetWord = []struct {
	preset, word string
	reason       Reason
}{
	{"reviewcat", "github_rate_limited", RateLimited},
	{"reviewcat", "github_mcp_timeout", Timeout},
	{"reviewcat", "agent_bus_disconnect", BusDisconnect},
	{"reviewcat", "docker_exit_nonzero", Unknown}, // "depends on the exit code": by itself it says nothing
	{"reviewcat", "build_failed", BuildFailed},
	{"reviewcat", "tests_failed", TestsFailed},
	{"reviewcat", "invalid_config", InvalidConfig},
	{"reviewcat", "missing_prereq", ToolNotFound},
	{"gdd", "rate_limited", RateLimited},
	{"gdd", "context_overflow", ContextOverflow},
	{"gdd", "auth_error", AuthError},
	{"gdd", "network_transient", NetworkTransient},
	{"gdd", "network_permanent", NetworkPermanent},
	{"gdd", "tool_not_found", ToolNotFound},
	{"gdd", "validation", Validation},
	{"gdd", "unknown", Unknown},
	{"cortex", "transient", NetworkTransient},
	{"cortex", "permanent", Validation},
	{"cortex", "context", ContextOverflow},
	{"cortex", "fatal", AuthError},
	{"prp", "fatal", CorruptState},
	{"prp", "non-fatal", Unknown},
	{"dispatch", "transient", NetworkTransient},
	{"dispatch", "prompt_too_large", ContextOverflow},
	{"dispatch", "auth", AuthError},
	{"dispatch", "tooling", ToolNotFound},
	{"dispatch", "scope_violation", ScopeViolation},
	{"dispatch", "contract_violation", ContractViolation},
	{"dispatch", "unknown", Unknown},
}

// As returns what a finding is called in a preset's vocabulary; ok is false for a preset that does not exist.
func As(preset string, f Finding) (word string, ok bool) {
	about, _ := Describe(f.Reason)
	switch preset {
	case "director":
		word = string(about.Reason)
	case "reviewcat":
		word = about.words.reviewcat
	case "gdd":
		word = about.words.gdd
	case "cortex":
		word = about.words.cortex
	case "prp":
		word = about.words.prp
	case "dispatch":
		word = about.words.dispatch
	}
	return word, word != ""
}

// FromWord returns what a word of a preset's vocabulary means, in any case of letters. Anything else is Unknown, ok
// false.
func FromWord(preset, word string) (r Reason, ok bool) {
	word = strings.ToLower(strings.TrimSpace(word))
	if preset == "director" {
		about, ok := Describe(Reason(word))
		return about.Reason, ok
	}
	for _, h := range fromPresetWord {
		if h.preset == preset && h.word == word {
			return h.reason, true
		}
	}
	return Unknown, false
}

// ReasonOf returns what a worker's error_type means: one of the founding harness's eight words, or a reason. Anything
// else is Unknown, ok false.
func ReasonOf(errorType string) (r Reason, ok bool) {
	if r, ok := FromWord("reviewcat", errorType); ok {
		return r, true
	}
	about, ok := Describe(Reason(errorType))
	return about.Reason, ok
}

// ErrorType returns the error_type that a worker writes for a reason: the founding harness's word where it
// means exactly that, else the reason itself. ReasonOf takes it back.
func ErrorType(r Reason) string {
	about, _ := Describe(r)
	word := about.words.reviewcat
	narrower := strings.HasPrefix(word, "github_") // it names one service where the reason names none
	if means, _ := FromWord("reviewcat", word); means == about.Reason && !narrower {
		return word
	}
	return string(about.Reason)
}

// Assert returns what a worker asserts of a failure for this reason: the word and the three flags. What time
// heals is worth another attempt, and what a fresh context may heal; a test of package policy holds that
// against the default policy. The worker links no policy.
func Assert(r Reason) Assertion {
	about, _ := Describe(r)
	again := about.Class == Transient || about.Reason == ContextOverflow || about.Reason == NoProgress
	return Assertion{
		ErrorType: ErrorType(about.Reason), Transient: about.Class == Transient, Retry: again,
		Escalate: !again,
	}
}
