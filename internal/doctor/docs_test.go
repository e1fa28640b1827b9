package doctor

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table in docs/specs/commands-configuration.md")

const page = "../../docs/specs/commands-configuration.md"

// TestDocumentedRows checks that the page lists the checks of the table. go test ./internal/doctor -run
// TestDocumentedRows -update rewrites it.
func TestDocumentedRows(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("\n| check | needs | checks |\n|---|---|---|\n")
	for _, r := range Rows() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.Name, r.Needs, r.About)
	}
	head, rest, found := strings.Cut(string(data), "-update -->\n")
	_, tail, ended := strings.Cut(rest, "<!-- end of rows -->")
	if !found || !ended {
		t.Fatal("the page has no place for the table")
	}
	want := head + "-update -->" + b.String() + "\n<!-- end of rows -->" + tail
	want = strings.Replace(want, "-update -->\n|", "-update -->\n\n|", 1)
	if want == string(data) {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the table. To rewrite it: go test ./internal/doctor -run TestDocumentedRows -update",
			page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
