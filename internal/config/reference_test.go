package config

import (
	"cmp"
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/specs/configuration.md")

const referenceFile = "../../docs/specs/configuration.md"

// TestReferencePage compares the page with the table. `go test ./internal/config -run TestReferencePage -update`
// rewrites it.
func TestReferencePage(t *testing.T) {
	want := referencePage()
	if *update {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil || string(got) != want {
		t.Errorf("%s differs from the table (%v), rewrite it with go test ./internal/config -run "+
			"TestReferencePage -update", referenceFile, err)
	}
}

// referenceIntro is the beginning of the page, with ~ instead of backquotes.
const referenceIntro = `# Configuration

<!-- Made from the table in internal/config: go test ./internal/config -run TestReferencePage -update -->

~-c~ names the file. Without it, the director uses ~RETAKE_CONFIG~, then ~retake.toml~ in the working directory, then
~config/dev.toml~ there, a commented file with every key. Flags (~--set~) override the environment, which
overrides the file, which overrides these defaults. ~director config show --origin~ shows the source of each value.

The variable for ~director.max_workers~ is ~RETAKE_CFG_DIRECTOR_MAX_WORKERS~, and so on. In variables and flags, write
strings without quotes, lists as ~a,b~ or TOML, and tables as ~A=1,B=2~ or TOML. Set stages only in the file. The file
must not contain secrets. A relative path in the file is relative to the file's directory. In ~config/dev.toml~, in
variables and in flags, a path is relative to the working directory.

~director config check~ prints all problems, including missing prerequisites for ~director run~. ~director doctor~ also
tests GitHub and the container engine ([commands](commands-configuration.md)). A running director rereads its
configuration ([reload](deployment.md#a-configuration-that-changes)). A new value takes effect ~now~, for later
decisions and attempts, or at the next ~restart~. Ranges are whole numbers, except for seconds and for keys whose
default has a decimal point.
`

// span matches the range in the text of row.wants. The page shows it as "0 to 3600 seconds".
var span = regexp.MustCompile(`^(?:a number of (seconds)|an integer|a number) from (\S+) to (\S+)$`)

// values describes the allowed values of a key, for the column "values".
func values(r row) string {
	s := r.wants()
	if m := span.FindStringSubmatch(s); m != nil {
		return strings.TrimSpace(m[2] + " to " + m[3] + " " + cmp.Or(r.unit, m[1]))
	}
	if r.unit != "" && !strings.Contains(s, r.unit) {
		s += " (" + r.unit + ")"
	}
	return s
}

func referencePage() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(referenceIntro, "~", "`"))
	section := ""
	for _, r := range allRows {
		s, key := cutLast(r.key)
		if s != section {
			section = s
			heading := "[" + s + "]"
			if s == "stage" || s == "route" {
				heading = "[[" + s + "]]"
			}
			b.WriteString("\n## `" + heading + "`\n\n| key | default | values | meaning | effect |\n" +
				"|---|---|---|---|---|\n")
		}
		def := "`" + r.def + "`"
		if r.def == "" {
			def = "required"
		}
		effect := "now"
		if holds[r.key] == holdsAfterward {
			effect = "restart"
		}
		b.WriteString("| `" + key + "` | " + def + " | " + escape(values(r)) + " | " + escape(r.doc) + " | " + effect +
			" |\n")
	}
	b.WriteString("\n## Not supported yet\n\nThese keys are planned. Setting one is an error.\n\n" +
		"| key | alternative |\n|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(unsupported)) {
		b.WriteString("| `" + key + "` | " + escape(unsupported[key]) + " |\n")
	}
	return b.String()
}

func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s)
}
