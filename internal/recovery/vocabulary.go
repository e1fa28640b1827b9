package recovery

import "strings"

// fromPresetWord maps the terms of the founding documents to reasons. An ambiguous term stands for its most common
// reason.
var fromPresetWord = []struct {
	preset, word string
	reason       Reason
}{
	{"reviewcat", "github_rate_limited", RateLimited},
	{"reviewcat", "github_mcp_timeout", Timeout},
	{"reviewcat", "agent_bus_disconnect", BusDisconnect},
	{"reviewcat", "docker_exit_nonzero", Unknown}, // meaningless without the exit code
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

// As returns a finding's name in a preset's terms. ok is false for an unknown preset.
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

// FromWord returns the reason for a preset's term, ignoring case. It returns Unknown and false for any other text.
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

// ReasonOf returns the reason for a worker's error_type: one of the founding harness's eight terms, or a reason. It
// returns Unknown and false for any other text.
func ReasonOf(errorType string) (r Reason, ok bool) {
	if r, ok := FromWord("reviewcat", errorType); ok {
		return r, true
	}
	about, ok := Describe(Reason(errorType))
	return about.Reason, ok
}

// ErrorType returns a worker's error_type for a reason: the founding harness's equivalent term, or else the reason.
// ReasonOf is the inverse.
func ErrorType(r Reason) string {
	about, _ := Describe(r)
	word := about.words.reviewcat
	narrower := strings.HasPrefix(word, "github_") // the term implies GitHub, but the failure may have another origin
	if means, _ := FromWord("reviewcat", word); means == about.Reason && !narrower {
		return word
	}
	return string(about.Reason)
}

// Assert returns a worker's assertion for this reason, with the error_type and the three flags. A failure is worth
// another attempt if time or a fresh context might resolve it. The worker does not link a policy, so a test in package
// policy compares Assert with the default policy.
func Assert(r Reason) Assertion {
	about, _ := Describe(r)
	again := about.Class == Transient || about.Reason == ContextOverflow || about.Reason == NoProgress
	return Assertion{
		ErrorType: ErrorType(about.Reason), Transient: about.Class == Transient, Retry: again,
		Escalate: !again,
	}
}
