package scope

import (
	"fmt"
	"strings"
	"testing"

	"retake/internal/recovery"
)

// TestLinks denies files that a system reaches at a denied path through symbolic links.
func TestLinks(t *testing.T) {
	r := rules(t, options)
	links := []Link{
		{".github", "dot"},                            // a directory
		{"sub/.gitlab-ci.yml", "../ci/pipeline.yml"},  // a file
		{"dot/Workflows", "../one"}, {"one", "./two"}, // several links
		{"loop/self", "../loop"}, {"a", "b/x"}, {"b/x/y", "../../a"}, // loops
		{"out", "../../x"}, {"abs", "/etc"}, {"root", "."},
	}
	for name, want := range map[string]string{
		"dot/workflows/x.yml": `".github/workflows/", through`, "DOT/workflows/x.yml": `".github/workflows/", through`,
		"two/x.yml": `".github/workflows/", through`, "ci/pipeline.yml": `"**/.gitlab-ci.yml", through`,
		"dot/x.yml": "", "ci/pipeline.yml.md": "", "loop/x": "", "b/x/z": "", "etc/x": "", "x": "",
		".github/x": "",
	} {
		l := r.Look(nil, known)
		l.Links(links)
		l.File(File{Path: name})
		err := l.Err(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	l := r.Look([]string{"ci-ok"}, known)
	l.Links([]Link{{".github/workflows/x.yml", "../../.github/workflows/real.yml"}})
	if l.File(File{Path: ".github/workflows/real.yml"}); l.Err(t.Context()) != nil {
		t.Error(l.Err(t.Context()))
	}
}

// TestAsk notes files that only a draft may change, and refuses them if the delivery cannot be one.
func TestAsk(t *testing.T) {
	o := options
	o.Ask = []string{"@default", "skills/", "!docs/AGENTS.md"}
	o.Allow = map[string][]string{"tools": {".envrc"}}
	l := rules(t, o).Look([]string{"tools"}, known)
	l.Links([]Link{{".vscode", "editor"}})
	for _, name := range []string{"a.go", "Claude.md", "skills/x", "docs/AGENTS.md", ".envrc", "editor/tasks.json"} {
		l.Ask(File{Path: name})
	}
	var got []string
	for _, a := range l.Asked() {
		got = append(got, a.Path+" "+a.Glob)
	}
	want := "Claude.md **/CLAUDE.md, skills/x skills/, editor/tasks.json **/.vscode/"
	if strings.Join(got, ", ") != want {
		t.Errorf("asked about %q, want %q", got, want)
	}
	if err := l.Err(t.Context()); err != nil {
		t.Errorf("as a draft: %v", err)
	}
	l.RefuseAsked()
	want = `scope.ask "**/CLAUDE.md" outside a draft`
	if err := l.Err(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("not as a draft: %v", err)
	}
}

// TestManyLinks refuses a path that so many links lead to that they cannot all be followed.
func TestManyLinks(t *testing.T) {
	var links []Link
	for i := range mostNames + 1 {
		links = append(links, Link{fmt.Sprintf("l%d", i), "d"})
	}
	l := rules(t, options).Look(nil, known)
	l.Links(links)
	l.File(File{Path: "d/x"})
	v, ok := l.Err(t.Context()).(*Violation) //nolint:errorlint // Err returns it unwrapped
	if !ok || v.Reason != recovery.ScopeViolation || !strings.Contains(v.Text, "because of symbolic links") {
		t.Error(v)
	}
}
