package main

import (
	"slices"
	"strings"
	"testing"
)

// On a terminal the rows of a table never wrap. The table shortens titles first, and keeps the issue.
func TestATableFitsItsTerminal(t *testing.T) {
	title, waits := strings.Repeat("title ", 5)+"title", strings.Repeat("waits ", 11)+"waits"
	rows := [][]string{
		{"ISSUE", "TITLE", "WAITS FOR", "ADDRESS"},
		{"a/b#1", title, waits, "https://github.com/a/b/pull/1"},
	}
	may := []shrinking{{1, 16}, {2, 24}, {3, 0}}
	for columns, want := range map[int]string{
		0:   "a/b#1   " + title + "   " + waits + "   https://github.com/a/b/pull/1",
		130: "a/b#1   title title tit…   " + waits + "   https://github.com/a/b/pull/1",
		90:  "a/b#1   title title tit…   waits waits waits waits waits…    https://github.com/a/b/pull/1",
		60:  "a/b#1   title title tit…   waits waits waits waits…",
		20:  "a/b#1   title title…",
	} {
		var out strings.Builder
		if err := writeTable(&out, rows, columns, may); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		if lines[1] != want {
			t.Errorf("%d columns:\ngot  %q\nwant %q", columns, lines[1], want)
		}
		if columns > 0 && slices.ContainsFunc(lines, func(l string) bool { return len([]rune(l)) > columns }) {
			t.Errorf("%d columns: a line is longer: %q", columns, lines)
		}
	}
}
