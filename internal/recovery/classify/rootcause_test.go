package classify

import (
	"testing"

	"retake/internal/recovery"
)

var classifyRootCauseCases = []struct {
	name  string
	e     recovery.Evidence
	want  recovery.Reason
	cause string
}{
	{
		"the first compiler error, instead of its cascade or FAIL",
		recovery.Evidence{Stage: "VALIDATE", Stderr: "# demo/widgets\n# [demo/widgets]\nvet: ./widget.go:7:2: " +
			"undefined: foo\n", Stdout: "FAIL\tdemo/widgets [build failed]\nFAIL\n"},
		recovery.BuildFailed, "",
	},
	{
		"as go build prints it",
		recovery.Evidence{Stderr: "# demo/widgets\n./widget.go:7:2: undefined: foo\n./widget.go:9:5: " +
			"undefined: bar\n"},
		recovery.BuildFailed, "./widget.go:7:2: undefined: foo",
	},
	{
		"a failed test that talks of 429",
		recovery.Evidence{Stdout: "--- FAIL: TestLimit (0.00s)\n    a_test.go:9: got 429 rate limit exceeded, " +
			"want 200\nFAIL\nFAIL\tdemo/widgets\t0.01s\n"},
		recovery.TestsFailed, "--- FAIL: TestLimit (0.00s) a_test.go:9: got 429 rate limit exceeded, want 200",
	},
	{
		"the terminal error, not an earlier retry",
		recovery.Evidence{Stderr: "429 Too Many Requests, retrying in 2s\n429 Too Many Requests, retrying in 4s\n" +
			"Error: Incorrect API key provided\n"},
		recovery.AuthError, "Error: Incorrect API key provided",
	},
	{
		"the retried error, if no other follows",
		recovery.Evidence{Stderr: "ECONNREFUSED, retrying in 2s\nECONNREFUSED, retrying in 4s\n"},
		recovery.NetworkTransient, "ECONNREFUSED, retrying in 4s",
	},
	{
		"make only passes on",
		recovery.Evidence{Stderr: "a.c:3:3: error: expected ';' before 'foo'\nmake: *** [Makefile:3: " +
			"all] Error 1\n"},
		recovery.BuildFailed, "a.c:3:3: error: expected ';' before 'foo'",
	},
	{
		"colours",
		recovery.Evidence{Stderr: "\x1b[31m\x1b[1mError:\x1b[0m Overl\x1b[4moaded\x1b[0m\x1b["},
		recovery.Overloaded, "Error: Overloaded",
	},
	{
		"invalid UTF-8",
		recovery.Evidence{Stderr: "\xff\xfe\x00bad \xc3credentials: Bad cred\x00entials\xf0\x9f"},
		recovery.AuthError, "?bad ?credentials: Bad credentials?",
	},
	{
		"while the agent works its own error counts, not the tests that it ran",
		recovery.Evidence{
			Stage: "CODE", Stdout: "--- FAIL: TestX (0.00s)\n",
			Stderr: "API Error: Repeated 529 Overloaded errors.\n",
		},
		recovery.Overloaded, "API Error: Repeated 529 Overloaded errors.",
	},
	{
		"while the change is judged the tests count",
		recovery.Evidence{
			Stage: "VALIDATE", Stdout: "--- FAIL: TestX (0.00s)\n",
			Stderr: "API Error: Repeated 529 Overloaded errors.\n",
		},
		recovery.TestsFailed, "--- FAIL: TestX (0.00s)",
	},
	{
		"claude-code's result event, not the words that it quotes",
		recovery.Evidence{Stdout: `{"type":"user","message":{"content":"the test says: rate limit exceeded"}}` +
			"\n" + `{"type":"result","is_error":true,"api_error_status":401,"result":"Invalid API key"}`},
		recovery.AuthError, "Invalid API key",
	},
	{
		"opencode's error event with a status",
		recovery.Evidence{Stdout: `{"type":"error","error":{"name":"APIError","data":{"message":"no","statusCode":503,"isRetryable":true}}}`},
		recovery.Overloaded, "no",
	},
	{
		"an array of events with exit 0, as qwen-code prints it",
		recovery.Evidence{
			ExitCode: exit(0),
			Stdout:   `[{"type":"system"},{"type":"result","is_error":true,"result":"[API Error: 401 Incorrect API key provided]"}]`,
		},
		recovery.AuthError, "[API Error: 401 Incorrect API key provided]",
	},
	{
		"a retry event does not count as a failure",
		recovery.Evidence{
			ExitCode: exit(1),
			Stdout: `{"type":"system","subtype":"api_retry","error_status":429,"error":"rate_limit"}` + "\n" +
				`{"type":"error","message":"Credit balance is too low"}`,
		},
		recovery.QuotaExhausted, "Credit balance is too low",
	},
	{
		"an error beats a warning after it",
		recovery.Evidence{Stderr: "Error: Incorrect API key provided\nwarning: could not write the log: " +
			"permission denied\nhint: check your network connection (connection refused)\n"},
		recovery.AuthError, "Error: Incorrect API key provided",
	},
	{
		"a shell's missing program, not the consequence",
		recovery.Evidence{ExitCode: exit(127), Stderr: "bash: line 1: rsync: command not found\nrsync error: " +
			"connection reset by peer\n"},
		recovery.ToolNotFound, "bash: line 1: rsync: command not found",
	},
	{
		".NET's inner exception differs from an option in a program's help",
		recovery.Evidence{Stderr: "HttpRequestException: The SSL connection could not be established, see inner " +
			"exception.\n ---> AuthenticationException: The remote certificate is invalid\n"},
		recovery.NetworkPermanent, "---> AuthenticationException: The remote certificate is invalid",
	},
	{
		"a consequence of the failure",
		recovery.Evidence{Stderr: "bot@host: Permission denied (publickey).\nlost connection\n"},
		recovery.AuthError, "bot@host: Permission denied (publickey).",
	},
	{
		"a warning's position does not mean a failed build",
		recovery.Evidence{Stderr: "warning: unused variable: `x`\n --> src/lib.rs:3:9\ntest result: FAILED. 1 " +
			"passed; 1 failed; 0 ignored\n"},
		recovery.TestsFailed, "",
	},
	{
		"a program that ended well is not read by guesses",
		recovery.Evidence{ExitCode: exit(0), Stdout: "unknown widget skipped\n"},
		recovery.NoProgress, "",
	},
	{
		"a list in an error differs from options in a program's help",
		recovery.Evidence{Stderr: "ERROR: could not fetch resource:\n - Quota 'CPUS' exceeded.  Limit: 24.0\n"},
		recovery.QuotaExhausted, "",
	},
	{
		"a warning, without other evidence",
		recovery.Evidence{Stderr: "warning: something: permission denied\n"},
		recovery.PermissionDenied, "warning: something: permission denied",
	},
	{
		"a program's help mentions many failures",
		recovery.Evidence{ExitCode: exit(1), Stderr: "  --retries   how often to retry when rate limited  " +
			"[number]\n  -h, --help  Show help  [boolean]\n"},
		recovery.InvalidConfig, "",
	},
	{
		"a JSON object over several lines, after a stack trace",
		recovery.Evidence{Stderr: "Error: x\n    at main (a.js:1:2) {\n  status: 500\n}\n{\n  \"error\": {\n    " +
			"\"message\": \"no\",\n    \"code\": 401\n  }\n}\n"},
		recovery.AuthError, "no",
	},
	{
		"a server-sent event",
		recovery.Evidence{Stdout: "event: error\ndata: " +
			"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n"},
		recovery.Overloaded, "Overloaded",
	},
	{
		"an error wrapped in an event",
		recovery.Evidence{Stdout: `{"type":"agent_event","event":{"type":"error","error":{"message":"Insufficient credits","status":402}}}`},
		recovery.QuotaExhausted, "Insufficient credits",
	},
	{
		"Google names the quota",
		recovery.Evidence{Stdout: `{"error":{"code":429,"message":"You exceeded your current quota","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProject"}]},{"retryDelay":"41s"}]}}`},
		recovery.RateLimited, "You exceeded your current quota",
	},
	{
		"JSON without an event",
		recovery.Evidence{ExitCode: exit(1), Stdout: "{\n  \"a\": [\n", Stderr: "Bad credentials"},
		recovery.AuthError, "Bad credentials",
	},
	{
		"a denied tool with exit 0",
		recovery.Evidence{
			ExitCode: exit(0),
			Stdout:   `{"type":"result","is_error":false,"permission_denials":[{"tool_name":"Bash","tool_input":{}}]}`,
		},
		recovery.NeedsHuman, "a tool was not approved: Bash",
	},
}

// TestClassifyRootCause checks the chosen cause in output with several errors.
func TestClassifyRootCause(t *testing.T) {
	for _, tc := range classifyRootCauseCases {
		t.Run(tc.name, func(t *testing.T) {
			f := newClassifier(t).Classify(tc.e)
			if f.Reason != tc.want || tc.cause != "" && f.Cause != tc.cause {
				t.Errorf("%s (%q) by %s, want %s (%q)", f.Reason, f.Cause, f.Rule, tc.want, tc.cause)
			}
		})
	}
}
