package leak

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"retake/internal/secrets/redact"
)

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
					t.Fatal("Mask removed more")
				}
			})
		})
	}
}

// TestPieces finds a value across any split of the text, including empty pieces.
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
		t.Error("a Finder without values found something")
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

// TestOrdinaryFiles checks for false positives in a whole repository.
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
