package classify

import (
	"testing"

	"retake/internal/recovery"
)

const refusedKey = `{"error":{"message":"Incorrect API key provided: sk-x. You can find your API key in the settings.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`

var textLayerCases = []struct {
	name, text string
	reason     recovery.Reason
	cause      string
}{
	{"a warning with time and an error without", "2026/11/22 02:03:01 WARN rg: command not found\nError: 401 " +
		"invalid api key", recovery.AuthError, "Error: 401 invalid api key"},
	{
		"retries that are over", "maximum retry attempts reached for rate limit", recovery.RateLimited,
		"maximum retry attempts reached for rate limit",
	},
	{
		"a retry's announcement is outweighed", "rate limit, retry attempt 2 of 5\nfatal: no space left on device",
		recovery.DiskFull, "fatal: no space left on device",
	},
	{
		"an error in JSON behind words", "API Error: 401 " + refusedKey, recovery.AuthError,
		"Incorrect API key provided: sk-x. You can find your API key in the settings.",
	},
	{
		"the same, wrapped", "API Error: 401 " + refusedKey[:65] + "\n" + refusedKey[65:145] + "\n" + refusedKey[145:],
		recovery.AuthError, "Incorrect API key provided: sk-x. You can find your API key in the settings.",
	},
	{
		"the same, cut off", "API Error: 401 " + refusedKey[:len(refusedKey)-8], recovery.AuthError,
		"Incorrect API key provided: sk-x. You can find your API key in the settings.",
	},
	{
		"a log line's message", "2026-11-22T02:03:01Z ERROR app::client: HTTP 529 overloaded", recovery.Overloaded,
		"HTTP 529 overloaded",
	},
	{
		"an error that was retried until the end", "2026-11-22T10:00:01Z WARN retrying after error attempt=2 " +
			"status=429\n2026-11-22T10:00:10Z ERROR agent loop ended", recovery.RateLimited,
		"agent loop ended (after: retrying after error attempt=2 status=429)",
	},
	{"a warning of something else", "2026-11-22T10:00:01Z WARN rg: command not found\n2026-11-22T10:00:10Z ERROR " +
		"agent loop ended", recovery.Unknown, ""},
	{"an error above a usage", "Error: the flux is odd\nUsage:\n  acme [flags]\n\nFlags:\n  -v, " +
		"--version   Version", recovery.Unknown, "Error: the flux is odd"},
	{"frames of a stack", "Error: the flux is odd\n    at t.get (file:///a/cli.mjs:1:2)\n    at main " +
		"(file:///a/cli.mjs:3:4)", recovery.AgentCrash, "Error: the flux is odd"},
	{
		"a status of a known hundred", "Error: POST \"https://llm.example.com/v1/messages\": 507", recovery.Overloaded,
		"",
	},
	{"nothing but control", "\x1b]0;error: 429\a\x1b[2J\x1b[H", recovery.Unknown, ""},
}

// TestTextLayer checks that the formatting of a line is ignored, and that causes are quoted completely.
func TestTextLayer(t *testing.T) {
	c := newClassifier(t)

	for _, tc := range textLayerCases {
		f := c.Classify(recovery.Evidence{Stderr: tc.text, Stage: "CODE"})
		if f.Reason != tc.reason || tc.cause != "" && f.Cause != tc.cause {
			t.Errorf("%s: %s by %s, %q; want %s, %q", tc.name, f.Reason, f.Rule, f.Cause, tc.reason, tc.cause)
		}
	}
	tested := `a_test.go:7: got {"error":{"message":"too long","code":"context_length_exceeded"}}` +
		"\n--- FAIL: TestX (0.00s)\nFAIL"
	if f := c.Classify(recovery.Evidence{Stdout: tested, Stage: "VALIDATE"}); f.Reason != recovery.TestsFailed {
		t.Errorf("an error that a test prints: %s by %s", f.Reason, f.Rule)
	}
}
