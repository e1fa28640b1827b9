package recovery

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/specs/error-handling.md")

const specification = "../../docs/specs/error-handling.md"

// TestSpecificationSaysWhatTheCodeDoes compares the tables of the specification with those of the code.
// go test ./internal/recovery -run Specification -update rewrites them.
func TestSpecificationSaysWhatTheCodeDoes(t *testing.T) {
	data, err := os.ReadFile(specification)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, table := range []struct {
		name string
		rows []string
	}{
		{"reasons", reasonRows()},
		{"error-types", errorTypeRows()},
		{"vocabularies", vocabularyRows()},
		{"words", wordRows()},
		{"vectors", outRows()},
		{"bands", bandRows()},
		{"statuses", statusRows(newClassifier(t))},
		{"exits", exitRows(newClassifier(t))},
	} {
		begin, end := "<!-- "+table.name+" -->\n", "<!-- /"+table.name+" -->"
		_, rest, ok := strings.Cut(text, begin)
		old, _, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Errorf("%s: no table %q", specification, table.name)
			continue
		}
		want := strings.Join(table.rows, "\n") + "\n"
		if old == want {
			continue
		}
		if !*update {
			t.Errorf("%s: table %q is not what the code does; run this test with -update", specification, table.name)
			continue
		}
		text = strings.Replace(text, begin+old+end, begin+want+end, 1)
	}
	if *update {
		if err := os.WriteFile(specification, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func reasonRows() []string {
	rows := []string{"| reason | means | class | retryable | cause | a person is asked |", "|---|---|---|---|---|---|"}
	for _, a := range Reasons {
		retryable := "no"
		if a.Retryable {
			retryable = "yes"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |", a.Reason, a.Means, a.Class, retryable, a.Cause, a.Ask))
	}
	return rows
}

func errorTypeRows() []string {
	rows := []string{"| `error_type` | is read as | is written for that reason |", "|---|---|---|"}
	for _, w := range words {
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | `%s` |", w.errorType, w.reason, ErrorType(w.reason)))
	}
	return rows
}

// vocabularyRows puts the vocabularies side by side.
func vocabularyRows() []string {
	head, line := "|", "|"
	for _, preset := range Vocabularies() {
		head, line = head+" "+preset+" |", line+"---|"
	}
	rows := []string{head, line}
	for _, a := range Reasons {
		row := "|"
		for _, preset := range Vocabularies() {
			word, _ := As(preset, Finding{Reason: a.Reason})
			row += " `" + word + "` |"
		}
		rows = append(rows, row)
	}
	return rows
}

func wordRows() []string {
	rows := []string{"| preset | word | is read as |", "|---|---|---|"}
	for _, h := range heard {
		rows = append(rows, fmt.Sprintf("| %s | `%s` | `%s` |", h.preset, h.word, h.reason))
	}
	return rows
}

func bandRows() []string {
	rows := []string{"| band | the line that counts | confidence |", "|---|---|---|"}
	for _, b := range bands {
		which := "last"
		if b.first {
			which = "first"
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %.2f |", b.name, which, b.confidence))
	}
	return rows
}

func statusRows(c *Classifier) []string {
	rows := []string{"| HTTP status | means | unless the text says |", "|---|---|---|"}
	for _, s := range c.status {
		code := strconv.Itoa(s.Code)
		if s.Code < 10 {
			code = "any other " + code + "xx"
		}
		var refine []string
		for _, r := range s.Refine {
			refine = append(refine, "`"+string(r)+"`")
		}
		rows = append(rows, fmt.Sprintf("| %s | `%s` | %s |", code, s.Reason, strings.Join(refine, " ")))
	}
	return rows
}

func exitRows(c *Classifier) []string {
	rows := []string{"| exit code | of | means | because |", "|---|---|---|---|"}
	for _, x := range c.exit {
		tool := x.Tool
		switch {
		case tool == "":
			tool = "any program"
		case x.Wrapper:
			tool += " (before text)"
		}
		rows = append(rows, fmt.Sprintf("| %d | %s | `%s` | %s |", x.Code, tool, x.Reason, x.Why))
	}
	return rows
}
