package loglines

import (
	"strings"
	"testing"
)

// TestRead checks that wrapped, framed and quoted text is restored, and that lists are not joined.
func TestRead(t *testing.T) {
	const long = `API Error: 400 {"error":{"message":"This model's maximum context length is 128000 tokens.","code":"context_length_exceeded"}}`
	for _, tc := range []struct{ name, text, want string }{
		{"cut at 60", long[:60] + "\n" + long[60:120] + "\n" + long[120:], long},
		{"in a frame", "╭──────╮\n│ " + long[:60] + " │\n│ " + long[60:120] + " │\n│ " + long[120:] +
			"       │\n╰──────╯", "\n" + long + "\n"},
		{
			"at blanks", "Your account has reached the limit of requests that this\nmodel answers within one minute, " +
				"so please try it again\nlater.",
			"Your account has reached the limit of requests that this model answers within one minute, so please try " +
				"it again later.",
		},
		{
			"at blanks, indented", "Your account has reached the limit of requests that this\n  model answers " +
				"within one minute.",
			"Your account has reached the limit of requests that this model answers within one minute.",
		},
		{"a text in JSON", `"a\n\tb \"c\"\n"`, "a\n\tb \"c\""},
		{"a text in JSON in JSON", `"\"a\\nb\\n\"\n"`, "a\nb"},
		{"texts of an object", `{"stdout":"a\nb\n","stderr":"c"}`, "c\na\nb"},
		{"a logger's message", `{"level":"error","msg":"a\nb"}`, "a\nb"},
		{"a margin", "  a\n    b\n\n  c", "a\n  b\n\nc"},
	} {
		if got := Read(tc.text, func(string, string, string) int { return 0 }); got.Text != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got.Text, tc.want)
		}
	}
	for name, text := range map[string]string{
		"a list of findings": "internal/agent/reader.go:213:2: undefined: something that is not\n" +
			"internal/agent/reader.go:214:2: undefined: something that is not\nmake: *** [Makefile:2: all] Error 1",
		"messages of git": "error: failed to push some refs to 'https://github.com/acme/app.git'\nhint: Updates " +
			"were rejected because the remote contains work that\nhint: you do not have locally.",
		"sentences": "The first sentence is the longest one of them and ends with a dot.\nThe second one " +
			"is shorter.\nA third.",
		"items": "The following things are missing, and each of them is a problem\n- the first of them " +
			"is something\n- the second",
		"a path of Windows": `C:\new\table`,
		"an event":          `{"type":"error","message":"a\nb"}`,
		"a trace": "Traceback (most recent call last):\n  File \"/usr/lib/python3.11/http/client.py\", " +
			"line 632, in _safe_read\n    raise IncompleteRead(data)",
		"JSON on many lines": "{\n  \"error\": {\n    \"message\": \"a message that is as long as the text is wide, " +
			"or longer\",\n    \"code\": 1\n  }\n}",
		"one line": strings.Repeat("word ", 30),
		"lines of equal size": strings.Repeat(
			"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", 3),
	} {
		if got := Read(text, func(string, string, string) int { return 0 }); got.Text != text {
			t.Errorf("%s: %q becomes %q", name, text, got.Text)
		}
	}
}

// FuzzRead checks that Read is deterministic for any text, and returns at most four lines per byte.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"", "\n", "2026-11-22T02:03:01Z ERROR x", "│ a │", `"\n"`,
		`{"level":"error","msg":"\n"}`, strings.Repeat("x", 60) + "\n" + strings.Repeat("y ", 40), "level=error msg=\"",
		"\\", `"\u00`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		got := Read(s, func(string, string, string) int { return len(s) % 2 })
		if again := Read(s, func(string, string, string) int { return len(s) % 2 }); again.Text != got.Text {
			t.Errorf("%q, then %q", got.Text, again.Text)
		}
		if n := strings.Count(got.Text, "\n"); n > 4*len(s) {
			t.Errorf("%d lines of %d bytes", n, len(s))
		}
		got.Level(strings.Count(got.Text, "\n"))
	})
}
