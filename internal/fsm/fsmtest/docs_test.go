package fsmtest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// update makes TestSpecification rewrite the invariants, and TestMutants and TestExplore their measured results.
var update = flag.Bool("update", false, "rewrite testdata/invariants.md and testdata/searched.md")

const (
	specification = "testdata/invariants.md"
	searched      = "testdata/searched.md" // results of TestMutants and TestExplore
)

// TestSpecification compares the generated parts with the code's tables. Only the names of measured parts are
// compared, as the figures change from run to run.
func TestSpecification(t *testing.T) {
	if *update {
		rewrite(t, specification, "invariants", invariantRows())
	} else if part(t, specification, "invariants") != strings.Join(invariantRows(), "\n")+"\n" {
		t.Errorf("%s: the invariants are out of date; run this test with -update", specification)
	}
	var bugs, worlds []string
	for _, m := range mutants {
		bugs = append(bugs, m.name)
	}
	for _, s := range SmallWorlds {
		worlds = append(worlds, s.Name)
	}
	for name, want := range map[string][]string{"mutants": bugs, "worlds": worlds} {
		if has := firstCells(part(t, searched, name)); !slices.Equal(has, want) && !*update {
			t.Errorf("%s: part %q lists %q, the code has %q; run TestMutants and TestExplore with -update",
				searched, name, has, want)
		}
	}
}

func invariantRows() []string {
	rows := []string{"| invariant | says |", "|---|---|"}
	for _, i := range invariants {
		rows = append(rows, fmt.Sprintf("| %s | %s |", i.Name, i.Says))
	}
	return rows
}

// firstCells returns the first cells of a table's rows.
func firstCells(table string) (cells []string) {
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && i > 1 {
			cells = append(cells, cell)
		}
	}
	return cells
}

// part returns the text between the two marks of a part.
func part(t *testing.T, document, name string) string {
	t.Helper()
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(data), "<!-- "+name+" -->\n")
	text, _, ends := strings.Cut(rest, "<!-- /"+name+" -->")
	if !begins || !ends {
		t.Fatalf("%s: no part %q", document, name)
	}
	return text
}

func rewrite(t *testing.T, document, name string, rows []string) {
	t.Helper()
	old := part(t, document, name)
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	begin := "<!-- " + name + " -->\n"
	text := strings.Replace(string(data), begin+old, begin+strings.Join(rows, "\n")+"\n", 1)
	if err := os.WriteFile(document, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
