package recovery_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
)

// dispatchReason maps each class of the dispatcher to a reason.
var dispatchReason = map[string]recovery.Reason{
	"transient": recovery.NetworkTransient, "prompt_too_large": recovery.ContextOverflow, "auth": recovery.AuthError,
	"tooling":         recovery.ToolNotFound,
	"scope_violation": recovery.ScopeViolation, "contract_violation": recovery.ContractViolation,
	"unknown": recovery.Unknown,
}

func dispatchFinding(class string) recovery.Finding {
	return recovery.Finding{Reason: dispatchReason[class], Signature: "sig:0123456789abcdef"}
}

// stem returns the beginning of a word, which is enough to find it in a sentence.
func stem(s string) string { return strings.ToLower(s[:min(len(s), 6)]) }

// checkClassRow checks the number of retries of a class, and the action for a person.
func checkClassRow(t *testing.T, _ *classify.Classifier, v vector) string {
	p, f := preset(t, "dispatch"), dispatchFinding(fieldsOf(v).text("class"))
	want := 0
	if says := fmt.Sprint(v.Expected["auto_retry"]); strings.Contains(says, "once") ||
		strings.Contains(says, "digest") {
		want = 1
	}
	if got := exhaustsAfter(p, f, policy.DecisionInput{}); got != want {
		return fmt.Sprintf("%d retries, want %d", got, want)
	}
	last, _ := story(p, f, policy.DecisionInput{}, 3)
	if last.Action != recovery.Stop || last.Ask == "" {
		return fmt.Sprintf("%+v", last)
	}
	for _, part := range strings.FieldsFunc(fmt.Sprint(v.Expected["manual"]),
		func(r rune) bool { return strings.ContainsRune(",; ", r) }) {
		if len(part) > 5 && strings.Contains(strings.ToLower(last.Ask), stem(part)) {
			return ""
		}
	}
	if fmt.Sprint(v.Expected["manual"]) == "re-run if exhausted" && strings.Contains(last.Ask, "again") {
		return ""
	}
	return fmt.Sprintf("asks a person %q, want %v", last.Ask, v.Expected["manual"])
}

// checkRetryRow checks the action for the nth failure of a class with one signature.
func checkRetryRow(t *testing.T, _ *classify.Classifier, v vector) string {
	in, p := fieldsOf(v), preset(t, "dispatch")
	got, _ := story(p, dispatchFinding(in.text("class")), policy.DecisionInput{}, int(in.number("count", 1)))
	want, says := recovery.Stop, fmt.Sprint(v.Expected["action"])
	switch {
	case strings.Contains(says, "digest"):
		want = recovery.RetryCompact
	case strings.HasPrefix(says, "retry"):
		want = recovery.Retry
	}
	if got.Action != want {
		return fmt.Sprintf("%s, want %s", got.Action, says)
	}
	for _, word := range []string{"preflight", "split", "paths", "gate"} {
		if strings.Contains(says, word) && !strings.Contains(got.Ask, word) {
			return fmt.Sprintf("asks a person %q, want %q", got.Ask, says)
		}
	}
	return ""
}

// checkDispatch uses the retry_budget of the original program, which includes the first failure.
func checkDispatch(t *testing.T, _ *classify.Classifier, v vector) string {
	in := fieldsOf(v)
	doc := ""
	for _, on := range []string{"transient", "unknown"} {
		doc += fmt.Sprintf("[[row]]\non = %q\nladder = [{ action = \"retry\", times = %d }]\n", on,
			int(in.number("retry_budget", 2))-1)
	}
	p, err := policy.Parse("own", preset(t, "dispatch"), []byte(doc))
	if err != nil {
		return err.Error()
	}
	facts := policy.DecisionInput{AlreadyCompacted: in.text("digest_policy_forced") != ""}
	got, _ := story(p, dispatchFinding(in.text("class")), facts,
		int(in.number("signature_count_after_this_failure", 1)))
	switch says := fmt.Sprint(v.Expected["action"]); {
	case strings.HasPrefix(says, "sleep 5 s"):
		return differs(says, fmt.Sprint(got.Action, got.Delay), fmt.Sprint(recovery.Retry, 5*time.Second))
	case strings.Contains(says, "digest"):
		return differs(says, got.Action, recovery.RetryCompact)
	default:
		return differs(says, got.Action, recovery.Stop)
	}
}

func checkPaid(t *testing.T, _ *classify.Classifier, v vector) string {
	in := fieldsOf(v)
	p := preset(t, "dispatch").With(policy.Limits{
		MaxRetries:     recovery.Unlimited,
		PaidCallBudget: int(in.number("paid_call_budget", 10)),
	})
	if want, ok := v.Expected["paid_calls_used_delta"].(float64); ok { // the call is charged for any outcome
		return differs("paid calls", float64(recovery.Tally{}.Use(recovery.Usage{PaidCalls: 1}).PaidCalls), want)
	}
	tally := recovery.Tally{}.Use(recovery.Usage{PaidCalls: int64(in.number("paid_calls_used", 0))})
	got := p.Decide(dispatchFinding("transient"), tally, policy.DecisionInput{}, "s")
	if used := p.Guards().UsedUp(tally); (used == "") != got.Action.Again() {
		return fmt.Sprintf("%+v with %s", got, used)
	}
	if got.Action.Again() != v.Expected["allowed"] || !got.Action.Again() &&
		(got.Action != recovery.Stop || got.Veto != "paid_call_budget") {
		return fmt.Sprintf("%+v", got)
	}
	return ""
}

// checkDefaults checks the defaults of the original program that concern the policy.
func checkDefaults(t *testing.T, _ *classify.Classifier, v vector) string {
	p := preset(t, "dispatch")
	row, _ := p.Row(recovery.NetworkTransient, "")
	_, sleep := p.Backoff().Range(1)
	return differs("defaults", fmt.Sprint(row.Ladder[0].Times+1, p.Guards().PaidCallBudget, sleep.Seconds()),
		fmt.Sprint(v.Expected["retry_budget"], v.Expected["paid_call_budget"], v.Expected["retry_sleep_s"]))
}
