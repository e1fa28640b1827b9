package recovery

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

var builtIn = sync.OnceValues(func() (*Classifier, error) { return NewClassifier() })

func newClassifier(t testing.TB) *Classifier {
	t.Helper()
	c, err := builtIn()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func exit(code int) *int { return &code }

// TestClassifyOrder shows which evidence decides.
func TestClassifyOrder(t *testing.T) {
	limit := "API Error: 429 rate limit exceeded, try again in 6.6s"
	for _, tc := range []struct {
		name  string
		e     Evidence
		want  Reason
		cause string // contained
	}{
		{"the runtime's word beats text", Evidence{Known: WorkerLost, KnownCause: "container is gone", Stderr: limit}, WorkerLost, "container is gone"},
		{"an unknown Known is no evidence", Evidence{Known: "odd", Stderr: limit}, RateLimited, "429"},
		{"a question beats an exit code", Evidence{Question: "Which of the two formats?\nA or B", ExitCode: exit(1)}, NeedsHuman, "Which of the two formats? A or B"},
		{"memory evidence beats text", Evidence{OOM: true, ExitCode: exit(137), Stderr: limit}, OOMKilled, "memory limit"},
		{"429 by header", Evidence{HTTPStatus: 429}, RateLimited, "HTTP 429"},
		{"429 whose text says quota", Evidence{HTTPStatus: 429, Stderr: "You exceeded your current quota (insufficient_quota)"}, QuotaExhausted, "insufficient_quota"},
		{"403 is a permission", Evidence{HTTPStatus: 403}, PermissionDenied, "HTTP 403"},
		{"403 with nothing remaining is a limit", Evidence{HTTPStatus: 403, Headers: map[string]string{"x-ratelimit-remaining": "0"}}, RateLimited, ""},
		{"403 whose text says SAML", Evidence{HTTPStatus: 403, Message: "Resource protected by organization SAML enforcement."}, NeedsHuman, "SAML"},
		{"400 whose text says too long", Evidence{HTTPStatus: 400, Message: "prompt is too long: 214000 tokens > 200000"}, ContextOverflow, "214000"},
		{"500 is a matter of the provider whatever was retried", Evidence{HTTPStatus: 503, Stderr: "connection refused"}, Overloaded, ""},
		{"text beats the claim", Evidence{Stderr: "./a.go:1:2: undefined: x", Claim: Claim{ErrorType: "tests_failed"}}, BuildFailed, "undefined: x"},
		{"the claim beats silence", Evidence{ExitCode: exit(3), Claim: Claim{ErrorType: "missing_prereq"}}, ToolNotFound, ""},
		{"a worker's deadline, whatever failed on the way", Evidence{Stage: "VALIDATE", Message: "VALIDATE took longer than 900 s", Stdout: "--- FAIL: TestX (0.00s)\nconnection refused", Claim: Claim{ErrorType: "timeout"}}, Timeout, "longer than 900 s"},
		{"a deadline while the agent waited for a limit", Evidence{Stage: "CODE", Message: "CODE took longer than 1800 s", Stderr: "429 Too Many Requests, retrying", Claim: Claim{ErrorType: "timeout"}}, RateLimited, "429"},
		{"our own word as a claim", Evidence{ExitCode: exit(3), Claim: Claim{ErrorType: "context_overflow"}}, ContextOverflow, ""},
		{"a claim that nobody knows", Evidence{ExitCode: exit(3), Claim: Claim{ErrorType: "gremlins"}}, Unknown, "exit code 3"},
		{"exit 124 is timeout(1)", Evidence{ExitCode: exit(124)}, Timeout, "exit code 124"},
		{"what was retried until the deadline is the cause", Evidence{ExitCode: exit(124), Stderr: limit}, RateLimited, "429"},
		{"exit 125 is docker's", Evidence{ExitCode: exit(125)}, DockerDaemon, "exit code 125"},
		{"exit 127 is the shell's", Evidence{ExitCode: exit(127)}, ToolNotFound, "exit code 127"},
		{"exit 125 whose text knows better", Evidence{ExitCode: exit(125), Stderr: "docker: Error response from daemon: invalid mount config for type \"bind\": bind source path does not exist: /srv/none"}, InvalidConfig, "/srv/none"},
		{"SIGKILL without memory evidence", Evidence{Signal: "SIGKILL"}, Unknown, "possibly out of memory"},
		{"SIGSEGV", Evidence{Signal: "SIGSEGV"}, AgentCrash, "SIGSEGV"},
		{"a tool's own exit code", Evidence{Tool: "gemini-cli", ExitCode: exit(41)}, AuthError, "exit code 41"},
		{"the same code of another tool", Evidence{Tool: "make", ExitCode: exit(41)}, Unknown, "exit code 41"},
		{"a command that somebody had to end", Evidence{Unended: true, Stdout: "> build"}, Timeout, "> build"},
		{"a command that was ended while it waited", Evidence{Unended: true, Stderr: "ERROR: Reconnecting... waiting for network"}, NetworkTransient, "waiting for network"},
		{"another 4xx", Evidence{HTTPStatus: 418}, Validation, "HTTP 418"},
		{"another 5xx", Evidence{HTTPStatus: 599}, Overloaded, "HTTP 599"},
		{"no failure of the server", Evidence{HTTPStatus: 304}, Unknown, ""},
		{"404 of a tool", Evidence{HTTPStatus: 404, Message: "tool not found"}, ToolNotFound, "tool not found"},
		{"429 whose text says both", Evidence{HTTPStatus: 429, Message: "You exceeded your current quota\nPlease retry in 2s."}, RateLimited, "retry in 2s"},
		{"a wrapper's own code beats text", Evidence{Tool: "gemini_headless.sh", ExitCode: exit(13), Stderr: "401 unauthorized"}, Timeout, "exit code 13"},
		{"a wrapper's general failure says nothing", Evidence{Tool: "run_codex.sh", ExitCode: exit(12), Stderr: "401 unauthorized"}, AuthError, "401"},
		{"a silent check", Evidence{Stage: "VALIDATE", ExitCode: exit(1)}, TestsFailed, "no output"},
		{"a silent agent", Evidence{Stage: "CODE", ExitCode: exit(1)}, Unknown, "exit code 1"},
		{"exit 0 is not success", Evidence{ExitCode: exit(0)}, NoProgress, "changed nothing"},
		{"nothing at all", Evidence{}, Unknown, "nothing in the evidence"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newClassifier(t).Classify(tc.e)
			if f.Reason != tc.want || !strings.Contains(f.Cause, tc.cause) {
				t.Errorf("%s (%q) by %s, want %s (%q)", f.Reason, f.Cause, f.Rule, tc.want, tc.cause)
			}
		})
	}
}

// TestClassifyRootCause shows what is read as the cause in output that says many things.
func TestClassifyRootCause(t *testing.T) {
	for _, tc := range []struct {
		name  string
		e     Evidence
		want  Reason
		cause string
	}{
		{
			"the first compiler error, not the cascade nor FAIL",
			Evidence{Stage: "VALIDATE", Stderr: "# demo/widgets\n# [demo/widgets]\nvet: ./widget.go:7:2: undefined: foo\n", Stdout: "FAIL\tdemo/widgets [build failed]\nFAIL\n"},
			BuildFailed, "",
		},
		{
			"as go build prints it",
			Evidence{Stderr: "# demo/widgets\n./widget.go:7:2: undefined: foo\n./widget.go:9:5: undefined: bar\n"},
			BuildFailed, "./widget.go:7:2: undefined: foo",
		},
		{
			"a failed test that talks of 429",
			Evidence{Stdout: "--- FAIL: TestLimit (0.00s)\n    a_test.go:9: got 429 rate limit exceeded, want 200\nFAIL\nFAIL\tdemo/widgets\t0.01s\n"},
			TestsFailed, "--- FAIL: TestLimit (0.00s) a_test.go:9: got 429 rate limit exceeded, want 200",
		},
		{
			"the terminal error, not what was retried before",
			Evidence{Stderr: "429 Too Many Requests, retrying in 2s\n429 Too Many Requests, retrying in 4s\nError: Incorrect API key provided\n"},
			AuthError, "Error: Incorrect API key provided",
		},
		{
			"what was retried, when nothing came after it",
			Evidence{Stderr: "ECONNREFUSED, retrying in 2s\nECONNREFUSED, retrying in 4s\n"},
			NetworkTransient, "ECONNREFUSED, retrying in 4s",
		},
		{
			"make only passes on",
			Evidence{Stderr: "a.c:3:3: error: expected ';' before 'foo'\nmake: *** [Makefile:3: all] Error 1\n"},
			BuildFailed, "a.c:3:3: error: expected ';' before 'foo'",
		},
		{
			"colours",
			Evidence{Stderr: "\x1b[31m\x1b[1mError:\x1b[0m Overl\x1b[4moaded\x1b[0m\x1b["},
			Overloaded, "Error: Overloaded",
		},
		{
			"bytes that are no text",
			Evidence{Stderr: "\xff\xfe\x00bad \xc3credentials: Bad cred\x00entials\xf0\x9f"},
			AuthError, "?bad ?credentials: Bad credentials?",
		},
		{
			"while the agent works its own error counts, not the tests that it ran",
			Evidence{Stage: "CODE", Stdout: "--- FAIL: TestX (0.00s)\n", Stderr: "API Error: Repeated 529 Overloaded errors.\n"},
			Overloaded, "API Error: Repeated 529 Overloaded errors.",
		},
		{
			"while the change is judged the tests count",
			Evidence{Stage: "VALIDATE", Stdout: "--- FAIL: TestX (0.00s)\n", Stderr: "API Error: Repeated 529 Overloaded errors.\n"},
			TestsFailed, "--- FAIL: TestX (0.00s)",
		},
		{
			"claude-code's result event, not the words that it quotes",
			Evidence{Stdout: `{"type":"user","message":{"content":"the test says: rate limit exceeded"}}` + "\n" + `{"type":"result","is_error":true,"api_error_status":401,"result":"Invalid API key"}`},
			AuthError, "Invalid API key",
		},
		{
			"opencode's error event with a status",
			Evidence{Stdout: `{"type":"error","error":{"name":"APIError","data":{"message":"no","statusCode":503,"isRetryable":true}}}`},
			Overloaded, "no",
		},
		{
			"an array of events with exit 0, as qwen-code prints it",
			Evidence{ExitCode: exit(0), Stdout: `[{"type":"system"},{"type":"result","is_error":true,"result":"[API Error: 401 Incorrect API key provided]"}]`},
			AuthError, "[API Error: 401 Incorrect API key provided]",
		},
		{
			"a retry event is no failure",
			Evidence{ExitCode: exit(1), Stdout: `{"type":"system","subtype":"api_retry","error_status":429,"error":"rate_limit"}` + "\n" + `{"type":"error","message":"Credit balance is too low"}`},
			QuotaExhausted, "Credit balance is too low",
		},
		{
			"an error beats a warning after it",
			Evidence{Stderr: "Error: Incorrect API key provided\nwarning: could not write the log: permission denied\nhint: check your network connection (connection refused)\n"},
			AuthError, "Error: Incorrect API key provided",
		},
		{
			"a shell's missing program, not what broke for want of it",
			Evidence{ExitCode: exit(127), Stderr: "bash: line 1: rsync: command not found\nrsync error: connection reset by peer\n"},
			ToolNotFound, "bash: line 1: rsync: command not found",
		},
		{
			".NET's inner exception is no option of a program's help",
			Evidence{Stderr: "HttpRequestException: The SSL connection could not be established, see inner exception.\n ---> AuthenticationException: The remote certificate is invalid\n"},
			NetworkPermanent, "---> AuthenticationException: The remote certificate is invalid",
		},
		{
			"what only follows from a failure",
			Evidence{Stderr: "bot@host: Permission denied (publickey).\nlost connection\n"},
			AuthError, "bot@host: Permission denied (publickey).",
		},
		{
			"a warning's place is no failed build",
			Evidence{Stderr: "warning: unused variable: `x`\n --> src/lib.rs:3:9\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n"},
			TestsFailed, "",
		},
		{
			"a program that ended well is not read by guesses",
			Evidence{ExitCode: exit(0), Stdout: "unknown widget skipped\n"},
			NoProgress, "",
		},
		{
			"a list in an error is no option of a program's help",
			Evidence{Stderr: "ERROR: could not fetch resource:\n - Quota 'CPUS' exceeded.  Limit: 24.0\n"},
			QuotaExhausted, "",
		},
		{
			"a warning, when nothing else speaks",
			Evidence{Stderr: "warning: something: permission denied\n"},
			PermissionDenied, "warning: something: permission denied",
		},
		{
			"a program's help names everything that could go wrong",
			Evidence{ExitCode: exit(1), Stderr: "  --retries   how often to retry when rate limited  [number]\n  -h, --help  Show help  [boolean]\n"},
			InvalidConfig, "",
		},
		{
			"a JSON object over several lines, after a stack trace",
			Evidence{Stderr: "Error: x\n    at main (a.js:1:2) {\n  status: 500\n}\n{\n  \"error\": {\n    \"message\": \"no\",\n    \"code\": 401\n  }\n}\n"},
			AuthError, "no",
		},
		{
			"a server-sent event",
			Evidence{Stdout: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n"},
			Overloaded, "Overloaded",
		},
		{
			"an error wrapped in an event",
			Evidence{Stdout: `{"type":"agent_event","event":{"type":"error","error":{"message":"Insufficient credits","status":402}}}`},
			QuotaExhausted, "Insufficient credits",
		},
		{
			"Google says which quota",
			Evidence{Stdout: `{"error":{"code":429,"message":"You exceeded your current quota","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProject"}]},{"retryDelay":"41s"}]}}`},
			RateLimited, "You exceeded your current quota",
		},
		{
			"JSON that is no event",
			Evidence{ExitCode: exit(1), Stdout: "{\n  \"a\": [\n", Stderr: "Bad credentials"},
			AuthError, "Bad credentials",
		},
		{
			"a denied tool with exit 0",
			Evidence{ExitCode: exit(0), Stdout: `{"type":"result","is_error":false,"permission_denials":[{"tool_name":"Bash","tool_input":{}}]}`},
			NeedsHuman, "a tool was not approved: Bash",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newClassifier(t).Classify(tc.e)
			if f.Reason != tc.want || tc.cause != "" && f.Cause != tc.cause {
				t.Errorf("%s (%q) by %s, want %s (%q)", f.Reason, f.Cause, f.Rule, tc.want, tc.cause)
			}
		})
	}
}

// TestExplain: what decides comes with what else was known, in order, and why each lost.
func TestExplain(t *testing.T) {
	e := Evidence{
		ExitCode: exit(124),
		Stderr: "dial tcp: connection refused, retrying in 2s\n" +
			"fatal: unable to access 'https://x/': The requested URL returned error: 503\n" +
			"EACCES: permission denied\n" +
			"Error: Bad credentials, permission denied\n" +
			"the build failed\n",
		Claim: Claim{ErrorType: "tests_failed"},
	}
	c := newClassifier(t)
	f, got := c.Explain(e)
	if want := c.Classify(e); f != want {
		t.Errorf("%+v, classified as %+v", f, want)
	}
	want := []struct {
		reason Reason
		lost   string
	}{
		{AuthError, ""},
		{PermissionDenied, "stands before it on the same line"},
		{Overloaded, "text failure decides before text status"},
		{Timeout, "text failure decides before exit code"},
		{NetworkTransient, "text failure decides before retries and advice"},
		{BuildFailed, "text failure decides before text prose"},
		{TestsFailed, "text failure decides before claim"},
		{Validation, "text failure decides before text guess"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d considered, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.Reason != w.reason || !strings.Contains(g.Lost, w.lost) || (g.Lost == "") != (w.lost == "") || g.Rule == "" || g.Line == "" && w.reason != TestsFailed {
			t.Errorf("%d: %+v, want %s: %s", i, g, w.reason, w.lost)
		}
	}
	if f, got := c.Explain(Evidence{}); f.Reason != Unknown || len(got) != 1 || got[0].Lost != "" {
		t.Errorf("nothing: %+v, %+v", f, got)
	}
	if _, got := c.Explain(Evidence{Stdout: "--- FAIL: TestA (0s)\n--- FAIL: TestB (0s)\n3 problems (1 errors)\n"}); len(got) < 2 || got[0].Lost != "" || got[1].Lost == "" {
		t.Errorf("a first line: %+v", got)
	}
}

func TestRetryAfter(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	epoch := fmt.Sprint(at.Add(3 * time.Hour).Unix())
	for _, tc := range []struct {
		name string
		e    Evidence
		want time.Duration
	}{
		{"the worker's word", Evidence{HTTPStatus: 429, RetryAfter: 9 * time.Second, Headers: map[string]string{"retry-after": "3"}}, 9 * time.Second},
		{"seconds in a header", Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "30"}}, 30 * time.Second},
		{"fractions", Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "1.5"}}, 1500 * time.Millisecond},
		{"milliseconds", Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after-ms": "250", "retry-after": "1"}}, 250 * time.Millisecond},
		{"a date", Evidence{HTTPStatus: 429, At: at, Headers: map[string]string{"retry-after": "Sat, 21 Nov 2026 10:02:00 GMT"}}, 2 * time.Minute},
		{"a date without a now", Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "Sat, 21 Nov 2026 10:02:00 GMT"}}, 0},
		{"a date in the past", Evidence{HTTPStatus: 429, At: at, Headers: map[string]string{"retry-after": "Sat, 21 Nov 2026 09:00:00 GMT"}}, 0},
		{"a reset with nothing left", Evidence{HTTPStatus: 403, At: at, Headers: map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": epoch}}, 3 * time.Hour},
		{"a reset with something left", Evidence{HTTPStatus: 429, At: at, Headers: map[string]string{"x-ratelimit-remaining": "7", "x-ratelimit-reset": epoch}}, 0},
		{"absurd", Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "1e300"}}, maxRetryAfter},
		{"negative", Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "-5"}}, 0},
		{"not a number", Evidence{HTTPStatus: 429, Headers: map[string]string{"retry-after": "NaN"}}, 0},
		{"openai", Evidence{Stderr: "Rate limit reached. Please try again in 6.6s. Visit https://x"}, 6600 * time.Millisecond},
		{"go", Evidence{Stderr: "rate limit: retry_after=1m0s"}, time.Minute},
		{"openai's durations", Evidence{Stderr: "Rate limit reached, try again in 6m0s"}, 6 * time.Minute},
		{"days and hours", Evidence{Stderr: "weekly limit reached, try again in 3 days 4 hours"}, 76 * time.Hour},
		{"gemini", Evidence{Stderr: "quota exceeded. Please retry in 2.5s.\nSuggested retry after 2s."}, 2 * time.Second},
		{"gemini's dump", Evidence{Stderr: "rate limit\n  retryDelayMs: 2000,\n  status: 429"}, 2 * time.Second},
		{"google's RetryInfo", Evidence{Stderr: "rate limit\n  \"retryDelay\": \"41s\""}, 41 * time.Second},
		{"a header in a dump", Evidence{Stderr: "HTTP/1.1 429 X\nretry-after: 3600\n\nslow down"}, time.Hour},
		{"claude's epoch", Evidence{At: at, Stderr: "Claude AI usage limit reached|" + epoch}, 3 * time.Hour},
		{"no reason to wait", Evidence{Stderr: "./a.go:1:2: undefined: x; try again in 6s"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if f := newClassifier(t).Classify(tc.e); f.RetryAfter != tc.want {
				t.Errorf("%s (%s by %s), want %s", f.RetryAfter, f.Reason, f.Rule, tc.want)
			}
		})
	}
}

func TestNewClassifierRefuses(t *testing.T) {
	good := "[[rule]]\nid='x'\nreason='timeout'\nband='failure'\nany=['zzz']\nwhy='w'\nexamples=['zzz']\n"
	for _, tc := range []struct{ name, doc, says string }{
		{"no TOML", "[[rule", "toml: line 1"},
		{"a key that nobody reads", good + "prio=3\n", "prio"},
		{"the same id twice", good + good, "twice"},
		{"an unknown reason", strings.Replace(good, "timeout", "tired", 1), "tired"},
		{"an unknown band", strings.Replace(good, "failure", "brass", 1), "brass"},
		{"no example", strings.Replace(good, "['zzz']\n", "[]\n", 2), "needed"},
		{"no literal", strings.Replace(good, "any=['zzz']", "any=[]", 1), "literal"},
		{"an upper-case literal", strings.Replace(good, "any=['zzz']", "any=['ZZZ']", 1), "lower case"},
		{"not RE2", good + "match='(?=x)'\n", "match"},
		{"an example that the rule does not match", strings.Replace(good, "examples=['zzz']", "examples=['yyy']", 1), "is read as unknown"},
		{"an example that a stronger rule takes", strings.Replace(good, "examples=['zzz']", "examples=['--- FAIL: zzz']", 1), "go.test"},
		{"a rule that takes another's examples", strings.Replace(good, "['zzz']", "['bad credentials', 'zzz']", 1), `built-in: rule "auth.credentials": example`},
		{"whose rule takes them", strings.Replace(good, "['zzz']", "['bad credentials', 'zzz']", 1), `by rule "x" of document 1`},
		{"a status without a reason", "[[status]]\ncode=418\nreason='teapot'\n", "teapot"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := NewClassifier([]byte(tc.doc))
			if !errors.Is(err, ErrRules) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want one about %q", err, tc.says)
			}
		})
	}
}

func TestExtraRulesAddAndReplace(t *testing.T) {
	c, err := NewClassifier([]byte(`
[[rule]]
id = "acme.deploy"
reason = "needs_human"
band = "failure"
any = ["deploy window"]
why = "acme's deploy tool 3 waits for its window"
examples = ["deploy window is closed"]

[[rule]]
id = "crash"
reason = "unknown"
band = "failure"
any = ["panic: "]
why = "here panics are nobody's business"
examples = ["panic: x"]
`))
	if err != nil {
		t.Fatal(err)
	}
	if f := c.Classify(Evidence{Stderr: "Deploy Window is closed"}); f.Reason != NeedsHuman || f.Rule != "acme.deploy" {
		t.Errorf("%s by %s", f.Reason, f.Rule)
	}
	if f := c.Classify(Evidence{Stderr: "panic: x"}); f.Reason != Unknown || f.Rule != "crash" {
		t.Errorf("%s by %s", f.Reason, f.Rule)
	}
}

// TestEveryReasonIsReachable: each is decided by a rule, or else by what the director knows.
func TestEveryReasonIsReachable(t *testing.T) {
	c := newClassifier(t)
	seen := map[Reason]bool{}
	for _, r := range c.rules {
		seen[r.Reason] = true
	}
	for _, a := range Reasons {
		known := c.Classify(Evidence{Known: a.Reason})
		if known.Reason != a.Reason || known.Cause == "" {
			t.Errorf("known %s is read as %+v", a.Reason, known)
		}
		if !seen[a.Reason] {
			t.Logf("%s has no rule of its own", a.Reason)
		}
	}
}
