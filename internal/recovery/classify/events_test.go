package classify

import (
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

const (
	quoted   = `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"HTTP 401 Unauthorized in test fixture, try again in 7 hours"}]}}`
	started  = `{"type":"system","subtype":"init","session_id":"s1","tools":["Bash"]}`
	codexRan = `{"type":"item.completed","item":{"id":"item_1","type":"command_execution","aggregated_output":"HTTP 401 Unauthorized","exit_code":1,"status":"failed"}}`
)

func jsonLines(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

var eventsQuoteCases = []struct {
	name  string
	text  string
	exit  int
	want  recovery.Reason
	cause string // contained
	wait  time.Duration
}{
	{
		"a success", jsonLines(started, quoted,
			`{"type":"result","subtype":"success","is_error":false,"result":"All is well.\nNo change was made."}`), 0,
		recovery.NoProgress, "No change was made.", 0,
	},
	{"no event reports the end", jsonLines(started, quoted), 1, recovery.Unknown, "exit code 1", 0},
	{
		"a limit", jsonLines(started, quoted,
			`{"type":"result","is_error":true,"result":"Limit reached · resets 3pm (Europe/Warsaw)"}`), 1,
		recovery.QuotaExhausted, "Limit reached", 4 * time.Hour,
	},
	{
		"an error that no rule knows",
		jsonLines(started, quoted,
			`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["boom"]}`), 1,
		recovery.Unknown, "boom", 0,
	},
	{
		"an error without a message",
		jsonLines(started, quoted,
			`{"type":"result","subtype":"error_max_turns","is_error":true,"modelUsage":{"m":{"contextWindow":200000}}}`), 1, recovery.NeedsHuman, "error_max_turns", 0,
	},
	{
		"only the subtype has a meaning",
		jsonLines(started,
			`{"type":"result","subtype":"error_during_execution","is_error":true,"x":"context window exceeded"}`),
		1, recovery.Unknown, "error_during_execution", 0,
	},
	{"fields of an error", jsonLines(started,
		`{"type":"result","is_error":true,"result":"boom","modelUsage":{"m":{"contextWindow":200000,"error":"context window exceeded"}}}`), 1, recovery.Unknown, "boom", 0},
	{
		"codex", jsonLines(`{"type":"thread.started"}`, codexRan, `{"type":"turn.failed","error":{"message":"boom"}}`),
		1, recovery.Unknown, "boom", 0,
	},
	{"codex recovers", jsonLines(`{"type":"error","message":"Reconnecting... 1/5 (HTTP 401 Unauthorized)"}`,
		`{"type":"turn.completed","usage":{}}`), 0, recovery.NoProgress, "", 0},
	{"gemini's failed tool", jsonLines(`{"type":"init"}`,
		`{"type":"tool_result","tool_id":"1","status":"error","error":{"type":"x","message":"HTTP 401 Unauthorized"}}`, `{"type":"result","status":"success","stats":{}}`), 0, recovery.NoProgress, "", 0},
	{
		"gemini's failed tool as the last event",
		jsonLines(`{"type":"tool_result","status":"error","error":{"message":"HTTP 401 Unauthorized"}}`), 1,
		recovery.Unknown, "", 0,
	},
	{
		"opencode",
		jsonLines(
			`{"type":"tool_use","part":{"type":"tool","state":{"status":"completed","output":"HTTP 401 Unauthorized"}}}`, `{"type":"error","error":{"name":"UnknownError","data":{"message":"boom"}}}`), 1, recovery.Unknown, "boom", 0,
	},
	{
		"copilot",
		jsonLines(`{"type":"tool.execution_complete","data":{"result":{"content":"HTTP 401 Unauthorized"}}}`,
			`{"type":"session.error","data":{"message":"boom"}}`), 1, recovery.Unknown, "boom", 0,
	},
	{
		"cline",
		jsonLines(
			`{"type":"agent_event","event":{"type":"content_end","contentType":"tool","output":"HTTP 401 Unauthorized"}}`, `{"type":"agent_event","event":{"type":"error","error":{"message":"boom"}}}`), 1, recovery.Unknown, "boom", 0,
	},
	{"pi", jsonLines(`{"type":"tool_execution_end","result":"HTTP 403 Forbidden","isError":true}`,
		`{"type":"message_end","message":{"role":"assistant","stopReason":"error","errorMessage":"401 Incorrect API key provided"}}`), 0, recovery.AuthError, "401 Incorrect", 0},
	{
		"an array", "[" + started + "," + quoted + `,{"type":"result","is_error":true,"result":"boom"}]`, 0,
		recovery.Unknown, "boom", 0,
	},
	{
		"qwen's error that calls itself a success", "[" + started +
			`,{"type":"result","is_error":false,"result":"[API Error: 401 Incorrect API key provided]"}]`, 0,
		recovery.AuthError, "401", 0,
	},
	{
		"copilot names its error",
		jsonLines(
			`{"type":"session.error","data":{"errorType":"content_filter","message":"The response was filtered"}}`),
		0, recovery.PolicyViolation, "filtered", 0,
	},
	{
		"server-sent", "data: " + quoted + "\n\ndata: " + `{"type":"result","is_error":false}` + "\n", 0,
		recovery.NoProgress, "", 0,
	},
	{
		"cut at the beginning", jsonLines(quoted[60:], started, `{"type":"turn.failed","error":{"message":"boom"}}`),
		1, recovery.Unknown, "boom", 0,
	},
	{"a mark and half an event", jsonLines("[... 4096 bytes cut ...]", quoted[60:], started,
		`{"type":"turn.failed","error":{"message":"boom"}}`), 1, recovery.Unknown, "boom", 0},
	{
		"cut at the end", strings.TrimSpace(jsonLines(started, quoted))[:len(started)+len(quoted)-12], 1,
		recovery.Unknown, "", 0,
	},
	{
		"half an event without its type", jsonLines(started, `{"message":{"content":"HTTP 401 Unauthor`), 1,
		recovery.Unknown, "", 0,
	},
	{"text around events", jsonLines(started, quoted, "Error: Credit balance is too low",
		`{"type":"system","subtype":"bye"}`), 1, recovery.QuotaExhausted, "Credit balance", 0},
	{
		"a retry that was announced",
		jsonLines(started, `{"type":"system","subtype":"api_retry","error_status":429,"error":"rate_limit"}`), 124,
		recovery.Timeout, "", 0,
	},

	{
		"eslint", `[{"filePath":"/a.js","messages":[{"ruleId":"no-unused-vars","message":"HTTP 401 Unauthorized"}]}]`,
		1, recovery.AuthError, "", 0,
	},
	{
		"npm", `{"error":{"code":"E401","summary":"401 Unauthorized - incorrect password"}}`, 1, recovery.AuthError,
		"", 0,
	},
	{
		"cargo", `{"reason":"compiler-message","message":{"rendered":"error: could not connect: connection refused"}}`,
		101, recovery.NetworkTransient, "", 0,
	},
	{
		"go test", `{"Time":"2026-11-21T10:00:00Z","Action":"output","Output":"dial tcp: connection refused\n"}`, 1,
		recovery.NetworkTransient, "", 0,
	},
	{
		"libtest", `{"type":"test","event":"failed","name":"a","stdout":"connection refused"}`, 101,
		recovery.NetworkTransient, "", 0,
	},
	{
		"terraform", `{"@level":"error","@message":"Error: connection refused","type":"diagnostic"}`, 1,
		recovery.NetworkTransient, "", 0,
	},
	{
		"structlog", `{"event":"could not sync: connection refused","logger":"a"}`, 1, recovery.NetworkTransient, "",
		0,
	},
	{
		"a logger with a type", `{"type":"app","level":"error","msg":"connection refused"}`, 1,
		recovery.NetworkTransient, "", 0,
	},
	{
		"yarn", `{"type":"error","data":"An unexpected error occurred: connect ECONNREFUSED"}`, 1,
		recovery.NetworkTransient, "ECONNREFUSED", 0,
	},
	{
		"kubernetes", `{"type":"Warning","reason":"Failed","message":"connection refused"}`, 1,
		recovery.NetworkTransient, "", 0,
	},
	{
		"problem+json", `{"type":"https://a/problems/x","title":"Unauthorized","detail":"HTTP 401 Unauthorized"}`, 1,
		recovery.AuthError, "", 0,
	},
	{
		"an error in an unknown form", `{"type":"error","error":{"why":["connection refused"]}}`, 1,
		recovery.NetworkTransient, "", 0,
	},
	{"an object followed by text", `{"type":"x"}gh: Bad credentials (HTTP 401)`, 1, recovery.AuthError, "", 0},
}

// TestEventsQuote checks that quotes in an agent's events are ignored, that its error event counts, and that other JSON
// is text.
func TestEventsQuote(t *testing.T) {
	for _, tc := range eventsQuoteCases {
		t.Run(tc.name, func(t *testing.T) {
			at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
			for name, e := range map[string]recovery.Evidence{
				"message": {Message: tc.text},
				"stdout":  {Stdout: tc.text}, "stderr": {Stderr: tc.text},
			} {
				e.ExitCode, e.At = exit(tc.exit), at
				f := newClassifier(t).Classify(e)
				if f.Reason != tc.want || !strings.Contains(f.Cause, tc.cause) || f.RetryAfter != tc.wait {
					t.Errorf("%s: %s (%q) by %s in %s, want %s (%q) in %s", name, f.Reason, f.Cause, f.Rule,
						f.RetryAfter, tc.want, tc.cause, tc.wait)
				}
			}
		})
	}
}

// TestEventStatesTheWait checks that the wait comes from the error event instead of from quotes in other events.
func TestEventStatesTheWait(t *testing.T) {
	f := newClassifier(t).Classify(
		recovery.Evidence{Stdout: jsonLines(`{"type":"error","message":"429 rate limit exceeded, try again in 6s"}`,
			quoted)})
	if f.Reason != recovery.RateLimited || f.RetryAfter != 6*time.Second {
		t.Errorf("%+v", f)
	}
	f = newClassifier(t).Classify(
		recovery.Evidence{Stdout: jsonLines(`{"type":"error","message":"429 rate limit exceeded"}`, quoted)})
	if f.Reason != recovery.RateLimited || f.RetryAfter != 0 {
		t.Errorf("%+v", f)
	}
}

// TestLimitsOfPlans distinguishes a plan's limit, which resets at a time of day, from limits on requests or tokens,
// which reset within minutes.
func TestLimitsOfPlans(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		text string
		want recovery.Reason
		wait time.Duration
	}{
		{"You're out of extra usage · resets 3pm (Europe/London)", recovery.QuotaExhausted, 5 * time.Hour},
		{
			"Limit reached · resets 3pm (Europe/Warsaw) · /upgrade to Max or turn on /extra-usage",
			recovery.QuotaExhausted, 4 * time.Hour,
		},
		{"limit reached. resets at 3pm", recovery.QuotaExhausted, 5 * time.Hour},
		{"5-hour limit reached ∙ resets 3pm", recovery.QuotaExhausted, 5 * time.Hour},
		{"You've hit your session limit · resets 3:30pm (UTC)", recovery.QuotaExhausted, 5*time.Hour + 30*time.Minute},
		{"Opus weekly limit reached ∙ resets Nov 23, 5pm (UTC)", recovery.QuotaExhausted, 55 * time.Hour},
		{"You've used all of your Opus limit, it resets in 2h", recovery.QuotaExhausted, 2 * time.Hour},
		{"Your limit resets tomorrow at 9am", recovery.QuotaExhausted, 23 * time.Hour},
		{"Rate limit reached. Resets at 3pm", recovery.RateLimited, 5 * time.Hour},
		{"Rate limit reached: 60 requests per minute, limit resets in 20s", recovery.RateLimited, 20 * time.Second},
		{"429 Too Many Requests: tokens per minute limit, resets in 1m", recovery.RateLimited, time.Minute},
	} {
		f := newClassifier(t).Classify(recovery.Evidence{Stderr: tc.text, ExitCode: exit(1), At: at})
		if f.Reason != tc.want || f.RetryAfter != tc.wait {
			t.Errorf("%q: %s by %s in %s, want %s in %s", tc.text, f.Reason, f.Rule, f.RetryAfter, tc.want, tc.wait)
		}
	}
}

// TestWrapperCodesSayWhy checks that the cause states the meaning of a wrapper's exit code.
func TestWrapperCodesSayWhy(t *testing.T) {
	f := newClassifier(t).Classify(recovery.Evidence{Tool: "gemini_headless.sh", ExitCode: exit(14)})
	if f.Reason != recovery.ContextOverflow ||
		!strings.Contains(f.Cause, "the prompt is too large (gemini_headless.sh)") {
		t.Errorf("%+v", f)
	}
}
