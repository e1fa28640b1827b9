package wire

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

const busDoc = "../../../docs/specs/agent-bus.md"

// generated returns the generated tables of the specification, by their markers.
func generated() map[string]string {
	var rows, causes strings.Builder
	rows.WriteString("| message | from | subject below the prefix | required fields | schema |\n" +
		"|---|---|---|---|---|\n")
	for _, row := range messages {
		var required []string
		for _, f := range row.Fields {
			if f.Required {
				required = append(required, "`"+f.Path+"`")
			}
		}
		subject := "`" + row.Subject + "`"
		if what, is := strings.CutPrefix(row.Subject, "reply to "); is {
			subject = "reply to `" + what + "`"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s | [schema](schemas/%s.json) |\n", row.Type, row.From, subject,
			strings.Join(required, " "), row.Type)
	}
	causes.WriteString("| cause | what it means | what to do |\n|---|---|---|\n")
	for _, row := range Causes() {
		fmt.Fprintf(&causes, "| `%s` | %s | %s |\n", row.Cause, row.Meaning, row.Remedy)
	}
	return map[string]string{"messages": rows.String(), "causes": causes.String()}
}

func TestSpecificationEqualsTables(t *testing.T) {
	doc, err := os.ReadFile(busDoc)
	if err != nil {
		t.Fatal(err)
	}
	want := doc
	for name, table := range generated() {
		begin, end := []byte("<!-- generated: "+name+" -->\n"), []byte("<!-- end -->\n")
		before, rest, found := bytes.Cut(want, begin)
		_, after, closed := bytes.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no place for the generated table %q", busDoc, name)
		}
		want = bytes.Join([][]byte{before, begin, []byte(table), end, after}, nil)
	}
	if *update {
		if err := os.WriteFile(busDoc, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(doc, want) {
		t.Errorf("%s differs from the code's tables: go test ./internal/bus/wire -update", busDoc)
	}
}
