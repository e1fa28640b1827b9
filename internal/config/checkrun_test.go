package config

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMounts(t *testing.T) {
	dir := t.TempDir()
	// Use a short path, because the address of a socket has a limited length.
	short, err := os.MkdirTemp("", "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	l, err := net.Listen("unix", filepath.Join(short, "engine"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.Symlink("/var/run", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for mount, want := range map[string]string{
		"/usr/local/go:/usr/local/go:ro":       "",
		"volume:retake-gocache:/cache":         "",
		"/data:/tmp/data":                      "",
		"relative:/x":                          "not a clean absolute",
		"/a/../b:/x":                           "not a clean absolute",
		"/a:x":                                 "not a clean absolute",
		"/a":                                   "bad form",
		"/a:/b:xx":                             "bad form",
		"/a:/b:ro:ro":                          "bad form",
		"volume:-x:/y":                         "invalid volume name",
		"volume::/y":                           "invalid volume name",
		"/:/host":                              "socket",
		"/run:/host":                           "socket",
		"/var/run/docker.sock:/s":              "socket",
		"/somewhere/docker.sock:/s":            "socket",
		filepath.Join(short, "engine") + ":/s": "socket",
		filepath.Join(dir, "link") + ":/s":     "socket",
		"/a:/retake":                           "cover /retake",
		"/a:/retake/x":                         "cover /retake",
		"/a:/":                                 "cover /",
		"/a:/etc":                              "cover /etc",
		"/a:/proc/x":                           "cover part of /proc",
		"/a:/workspace":                        "overlaps the checkout",
		"/a:/workspace/sub":                    "overlaps the checkout",
		dir + ":/x":                            "director.data_dir",
		dir + "/data/tasks:/x":                 "director.data_dir",
	} {
		_, p := load("c.toml", nil, nil, map[string]string{"containers.mounts": mount, "director.data_dir": dir +
			"/data"})
		if got := p.String(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", mount, got, want)
		}
	}
	_, p := load("c.toml", nil, nil, map[string]string{"containers.mounts": "/a:/x,/b:/x"})
	if !strings.Contains(p.String(), "two mounts") {
		t.Error(p)
	}
}

// TestRefusedProgramsOutsideTheCheckout checks that a relative program outside the checkout is refused.
func TestRefusedProgramsOutsideTheCheckout(t *testing.T) {
	for program, refused := range map[string]bool{
		"../agent.sh": true, "./../agent.sh": true, "a/../../agent.sh": true, "..": true,
		"./agent.sh": false, "a/../agent.sh": false, "..agent": false, "/a/../agent.sh": false, "agent": false,
	} {
		_, p := text(t, "[[stage]]\nname = \"CODE\"\nrun = [\""+program+"\"]")
		if got := p; strings.Contains(got, "stage[0].run") != refused ||
			refused && !strings.Contains(got, "want an absolute path") {
			t.Errorf("%s: %s", program, got)
		}
	}
}

func TestCheckRun(t *testing.T) {
	noneSet := func(string) (string, bool) { return "", false }
	allSet := func(string) (string, bool) { return "x", true }
	if got := Default().CheckRun(noneSet).String(); !strings.Contains(got, "github.repositories") ||
		!strings.Contains(got, "CODE") || !strings.Contains(got, "GITHUB_TOKEN") {
		t.Error(got)
	}
	c, _ := text(t, "github.repositories = [\"a/b\"]\n[[stage]]\nname = \"CODE\"\nrun = [\"x\"]")
	if p := c.CheckRun(allSet); len(p) > 0 {
		t.Error(p)
	}
	for _, long := range []bool{false, true} { // the error must contain the name of the file, which is not secret
		file := filepath.Join(t.TempDir(), "github-token-of-the-fleet")
		if long {
			if err := os.WriteFile(file, make([]byte, maxTokenBytes+1), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c.GitHub.TokenFile = file
		if got := c.CheckRun(allSet).String(); !strings.Contains(got, "github.token_file: names "+file) {
			t.Error(got)
		}
	}
}

// TestWebhookSecretIsNeededWhereItsPlaceIsSet checks that http_listen alone does not enable webhooks, and that a
// configured source of their secret must contain a secret.
func TestWebhookSecretIsNeededWhereItsPlaceIsSet(t *testing.T) {
	for _, row := range []struct {
		name, secret, file string
		set                bool
		takes              bool
		problem            string
	}{
		{name: "no variable", takes: false},
		{name: "a secret", set: true, secret: "it-is-a-secret", takes: true},
		{name: "an empty variable", set: true, takes: true, problem: "github.webhook_secret_env"},
		{name: "a file that is not there", file: "/nowhere/secret", takes: true, problem: "github.webhook_secret_file"},
	} {
		c, _ := text(t, "github.repositories = [\"a/b\"]\ndirector.http_listen = \"127.0.0.1:0\"\n[[stage]]\nname = "+
			"\"CODE\"\nrun = [\"x\"]")
		c.GitHub.WebhookSecretFile = row.file
		lookup := func(name string) (string, bool) {
			if name == c.GitHub.WebhookSecretEnv {
				return row.secret, row.set
			}
			return "x", true
		}
		if got := c.TakesWebhooks(lookup); got != row.takes {
			t.Errorf("%s: webhooks are accepted: %t", row.name, got)
		}
		if p := c.CheckRun(lookup); (len(p) > 0) != (row.problem != "") || !strings.Contains(p.String(), row.problem) {
			t.Errorf("%s: %v, want a problem of %q", row.name, p, row.problem)
		}
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := map[string]string{"GITHUB_TOKEN": " tok\n", "TWO": "hunter2 hunter2"}
	for _, c := range []struct{ name, file, token, warning, err string }{
		{"GITHUB_TOKEN", "", "tok", "", ""},
		{"MISSING", "", "", "", "MISSING is empty or not set; set it to a token"},
		{"TWO", "", "", "", "must contain only a token with access"},
		{"", "", "", "", "set github.token_env or github.token_file"},
		{"GITHUB_TOKEN", file("good", "filetok\n", 0o600), "filetok", "", ""},
		{"", file("open", "filetok", 0o644), "filetok", "chmod 600", ""},
		{"", file("empty", "\n", 0o600), "", "", "is empty"},
		{"", file("long", strings.Repeat("x", 20000), 0o600), "", "", "exceeds 16384 bytes"},
		{"", filepath.Join(dir, "missing"), "", "", "write the secret there"},
		{"", dir, "", "", "is a directory"},
	} {
		conf := Default()
		conf.GitHub.TokenEnv, conf.GitHub.TokenFile = c.name, c.file
		token, warning, err := conf.Token(func(k string) string { return env[k] })
		said := ""
		if err != nil {
			said = err.Error()
		}
		if token != c.token || !strings.Contains(warning, c.warning) || (warning == "") != (c.warning == "") ||
			!strings.Contains(said, c.err) || (said == "") != (c.err == "") {
			t.Errorf("%+v: got %q, %q, %v", c, token, warning, err)
		}
		if strings.Contains(said, "hunter2") {
			t.Errorf("the token is in the error: %v", err)
		}
	}
}
