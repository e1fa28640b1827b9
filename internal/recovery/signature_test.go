package recovery

import (
	"regexp"
	"strings"
	"testing"
)

func TestSignatureIgnoresWhatVaries(t *testing.T) {
	for _, tc := range []struct{ name, a, b string }{
		{"times", "2026-02-18T12:00:00Z boom", "2026-02-19T13:01:02.345+02:00 boom"},
		{"times with a blank", "2026-02-18 12:00:00 boom", "2026-02-19 12:00:01,25 boom"},
		{"clock", "[12:00:01] boom", "[23:59:59.123] boom"},
		{"epochs", "at 1771416000 boom", "at 1771416999123 boom"},
		{"durations", "--- FAIL: TestX (0.00s)", "--- FAIL: TestX (1.25s)"},
		{"composed durations", "gave up after 1m0s", "gave up after 2h3m4.5s"},
		{"uuids", "req 3f2504e0-4f89-11d3-9a0c-0305e82c3301 failed", "req 6BA7B810-9DAD-11D1-80B4-00C04FD430C8 failed"},
		{"addresses", "panic at 0xc000123456", "panic at 0xdeadbeef"},
		{"hashes", "object da2a5b845bb9603ca1429e7595dc5ac40a74f99e is corrupt", "object 0123456789abcdef0123456789abcdef01234567 is corrupt"},
		{"ports", "dial tcp 127.0.0.1:9999: connect: connection refused", "dial tcp 127.0.0.1:41311: connect: connection refused"},
		{"ports and paths of addresses", "Get \"http://localhost:9999/a/b?x=1\": EOF", "Get \"http://localhost:1/c\": EOF"},
		{"pids", "bash: line 1: 28990 Killed", "bash: line 1: 7 Killed"},
		{"line and column", "./widget.go:7:2: undefined: foo", "./widget.go:31:14: undefined: foo"},
		{"absolute paths", "cannot read /home/a/r/task/abc/o", "cannot read /srv/b/o"},
		{"temporary paths", "copying /tmp/go-build80325/b001/a.out: full", "copying /var/tmp/go-build1/b1/a.out: full"},
		{"tokens", "bad sk-abcdefghijklmn end", "bad ghp_abcdefghijkl end"},
		{"request ids", "failed (req_011CZ8Xk2vQbM3s9tYw4nR7p)", "failed (req_0998abcdEFGH0998abcd)"},
		{"attempts", "worker k3v9qx2m-1 gone", "worker abcdefgh-12 gone"},
		{"issues", "task acme/widgets#21 failed", "task acme/widgets#4 failed"},
		{"colours and blank lines", "\x1b[31merror\x1b[0m:  boom\n\n", "error: boom"},
		{"what follows the first 500 characters", strings.Repeat("x", 600) + "A", strings.Repeat("x", 600) + "B"},
		{"what follows the first 100 lines", strings.Repeat("\n", 100) + "A", strings.Repeat("\n", 100) + "B"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := Evidence{Stderr: tc.a}, Evidence{Stderr: tc.b}
			if Signature(a, Unknown) != Signature(b, Unknown) {
				t.Errorf("%q and %q differ", normalise(tc.a), normalise(tc.b))
			}
		})
	}
}

func TestSignatureKeepsWhatTells(t *testing.T) {
	base := Evidence{Stage: "CODE", Stderr: "undefined: foo"}
	other := base
	other.Stderr = "undefined: bar"
	stage := base
	stage.Stage = "VALIDATE"
	if s := Signature(base, BuildFailed); s == Signature(other, BuildFailed) || s == Signature(stage, BuildFailed) || s == Signature(base, Unknown) {
		t.Error("text, stage and reason must tell failures apart")
	}
	empty := Evidence{Stage: "CODE"}
	if Signature(empty, Timeout) == Signature(empty, Unknown) {
		t.Error("empty output makes unrelated failures equal")
	}
	if a, b := Signature(Evidence{Stdout: "x"}, Unknown), Signature(Evidence{Message: "y"}, Unknown); a == b {
		t.Error("without stderr the other texts must tell")
	}
	if s := Signature(base, BuildFailed); !regexp.MustCompile(`^sig:[0-9a-f]{16}$`).MatchString(s) {
		t.Errorf("%q", s)
	}
}

func TestNormaliseIsStable(t *testing.T) {
	for _, s := range []string{"2026-02-18T12:00:00Z /a/b 0xff 12s k3v9qx2m-1 a/b#3 http://x:1/y", "", "\xff\x1b["} {
		if once := normalise(s); normalise(once) != once {
			t.Errorf("%q becomes %q becomes %q", s, once, normalise(once))
		}
	}
}

func BenchmarkSignature(b *testing.B) {
	e := Evidence{Stage: "VALIDATE", Stderr: tail(64 << 10)}
	b.ReportAllocs()
	for b.Loop() {
		Signature(e, NetworkTransient)
	}
}
