package project

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/config"
)

var update = flag.Bool("update", false, "rewrite the expected contracts in testdata")

// golden compares a text with a file, and checks that the contract in it is valid.
func golden(t *testing.T, file, contract, text string) {
	t.Helper()
	_, problems := config.ReadContract(config.Default(), file, []byte(contract), config.AnyTerms())
	if len(problems) > 0 {
		t.Errorf("the contract has problems:\n%s\n%s", problems, contract)
	}
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != text {
		t.Errorf("%s: got\n%s\nwant\n%s\n(%v)", file, text, want, err)
	}
}

func TestDetect(t *testing.T) {
	for _, name := range []string{"go", "node", "python", "rust", "maven", "make", "empty", "ci"} {
		t.Run(name, func(t *testing.T) {
			d := Detect(filepath.Join("testdata", name))
			d.Code.Agent, d.Schema = "claude-code", "./retake.schema.json"
			golden(t, filepath.Join("testdata", name+".golden"), d.String(), d.String())
		})
	}
}

func TestConvert(t *testing.T) {
	for _, name := range []string{"symphony.md", "sortie.md", "detent.yaml"} {
		t.Run(name, func(t *testing.T) {
			c, err := Convert(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", name+".golden"), c.String(),
				c.String()+"\n# Left:\n"+strings.Join(c.Left, "\n")+"\n")
		})
	}
}

func TestConvertRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"# no front matter\n":   "no front matter found",
		"---\nagent: x\n":       "the front matter has no end",
		"---\n- a\n---\nbody\n": "no keys found",
		"---\na: [\n---\n":      "yaml: ",
	} {
		file := filepath.Join(t.TempDir(), "WORKFLOW.md")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Convert(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestTemplate(t *testing.T) {
	text, unknown := template("{{ issue.identifier }} {{- .issue.title -}} " +
		"{% if attempt %}again{% else %}first{% endif %}")
	want := "{{ .Issue.Key }} {{ .Issue.Title }} {{ if .Failures }}again{{ else }}first{{ end }}"
	if text != want || len(unknown) > 0 {
		t.Errorf("got %q and unknown %q, want %q", text, unknown, want)
	}
	_, unknown = template("{{ issue.state }} {% for l in issue.labels %}{{ l }}{% endfor %}")
	if want := []string{"issue.state", "for l in issue.labels", "l", "endfor"}; !slices.Equal(unknown, want) {
		t.Errorf("got unknown %q, want %q", unknown, want)
	}
}

func TestTry(t *testing.T) {
	for name, row := range map[string]struct{ script, failed, output string }{
		"success": {"exit 0", "", ""},
		"failure": {"echo broken && exit 3", "exit status 3", "broken\n"},
		"endless": {"sleep 60", "it did not end within 200ms", ""},
		"long":    {"yes 0123456789 | head -c 100000 && echo end && exit 1", "exit status 1", "end\n"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := time.Minute
			if name == "endless" {
				limit = 200 * time.Millisecond
			}
			c := Command{Run: []string{"sh", "-c", row.script}}
			if err := Try(t.Context(), t.TempDir(), &c, limit); err != nil {
				t.Fatal(err)
			}
			if c.Failed != row.failed || !strings.HasSuffix(c.Output, row.output) || len(c.Output) > mostOutput {
				t.Errorf("got %+v, want %+v", c, row)
			}
		})
	}
	c := Command{Run: []string{"no-such-program"}}
	err := Try(t.Context(), t.TempDir(), &c, time.Minute)
	if want := "no-such-program is not installed here"; err != nil || c.Failed != want {
		t.Errorf("got %+v, %v, want %q", c, err, want)
	}
	d := Draft{Code: Code{Agent: "codex"}, Checks: []Command{{
		Run: []string{"make", "test"}, Why: "Makefile", Failed: "exit status 2", Output: "\n1 test failed\n\n",
	}}}
	golden(t, "testdata/failed.golden", d.String(), d.String())
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	if _, err := Find(dir); !errors.Is(err, ErrNone) {
		t.Errorf("got %v, want %v", err, ErrNone)
	}
	root := filepath.Join(dir, "retake.toml")
	if err := os.WriteFile(root, []byte("[director]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := Find(dir); err != nil || file != root {
		t.Errorf("got %q, %v, want %q", file, err, root)
	}
	if _, err := Read(root); err == nil || !strings.Contains(err.Error(), "is a director's configuration") {
		t.Errorf("got %v for a director's configuration", err)
	}
	link := filepath.Join(dir, ".github", "retake.toml")
	if err := errors.Join(os.Mkdir(filepath.Dir(link), 0o700), os.Symlink("../retake.toml", link)); err != nil {
		t.Fatal(err)
	}
	if file, err := Find(dir); err != nil || file != link {
		t.Errorf("got %q, %v, want %q", file, err, link)
	}
	if _, err := Read(link); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v for a link", err)
	}
}
