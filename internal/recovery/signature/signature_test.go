package signature

import (
	"regexp"
	"strings"
	"testing"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

var signatureIgnoresWhatVariesCases = []struct{ name, a, b string }{
	{"times", "2026-02-18T12:00:00Z boom", "2026-02-19T13:01:02.345+02:00 boom"},
	{"times with a blank", "2026-02-18 12:00:00 boom", "2026-02-19 12:00:01,25 boom"},
	{"clock", "[12:00:01] boom", "[23:59:59.123] boom"},
	{"epochs", "at 1771416000 boom", "at 1771416999123 boom"},
	{"durations", "--- FAIL: TestX (0.00s)", "--- FAIL: TestX (1.25s)"},
	{"composed durations", "gave up after 1m0s", "gave up after 2h3m4.5s"},
	{"uuids", "req 3f2504e0-4f89-11d3-9a0c-0305e82c3301 failed", "req 6BA7B810-9DAD-11D1-80B4-00C04FD430C8 failed"},
	{"addresses", "panic at 0xc000123456", "panic at 0xdeadbeef"},
	{
		"hashes", "object da2a5b845bb9603ca1429e7595dc5ac40a74f99e is corrupt",
		"object 0123456789abcdef0123456789abcdef01234567 is corrupt",
	},
	{
		"ports", "dial tcp 127.0.0.1:9999: connect: connection refused",
		"dial tcp 127.0.0.1:41311: connect: connection refused",
	},
	{
		"ports and paths of addresses", "Get \"http://localhost:9999/a/b?x=1\": EOF",
		"Get \"http://localhost:1/c\": EOF",
	},
	{"pids", "bash: line 1: 28990 Killed", "bash: line 1: 7 Killed"},
	{"line and column", "./widget.go:7:2: undefined: foo", "./widget.go:31:14: undefined: foo"},
	{"absolute paths", "cannot read /home/a/r/task/abc/o", "cannot read /srv/b/o"},
	{"temporary paths", "copying /tmp/go-build80325/b001/a.out: full", "copying /var/tmp/go-build1/b1/a.out: full"},
	{"tokens", "bad sk-abcdefghijklmn end", "bad ghp_abcdefghijkl end"},
	{"request ids", "failed (req_011CZ8Xk2vQbM3s9tYw4nR7p)", "failed (req_0998abcdEFGH0998abcd)"},
	{"attempts", "worker k3v9qx2m-1 gone", "worker abcdefgh-12 gone"},
	{"issues", "task acme/widgets#21 failed", "task acme/widgets#4 failed"},
	{"attempts without a digit", "worker abcdefgh-1 gone", "worker zyxwvuts-12 gone"},
	{
		"stamps in names", "log gemini-error-2026-11-21T18-02-31-138Z.json",
		"log gemini-error-2026-12-01T08-12-01-001Z.json",
	},
	{"run ids", "run_20261121-095900Z failed", "run_20261122-101112Z failed"},
	{"dates of syslog", "Nov 21 10:00:00 host app[123]: boom", "Dec  3 23:59:59 host app[7]: boom"},
	{"dates of HTTP", "date: Sat, 21 Nov 2026 10:02:00 GMT", "date: Sun, 22 Nov 2026 10:03:00 GMT"},
	{"dates of access logs", "[21/Nov/2026:10:02:00 +0000] boom", "[02/Dec/2026:11:02:00 +0000] boom"},
	{"twelve hours", "failed at 3:05 PM", "failed at 11:45 AM"},
	{"short hashes", "object da2a5b8 is corrupt", "object 0123456 is corrupt"},
	{"upper-case hashes", "sha DA2A5B845BB9603C", "sha 0123456789ABCDEF"},
	{"bearers", "Authorization: Bearer abc.def-ghijkl", "Authorization: Bearer 0123456789abcdef"},
	{"web tokens", "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc bad", "jwt eyJ0eXAiOiJKV1QiLCJ.eyJzdWIiOiIy.xyz bad"},
	{
		"long random words", "trace 4bf92f3577b34da6a3ce929d0e0e4736 and CZ8Xk2vQbM3s9tYw4nR7p",
		"trace 00f067aa0ba902b700f067aa0ba902b7 and aB1cD2eF3gH4iJ5kL6mN7o",
	},
	{"agents' ids", `"sessionID":"ses_e00b31b83ffeirO4A27tZp4zge"`, `"sessionID":"ses_f11c42c94ggfjsP5B38uAq5ahf"`},
	{
		"credentials in addresses", "fatal: https://x-token:abc123@github.com/a/b.git",
		"fatal: https://github.com/a/b.git",
	},
	{"addresses of hosts", "dial http://10.0.0.5:80/x", "dial http://192.168.7.12:8080/y"},
	{"home folders", "/home/ann/p/src/widget.go:7:2: boom", "/Users/bob/q/src/widget.go:31:14: boom"},
	{"Windows paths", `C:\Users\ann\widget.go(7): boom`, `D:\b\widget.go(12): boom`},
	{"file addresses", "at file:///home/ann/x/main.js:3:4", "at file:///srv/main.js:5:6"},
	{"relative temporary paths", "cannot read .tmp/task/20260218-001/o", "cannot read .tmp/task/7/o"},
	{"sizes", "heap out of memory at 512MB", "heap out of memory at 1.5GiB"},
	{"micro", "took 837µs", "took 1.2ms"},
	{"counts", "3 of 12 failed", "5 of 14 failed"},
	{"colours and blank lines", "\x1b[31merror\x1b[0m:  boom\n\n", "error: boom"},
	{"text after the first 500 characters", strings.Repeat("x", 600) + "A", strings.Repeat("x", 600) + "B"},
	{"text after the first 100 lines", strings.Repeat("\n", 100) + "A", strings.Repeat("\n", 100) + "B"},
}

func TestSignatureIgnoresWhatVaries(t *testing.T) {
	for _, tc := range signatureIgnoresWhatVariesCases {
		t.Run(tc.name, func(t *testing.T) {
			a, b := recovery.Evidence{Stderr: tc.a}, recovery.Evidence{Stderr: tc.b}
			if Of(a, recovery.Unknown) != Of(b, recovery.Unknown) {
				t.Errorf("%q and %q differ", normalise(plaintext.Clean(tc.a)), normalise(plaintext.Clean(tc.b)))
			}
		})
	}
}

func TestSignatureKeepsWhatTells(t *testing.T) {
	base := recovery.Evidence{Stage: "CODE", Stderr: "undefined: foo"}
	other := base
	other.Stderr = "undefined: bar"
	stage := base
	stage.Stage = "VALIDATE"
	if s := Of(base, recovery.BuildFailed); s == Of(other, recovery.BuildFailed) ||
		s == Of(stage, recovery.BuildFailed) || s == Of(base, recovery.Unknown) {
		t.Error("text, stage and reason must each distinguish failures")
	}
	for _, tc := range []struct{ name, a, b string }{
		{"statuses", "HTTP 401 from the API", "HTTP 403 from the API"},
		{"statuses with a phrase", "failed: 502 Bad Gateway", "failed: 503 Service Unavailable"},
		{"statuses of curl", "The requested URL returned error: 401", "The requested URL returned error: 404"},
		{"statuses as data", `{"statusCode":429}`, `{"statusCode":500}`},
		{"statuses of a version", "HTTP/1.1 401", "HTTP/1.1 407"},
		{"exit codes", "exit status 1", "exit status 137"},
		{"exit codes as data", "exit_code=2", "exit_code=127"},
		{"compilers' codes", "error[E0308]: mismatched", "error[E0382]: mismatched"},
		{"identifiers", "undefined: parseHeader1", "undefined: parseHeader2"},
		{"identifiers like ids", "undefined: run_integration_suite", "undefined: run_migration_suite"},
		{"names of tests", "--- FAIL: TestA/case_1 (0.00s)", "--- FAIL: TestA/case_2 (0.00s)"},
		{"subtests by number", "--- FAIL: TestA/1 (0.00s)", "--- FAIL: TestA/2 (0.00s)"},
		{"long names of tests", "TestParseV2HeaderWithX509Chain failed", "TestParseV2TrailerWithX509Chain failed"},
		{"services", "container postgres-1 is unhealthy", "container rabbitmq-1 is unhealthy"},
		{"hosts", "cannot reach https://api.openai.com/v1", "cannot reach https://api.anthropic.com/v1"},
		{"files", "/home/a/src/parser.go:7: boom", "/home/a/src/lexer.go:7: boom"},
		{"short words behind a prefix", "bad sk-abc end", "bad sk-abd end"},
		{"packages", "no module named left_pad", "no module named right_pad"},
	} {
		if Of(recovery.Evidence{Stderr: tc.a}, recovery.Unknown) == Of(recovery.Evidence{Stderr: tc.b},
			recovery.Unknown) {
			t.Errorf("%s: both %q and %q become %q", tc.name, tc.a, tc.b, normalise(tc.a))
		}
	}
	empty := recovery.Evidence{Stage: "CODE"}
	if Of(empty, recovery.Timeout) == Of(empty, recovery.Unknown) {
		t.Error("empty output makes unrelated failures equal")
	}
	if a, b := Of(recovery.Evidence{Stdout: "x"}, recovery.Unknown), Of(recovery.Evidence{Message: "y"},
		recovery.Unknown); a == b {
		t.Error("without stderr, the other texts must distinguish failures")
	}
	if s := Of(base, recovery.BuildFailed); !regexp.MustCompile(`^sig:[0-9a-f]{16}$`).MatchString(s) {
		t.Errorf("%q", s)
	}
}

func TestNormaliseIsStable(t *testing.T) {
	for _, s := range []string{"2026-02-18T12:00:00Z /a/b 0xff 12s k3v9qx2m-1 a/b#3 http://x:1/y", ""} {
		if once := normalise(s); normalise(once) != once {
			t.Errorf("%q becomes %q becomes %q", s, once, normalise(once))
		}
	}
}
