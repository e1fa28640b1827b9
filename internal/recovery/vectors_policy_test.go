package recovery_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
)

// policyKinds lists the kinds of vectors about actions.
var policyKinds = []vectorKind{
	{"000", "backoff_delay_ms", checkJittered},
	{"000", "recovery_row", checkRecoveryRow},
	{"000", "protocol", checkProtocol},
	{"000", "integration_point", checkIntegration},
	{"000", "fix_loop", checkFixLoop},
	{"001", "matrix", checkMatrix},
	{"001", "strategy_defaults", checkStrategy},
	{"001", "backoff_ms", checkBackoffRange},
	{"001", "llm_backoff_s", checkBackoffRange},
	{"001", "should_abort", checkShouldAbort},
	{"001", "reset", checkReset},
	{"002", "backoff_s_before_jitter", checkBackoff},
	{"003", "delay_ms", checkDelay},
	{"003", "seed_fatality", checkFatality},
	{"003", "seed_step", checkStep},
	{"003", "is_fatal", checkFatal},
	{"003", "retry_loop", checkLoop},
	{"003", "retry_profile", checkProfile},
	{"003", "task_retry", checkLoop},
	{"003", "step_failure", checkStep},
	{"004", "seed_class_row", checkClassRow},
	{"004", "seed_retry_row", checkRetryRow},
	{"004", "dispatch_policy", checkDispatch},
	{"004", "paid_budget", checkPaid},
	{"004", "defaults", checkDefaults},
}

// policyLeftOut lists the deviations in kinds and vectors about actions.
var policyLeftOut = []vectorOut{
	{"000", "iteration_budget", "", "there is no meter that counts down: guards compare a task's usage with " +
		"its budget"},
	{"001", "circuit_breaker", "", "no breaker stands around single calls; one around incidents counts distinct " +
		"tasks, and ends with a ramp"},
	{"001", "health_breaker", "", "no breaker stands around single calls; one around incidents counts distinct " +
		"tasks, and ends with a ramp"},
	{"001", "summary", "", "internal/director writes and tests the agent's summary of earlier failures"},
	{"001", "dead_end", "", "the director does not see steps inside an attempt, only attempts and repeated " +
		"signatures"},
	{"003", "seed_continue_on_error", "", "answered by internal/audit, which counts failures and writes the report"},
	{"003", "seed_failure_record", "", "answered by internal/audit"},
	{"003", "seed_report", "", "answered by internal/audit"},
	{"003", "report_header", "", "answered by internal/audit"},
	{"003", "report_sections", "", "answered by internal/audit"},
	{"003", "report_summary", "", "answered by internal/audit"},
	{"003", "report_task_heading", "", "answered by internal/audit"},
	{"003", "report_when", "", "answered by internal/audit"},
	{"003", "exit_code", "", "answered by internal/audit"},
	{"003", "backlog_iteration", "", "answered by internal/audit"},
	{"003", "blocked_dependency", "", "answered by internal/audit"},
	{"003", "impact_level", "", "answered by internal/audit"},
	{"003", "impact_action", "", "answered by internal/audit"},
	{"003", "impact_graph", "", "answered by internal/audit"},
	{"004", "seed_budget", "", "answered by internal/audit, which keeps the count on disk"},
	{"004", "seed_files", "", "answered by internal/audit"},
	{"004", "stats_after_triage", "", "answered by internal/audit"},
	{"003", "is_fatal", "003-086", "the seed says that a full disk is fatal; the origin's program does not"},
	{"003", "step_failure", "003-153", "the seed says that any error of step 2 is fatal; the origin's program " +
		"decides by the type of the error"},
	{"004", "dispatch_policy", "004-094", "the seed retries unclassified failures once; the origin's program stops"},
}

// fields holds the decoded input of a vector.
type fields map[string]any

func fieldsOf(v vector) fields {
	f := fields{}
	_ = json.Unmarshal(v.Input, &f)
	return f
}

func (f fields) text(key string) string { s, _ := f[key].(string); return s }
func (f fields) flag(key string) bool   { b, _ := f[key].(bool); return b }
func (f fields) number(key string, def float64) float64 {
	if n, ok := f[key].(float64); ok {
		return n
	}
	return def
}

// milliseconds converts a fraction of milliseconds.
func milliseconds(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }

// story decides a failure n times, and returns the last verdict.
func story(p *policy.Policy, f recovery.Finding, facts policy.DecisionInput,
	n int,
) (v recovery.Verdict, tally recovery.Tally) {
	for range n {
		v = p.Decide(f, tally, facts, "s")
		tally = tally.After(f, v)
	}
	return v, tally
}

func differs(what string, got, want any) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s: %v, want %v", what, got, want)
}

func checkBackoff(_ *testing.T, _ *classify.Classifier, v vector) string {
	in := fieldsOf(v)
	b := recovery.Backoff{
		Linear: in.text("mode") == "linear", Factor: 2, Jitter: recovery.NoJitter,
		Initial: time.Duration(in.number("initial", 1) * float64(time.Second)),
		Max:     time.Duration(in.number("max", 30) * float64(time.Second)),
	}
	return differs(in.text("mode"), b.Delay(int(in.number("retry", 1)), "s").Seconds(), v.Expected["seconds"])
}
