package recoverytest

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/specs/error-handling.md")

// Table is one generated table of a document, between <!-- name --> and <!-- /name -->.
type Table struct {
	Name string
	Rows []string
}

// Compare checks the tables of a document, or rewrites them if the test is run with -update.
func Compare(t *testing.T, document string, tables ...Table) {
	t.Helper()
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, table := range tables {
		begin, end := "<!-- "+table.Name+" -->\n", "<!-- /"+table.Name+" -->"
		_, rest, ok := strings.Cut(text, begin)
		old, _, ok2 := strings.Cut(rest, end)
		want := strings.Join(table.Rows, "\n") + "\n"
		switch {
		case !ok || !ok2:
			t.Errorf("%s: no table %q", document, table.Name)
		case old == want:
		case !*update:
			t.Errorf("%s: table %q is out of date; run this test with -update", document, table.Name)
		default:
			text = strings.Replace(text, begin+old+end, begin+want+end, 1)
		}
	}
	if *update && text != string(data) {
		if err := os.WriteFile(document, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
