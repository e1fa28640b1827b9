package classify

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"retake/internal/recovery/recoverytest"
)

func TestSpecificationOfReading(t *testing.T) {
	recoverytest.Compare(t, "../../../docs/specs/error-handling.md",
		recoverytest.Table{Name: "bands", Rows: bandRows()},
		recoverytest.Table{Name: "statuses", Rows: statusRows(newClassifier(t))},
		recoverytest.Table{Name: "exits", Rows: exitRows(newClassifier(t))},
	)
}

func bandRows() []string {
	rows := []string{"| band | the line that counts | confidence |", "|---|---|---|"}
	for _, b := range tiers {
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
	wrappers := map[string]bool{}
	for _, x := range c.exit {
		wrappers[x.Tool] = wrappers[x.Tool] || x.Wrapper || x.Tool == "wait_parallel_tasks"
	}
	for _, x := range c.exit {
		tool := cmp.Or(x.Tool, "any")
		if wrappers[x.Tool] {
			continue
		}
		rows = append(rows, fmt.Sprintf("| %d | %s | `%s` | %s |", x.Code, tool, x.Reason, x.Why))
	}
	return rows
}
