package scope

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
	"retake/internal/secrets/leak"
)

// The test assembles the fake secrets, so that files never contain them literally.
var (
	awsKey     = "AKIA" + "Q3ZXRT7YHWJ2LMNB"
	githubPAT  = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
	ownSecret  = "the director's own value"
	privateKey = "-----BEGIN RSA " + "PRIVATE KEY-----\n" +
		strings.Repeat("MIIEpAIBAAKCAQEA7bq2Zk0c9fXvT4mN8sLwQyRj5uHd3gKe1oPiCaVxBzWnYtMl\n", 24) + "-----END RSA " +
		"PRIVATE KEY-----\n"
)

var options = Options{
	Deny:         []string{".github/workflows/", "**/.gitlab-ci.yml"},
	Allow:        map[string][]string{"ci-ok": {".github/workflows/"}},
	AllowSecrets: []string{"testdata/"}, MaxFileBytes: 1000,
}

var known = leak.New(leak.Value{Name: "API_KEY", Text: ownSecret})

func rules(t testing.TB, o Options) *Rules {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// look checks a patch with one file.
func look(t testing.TB, r *Rules, f File, text, base string, labels ...string) error {
	t.Helper()
	l := r.Look(labels, known)
	if l.File(f) {
		if err := l.Content(t.Context(), f, text, func() (string, error) { return base, nil }); err != nil {
			t.Fatal(err)
		}
	}
	return l.Err(t.Context())
}

var whatMayNotLeaveCases = []struct {
	name       string
	file       File
	text, base string
	labels     []string
	reason     recovery.Reason // empty if allowed
	says       []string
}{
	{name: "a change", file: File{Path: "a.go"}, text: "package a\n"},
	{
		name: "an AWS key", file: File{Path: "conf/prod.env"}, text: "x\n\nAWS_ACCESS_KEY_ID=" + awsKey + "\n",
		reason: recovery.PolicyViolation, says: []string{"conf/prod.env:3", "aws-access-token"},
	},
	{name: "a token of GitHub", file: File{Path: "a.sh"}, text: "curl -H 'Authorization: token " + githubPAT +
		"'\n", reason: recovery.PolicyViolation, says: []string{"a.sh:1", "github-pat"}},
	{
		name: "a private key", file: File{Path: "id"}, text: "\n" + privateKey, reason: recovery.PolicyViolation,
		says: []string{"id:2", "private-key"},
	},
	{name: "a comment has no effect", file: File{Path: "a.sh"}, text: "T=" + githubPAT + " # gitleaks" +
		":allow\n", reason: recovery.PolicyViolation},
	{
		name: "a file name has no effect", file: File{Path: "node_modules/x/go.sum"}, text: "T=" + githubPAT + "\n",
		reason: recovery.PolicyViolation,
	},
	{
		name: "a lock file is excluded from guesses", file: File{Path: "go.sum"},
		text: "github.com/99designs/keyring v1.2.1 h1:tYLp1ULvO7i3fI5vE21ReQuj99QFSs7lGm0xWyJo87o=\n",
	},
	{name: "already on the base branch", file: File{Path: "a.env"}, text: "new line\nK=" + awsKey + "\n", base: "K=" +
		awsKey + "\n"},
	{name: "a different one on the base branch", file: File{Path: "a.env"}, text: "K=" + awsKey + "\n", base: "K=" +
		strings.Replace(awsKey, "Q3", "R4", 1) + "\n", reason: recovery.PolicyViolation},
	{name: "test data", file: File{Path: "testdata/a.env"}, text: "K=" + awsKey + "\n"},
	{
		name: "a file's name", file: File{Path: "notes/" + githubPAT + ".txt"}, reason: recovery.PolicyViolation,
		says: []string{"notes/[REDACTED]", "github-pat"},
	},
	{
		name: "a workflow", file: File{Path: ".github/workflows/x.yml"}, reason: recovery.ScopeViolation,
		says: []string{
			".github/workflows/x.yml", `forbidden by scope.deny ".github/workflows/"`,
			`the label "ci-ok" allows it`,
		},
	},
	{
		name: "a workflow deleted", file: File{Path: ".github/workflows/x.yml", Gone: true},
		reason: recovery.ScopeViolation,
	},
	{
		name: "a workflow allowed", file: File{Path: ".github/workflows/x.yml"},
		labels: []string{"agent-claimed", "CI-ok"},
	},
	{
		name: "a workflow in another case", file: File{Path: ".GitHub/WORKFLOWS/x.yml"},
		reason: recovery.ScopeViolation, says: []string{`forbidden by scope.deny ".github/workflows/"`},
	},
	{
		name: "a link in place of a directory of workflows", file: File{Path: ".github", Link: true}, text: "dotgithub",
		reason: recovery.ScopeViolation,
		says:   []string{`forbidden by scope.deny ".github/workflows/", because the link replaces a directory`},
	},
	{
		name: "a name with an escape sequence", file: File{Path: "x/f\x1b[31mred"}, reason: recovery.ScopeViolation,
		says: []string{`x/f\x1b[31mred: a name with hidden characters`},
	},
	{
		name: "a name that turns the reading direction", file: File{Path: "a\u202egpj.exe"},
		reason: recovery.ScopeViolation, says: []string{`a\u202egpj.exe: a name with hidden characters`},
	},
	{name: "a deleted name with hidden characters", file: File{Path: "a\u200bb", Gone: true, Old: true}},
	{name: "a changed file with an old name", file: File{Path: "a\u200bb", Old: true}},
	{
		name: "GitLab", file: File{Path: "sub/.gitlab-ci.yml"}, labels: []string{"ci-ok"},
		reason: recovery.ScopeViolation,
		says:   []string{`forbidden by scope.deny "**/.gitlab-ci.yml"`, "no label in scope.allow"},
	},
	{name: "an allowed workflow with a secret", file: File{Path: ".github/workflows/x.yml"}, text: "T: " +
		githubPAT, labels: []string{"ci-ok"}, reason: recovery.PolicyViolation},
	{name: "the maximum size", file: File{Path: "a", Bytes: 1000}},
	{
		name: "too large", file: File{Path: "a", Bytes: 1001}, reason: recovery.PolicyViolation,
		says: []string{"a: 1001 bytes", "scope.max_file_bytes = 1000"},
	},
	{name: "a link", file: File{Path: "a/b/l", Link: true}, text: "../../c"},
	{name: "a link to a sibling", file: File{Path: "l", Link: true}, text: "./c/d"},
	{
		name: "a link to the system", file: File{Path: "l", Link: true}, text: "/etc/passwd",
		reason: recovery.PolicyViolation, says: []string{"l: a symbolic link that leaves the tree"},
	},
	{name: "a link to a " +
		"parent", file: File{Path: "a/l", Link: true}, text: "../../x", reason: recovery.PolicyViolation},
	{
		name: "a link over another one", file: File{Path: "a/b/l", Link: true}, text: "c/../x",
		reason: recovery.PolicyViolation,
	},
	{
		name: "a link into git's folder", file: File{Path: "l", Link: true}, text: ".GIT/hooks",
		reason: recovery.PolicyViolation,
	},
	{
		name: "a link in test data", file: File{Path: "testdata/l", Link: true}, text: "/etc/passwd",
		reason: recovery.PolicyViolation,
	},
	{
		name: "a known value in base64", file: File{Path: "a"}, text: "one\n" +
			base64.StdEncoding.EncodeToString([]byte(ownSecret)), reason: recovery.PolicyViolation,
		says: []string{"a:2: Retake's own API_KEY, base64"},
	},
	{
		name: "a known value in a binary file", file: File{Path: "a.bin"}, text: "\x00" + ownSecret,
		reason: recovery.PolicyViolation, says: []string{"a.bin:1: Retake's own API_KEY (remove it)"},
	},
	{
		name: "a known value in test data", file: File{Path: "testdata/a"}, text: ownSecret,
		reason: recovery.PolicyViolation,
	},
	{
		name: "a known value as a link", file: File{Path: "l", Link: true}, text: url.PathEscape(ownSecret),
		reason: recovery.PolicyViolation,
	},
	{
		name: "a known value as a file name", file: File{Path: "the director's/own/value"},
		reason: recovery.PolicyViolation, says: []string{"[REDACTED]: Retake's own"},
	},
	{
		name: "a known value on the base branch", file: File{Path: "a"}, text: "x\n" + ownSecret + "\n" + ownSecret,
		base: ownSecret,
	},
	{name: "a known value in a new encoding", file: File{Path: "a"}, text: ownSecret +
		hex.EncodeToString([]byte(ownSecret)), base: ownSecret, reason: recovery.PolicyViolation},
	{
		name: "binary", file: File{Path: "a.bin"}, text: "\x00" + githubPAT, reason: recovery.PolicyViolation,
		says: []string{"a.bin", "github-pat"},
	},
	{name: "a guess in a binary", file: File{Path: "a.bin"}, text: "\x00\x01\x02\xff\xfe api_key = \"" +
		"q7Zt3LmX9vB2nR5w" + "\"" + strings.Repeat("\xfd\x03", 30)},
}

func TestWhatMayNotLeave(t *testing.T) {
	r := rules(t, options)
	for _, row := range whatMayNotLeaveCases {
		t.Run(row.name, func(t *testing.T) {
			err := look(t, r, row.file, row.text, row.base, row.labels...)
			v, _ := errors.AsType[*Violation](err)
			switch {
			case row.reason == "" && err != nil:
				t.Fatal(err)
			case row.reason == "":
				return
			case v == nil || v.Reason != row.reason:
				t.Fatalf("%v, want %s", err, row.reason)
			}
			for _, want := range row.says {
				if !strings.Contains(v.Text, want) {
					t.Errorf("%s\nwant %s", v.Text, want)
				}
			}
			for _, s := range []string{
				awsKey, githubPAT, base64.StdEncoding.EncodeToString([]byte(ownSecret)),
				"MIIEpAIBAAKCAQEA",
			} {
				if strings.Contains(v.Text, s) {
					t.Error("the error contains the secret")
				}
			}
		})
	}
}

// TestWorstFirst ranks secrets above paths, and counts omitted findings.
func TestWorstFirst(t *testing.T) {
	l := rules(t, options).Look(nil, nil)
	for i := range 9 {
		l.File(File{Path: fmt.Sprintf(".github/workflows/%d.yml", i)})
	}
	l.File(File{Path: "big", Bytes: 2000})
	v, _ := errors.AsType[*Violation](l.Err(t.Context()))
	if v == nil || v.Reason != recovery.PolicyViolation || !strings.HasPrefix(v.Text, "nothing was pushed: big: ") ||
		!strings.Contains(v.Text, "and 6 more") || len(v.Text) > 400 {
		t.Errorf("%+v", v)
	}
}

func TestDenyTakesBack(t *testing.T) {
	r := rules(t, Options{Deny: []string{"ci/", "!ci/docs/"}, MaxFileBytes: 1})
	if err := look(t, r, File{Path: "ci/docs/a.md"}, "", ""); err != nil {
		t.Error(err)
	}
	if err := look(t, r, File{Path: "ci/run"}, "", ""); err == nil {
		t.Error("not denied")
	}
}

// TestFilesThatAPushChanges reports files that a push leaves out or stores raw, unless a setting names them. A name
// that git refuses is reported in any case, and the text masks a secret in a name.
func TestFilesThatAPushChanges(t *testing.T) {
	r := rules(t, Options{AllowRaw: []string{"ok/"}, AllowLeftOut: []string{"w/out/"}, MaxFileBytes: 1})
	fine := r.Look(nil, known)
	fine.LeftOut("w/out/a.o", "w")
	fine.Nested("w/out/.git")
	fine.Filtered("ok/a.bin", "lfs")
	if err := fine.Err(t.Context()); err != nil {
		t.Error(err)
	}
	for want, found := range map[string]func(l *Look){
		"w/a.c: a file in the submodule w,":         func(l *Look) { l.LeftOut("w/a.c", "w") },
		"w/out/git~1: a name that git refuses":      func(l *Look) { l.LeftOut("w/out/git~1", "") },
		"sub/.git: a nested repository, ":           func(l *Look) { l.Nested("sub/.git") },
		"a.bin: a raw file, but .gitattributes set": func(l *Look) { l.Filtered("a.bin", "lfs") },
		"rule github-pat":                           func(l *Look) { l.LeftOut("w/out/"+githubPAT, "w") },
	} {
		l := r.Look(nil, known)
		found(l)
		err := l.Err(t.Context())
		if v, ok := errors.AsType[*Violation](err); !ok || v.Reason != recovery.PolicyViolation ||
			!strings.Contains(v.Text, want) || strings.Contains(v.Text, githubPAT) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestBadGlobs(t *testing.T) {
	for key, o := range map[string]Options{
		"scope.deny":           {Deny: []string{"/x"}},
		"scope.allow":          {Allow: map[string][]string{"ok": {"[a"}}},
		"scope.allow_secrets":  {AllowSecrets: []string{"**"}},
		"scope.allow_raw":      {AllowRaw: []string{"**"}},
		"scope.allow_left_out": {AllowLeftOut: []string{"../x"}},
	} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestPieces finds a secret once, with its line, across any split of the text.
func TestPieces(t *testing.T) {
	r := rules(t, options)
	for _, filler := range []string{"some line of text\n", "text without line breaks "} {
		for _, before := range []int{
			0, pieceBytes - overlapBytes, pieceBytes - 20, pieceBytes,
			2*pieceBytes - overlapBytes - 10,
		} {
			head := strings.Repeat(filler, before/len(filler)+1)[:before] + "\n"
			found, err := r.Look(nil, known).search(t.Context(), "a", head+"T="+githubPAT+"\n"+privateKey+
				strings.Repeat(filler, 5000))
			line := strings.Count(head, "\n") + 1
			if err != nil || len(found) != 2 || found[0].line != line || found[1].line != line+1 {
				t.Errorf("%d bytes before: %d found, %v, want lines %d and the next", before, len(found), err, line)
			}
		}
	}
}

// TestSearchEnds checks that the context ends a search of a text that consists of secrets.
func TestSearchEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	text := strings.Repeat("api_key = '"+githubPAT+"'\n", 1<<20)
	if _, err := search(ctx, "a", text); !errors.Is(err, context.DeadlineExceeded) ||
		time.Since(began) > 30*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestMask(t *testing.T) {
	got, err := Mask(t.Context(), "+T="+githubPAT+"\n+ok\n+"+hex.EncodeToString([]byte(ownSecret)), known)
	if err != nil || got != "+T=[REDACTED]\n+ok\n+[REDACTED]" {
		t.Errorf("%q, %v", got, err)
	}
}

func BenchmarkSearch(b *testing.B) {
	text := strings.Repeat("\tif err := s.doSomething(ctx, token, name); err != nil {\n\t\treturn err\n\t}\n", 10000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := search(b.Context(), "a.go", text); err != nil {
			b.Fatal(err)
		}
	}
}
