// Package recoverytest holds test data for package recovery and its subpackages. It does not import them, so that their
// tests can import it.
package recoverytest

import "strings"

// Tricky lists texts that have broken failure parsing.
var Tricky = []string{
	"", "\x00", "\xff\xfe\x00", "\x1b", "\x1b[", "\x1b[31", "\x1b[31m\xff\x00", "\x1b]0;t", "\x1b]0;t\n", "\x1b\n[31m",
	"\r\r\n", "é\xcc", "\u2028", "\u202f",
	"Error: 429", "try again in 99999999999999999 days", "limit reached|9999999999", "retry-after: 1e300",
	"resets at 9999-12-31T23:59:59Z",
	"resets Feb 31 25:61 (Europe/", "resets 3pm (Europe/Warsaw)", "x-ratelimit-remaining: 0\nx-ratelimit-reset: -1",
	"retry in 1h2m3.5s ago", "again in a",
	"Your limit will reset at 0000-00-00 00:00:60+99:99", "Retry-After: Sat, 99 Nov 99999 99:99:99 GMT", "|1760000400",
	"\"retryDelay\": \"\"",
	`{"type":"error","message":1e999}`, `[{"error":{"data":[]}}]`, `{"error":{"error":{"error":{"message":"x"}}}}`,
	strings.Repeat("a.go:1:2: undefined: x\n", 50), strings.Repeat("[", 5000), strings.Repeat("x", 10<<10) + "\n429",
	"http://", "http://<n>@<n>:<n>/", "C:\\", "~/", "////", "2026-02-18T", "worker abcdefgh-1", "Bearer ", "0x",
	"1.2.3.", "12µ", "<path>/a.go",
}

// Tail returns n bytes that resemble a failed run's output: noise followed by the reason.
func Tail(n int) string {
	const noise = "=== RUN   TestWidget/case_17\n    widget.go:31: fetching http://127.0.0.1:4711/v1/items?page=2 " +
		"(attempt 3)\n--- PASS: TestWidget/case_17 (0.01s)\n"
	const end = "error: failed to push some refs to 'origin'\nfatal: unable to access 'https://x/': Connection " +
		"reset by peer\n"
	return strings.Repeat(noise, n/len(noise)+1)[:n-len(end)] + end
}

// Hostile returns n bytes in which every line contains literals from many rules, and words that announce a time.
func Hostile(n int) string {
	const line = "error config certificate timeout http status model unknown token .go: .c: x problem found in, " +
		"retry after reset in wait until\n"
	return strings.Repeat(line, n/len(line)+1)[:n]
}

// Stream returns n bytes of an agent's JSON events, ending with an error.
func Stream(n int) string {
	const event = `{"type":"assistant","message":{"content":[{"type":"text","text":"I run the tests; error: 429 is asserted in widget_test.go:31."}]},"session_id":"ses_e00b31b83ffeirO4A27tZp4zge"}` + "\n"
	const end = `{"type":"result","is_error":true,"result":"Claude AI usage limit reached|1795269600"}` + "\n"
	return strings.Repeat(event, n/len(event)+1)[:n-len(end)] + end
}
