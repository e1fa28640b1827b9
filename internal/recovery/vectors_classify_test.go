package recovery_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
)

// classifyKinds lists the kinds of vectors about classification.
var classifyKinds = []vectorKind{
	{"000", "classify", checkGDD},
	{"001", "classify", checkCortex},
	{"001", "classify_ambiguous", checkCortex},
	{"001", "classify_type", checkCortex},
	{"001", "enum", checkEnum},
	{"001", "llm_error_retry", checkSDKRetry},
	{"001", "provider_map", checkSDKName},
	{"002", "error_class", checkErrorClass},
	{"002", "error_type", checkErrorType},
	{"002", "container_exit", checkContainerExit},
	{"003", "classify", checkTaskRetry},
	{"004", "triage", checkTriage},
	{"004", "wrapper_exit", checkWrapperExit},
	{"004", "seed_exit_map", checkExitMap},
}

// classifyLeftOut lists the kinds that other packages check, and the deviations in classification.
var classifyLeftOut = []vectorOut{
	{"000", "classify", "000-028", "a stated 503 is an overload, even if its text mentions authentication"},
	{"000", "classify", "000-046", "a name that does not resolve is network_permanent, not unknown"},
	{"000", "classify", "000-051", "an operation that timed out is a timeout"},
	{"000", "classify", "000-061", "there is no HTTP status 600"},
	{"003", "classify", "003-004", "a name that does not resolve is not healed by trying again"},
	{"003", "classify", "003-021", "529 is an overload"},
	{"003", "classify", "003-052", "an unavailable service is transient, even if another resource was not found"},
	{"003", "classify", "003-054", "a stated 503 is an overload"},
	{"003", "classify", "003-059", "a 401 is not retried, even if it is wrapped (the note calls it a defect)"},
	{"003", "classify", "003-062", "a network error is transient, even if it is wrapped"},
	{"004", "triage", "004-020", "401 inside a longer number is not a status"},
	{"004", "triage", "004-043", "an unlisted exit code is unknown, which is also tried once"},
	{"004", "triage", "004-051", "the prompt is too long: a token is not a credential here"},
	{"002", "config_default", "", "belongs to the configuration"},
	{"002", "worker_fsm", "", "belongs to the state machine"},
	{"002", "director_fsm", "", "belongs to the state machine"},
	{"002", "dto_field", "", "belongs to the wire format"},
	{"002", "safe_point", "", "belongs to the synchronisation with main"},
	{"002", "sync_policy", "", "belongs to the synchronisation with main"},
	{"002", "stale_heartbeat", "", "belongs to the state machine: silence is decided by deadlines, not by text"},
	{"002", "heartbeat_age_s", "", "belongs to the state machine"},
	{"002", "label_op", "", "belongs to GitHub"},
	{"002", "claim_comment", "", "belongs to GitHub"},
	{"002", "escalation_comment", "", "belongs to GitHub"},
	{"002", "label_invariant", "", "belongs to GitHub"},
	{"002", "bus", "", "belongs to the bus"},
	{"002", "budget", "", "belongs to the request budget"},
	{"002", "state_file", "", "belongs to the director"},
	{"000", "lock", "", "the director alone owns its state, so there is no lock file that could go stale"},
	{"000", "telemetry_writer", "", "answered by internal/audit"},
	{"003", "cli_validation", "", "belongs to the configuration"},
	{"003", "context_redaction", "", "there is no free-form context: redaction depends on the text, not on its " +
		"key"},
	{"004", "acceptance_command_guard", "", "a stage's commands come from the operator, not from a task"},
	{"004", "contract_sections", "", "there are no roles with required sections in their answers; commands judge " +
		"stages"},
	{"004", "scope_check", "", "belongs to the workspace, which sees a worker's changes"},
}

// checkErrorClass classifies the seed's phrase for a failure as a worker's message.
func checkErrorClass(t *testing.T, c *classify.Classifier, v vector) string {
	var in struct{ Failure string }
	_ = json.Unmarshal(v.Input, &in)
	if strings.Contains(in.Failure, "beyond retry budget") {
		return checkExhausted(t, v)
	}
	f := c.Classify(recovery.Evidence{Message: in.Failure})
	return compareFlags(v, recovery.Assert(f.Reason), fmt.Sprintf("%q is read as %s", in.Failure, f.Reason))
}

// checkExhausted checks the flags of a failure after the last retry. It takes them from the policy's verdict.
func checkExhausted(t *testing.T, v vector) string {
	verdict := preset(t, "director").With(policy.Limits{MaxRetries: 3}).
		Decide(recovery.Finding{Reason: recovery.NetworkTransient}, recovery.Tally{Redispatches: 3},
			policy.DecisionInput{}, "s")
	got := recovery.Assert(recovery.NetworkTransient)
	got.Retry, got.Escalate = verdict.Action.Again(), verdict.Action == recovery.Escalate
	return compareFlags(v, got, verdict.Why)
}

func compareFlags(v vector, got recovery.Assertion, what string) string {
	for _, f := range []struct {
		name string
		got  bool
	}{{"is_transient", got.Transient}, {"should_retry", got.Retry}, {"escalate_to_human", got.Escalate}} {
		if want, ok := v.Expected[f.name].(bool); ok && want != f.got { // the seed does not specify all of them
			return fmt.Sprintf("%s, %s = %v, want %v", what, f.name, f.got, want)
		}
	}
	return ""
}

func checkErrorType(_ *testing.T, c *classify.Classifier, v vector) string {
	var in struct {
		ErrorType string `json:"error_type"`
	}
	_ = json.Unmarshal(v.Input, &in)
	r, ok := recovery.ReasonOf(in.ErrorType)
	if !ok {
		return in.ErrorType + " is not understood"
	}
	if v.Expected["is_transient"] == "depends on exit code" {
		oom := c.Classify(recovery.Evidence{
			OOM: true, ExitCode: exit(137),
			Assertion: recovery.Assertion{ErrorType: in.ErrorType},
		})
		daemon := c.Classify(recovery.Evidence{
			ExitCode:  exit(125),
			Assertion: recovery.Assertion{ErrorType: in.ErrorType},
		})
		check := c.Classify(recovery.Evidence{
			ExitCode: exit(1), Stage: "VALIDATE",
			Assertion: recovery.Assertion{ErrorType: in.ErrorType},
		})
		if !recovery.Assert(oom.Reason).Transient || !recovery.Assert(daemon.Reason).Transient ||
			recovery.Assert(check.Reason).Transient {
			return fmt.Sprintf("%s, %s, %s", oom.Reason, daemon.Reason, check.Reason)
		}
		return ""
	}
	return compareFlags(v, recovery.Assert(r), in.ErrorType+" means "+string(r))
}

func checkContainerExit(_ *testing.T, c *classify.Classifier, v vector) string {
	var in struct {
		ExitCode int    `json:"exit_code"`
		Stage    string `json:"stage"`
	}
	_ = json.Unmarshal(v.Input, &in)
	f := c.Classify(recovery.Evidence{ExitCode: &in.ExitCode, Stage: in.Stage})
	want, _ := v.Expected["class"].(string)
	about, _ := recovery.Describe(f.Reason)
	ok := strings.HasPrefix(want, string(about.Class))
	if strings.HasPrefix(want, "success") { // not a failure, only missing work
		ok = f.Reason == recovery.NoProgress
	}
	if !ok {
		return fmt.Sprintf("exit %d is read as %s, %s, want %s", in.ExitCode, f.Reason, about.Class, want)
	}
	return ""
}
