package recovery

import (
	"slices"
	"strings"
)

// inWords says what each reason is called in the vocabularies of the seeds; a preset's name is its vocabulary's.
var inWords = []struct {
	reason                                Reason
	reviewcat, gdd, cortex, prp, dispatch string
}{
	{RateLimited, "github_rate_limited", "rate_limited", "transient", "non-fatal", "transient"},
	{QuotaExhausted, "github_rate_limited", "rate_limited", "transient", "non-fatal", "transient"},
	{Overloaded, "github_mcp_timeout", "network_transient", "transient", "non-fatal", "transient"},
	{NetworkTransient, "github_mcp_timeout", "network_transient", "transient", "non-fatal", "transient"},
	{NetworkPermanent, "invalid_config", "network_permanent", "fatal", "non-fatal", "tooling"},
	{ContextOverflow, "docker_exit_nonzero", "context_overflow", "context", "non-fatal", "prompt_too_large"},
	{AuthError, "missing_prereq", "auth_error", "fatal", "fatal", "auth"},
	{PermissionDenied, "missing_prereq", "auth_error", "fatal", "non-fatal", "auth"},
	{ToolNotFound, "missing_prereq", "tool_not_found", "permanent", "non-fatal", "tooling"},
	{InvalidConfig, "invalid_config", "validation", "permanent", "fatal", "tooling"},
	{Validation, "docker_exit_nonzero", "validation", "permanent", "non-fatal", "tooling"},
	{BuildFailed, "build_failed", "validation", "permanent", "non-fatal", "contract_violation"},
	{TestsFailed, "tests_failed", "validation", "permanent", "non-fatal", "contract_violation"},
	{LintFailed, "build_failed", "validation", "permanent", "non-fatal", "contract_violation"},
	{GitConflict, "docker_exit_nonzero", "validation", "permanent", "non-fatal", "contract_violation"},
	{DockerDaemon, "docker_exit_nonzero", "network_transient", "transient", "non-fatal", "transient"},
	{ImagePullFailed, "docker_exit_nonzero", "network_transient", "transient", "non-fatal", "transient"},
	{OOMKilled, "docker_exit_nonzero", "unknown", "transient", "fatal", "transient"},
	{DiskFull, "docker_exit_nonzero", "unknown", "transient", "fatal", "tooling"},
	{Timeout, "github_mcp_timeout", "network_transient", "transient", "non-fatal", "transient"},
	{WorkerLost, "docker_exit_nonzero", "network_transient", "transient", "non-fatal", "transient"},
	{BusDisconnect, "agent_bus_disconnect", "network_transient", "transient", "non-fatal", "transient"},
	{PolicyViolation, "docker_exit_nonzero", "validation", "permanent", "non-fatal", "scope_violation"},
	{ScopeViolation, "docker_exit_nonzero", "validation", "permanent", "non-fatal", "scope_violation"},
	{ContractViolation, "docker_exit_nonzero", "validation", "permanent", "non-fatal", "contract_violation"},
	{NeedsHuman, "docker_exit_nonzero", "unknown", "permanent", "non-fatal", "unknown"},
	{CorruptState, "docker_exit_nonzero", "unknown", "context", "fatal", "tooling"},
	{AgentCrash, "docker_exit_nonzero", "unknown", "transient", "non-fatal", "unknown"},
	{NoProgress, "docker_exit_nonzero", "unknown", "permanent", "non-fatal", "unknown"},
	{Unknown, "docker_exit_nonzero", "unknown", "transient", "non-fatal", "unknown"},
}

// heard says what a seed's word means here. Where it stands for several reasons, the most usual one is meant.
var heard = []struct {
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
	if preset == "director" {
		return string(about.Reason), true
	}
	for _, w := range inWords {
		if w.reason != about.Reason {
			continue
		}
		for _, v := range []struct{ preset, word string }{
			{"reviewcat", w.reviewcat}, {"gdd", w.gdd}, {"cortex", w.cortex}, {"prp", w.prp}, {"dispatch", w.dispatch},
		} {
			if v.preset == preset {
				return v.word, true
			}
		}
	}
	return "", false
}

// FromWord returns what a word of a preset's vocabulary means, in any case of letters. Anything else is Unknown, ok
// false.
func FromWord(preset, word string) (r Reason, ok bool) {
	word = strings.ToLower(strings.TrimSpace(word))
	if preset == "director" {
		about, ok := Describe(Reason(word))
		return about.Reason, ok
	}
	for _, h := range heard {
		if h.preset == preset && h.word == word {
			return h.reason, true
		}
	}
	return Unknown, false
}

// Vocabularies names the presets that have one, in the order of documents.
func Vocabularies() []string {
	names := []string{"director"}
	for _, h := range heard {
		if !slices.Contains(names, h.preset) {
			names = append(names, h.preset)
		}
	}
	return names
}
