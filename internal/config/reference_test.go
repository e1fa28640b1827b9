package config

import (
	"flag"
	"maps"
	"os"
	"slices"
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
		t.Errorf("%s is not what the table says (%v); rewrite it: go test ./internal/config -run "+
			"TestReferencePage -update", referenceFile, err)
	}
}

func referencePage() string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from the table in internal/config: go test ./internal/config -run TestReferencePage -update -->

The file is the one that ` + "`-c`" + ` names, else the variable ` + "`RETAKE_CONFIG`" + `, else ` + "`retake.toml`" +
		` in the working directory, else ` + "`config/dev.toml`" + `
there, which is a commented file with every key. A flag (` + "`--set`" +
		`) wins over the environment, the environment over the file, the file over these
defaults; ` + "`director config show --origin`" +
		` says which it was. In a variable or flag, a text is written without quotes, a list as ` + "`a,b`" +
		` or as TOML
(` + "`[\"a\", \"b\"]`" + `), a table as ` + "`A=1,B=2`" +
		` or as TOML. Stages can only be set in the file. Secrets are not allowed in it.
` + "`director config check`" + ` prints all problems at once, and what ` + "`director run`" +
		` would miss on this machine: the token, a variable
to pass on, a data folder to write to. ` + "`director doctor`" +
		` also looks at GitHub and the container engine: [commands](commands-configuration.md).

A director that runs reads its configuration again when the file changes (or one of the files that [recovery] names), at SIGHUP and at
` + "`director reload`" +
		`: see [a configuration that changes](deployment.md#a-configuration-that-changes). The column "a new value holds" says which
keys it takes then: at once, for what is decided and begun from then on, or at the next restart.
`)
	section := ""
	for _, r := range allRows {
		s, key := cutLast(r.key)
		if s != section {
			section = s
			heading := "[" + s + "]"
			if s == "stage" {
				heading = "[[stage]]"
			}
			b.WriteString("\n## `" + heading + "`\n\n| key | default | values | meaning | a new value holds | " +
				"environment |\n|---|---|---|---|---|---|\n")
		}
		def, env := "`"+r.def+"`", "`"+envName(r.key)+"`"
		if r.def == "" {
			def = "required"
		}
		if s == "stage" {
			env = ""
		}
		values := r.wants()
		if r.unit != "" && !strings.Contains(values, r.unit) {
			values += " (" + r.unit + ")"
		}
		b.WriteString("| `" + key + "` | " + def + " | " + escape(values) + " | " + escape(r.doc) + " | " +
			holds[r.key] + " | " + env + " |\n")
	}
	b.WriteString("\n## Not supported yet\n\nThese keys are part of the design. Setting one is an error until it has " +
		"an effect.\n\n| key | meanwhile |\n|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(unsupported)) {
		b.WriteString("| `" + key + "` | " + escape(unsupported[key]) + " |\n")
	}
	return b.String()
}

func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s)
}
