package agent

import (
	"slices"
	"strings"
	"testing"
)

// TestQuotedError finds a provider's error anywhere in a text.
func TestQuotedError(t *testing.T) {
	const body = `{"error":{"message":"too long","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`
	for _, tc := range []struct {
		name, line string
		status     int
		code       string
	}{
		{"behind words", "API Error: 400 " + body, 400, "context_length_exceeded"},
		{"words behind it", "Attempt 5 failed: " + body + ". Max attempts reached", 0, "context_length_exceeded"},
		{"behind another brace", "call {x} failed with (429): " + body, 429, "context_length_exceeded"},
		{"cut off in a name", "error: " + body[:len(body)-20], 0, ""},
		{
			"cut off in a text", `error: {"error":{"code":"context_length_exceeded","message":"too long`, 0,
			"context_length_exceeded",
		},
		{
			"as a text of another one",
			`x: {"error":{"message":"{\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}","status":400}}`, 400, "context_length_exceeded",
		},
		{
			"by Python",
			`openai.BadRequestError: Error code: 400 - {'error': {'message': "too long", 'type': 'x', 'param': None, 'code': 'context_length_exceeded'}}`, 400, "context_length_exceeded",
		},
		{
			"by Python, with an escape", `{'error': {'message': "too\xa0long", 'code': 'context_length_exceeded'}}`, 0,
			"context_length_exceeded",
		},
		{"without an object around it", `529 {"type":"overloaded_error","message":"too long"}`, 529, "overloaded_error"},
		{
			"without an object around it, by Python",
			`APIStatusError: {'type': 'insufficient_quota', 'message': 'too long', 'param': None}`, 0,
			"insufficient_quota",
		},
	} {
		f, ok := quotedError(tc.line)
		if !ok || strings.ReplaceAll(f.Message, "\u00a0", " ") != "too long" || f.Status != tc.status ||
			tc.code != "" && !slices.Contains(f.Names, tc.code) {
			t.Errorf("%s: %v %+v", tc.name, ok, f)
		}
	}
	for _, line := range []string{
		"", "{", "{}", `{"`, `{"error":`, `{"error":{}}`, `{"error":"x"}`,
		`{"type":"rate_limit_error"}`, `{"type":"x","message":"y"}`,
		`{"type":"syntax_error","message":"y","file":"a.py","line":1}`,
		`got {"a":1}, want {"b":2}`, "func f() {", `{'a`, strings.Repeat(`{"`, 1000),
	} {
		if f, ok := quotedError(line); ok {
			t.Errorf("%q: %+v", line, f)
		}
	}
}

// TestTailQuotes checks that errors quoted in text are returned with their lines, but not events or whole documents.
func TestTailQuotes(t *testing.T) {
	const body = `{"error":{"message":"boom"}}`
	var o Outcome
	tail := readTail("x\nAPI Error: 529 "+body+"\n"+`{"type":"error","message":"an event"}`, &o)
	if len(tail.Quoted) != 1 || tail.Quoted[0].Line != 1 || tail.Quoted[0].Status != 529 ||
		tail.Quoted[0].Message != "boom" {
		t.Errorf("%+v", tail.Quoted)
	}
	o = Outcome{}
	readTail(`{"type":"overloaded_error","message":"boom"}`, &o)
	if f := o.FinalFailure(); f == nil || f.Message != "boom" || !slices.Contains(f.Names, "overloaded_error") {
		t.Errorf("a bare error: %+v", f)
	}
	o = Outcome{}
	readTail("API Error: 400 {\n  \"error\": {\n    \"message\": \"boom\"\n  }\n}", &o)
	if f := o.FinalFailure(); f == nil || f.Message != "boom" {
		t.Errorf("after words, on several lines: %+v", f)
	}
}
