package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// The test assembles the secrets, so that scanners do not report this file as a leak.
var (
	githubToken = "ghp" + "_" + strings.Repeat("aB3d", 9)
	finePat     = "github" + "_pat_" + strings.Repeat("11ABCDE_", 8)
	anthropic   = "sk" + "-ant-" + "api03-" + strings.Repeat("xY9-", 12)
	openAI      = "sk" + "-proj-" + strings.Repeat("Ab1_", 12)
	awsID       = "AKIA" + "IOSFODNN7EXAMPLE"
	slack       = "xoxb" + "-123456789012-" + strings.Repeat("a1B2", 6)
	webToken    = "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N"
	keyBody     = strings.Repeat("MIIEowIBAAKCAQEA7bq/Zk1x+9Xw0fTt3yUq8nB2cVdEhGjKlMnOpQrS\n", 3)
	keyBlock    = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + keyBody + "-----END RSA " + "PRIVATE KEY-----"
)

var known = []string{
	"correct-horse-battery", "abc", "pa ss/word+1", `quo"te<d>\value`,
	"first line of key\nsecond line of key",
}

// samples contains texts with a part that redaction must remove. They cover the secrets of the worker, the comments,
// git's errors and the configuration.
var samples = map[string]struct{ in, gone string }{
	"known value":               {"it said correct-horse-battery twice: correct-horse-battery", "correct-horse"},
	"known value, url-escaped":  {"GET /?x=pa+ss%2Fword%2B1", "ss%2Fword"},
	"known value, path-escaped": {"GET /pa%20ss%2Fword+1", "ss%2Fword"},
	"known value, quoted":       {`got "quo\"te<d>\\value"`, "value"},
	"known value, in json":      {`got "quo\"te\u003cd\u003e\\value"`, "value"},
	"known value, base64":       {"Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5 is it", "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"},
	"known value, raw base64": {strings.TrimRight(base64.StdEncoding.EncodeToString([]byte("pa ss/word+1x")),
		"=")[:16], "cGEgc3M"},
	"known value, git over http": {
		base64.StdEncoding.EncodeToString([]byte("x-access-token:correct-horse-battery")),
		"eC1hY2Nlc3M",
	},
	"known value, one of its line": {"x second line of key x", "second line"},
	"github":                       {"fatal: " + githubToken, githubToken},
	"github, 16":                   {"gho_" + "0123456789abcdef", "0123456789abcdef"},
	"github, in a word":            {"x" + githubToken, githubToken},
	"github, fine-grained":         {finePat, finePat[:20]},
	"github, fine-grained, 16":     {finePat[:27], finePat[:27]},
	"github, old":                  {"v1." + strings.Repeat("0a", 20), "0a0a"},
	"anthropic":                    {"key " + anthropic + ".", anthropic},
	"anthropic, 8":                 {"sk-" + "ant-01234567", "01234567"},
	"openai":                       {openAI, openAI},
	"openai, 16":                   {"sk-" + "0123456789abcdef", "0123456789abcdef"},
	"google, 30":                   {"AIza" + strings.Repeat("Sy1", 10), "AIza"},
	"aws":                          {awsID, awsID},
	"aws, temporary":               {"ASIA" + awsID[4:], awsID[4:]},
	"slack":                        {slack, slack},
	"slack, workflow":              {"xoxe" + slack[4:], slack[4:]},
	"gitlab":                       {"glpat-" + "0123456789abcdef", "0123456789abcdef"},
	"npm":                          {"npm_" + strings.Repeat("a1B", 12), "a1B"},
	"json web token":               {"it is " + webToken, "eyJzdWIi"},
	"json web token, two parts":    {strings.Join(strings.Split(webToken, ".")[:2], "."), "eyJzdWIi"},
	"nats seed":                    {"seed SU" + strings.Repeat("AB23", 14), "AB23AB23"},
	"private key":                  {"x\n" + keyBlock + "\ny", "MIIEow"},
	"private key, one line":        {strings.ReplaceAll(keyBlock, "\n", `\n`), "MIIEow"},
	"pgp key": {"-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n" + keyBody + "-----END PGP " +
		"PRIVATE KEY BLOCK-----", "MIIEow"},
	"private key, end cut":             {keyBlock[:90], "MIIEow"},
	"password in a url":                {"postgres://app:hunter2@db:5432/x", "hunter2"},
	"password with @ in a url":         {"https://app:hun@ter2@db/x", "ter2"},
	"password without a user in a url": {"redis://:hunter2@db", "hunter2"},
	"token in a url":                   {"https://0123456789abcdef0123@github.com/a/b", "0123456789abcdef"},
	"short token in a url":             {"https://hunter2@github.com/a/b", "hunter2"},
	"authorization header":             {"Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"},
	"authorization, short":             {"Authorization: Bearer abc.def", "abc.def"},
	"authorization in curl":            {`curl -H "authorization: token abc123" https://x`, "abc123"},
	"authorization in json":            {`{"Authorization": "Bearer abc123"}`, "abc123"},
	"x-api-key":                        {"x-api-key: abc-123", "abc-123"},
	"cookie":                           {"Set-Cookie: session=abc123; Path=/", "abc123"},
	"cookie and a number":              {"Cookie: session=abc123; max_tokens=5", "abc123"},
	"bearer only":                      {"sent bearer abcdefghijklmnop", "abcdefghijklmnop"},
	"environment":                      {"DB_PASSWORD=hunter2", "hunter2"},
	"environment, with more":           {"MY_TOKEN=abcdefgh rest", "abcdefgh"},
	"environment, quoted":              {`export MY_SECRET="two words"`, "two words"},
	"environment, exported":            {"declare -x NPM_TOKEN='abc'", "abc"},
	"environment, spaced":              {"API_KEY = abc", "abc"},
	"yaml":                             {"  AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMI", "wJalrXUtnFEMI"},
	"json":                             {`"password": "hunter2"`, "hunter2"},
	"json, escaped":                    {`{\"client_secret\": \"hunter2hunter2hunter2\"}`, "hunter2"},
	"flag":                             {"login --password hunter2 now", "hunter2"},
	"flag with =":                      {"login --api-key=hunter2", "hunter2"},
	"query":                            {"GET https://x/y?access_token=hunter2&z=1", "hunter2"},
	"query, signature":                 {"GET https://x/y?a=1&sig=hunter2", "hunter2"},
	"lower case, long":                 {"token: abcdef0123456789abcdef", "abcdef0123456789"},
}

func init() { // its base64 has no padding to cut, so use another value
	samples["known value, raw base64"] = struct {
		in,
		gone string
	}{base64.RawStdEncoding.EncodeToString([]byte(`quo"te<d>\value`)), "cXVv"}
}

// TestEveryUserFindsAll redacts every sample in all ways, and redacts the result again, which must be safe.
func TestEveryUserFindsAll(t *testing.T) {
	r := New(known...)
	stream := func(in string) string {
		var out bytes.Buffer
		w := r.NewWriter(&out)
		_, _ = io.WriteString(w, in)
		w.Flush()
		return out.String()
	}
	log := func(in string) string {
		line, _ := json.Marshal(map[string]any{"msg": in, "n": 1})
		var back map[string]any
		if err := json.Unmarshal([]byte(r.JSON(string(line))), &back); err != nil || back["n"] != 1.0 {
			t.Errorf("%q is not JSON: %v", r.JSON(string(line)), err)
		}
		s, _ := back["msg"].(string)
		return s
	}
	ways := map[string]func(string) string{"Text": r.Text, "Cut": r.Cut, "Writer": stream, "JSON": log}
	for name, s := range samples {
		for way, redacted := range ways {
			got := redacted(s.in)
			if strings.Contains(got, s.gone) || !strings.Contains(got, Marker) {
				t.Errorf("%s, %s: %q became %q", name, way, s.in, got)
			}
			if again := redacted(got); strings.Contains(again, s.gone) || !strings.Contains(again, Marker) {
				t.Errorf("%s, %s: again: %q became %q", name, way, got, again)
			}
		}
	}
}

func TestCut(t *testing.T) {
	r := New(known...)
	for name, s := range map[string]struct{ in, gone string }{
		"end of a known value":   {"rse-battery\nnext line", "rse-battery"},
		"start of a known value": {"line\ncorrect-horse-b", "correct-horse-b"},
		"private key, start cut": {keyBlock[40:], "7bq/Zk1x"},
		"private key, end cut":   {keyBlock[:90], "MIIEow"},
	} {
		if got := r.Cut(s.in); strings.Contains(got, s.gone) || !strings.Contains(got, Marker) {
			t.Errorf("%s: %q became %q", name, s.in, got)
		}
	}
}

func TestWhatPeopleNeedIsKept(t *testing.T) {
	r := New("abc", "short")
	for _, s := range []string{
		"prompt is too long: 214000 tokens > 200000", "max_tokens=4096", "MAX_TOKENS=4096", `"max_tokens": "4096"`,
		"--max-tokens 4096",
		"tokens_used=17", "parser.go:12:3: unexpected token: }", "syntax error: unexpected token <",
		"abc is too short to be redacted",
		"PWD=/workspace/checkout", "http://127.0.0.1:8900/x", "https://example.com/a/b?page=2", "password incorrect",
		"commit 0123456789abcdef0123456789abcdef01234567", "git@github.com:acme/widgets.git",
		"ssh://git@github.com/acme/widgets",
		"key: value", "--- FAIL: TestTokenizer (0.00s)", "mail bob@example.com",
		"digest sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f0",
	} {
		if got := r.Cut(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestWhatStandsInFrontIsKept(t *testing.T) {
	for in, want := range map[string]string{
		"Authorization: Bearer abc.def":     "Authorization: Bearer " + Marker,
		"x-api-key: abcdef":                 "x-api-key: " + Marker,
		"nats://bot:pa55@10.0.0.1:4222":     "nats://bot:" + Marker + "@10.0.0.1:4222",
		"MY_TOKEN=abcdefgh rest":            "MY_TOKEN=" + Marker + " rest",
		"https://x/y?access_token=abc&z=1":  "https://x/y?access_token=" + Marker + "&z=1",
		keyBlock + "\nafter " + anthropic:   Marker + "\nafter " + Marker,
		"login --password hunter2 --user x": "login --password " + Marker + " --user x",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestHasCredential(t *testing.T) {
	for _, s := range []string{
		githubToken, "x " + openAI, keyBlock[:40], "https://u:p@host", "https://hunter2@host",
		webToken, slack,
	} {
		if !HasCredential(s) {
			t.Errorf("not found: %q", s)
		}
	}
	for _, s := range []string{"", "--password-file=/run/x", "MODEL_TOKEN", "https://host/x", "ssh://git@host/x"} {
		if HasCredential(s) {
			t.Errorf("found in %q", s)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"GITHUB_TOKEN": true, "api_key": true, "APIKEY": true, "DB_PASSWD": true, "CREDENTIALS": true,
		"MAX_TOKENS": false, "TOKENIZERS_PARALLELISM": false, "KEYBOARD": false, "HOME": false,
	} {
		if IsSecretVariable(name) != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
}

// TestWriterWhateverThePieces splits a stream at random, and expects the same output without secrets.
func TestWriterWhateverThePieces(t *testing.T) {
	const secret = "s3cr3t-value-0123456789"
	r := New(secret)
	long := strings.Repeat("x", 20_000)
	in := "one " + secret + "\n" + long + secret + long + "\n-----BEGIN " + "PRIVATE KEY-----\nMIIE" + secret +
		"\n-----END " + "PRIVATE KEY-----\nend " + secret
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		var out bytes.Buffer
		w := r.NewWriter(&out)
		for rest := []byte(in); len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(3000))
			_, _ = w.Write(rest[:n])
			rest = rest[n:]
		}
		w.Flush()
		want := "one " + Marker + "\n" + long + Marker + long + "\n" + Marker + "\nend " + Marker
		if got := out.String(); got != want {
			t.Fatalf("%d bytes, want %d; secret in it: %v", len(got), len(want), strings.Contains(got, secret))
		}
	}
}

func BenchmarkWriter(b *testing.B) {
	text := strings.Repeat("2026-11-21T10:00:00Z INFO compiling package widgets/parser with flags -O2 -Wall and "+
		"so on to 80\n", 300)
	for _, row := range []struct{ name, text string }{
		{"plain", text},
		{"tokens", strings.ReplaceAll(text, "so on", "token")},
	} {
		b.Run(row.name, func(b *testing.B) {
			w := New("a-model-key-0123456789", "another-secret-value").NewWriter(io.Discard)
			b.SetBytes(int64(len(row.text)))
			for b.Loop() {
				_, _ = io.WriteString(w, row.text)
			}
		})
	}
}

func TestFind(t *testing.T) {
	r := New("opensesame", "a longer value")
	for text, want := range map[string]string{
		"x": "-1 ", "say opensesame, a longer value": "4 opensesame",
		"q=a+longer+value": "2 a+longer+value",
	} {
		at, written := r.Find(text)
		if got := fmt.Sprintf("%d %s", at, written); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if at, _ := (*Redactor)(nil).Find("x"); at != -1 {
		t.Error(at)
	}
}
