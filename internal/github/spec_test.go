package github

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSpecification holds the tables of the specification against the code; -update rewrites them.
func TestSpecification(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "specs", "github.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	labels := "| label | says to people |\n|---|---|\n"
	for _, l := range testLabels.specs() {
		labels += fmt.Sprintf("| `%s` | %s |\n", l.name, l.description)
	}
	words := "| command | effect | where |\n|---|---|---|\n"
	for _, c := range commands {
		words += fmt.Sprintf("| `%s` | %s | %s |\n", c.Usage, c.Meaning, c.Where)
	}
	text := string(data)
	for name, table := range map[string]string{"labels": labels, "commands": words} {
		head, rest, begins := strings.Cut(text, "<!-- "+name+" -->\n")
		_, tail, ends := strings.Cut(rest, "<!-- /"+name+" -->")
		if !begins || !ends {
			t.Fatalf("no place for the table of %s", name)
		}
		text = head + "<!-- " + name + " -->\n" + table + "<!-- /" + name + " -->" + tail
	}
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != string(data) {
		t.Error("the specification and the code differ. Run: go test ./internal/github -run Specification -update")
	}
}
