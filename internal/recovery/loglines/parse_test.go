package loglines

import "testing"

// TestParse parses the common shapes of log lines.
func TestParse(t *testing.T) {
	for _, tc := range []struct {
		line    string
		level   Level
		message string
	}{
		{"2026/11/22 02:03:01 WARN FZF not found in $PATH", Warning, "FZF not found in $PATH"},
		{"2026-11-22T02:03:01Z  WARN mod::client: slow", Warning, "slow"},
		{"2026-11-22T02:03:01.359029Z ERROR codex_api::endpoint: failed to connect", Error, "failed to connect"},
		{"2026-11-22 02:03:01,123 - name - WARNING - msg", Warning, "msg"},
		{"WARNING:root:msg", Warning, "msg"},
		{"ERROR:app.client:HTTP 429", Error, "HTTP 429"},
		{`time=2026-11-22T02:03:01Z level=warn msg="a \"b\"" err="dial tcp"`, Warning, `a "b": dial tcp`},
		{`level=error msg="request failed" status=429`, Error, "request failed\nstatus=429"},
		{`time="2026-11-22T02:03:01Z" level=fatal msg=boom`, Error, "boom"},
		{`{"level":"warn","ts":1.5,"caller":"a.go:1","msg":"slow"}`, Warning, "slow"},
		{`{"level":50,"time":1,"pid":2,"hostname":"h","msg":"boom"}`, Error, "boom"},
		{`{"severity":"ERROR","message":"boom","status":529}`, Error, "boom\nstatus=529"},
		{
			`{"level":"error","msg":"limit reached","resets_at":1760000400}`, Error,
			"limit reached\nresets_at=1760000400",
		},
		{`{"level":30,"msg":"x","limit":{"resets_at":1760000400123}}`, Info, "x\n" +
			`{"limit":{"resets_at":1760000400123}}`},
		{"level=error msg=boom dial tcp: connection refused", Error, "boom\ndial tcp: connection refused"},
		{`{"lvl":"info","msg":"x","error":{"code":1}}`, Info, "x\n" + `{"error":{"code":1}}`},
		{"W1122 02:03:01.123456    4711 main.go:31] slow", Warning, "slow"},
		{"E20261122 02:03:01.123456 4711 main.cc:31] boom", Error, "boom"},
		{"2026-11-22T02:03:01.123+0100\tERROR\tapp/main.go:31\tboom", Error, "boom"},
		{"2026-11-22 02:03:01.123 [main] WARN  com.acme.App - slow", Warning, "slow"},
		{"2026-11-22 02:03:01.123 ERROR 4711 --- [main] com.acme.App : boom", Error, "boom"},
		{"2026-11-22 02:03:01.123 | INFO     | __main__:main:31 - x", Info, "x"},
		{"02:03:01.123 [error] boom", Error, "boom"},
		{"[02:03:01 WRN] slow", Warning, "slow"},
		{"W, [2026-11-22T02:03:01.1 #47]  WARN -- : slow", Warning, "slow"},
		{"Nov 22 02:03:01 host app[47]: boom", None, "boom"},
		{"<34>1 2026-11-22T02:03:01Z host app 47 - - boom", None, "boom"},
		{"[Sun Nov 22 02:03:01.123456 2026] [core:error] [pid 31] boom", Error, "boom"},
		{"2026/11/22 02:03:01 boom", None, "boom"},
		{"2026-11-22 02:03:01 ERROR   1:7 error x", Error, "  1:7 error x"},
		{"2026-11-22 02:03:01 error: boom", Error, "error: boom"},
	} {
		message, level, ok := Parse(tc.line)
		if !ok || level != tc.level || message != tc.message {
			t.Errorf("%q: %q, level %d, %v; want %q, level %d", tc.line, message, level, ok, tc.message, tc.level)
		}
	}
	for _, line := range []string{
		"", "error: boom", "ERROR: boom", "12:30:45 is the time", "02:03", "[ERROR] COMPILATION ERROR :", "W, x",
		"E AssertionError: boom at 1",
		"level=7", `{"level":"error"}`, `{"type":"error","message":"x"}`, "a.go:7:2: undefined: foo",
		"2026-11-22 02:03", "2026-11-22T02:03:01Zx: y",
	} {
		if message, level, ok := Parse(line); ok || message != line || level != None {
			t.Errorf("%q was parsed as a log line: %q, level %d", line, message, level)
		}
	}
}
