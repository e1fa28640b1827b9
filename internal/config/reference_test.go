package config

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/specs/configuration.md")

const referenceFile = "../../docs/specs/configuration.md"

// TestReferencePage: the page is the table. `go test ./internal/config -run TestReferencePage -update` rewrites it.
func TestReferencePage(t *testing.T) {
	want := referencePage()
	if *update {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the table says (%v); rewrite it: go test ./internal/config -run TestReferencePage -update", referenceFile, err)
	}
}

func referencePage() string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from the table in internal/config: go test ./internal/config -run TestReferencePage -update -->

Order: flags, then environment, then the file, then these defaults. A commented file with all of them: ` + "`config/dev.toml`" + `.
A variable holds a text as it is, a list with commas between (` + "`a,b`" + `) or as TOML (` + "`[\"a\", \"b\"]`" + `), a table as ` + "`A=1,B=2`" + ` or as TOML.
Stages stand in the file only. Secrets stand nowhere here. ` + "`director config check`" + ` prints all problems at once.
`)
	section := ""
	for _, r := range rows {
		s, key := cutLast(r.key)
		if s != section {
			section = s
			heading := "[" + s + "]"
			if r.stage() {
				heading = "[[stage]]"
			}
			b.WriteString("\n## `" + heading + "`\n\n| key | default | values | meaning | environment |\n|---|---|---|---|---|\n")
		}
		def, env := "`"+r.def+"`", "`"+envName(r.key)+"`"
		if r.def == "" {
			def = "needed"
		}
		if r.stage() {
			env = ""
		}
		values := strings.TrimPrefix(r.wants(), "want ")
		if r.unit != "" && !strings.Contains(values, r.unit) {
			values += " (" + r.unit + ")"
		}
		b.WriteString("| `" + key + "` | " + def + " | " + escape(values) + " | " + escape(r.doc) + " | " + env + " |\n")
	}
	b.WriteString("\n## Not supported yet\n\nThese keys are part of the design. Using one is an error until something uses it.\n\n| key | meanwhile |\n|---|---|\n")
	for _, u := range unsupported {
		b.WriteString("| `" + u.key + "` | " + escape(u.what) + " |\n")
	}
	return b.String()
}

func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s)
}
