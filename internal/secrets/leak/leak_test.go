package leak

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"retake/internal/secrets/redact"
)

// encodings write a value as a program might; the bytes before and behind it decide where in a digit it begins.
var encodings = map[string]func(t *rapid.T, v string) string{
	"as it is": func(_ *rapid.T, v string) string { return v },
	"base64": func(t *rapid.T,
		v string,
	) string {
		return base64.StdEncoding.EncodeToString([]byte(between(t, v)))
	},
	"base64, raw": func(t *rapid.T,
		v string,
	) string {
		return base64.RawStdEncoding.EncodeToString([]byte(between(t, v)))
	},
	"base64, for URLs": func(t *rapid.T,
		v string,
	) string {
		return base64.URLEncoding.EncodeToString([]byte(between(t, v)))
	},
	"base64, basic auth": func(_ *rapid.T, v string) string {
		return base64.StdEncoding.EncodeToString([]byte("x-access-token:" + v))
	},
	"base64 of UTF-16": func(t *rapid.T, v string) string {
		return base64.StdEncoding.EncodeToString([]byte(wide(v, rapid.Bool().Draw(t, "big"))))
	},
	"base32": func(t *rapid.T,
		v string,
	) string {
		return base32.StdEncoding.EncodeToString([]byte(between(t, v)))
	},
	"hexadecimal": func(t *rapid.T, v string) string { return hex.EncodeToString([]byte(between(t, v))) },
	"hexadecimal, capitals": func(_ *rapid.T,
		v string,
	) string {
		return strings.ToUpper(hex.EncodeToString([]byte(v)))
	},
	"hexadecimal, colons": func(_ *rapid.T, v string) string { return each(v, "%02x", ":") },
	"hexadecimal, spaces": func(_ *rapid.T, v string) string { return each(v, "%02X", " ") },
	"hexadecimal, C":      func(_ *rapid.T, v string) string { return each(v, "0x%02x", ", ") },
	"hexadecimal, UTF-16": func(t *rapid.T, v string) string {
		return hex.EncodeToString([]byte(wide(v, rapid.Bool().Draw(t, "big"))))
	},
	"bytes":            func(_ *rapid.T, v string) string { return "[" + each(v, "%d", " ") + "]" },
	"bytes, commas":    func(_ *rapid.T, v string) string { return each(v, "%d", ", ") },
	"percent":          func(_ *rapid.T, v string) string { return each(v, "%%%02X", "") },
	"percent, small":   func(_ *rapid.T, v string) string { return each(v, "%%%02x", "") },
	"percent, in part": some("%%%02X"),
	"percent, twice":   some("%%25%02X"),
	"query":            func(_ *rapid.T, v string) string { return url.QueryEscape(v) },
	"path":             func(_ *rapid.T, v string) string { return url.PathEscape(v) },
	"JSON":             func(_ *rapid.T, v string) string { j, _ := json.Marshal(v); return string(j) },
	"JSON in JSON": func(_ *rapid.T, v string) string {
		j, _ := json.Marshal(v)
		j, _ = json.Marshal(string(j))
		return string(j)
	},
	`\u`:                func(_ *rapid.T, v string) string { return each(v, `\u%04x`, "") },
	`\u, in part`:       some(`\u%04X`),
	`\u{}`:              some(`\u{%x}`),
	`\x`:                func(_ *rapid.T, v string) string { return each(v, `\x%02x`, "") },
	`\x, in part`:       some(`\x%02X`),
	"octal":             some(`\%03o`),
	"HTML":              func(_ *rapid.T, v string) string { return html.EscapeString(v) },
	"HTML, numbers":     some("&#%d;"),
	"HTML, hexadecimal": some("&#x%x;"),
	"UTF-16":            func(t *rapid.T, v string) string { return wide(v, rapid.Bool().Draw(t, "big")) },
	"backwards": func(_ *rapid.T, v string) string {
		b := []byte(v)
		slices.Reverse(b)
		return string(b)
	},
}

func each(v, format, between string) string {
	var out []string
	for i := range len(v) {
		out = append(out, fmt.Sprintf(format, v[i]))
	}
	return strings.Join(out, between)
}

// some encodes some of the characters with format.
func some(format string) func(*rapid.T, string) string {
	return func(t *rapid.T, v string) string {
		var out strings.Builder
		for i := range len(v) {
			if strings.IndexByte(`\%&`, v[i]) >= 0 || rapid.Bool().Draw(t, "escaped") {
				fmt.Fprintf(&out, format, v[i])
			} else {
				out.WriteByte(v[i])
			}
		}
		return out.String()
	}
}

func wide(v string, big bool) string {
	var out strings.Builder
	for _, c := range []byte(v) {
		if big {
			out.WriteString("\x00" + string(rune(c)))
		} else {
			out.WriteString(string(rune(c)) + "\x00")
		}
	}
	return out.String()
}

// between puts bytes around a value, before it is encoded.
func between(t *rapid.T, v string) string {
	around := rapid.StringN(0, 9, 9)
	return around.Draw(t, "before") + v + around.Draw(t, "behind")
}

// gaps are separators between two characters of a split or hidden text.
var gaps = []string{
	"\n", "\r\n", "\n    ", "\\\n", "\n# ", "\n// ", "\n * ", "\" +\n\t\"", "' '", "\u200b", "\u200d\u2060", "\ufeff",
	"\u00ad", "\u202e", "\x00", " ", "\t", "=\n", "\n> ", "\n+", "|", "\x1b[",
}

// split puts gaps into a text, never into an escape.
func split(t *rapid.T, text string) string {
	gap, width := rapid.SampledFrom(gaps).Draw(t, "gap"), rapid.IntRange(1, 76).Draw(t, "width")
	var out strings.Builder
	for at := 0; at < len(text); {
		n := 1
		if strings.IndexByte(`\%&`, text[at]) >= 0 {
			_, n = unescape(text[at:], true)
		}
		for n < len(text)-at && !utf8.RuneStart(text[at+n]) {
			n++
		}
		if at > 0 && at%width == 0 {
			out.WriteString(gap)
		}
		out.WriteString(text[at : at+n])
		at += n
	}
	return out.String()
}

// values are secrets as providers make them.
func value(t *rapid.T) string {
	return rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9]{20,60}`),
		rapid.StringMatching(`[a-z2-7]{16,40}`),
		rapid.StringMatching(`[0-9a-f]{32,64}`),
		rapid.StringMatching(`sk-[a-z]{3,6}-[A-Za-z0-9_-]{30,90}`),
		rapid.StringMatching(`[A-Za-z0-9+/]{38}==`),
		rapid.StringMatching(`[A-Za-z0-9]{14}[!#$%&*+,./:;<=>?@^_{|}~"'\\-]{1,6}[A-Za-z0-9]{6}`),
		rapid.StringMatching(`[A-Za-z]{3,8} [A-Za-z]{3,8} [A-Za-z]{3,8} [0-9]{3,6}`),
	).Draw(t, "value")
}

// TestFoundHoweverWritten finds a value in any encoding, with any gaps, and Mask removes it completely.
func TestFoundHoweverWritten(t *testing.T) {
	text := prose(t)
	for name, encode := range encodings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				v := value(t)
				f := New(Value{"KEY", v})
				written := encode(t, v)
				if rapid.Bool().Draw(t, "split") {
					written = split(t, written)
				}
				before := text[:rapid.IntRange(0, len(text)).Draw(t, "before")]
				in := before + "\n" + written + "\n" + text[:500]
				found := f.Find(in)
				if len(found) == 0 || found[0].Name != "KEY" {
					t.Fatalf("not found: %q", written)
				}
				line := 1 + strings.Count(before, "\n")
				if got := strings.Count(in[:found[0].At], "\n"); got < line || got > line+strings.Count(written, "\n") {
					t.Fatalf("at line %d, want %d: %q", got, line, written)
				}
				masked := f.Mask(in)
				if !strings.Contains(masked, redact.Marker) || len(f.Find(masked)) > 0 {
					t.Fatalf("masked: %q", masked)
				}
				if !strings.HasPrefix(masked, before) || !strings.HasSuffix(masked, text[:500]) {
					t.Fatal("Mask took more")
				}
			})
		})
	}
}

// TestPieces finds a value wherever the text is split, including empty pieces.
func TestPieces(t *testing.T) {
	const v = "aB3dE5fG7hJ9kL1mN3pQ5rS7"
	f := New(Value{"KEY", v})
	for before := pieceSymbols - 200; before < pieceSymbols+400; before++ {
		text := strings.Repeat("a", before) + v + strings.Repeat("a", 2*pieceSymbols)
		if found := f.Find(text); len(found) != 1 || text[found[0].At:found[0].End] != v {
			t.Fatalf("%d symbols before: %v", before, found)
		}
	}
	if found := f.Find(v[:12] + strings.Repeat("\n", 10*pieceSymbols) + v[12:]); len(found) != 1 {
		t.Error(found)
	}
}

// TestEveryValue finds values with a common suffix, values within others, and several encodings. Only the first
// occurrence counts.
func TestEveryValue(t *testing.T) {
	a, b := "Xq7Rk2mZ9tB4wLpS", "v1-Xq7Rk2mZ9tB4wLpS"
	f := New(Value{"A", a}, Value{"B", b}, Value{"SHORT", "sim-token"})
	text := hex.EncodeToString([]byte(b)) + "\n" + b + "\nsim-token\n" + b
	var got []string
	for _, m := range f.Find(text) {
		got = append(got, fmt.Sprint(m.Name, m.As, m.At))
	}
	if want := "Bhexadecimal0 Ahexadecimal6 B39 A42 SHORT59"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
	if got := f.Mask(text); got != "[REDACTED]\n[REDACTED]\n[REDACTED]\n[REDACTED]" {
		t.Errorf("%q", got)
	}
	var none *Finder
	if none.Find(text) != nil || none.Mask(text) != text || New().Mask(text) != text {
		t.Error("found without values")
	}
}

func TestParts(t *testing.T) {
	key := "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
	for name, row := range map[string]struct{ value, text string }{
		"a password of an address": {"postgres://app:Xk29-fjQ@db:5432/shop", "password: Xk29-fjQ"},
		"a line of a key": {
			"-----BEGIN " + "PRIVATE KEY-----\n" + key + "\n-----END " + "PRIVATE KEY-----",
			key,
		},
		"a field of a document": {`{"type": "service_account", "private_key": "-----BEGIN ` + `PRIVATE KEY-----\n` +
			key + `\n"}`, "\n" + key + "\n"},
		"a token behind an address": {
			"https://example.com/api/webhooks/812345/aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z",
			"aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z",
		},
	} {
		if found := New(Value{"V", row.value}).Find(row.text); len(found) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestWhatIsASecret checks names, values, and harmless variables.
func TestWhatIsASecret(t *testing.T) {
	for _, row := range []struct {
		name, value string
		want        bool
	}{
		{"ANTHROPIC_API_KEY", "sk-" + "ant-api03-aB3dE5fG7hJ9kL1mN3pQ", true},
		{"GITHUB_TOKEN", "sim-token", true},
		{"DB_PASSWORD", "hunter2", true},
		{"DB_PASSWORD", "postgres", false},
		{"DB_PASSWORD", "correcthorsebattery", true},
		{"APP_SECRET", "true", false},
		{"TOKEN_TTL_TOKEN", "36000000", false},
		{"TOKEN_URL", "https://auth.example.com/oauth2/token", false},
		{"AWS_SECRET_ACCESS_KEY", "/J4lrXUtnFEM1+K7MDENG/bPxRf1CYk29aBq7Zx2", true},
		{"GOOGLE_APPLICATION_CREDENTIALS", "/etc/keys/service-account.json", false},
		{"HTTPS_PROXY", "http://proxy.example.com:3128", false},
		{"HTTPS_PROXY", "http://build:Xk29-fjQ@proxy.example.com:3128", true},
		{"DATABASE_URL", "postgres://app:hunter2hunter2@db/shop", true},
		{"NO_PROXY", "localhost,127.0.0.1,.example.com", false},
		{"MODEL", "claude-sonnet-4-5-20250929", false},
		{"MODEL", "gpt-4o-mini-2024-07-18", false},
		{
			"BEDROCK",
			"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-3-7-sonnet-20250219-v1:0",
			false,
		},
		{"OPENAI_BASE_URL", "https://my-resource-2.openai.azure.com/openai/deployments/gpt-4o/", false},
		{"AZURE_TENANT_ID", "72f988bf-86f1-41af-91ab-2d7cd011db47", false},
		{"BUILD_COMMIT", "ff11df5c8e9fb2dd0cb4b7e5dfe4a8d1b7c2a913", false},
		{"HEROKU_API_KEY", "72f988bf-86f1-41af-91ab-2d7cd011db47", true},
		{"GOFLAGS", "-buildvcs=false -trimpath -mod=readonly", false},
		{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", false},
		{"JAVA_TOOL_OPTIONS", "-XX:MaxRAMPercentage=75.0 -XX:+UseG1GC", false},
		{"SSH_AUTH_SOCK", "/tmp/ssh-XXXXAbc123/agent.4242", false},
		{"LLM", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z", true},
		{"DB_PASS", "Gr4ph1tex9", true},
		{"CACHE_KEY", "v1-linux", false},
		{"CI", "true", false},
		{"LANG", "en_US.UTF-8", false},
	} {
		if got := Variable(row.name, row.value); got != row.want {
			t.Errorf("%s=%s: %v", row.name, row.value, got)
		}
	}
}

// prose returns ordinary text from this repository.
func prose(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/specs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text[:17000])
}

// TestOrdinaryFiles has no false positives in a whole repository.
func TestOrdinaryFiles(t *testing.T) {
	var values []Value
	for i := range 200 {
		values = append(values, Value{fmt.Sprint(i), rapid.Custom(value).Example(i)})
	}
	own := []string{
		"sim-token", "the director's own value", "correct horse battery staple", "x-access-1",
		"Tr0ub4dor&3",
	}
	for i, v := range own {
		values = append(values, Value{fmt.Sprint("word ", i), v})
	}
	f := New(values...)
	files, bytes := 0, 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		files, bytes = files+1, bytes+len(text)
		for _, m := range f.Find(string(text)) {
			if written := string(text[m.At:m.End]); !slices.Contains(own, written) {
				t.Errorf("%s: %+v: %q", path, m, written)
			}
		}
		return err
	})
	if err != nil || files < 500 {
		t.Fatal(files, err)
	}
	t.Logf("%d values, %d files, %.1f MB: no false finding", len(values), files, float64(bytes)/1e6)
}

func FuzzUnescape(f *testing.F) {
	for _, s := range []string{"%41", `\u0041`, "&#65;", `\101`, "&amp;", `\u{41}`, "%2541", "%", `\`, "&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s == "" {
			return
		}
		for _, again := range []bool{false, true} {
			if _, n := unescape(s, again); n < 1 || n > len(s) {
				t.Errorf("%q: %d", s, n)
			}
		}
	})
}

// BenchmarkFind compares a search for ten values in source text with redact's sequential spellings.
func BenchmarkFind(b *testing.B) {
	var values []Value
	var texts []string
	for i := range 10 {
		v := rapid.Custom(value).Example(i)
		values, texts = append(values, Value{"V", v}), append(texts, v)
	}
	text := strings.Repeat(prose(b), 50)
	f, r := New(values...), redact.New(texts...)
	b.Run("all encodings", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			if len(f.Find(text)) > 0 {
				b.Fatal("found")
			}
		}
	})
	b.Run("spellings", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if at, _ := r.Find(text); at >= 0 {
				b.Fatal("found")
			}
		}
	})
	b.Run("New", func(b *testing.B) {
		for b.Loop() {
			New(values...)
		}
	})
}
