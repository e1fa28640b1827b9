package classify

import (
	"testing"

	"retake/internal/recovery"
)

// TestNothingDone classifies the output of an agent that returned 0 without changes. An error in plain words is the
// cause. Explanations of the code are not, even if their words would be errors elsewhere.
func TestNothingDone(t *testing.T) {
	c := newClassifier(t)
	for text, want := range map[string]recovery.Reason{
		"Error: 401 Invalid API key":                          recovery.AuthError,
		"[ERROR] Model stream ended without a finish reason.": recovery.NetworkTransient,
		"API Error: 429 Too Many Requests":                    recovery.RateLimited,
		"Error: connect ECONNREFUSED 127.0.0.1:443":           recovery.NetworkTransient,
		"fetch failed":                                                 recovery.NetworkTransient,
		"Credit balance is too low":                                    recovery.QuotaExhausted,
		"Claude AI usage limit reached|1760000400":                     recovery.QuotaExhausted,
		"Error: 401 Invalid API key. There is nothing to do.":          recovery.AuthError,
		"There is nothing to do.\nError: 401 Invalid API key":          recovery.AuthError,
		"The code already handles this.\nAPI Error: 529 Overloaded":    recovery.Overloaded,
		"No change is needed.\nThe model stream was cut: fetch failed": recovery.NetworkTransient,

		"":      recovery.Unknown,
		"Done.": recovery.NoProgress,
		"No change is needed: the function already handles " +
			"connection refused.": recovery.NoProgress,
		"The tests already cover HTTP 503 and rate limit exceeded errors, so there is " +
			"nothing to change.": recovery.NoProgress,
		"I looked at retry.go. A 429 Too Many Requests is retried with backoff; " +
			"nothing to do.": recovery.NoProgress,
		"The function returns ErrNotFound when the API answers 401 Unauthorized. " +
			"This is right.": recovery.NoProgress,
		"A deadline exceeded error is mapped to a timeout there, and ECONNRESET works " +
			"as expected.": recovery.NoProgress,
		"No such file or directory is " +
			"handled in open.go.": recovery.NoProgress,
		"It retries on:\n\n- connection refused\n- Error: 401 Invalid API key\n\nNo code changes " +
			"are necessary.": recovery.NoProgress,
	} {
		e := recovery.Evidence{
			Stage: "CODE", Tool: "mine", ExitCode: new(0),
			Message: "CODE: mine: it returned exit code 0 and changed nothing", Stdout: text + "\n",
		}
		if f := c.Classify(e); f.Reason != want || f.Cause == "" {
			t.Errorf("%q is read as %s by %s (%q), want %s", text, f.Reason, f.Rule, f.Cause, want)
		}
	}
}

// TestExplanationOfAFailure checks that explanations are ignored if the program itself or a check failed.
func TestExplanationOfAFailure(t *testing.T) {
	const text = "The function already handles it.\n"
	for _, e := range []recovery.Evidence{
		{Stage: "CODE", ExitCode: new(1), Stdout: text},
		{Stage: "VALIDATE", ExitCode: new(3), Stdout: text},
	} {
		if f := newClassifier(t).Classify(e); f.Reason == recovery.NoProgress {
			t.Errorf("%s by %s", f.Reason, f.Rule)
		}
	}
}

// TestRefusedHistory classifies a session whose history the provider refuses. A new attempt has a new session.
func TestRefusedHistory(t *testing.T) {
	const text = "API Error: 400 messages.3.content.16: `thinking` or `redacted_thinking` blocks in the latest " +
		"assistant message cannot be modified."
	for _, e := range []recovery.Evidence{
		{Stage: "CODE", ExitCode: new(1), Stdout: text},
		{
			Stage: "CODE", ExitCode: new(1), HTTPStatus: 400,
			Stdout: `{"type":"result","is_error":true,"api_error_status":400,"result":"` + text + `"}`,
		},
	} {
		if f := newClassifier(t).Classify(e); f.Reason != recovery.AgentCrash {
			t.Errorf("%+v is read as %s by %s", e, f.Reason, f.Rule)
		}
	}
}
