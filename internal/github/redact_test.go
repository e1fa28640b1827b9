package github

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"pgregory.net/rapid"
)

// Secrets are put together here, so that no scanner takes this file for a leak.
var (
	ghToken   = "ghp" + "_" + strings.Repeat("aB3d", 9)
	finePat   = "github" + "_pat_" + strings.Repeat("11ABCDE_", 8)
	antToken  = "sk" + "-ant-" + "api03-" + strings.Repeat("xY9-", 12)
	openToken = "sk" + "-proj-" + strings.Repeat("Ab1_", 12)
	awsID     = "AKIA" + "IOSFODNN7EXAMPLE"
	slack     = "xoxb" + "-123456789012-" + strings.Repeat("a1B2", 6)
	jwt       = "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N"
	keyBody   = strings.Repeat("MIIEowIBAAKCAQEA7bq/Zk1x+9Xw0fTt3yUq8nB2cVdEhGjKlMnOpQrS\n", 3)
	keyBlock  = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + keyBody + "-----END RSA " + "PRIVATE KEY-----"
)

func TestSecretsAreMasked(t *testing.T) {
	r := newRedactor([]string{"correct-horse-battery", "abc", "pa ss/word+1"})
	for name, tc := range map[string]struct{ in, gone string }{
		"known value":                 {"it said correct-horse-battery twice: correct-horse-battery", "correct-horse"},
		"known value, url-escaped":    {"GET /?x=pa+ss%2Fword%2B1", "ss%2Fword"},
		"known value, in base64":      {"Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5 is it", "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"},
		"known value, coloured":       {"correct-\x1b[31mhorse-\x1b[0mbattery", "horse"},
		"end of a known value, cut":   {"rse-battery\nnext line", "rse-battery"},
		"start of a known value, cut": {"line\ncorrect-horse-b", "correct-horse-b"},
		"github":                      {"fatal: " + ghToken, ghToken},
		"github, fine-grained":        {finePat, finePat[:20]},
		"anthropic":                   {"key " + antToken + ".", antToken},
		"openai":                      {openToken, openToken},
		"aws":                         {awsID, awsID},
		"slack":                       {slack, slack},
		"jwt":                         {"token is " + jwt, "eyJzdWIi"},
		"private key":                 {"x\n" + keyBlock + "\ny", "MIIEow"},
		"private key, end cut":        {keyBlock[:90], "MIIEow"},
		"private key, start cut":      {keyBlock[40:], "7bq/Zk1x"},
		"password in a url":           {"postgres://app:hunter2@db:5432/x", "hunter2"},
		"password with @ in a url":    {"https://app:hun@ter2@db/x", "ter2"},
		"token in a url":              {"https://0123456789abcdef0123@github.com/a/b", "0123456789abcdef"},
		"authorization header":        {"Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"},
		"authorization in curl":       {`curl -H "authorization: token abc123" https://x`, "abc123"},
		"authorization in json":       {`{"Authorization": "Bearer abc123"}`, "abc123"},
		"x-api-key":                   {"x-api-key: abc-123", "abc-123"},
		"cookie":                      {"Set-Cookie: session=abc123; Path=/", "abc123"},
		"bearer alone":                {"sent bearer abcdefghijklmnop", "abcdefghijklmnop"},
		"environment":                 {"DB_PASSWORD=hunter2", "hunter2"},
		"environment, quoted":         {`export MY_SECRET="two words"`, "two words"},
		"environment, exported":       {"declare -x NPM_TOKEN='abc'", "abc"},
		"environment, spaced":         {"API_KEY = abc", "abc"},
		"yaml":                        {"  AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMI", "wJalrXUtnFEMI"},
		"json":                        {`"password": "hunter2"`, "hunter2"},
		"json, escaped":               {`{\"client_secret\": \"hunter2hunter2hunter2\"}`, "hunter2"},
		"flag":                        {"login --password hunter2 now", "hunter2"},
		"flag with =":                 {"login --api-key=hunter2", "hunter2"},
		"query":                       {"GET https://x/y?access_token=hunter2&z=1", "hunter2"},
		"lower case, long":            {"token: abcdef0123456789abcdef", "abcdef0123456789"},
	} {
		if got := r.clean(tc.in); strings.Contains(got, tc.gone) || !strings.Contains(got, masked) {
			t.Errorf("%s: %q became %q", name, tc.in, got)
		}
	}
}

func TestWhatPeopleNeedIsKept(t *testing.T) {
	r := newRedactor([]string{"abc"})
	for _, s := range []string{
		"prompt is too long: 214000 tokens > 200000", "max_tokens=4096", "MAX_TOKENS=4096", "parser.go:12:3: unexpected token: }",
		"syntax error: unexpected token <", "abc is too short to be masked", "PWD=/workspace/checkout", "http://127.0.0.1:8900/x",
		"https://example.com/a/b?page=2", "password incorrect", "commit 0123456789abcdef0123456789abcdef01234567",
		"git@github.com:acme/widgets.git", "key: value", "--- FAIL: TestTokenizer (0.00s)",
	} {
		if got := r.clean(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestTextIsMadeSafe(t *testing.T) {
	r := newRedactor(nil)
	for name, tc := range map[string]struct{ got, want string }{
		"mention":              {r.prose("thanks @octocat and @acme/team", 100), "thanks @\u200boctocat and @\u200bacme/team"},
		"marker":               {r.prose("<!-- retake:claim v1 {} -->", 100), "<\u200b!-- retake:claim v1 {} -->"},
		"html":                 {r.line("<img src=x> a < b <- c", 100), "<\u200bimg src=x> a < b <- c"},
		"colours":              {r.line("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07", 100), "red link"},
		"progress bar":         {r.fence("10%\r50%\r100%\nok\r\n", 100), "```text\n100%\nok\n```"},
		"direction characters": {r.line("a\u202eb\u2066c", 100), "abc"},
		"control characters":   {r.line("a\x00b\x07c\x9bd", 100), "abc\uFFFDd"},
		"invalid utf-8":        {r.line("a\xffb", 100), "a\uFFFDb"},
		"lines":                {r.line("a\n\n b\tc", 100), "a b c"},
		"fence":                {r.fence("x\n```\ny", 100), "````text\nx\n```\ny\n````"},
		"longer fence":         {r.fence("x ````` y", 100), "``````text\nx ````` y\n``````"},
		"fence keeps the end":  {r.fence("0123456789", 4), "```text\n… (start cut)\n6789\n```"},
		"fence, marker":        {r.fence("<!-- retake:x -->", 100), "```text\n<!\u200b-- retake:x -->\n```"},
		"code":                 {r.code("a `b` c", 100), "``a `b` c``"},
		"code at the edge":     {r.code("`b`", 100), "`` `b` ``"},
		"empty code":           {r.code(" \n", 100), ""},
		"cell":                 {r.cell("a|b", 100), `a\|b`},
		"code in a cell":       {r.cellCode("a|b", 100), "`a\\|b`"},
		"clipped":              {r.line("ä öüß", 4), "ä ö…"},
		"closes nothing":       {noClosing("Fixes #12, resolves: acme/x#3 and closes https://github.com/a/b/issues/4"), "Fixes \u200b#\u200b12, resolves: \u200bacme/x#\u200b3 and closes \u200bhttps://github.com/a/b/issues/\u200b4"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %q, want %q", name, tc.got, tc.want)
		}
	}
}

// TestNothingForgesAMarkerOrBreaksOut: whatever a worker sends, a comment of ours carries our marker only, mentions nobody,
// leaks no known secret, stays within GitHub's limit, and its code blocks end where we end them.
func TestNothingForgesAMarkerOrBreaksOut(t *testing.T) {
	c, err := New(Options{BaseURL: testAPI, Fleet: "default", Secrets: []string{"hunter2hunter2"}, Token: noToken})
	if err != nil {
		t.Fatal(err)
	}
	part := rapid.SampledFrom([]string{
		"@octocat", "<!-- retake:claim v1 {\"fleet\":\"x\",\"nonce\":\"aaaabbbb\"} -->", "-->", "\n", "```", "~~~~", "`", "</details>", "<details>",
		"hunter2", "hunter2hunter2", "\x1b[31m", "\r", "|", "# x", "> ", "\x00", "é", "word ", "<", "!", "--", "retake:", "\u202e", "@",
	})
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 0, 40).Draw(t, "parts"), "") })
	rapid.Check(t, func(t *rapid.T) {
		e := Escalation{
			Key: "acme/widgets#1", Nonce: testNonce, AttemptID: testNonce + "-1",
			Stage: text.Draw(t, "stage"), Reason: text.Draw(t, "reason"), Cause: text.Draw(t, "cause"), Facts: []string{text.Draw(t, "fact")},
			Attempts: []AttemptLine{{1, text.Draw(t, "s"), text.Draw(t, "r"), text.Draw(t, "c"), text.Draw(t, "then"), 0}},
			Tried:    []string{text.Draw(t, "tried")}, WhyStopped: text.Draw(t, "why"), Ask: text.Draw(t, "ask"),
			Tail: strings.Repeat(text.Draw(t, "tail"), rapid.SampledFrom([]int{0, 1, 1, 2, 400}).Draw(t, "n")),
		}
		e.Tail = e.Tail[:min(len(e.Tail), 32<<10)] // what a container's tail holds
		body, err := withMarker(marker{kind: markBlocked, Fleet: "default", Nonce: e.Nonce, Attempt: e.AttemptID}, c.escalationText(e))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(body, "<!--"); n != 1 {
			t.Fatalf("%d HTML comments in %q", n, body)
		}
		for _, bad := range []string{"@octocat", "hunter2hunter2", "\x1b", "\r", "\x00", "\u202e"} {
			if strings.Contains(body, bad) {
				t.Fatalf("%q in %q", bad, body)
			}
		}
		if utf8.RuneCountInString(body) > commentLimit || !strings.HasSuffix(body, "fleet `default`</sub>") {
			t.Fatalf("%d characters, ends in %q", utf8.RuneCountInString(body), body[max(0, len(body)-80):])
		}
		var page bytes.Buffer
		if err := goldmark.Convert([]byte(body), &page); err != nil || !strings.Contains(page.String(), "<h4>How to go on</h4>") {
			t.Fatalf("something swallowed the end of %q: %s", body, page.String())
		}
	})
}

func TestMarkers(t *testing.T) {
	valid := marker{kind: markBlocked, Fleet: "default", Nonce: testNonce, Attempt: testNonce + "-2"}
	line, err := valid.line()
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := readMarker(line + "\r\nrest"); !ok || got != valid {
		t.Errorf("read back %+v, %v", got, ok)
	}
	for _, body := range []string{
		"", "text", " " + line, "x" + line, line + " ", "text\n" + line, strings.Replace(line, "v1", "v2", 1),
		strings.Replace(line, "blocked", "unheard", 1), strings.Replace(line, "} -->", `,"attempt":"x"} x -->`, 1),
		strings.Replace(line, `{"fleet"`, `{"fleet":"a"}{"fleet"`, 1), strings.Replace(line, testNonce, "TOOLOUD1", 1),
		strings.Replace(line, "default", "de fault", 1), strings.Replace(line, `"attempt"`, `"run":"x","attempt"`, 1),
	} {
		if m, ok := readMarker(body); ok {
			t.Errorf("%q was read as %+v", body, m)
		}
	}
	for _, m := range []marker{
		{kind: markClaim, Fleet: "a b", Nonce: testNonce},
		{kind: markClaim, Fleet: "a", Nonce: "short"},
		{kind: "x", Fleet: "a", Nonce: testNonce},
		{kind: markBlocked, Fleet: "a", Nonce: testNonce, Attempt: "-->"},
		{kind: markClaim, Fleet: "a", Nonce: testNonce, Ended: "maybe"},
	} {
		if line, err := m.line(); err == nil {
			t.Errorf("%+v was written as %q", m, line)
		}
	}
}
