package classify

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"retake/internal/recovery"
)

var builtIn = sync.OnceValues(func() (*Classifier, error) { return New() })

func newClassifier(t testing.TB) *Classifier {
	t.Helper()
	c, err := builtIn()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func exit(code int) *int { return &code }

var limitText = "API Error: 429 rate limit exceeded, try again in 6.6s"

var classifyOrderCases = []struct {
	name  string
	e     recovery.Evidence
	want  recovery.Reason
	cause string // contained
}{
	{"the runtime's evidence outranks text", recovery.Evidence{
		Known: recovery.WorkerLost, KnownCause: "container is gone",
		Stderr: limitText,
	}, recovery.WorkerLost, "container is gone"},
	{
		"an unknown Known does not count",
		recovery.Evidence{Known: "odd", Stderr: limitText},
		recovery.RateLimited,
		"429",
	},
	{"a question outranks an exit code", recovery.Evidence{
		Question: "Which of the two formats?\nA or B",
		ExitCode: exit(1),
	}, recovery.NeedsHuman, "Which of the two formats? A or B"},
	{
		"memory evidence outranks text",
		recovery.Evidence{OOM: true, ExitCode: exit(137), Stderr: limitText},
		recovery.OOMKilled, "memory limit",
	},
	{"429 by header", recovery.Evidence{HTTPStatus: 429}, recovery.RateLimited, "HTTP 429"},
	{
		"429 whose text says quota",
		recovery.Evidence{HTTPStatus: 429, Stderr: "You exceeded your current quota (insufficient_quota)"},
		recovery.QuotaExhausted, "insufficient_quota",
	},
	{"403 is a permission", recovery.Evidence{HTTPStatus: 403}, recovery.PermissionDenied, "HTTP 403"},
	{"403 with nothing remaining is a limit", recovery.Evidence{
		HTTPStatus: 403,
		Headers:    map[string]string{"x-ratelimit-remaining": "0"},
	}, recovery.RateLimited, ""},
	{"403 whose text says SAML", recovery.Evidence{
		HTTPStatus: 403,
		Message:    "Resource protected by organization SAML enforcement.",
	}, recovery.NeedsHuman, "SAML"},
	{"400 whose text says too long", recovery.Evidence{
		HTTPStatus: 400,
		Message:    "prompt is too long: 214000 tokens > 200000",
	}, recovery.ContextOverflow, "214000"},
	{
		"500 is the provider's failure despite retries of another",
		recovery.Evidence{HTTPStatus: 503, Stderr: "connection refused"},
		recovery.Overloaded, "",
	},
	{"text beats the assertion", recovery.Evidence{
		Stderr:    "./a.go:1:2: undefined: x",
		Assertion: recovery.Assertion{ErrorType: "tests_failed"},
	}, recovery.BuildFailed, "undefined: x"},
	{"the assertion beats silence", recovery.Evidence{
		ExitCode:  exit(3),
		Assertion: recovery.Assertion{ErrorType: "missing_prereq"},
	}, recovery.ToolNotFound, ""},
	{
		"a worker's deadline, despite earlier failures",
		recovery.Evidence{
			Stage: "VALIDATE", Message: "VALIDATE took longer than 900 s",
			Stdout:    "--- FAIL: TestX (0.00s)\nconnection refused",
			Assertion: recovery.Assertion{ErrorType: "timeout"},
		},
		recovery.Timeout, "longer than 900 s",
	},
	{
		"a deadline while the agent waited for a limit",
		recovery.Evidence{
			Stage: "CODE", Message: "CODE took longer than 1800 s",
			Stderr: "429 Too Many Requests, retrying", Assertion: recovery.Assertion{ErrorType: "timeout"},
		},
		recovery.RateLimited, "429",
	},
	{"a reason of Retake as an assertion", recovery.Evidence{
		ExitCode:  exit(3),
		Assertion: recovery.Assertion{ErrorType: "context_overflow"},
	}, recovery.ContextOverflow, ""},
	{"an unknown assertion", recovery.Evidence{
		ExitCode:  exit(3),
		Assertion: recovery.Assertion{ErrorType: "gremlins"},
	}, recovery.Unknown, "exit code 3"},
	{"exit 124 is timeout(1)", recovery.Evidence{ExitCode: exit(124)}, recovery.Timeout, "exit code 124"},
	{
		"a failure that was retried until the deadline is the cause",
		recovery.Evidence{ExitCode: exit(124), Stderr: limitText},
		recovery.RateLimited, "429",
	},
	{"exit 125 comes from docker", recovery.Evidence{ExitCode: exit(125)}, recovery.DockerDaemon, "exit code 125"},
	{"exit 127 comes from the shell", recovery.Evidence{ExitCode: exit(127)}, recovery.ToolNotFound, "exit code 127"},
	{
		"exit 125 whose text knows better",
		recovery.Evidence{ExitCode: exit(125), Stderr: "docker: Error response from daemon: invalid mount config " +
			"for type \"bind\": bind source path does not exist: /srv/none"},
		recovery.InvalidConfig, "/srv/none",
	},
	{
		"SIGKILL without memory evidence",
		recovery.Evidence{Signal: "SIGKILL"},
		recovery.Unknown,
		"possibly out of memory",
	},
	{"SIGSEGV", recovery.Evidence{Signal: "SIGSEGV"}, recovery.AgentCrash, "SIGSEGV"},
	{
		"a tool's own exit code",
		recovery.Evidence{Tool: "gemini-cli", ExitCode: exit(41)},
		recovery.AuthError,
		"exit code 41",
	},
	{
		"the same code of another tool",
		recovery.Evidence{Tool: "make", ExitCode: exit(41)},
		recovery.Unknown,
		"exit code 41",
	},
	{
		"a command that was killed at its deadline",
		recovery.Evidence{Unended: true, Stdout: "> build"},
		recovery.Timeout,
		"> build",
	},
	{"a command that was ended while it waited", recovery.Evidence{
		Unended: true,
		Stderr:  "ERROR: Reconnecting... waiting for network",
	}, recovery.NetworkTransient, "waiting for network"},
	{"another 4xx", recovery.Evidence{HTTPStatus: 418}, recovery.Validation, "HTTP 418"},
	{"another 5xx", recovery.Evidence{HTTPStatus: 599}, recovery.Overloaded, "HTTP 599"},
	{"a status without a failure", recovery.Evidence{HTTPStatus: 301}, recovery.Unknown, ""},
	{
		"404 of a tool",
		recovery.Evidence{HTTPStatus: 404, Message: "tool not found"},
		recovery.ToolNotFound,
		"tool not found",
	},
	{"429 whose text says both", recovery.Evidence{
		HTTPStatus: 429,
		Message:    "You exceeded your current quota\nPlease retry in 2s.",
	}, recovery.RateLimited, "retry in 2s"},
	{"a wrapper's own code beats text", recovery.Evidence{
		Tool: "gemini_headless.sh", ExitCode: exit(13),
		Stderr: "401 unauthorized",
	}, recovery.Timeout, "exit code 13"},
	{"a wrapper's general failure has no meaning", recovery.Evidence{
		Tool: "run_codex.sh", ExitCode: exit(12),
		Stderr: "401 unauthorized",
	}, recovery.AuthError, "401"},
	{"a silent check", recovery.Evidence{Stage: "VALIDATE", ExitCode: exit(1)}, recovery.TestsFailed, "no output"},
	{"a check with an unusual message", recovery.Evidence{
		Stage: "VALIDATE", ExitCode: exit(3), Stdout: "checking layout",
		Stderr: "the header is not green enough",
	}, recovery.Validation, "not green enough"},
	{"a check that ends with a traceback", recovery.Evidence{
		Stage: "VALIDATE", ExitCode: exit(1),
		Stderr: "Traceback (most recent call last):\n  File \"check.py\", line 3, in <module>\nSystemError: the " +
			"header is red",
	}, recovery.Validation, "the header is red"},
	{"a check that crashed", recovery.Evidence{
		Stage: "VALIDATE", ExitCode: exit(139), Signal: "SIGSEGV",
		Stderr: "Segmentation fault (core dumped)",
	}, recovery.TestsFailed, "Segmentation fault"},
	{
		"a check that was killed",
		recovery.Evidence{Stage: "VALIDATE", ExitCode: exit(137), Stderr: "layout: 3 of 9"},
		recovery.Unknown, "3 of 9 (killed by SIGKILL: memory ran out, or another program sent it)",
	},
	{"a check without a network", recovery.Evidence{
		Stage: "VALIDATE", ExitCode: exit(1),
		Stderr: "curl: (6) Could not resolve host: api.internal.test",
	}, recovery.NetworkPermanent, "resolve host"},
	{"a check that mentions a missing file", recovery.Evidence{
		Stage: "VALIDATE", ExitCode: exit(2),
		Stderr: "warning: widget not found\nlayout refused",
	}, recovery.Validation, "layout refused"},
	{"a check of a make file", recovery.Evidence{
		Stage: "VALIDATE", ExitCode: exit(2),
		Stderr: "layout refused\nmake: *** [Makefile:3: layout] Error 1",
	}, recovery.Validation, "Error 1"},
	{
		"a refusal in the answer",
		recovery.Evidence{
			Stage: "CODE", ExitCode: exit(0),
			Stdout: "I'm sorry, but I can't help with that request.",
		},
		recovery.PolicyViolation,
		"can't help with that",
	},
	{"a refusal in a stream's answer", recovery.Evidence{
		Stage: "CODE", ExitCode: exit(0),
		Stdout: `{"type":"result","subtype":"success","is_error":false,"result":"I'm sorry, but I can't help with that request."}`,
	}, recovery.PolicyViolation, "can't help with that"},
	{
		"a check that ends with another code and no word",
		recovery.Evidence{Stage: "VALIDATE", ExitCode: exit(2)},
		recovery.Validation, "exit code 2",
	},
	{"a claimed limit behind a name that does not exist", recovery.Evidence{
		Stage: "CODE", ExitCode: exit(1),
		Stderr: "Post \"https://api.acme.test/v1\": dial tcp: lookup api.acme.test: no such host\nError: maximum " +
			"retry attempts reached for rate limit: 8 retries",
	}, recovery.NetworkPermanent, "no such host"},
	{
		"a limit that was answered, behind a cut connection",
		recovery.Evidence{
			Stage: "CODE", ExitCode: exit(1),
			Stderr: "Error: read ECONNRESET\nERROR: exceeded retry limit, last status: 429 Too Many Requests",
		},
		recovery.RateLimited, "429",
	},
	{"a silent agent", recovery.Evidence{Stage: "CODE", ExitCode: exit(1)}, recovery.Unknown, "exit code 1"},
	{"exit 0 is not success", recovery.Evidence{ExitCode: exit(0)}, recovery.NoProgress, "changed nothing"},
	{"nothing at all", recovery.Evidence{}, recovery.Unknown, "the evidence does not explain"},
}

// TestClassifyOrder checks which evidence decides.
func TestClassifyOrder(t *testing.T) {
	for _, tc := range classifyOrderCases {
		t.Run(tc.name, func(t *testing.T) {
			f := newClassifier(t).Classify(tc.e)
			if f.Reason != tc.want || !strings.Contains(f.Cause, tc.cause) {
				t.Errorf("%s (%q) by %s, want %s (%q)", f.Reason, f.Cause, f.Rule, tc.want, tc.cause)
			}
		})
	}
}

// TestExplain lists the alternatives in order, with the reason why each lost.
func TestExplain(t *testing.T) {
	e := recovery.Evidence{
		ExitCode: exit(124),
		Stderr: "dial tcp: connection refused, retrying in 2s\n" +
			"fatal: unable to access 'https://x/': The requested URL returned error: 503\n" +
			"EACCES: permission denied\n" +
			"Error: Bad credentials, permission denied\n" +
			"the build failed\n",
		Assertion: recovery.Assertion{ErrorType: "tests_failed"},
	}
	c := newClassifier(t)
	f, got := c.Explain(e)
	if want := c.Classify(e); f != want {
		t.Errorf("%+v, classified as %+v", f, want)
	}
	want := []struct {
		reason recovery.Reason
		lost   string
	}{
		{recovery.AuthError, ""},
		{recovery.PermissionDenied, "matches earlier on the same line"},
		{recovery.Overloaded, "text failure takes precedence over text status"},
		{recovery.Timeout, "text failure takes precedence over exit code"},
		{recovery.NetworkTransient, "text failure takes precedence over retries and advice"},
		{recovery.BuildFailed, "text failure takes precedence over text prose"},
		{recovery.TestsFailed, "text failure takes precedence over assertion"},
		{recovery.Validation, "text failure takes precedence over text guess"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d considered, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.Reason != w.reason || !strings.Contains(g.Lost, w.lost) || (g.Lost == "") != (w.lost == "") ||
			g.Rule == "" || g.Line == "" && w.reason != recovery.TestsFailed {
			t.Errorf("%d: %+v, want %s: %s", i, g, w.reason, w.lost)
		}
	}
	if f, got := c.Explain(recovery.Evidence{}); f.Reason != recovery.Unknown || len(got) != 1 || got[0].Lost != "" {
		t.Errorf("nothing: %+v, %+v", f, got)
	}
	if _, got := c.Explain(recovery.Evidence{Stdout: "--- FAIL: TestA (0s)\n--- FAIL: TestB (0s)\n3 problems " +
		"(1 errors)\n"}); len(got) < 2 || got[0].Lost != "" || got[1].Lost == "" {
		t.Errorf("a first line: %+v", got)
	}
}

func TestBuiltInExamples(t *testing.T) {
	if _, err := New(nil); err != nil { // with any extra document, New checks all examples
		t.Error(err)
	}
}

func TestNewClassifierRefuses(t *testing.T) {
	good := "[[rule]]\nid='x'\nreason='timeout'\nband='failure'\nany=['zzz']\nwhy='w'\nexamples=['zzz']\n"
	for _, tc := range []struct{ name, doc, says string }{
		{"no TOML", "[[rule", "document 1: 1:6: not TOML"},
		{"an unknown key", good + "prio=3\n", "prio"},
		{"the same id twice", good + good, "twice"},
		{"an unknown reason", strings.Replace(good, "timeout", "tired", 1), "tired"},
		{"an unknown band", strings.Replace(good, "failure", "brass", 1), "brass"},
		{"no example", strings.Replace(good, "['zzz']\n", "[]\n", 2), "required"},
		{"no literal", strings.Replace(good, "any=['zzz']", "any=[]", 1), "literal"},
		{"an upper-case literal", strings.Replace(good, "any=['zzz']", "any=['ZZZ']", 1), "lower case"},
		{"not RE2", good + "match='(?=x)'\n", "match"},
		{
			"an example that the rule does not match", strings.Replace(good, "examples=['zzz']", "examples=['yyy']", 1),
			"is classified as unknown",
		},
		{
			"an example that a stronger rule takes",
			strings.Replace(good, "examples=['zzz']", "examples=['--- FAIL: zzz']", 1), "go.test",
		},
		{
			"a rule that matches the examples of another rule",
			strings.Replace(good, "['zzz']", "['bad credentials', 'zzz']", 1),
			`built-in: rule "auth.credentials": example`,
		},
		{
			"the rule that matches them", strings.Replace(good, "['zzz']", "['bad credentials', 'zzz']", 1),
			`by rule "x" of document 1`,
		},
		{"an empty beginning of advice", "[chatter]\nbegins=['']\n", "chatter.begins[0]"},
		{"chatter in upper case", "[chatter]\nany=['Will Be Back']\n", "lower case"},
		{
			"a rule that takes a provider's example",
			strings.NewReplacer("any=['zzz']", "any=['input is too long for requested', 'zzz']", "failure",
				"check").Replace(good), `document 1: 5:1: rule[0].any: providers: rule "bedrock.context"`,
		},
		{"a status without a reason", "[[status]]\ncode=418\nreason='teapot'\n", "teapot"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New([]byte(tc.doc))
			if !errors.Is(err, ErrRules) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want one about %q", err, tc.says)
			}
		})
	}
}

func TestExtraRulesAddAndReplace(t *testing.T) {
	c, err := New([]byte(`
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
	if f := c.Classify(recovery.Evidence{Stderr: "Deploy Window is closed"}); f.Reason != recovery.NeedsHuman ||
		f.Rule != "acme.deploy" {
		t.Errorf("%s by %s", f.Reason, f.Rule)
	}
	if f := c.Classify(recovery.Evidence{Stderr: "panic: x"}); f.Reason != recovery.Unknown || f.Rule != "crash" {
		t.Errorf("%s by %s", f.Reason, f.Rule)
	}
}

// TestEveryReasonIsReachable checks that Classify keeps every reason that the director knows. It logs reasons without a
// rule.
func TestEveryReasonIsReachable(t *testing.T) {
	c := newClassifier(t)
	seen := map[recovery.Reason]bool{}
	for _, r := range c.rules {
		seen[r.Reason] = true
	}
	for _, a := range recovery.Reasons {
		known := c.Classify(recovery.Evidence{Known: a.Reason})
		if known.Reason != a.Reason || known.Cause == "" {
			t.Errorf("known %s is read as %+v", a.Reason, known)
		}
		if !seen[a.Reason] {
			t.Logf("no rule leads to %s", a.Reason)
		}
	}
}
