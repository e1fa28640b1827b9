package fsmtest

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mutantSteps is the number of steps in which the simulator must catch a bug.
const mutantSteps = 4_000_000

// TestMutants plants bugs in the production code, and lists the invariant that detects each. An invariant that is never
// violated proves little. If testdata/searched.md names a world for a bug, that world runs first. The daily test
// searches for the bugs that fit into one build, and the nightly test for all bugs.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("the mutants take long")
	}
	internal, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := allSeen(part(t, searched, "mutants"))
	joined, alone := plant(t, internal)
	sim := build(t, joined)
	rows := make([]string, len(mutants))
	t.Run("all", func(t *testing.T) {
		for i, m := range mutants {
			t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
				t.Parallel()
				files, ok := alone[i]
				if !nightly && (ok || m.explore) {
					t.Skip("built and searched with RETAKE_NIGHTLY=1")
				}
				bin := sim
				if ok {
					bin = build(t, files)
				}
				c := m.find(t, bin, i, seen[m.name])
				t.Logf("%-45s %-35s world %5s, %8s steps", m.name, c.by, c.world, c.steps)
				rows[i] = fmt.Sprintf("| %s | `%s` | %s | %s | %s |", m.name, m.file, c.by, c.world, c.steps)
			})
		}
	})
	if *update && nightly && !t.Failed() {
		rewrite(t, searched, "mutants", append([]string{
			"| bug | in | caught by | in world | after steps |",
			"|---|---|---|---|---|",
		}, rows...))
	}
}

// caught is the invariant that detected a bug, and the world.
type caught struct{ by, world, steps string }

// allSeen returns the worlds in testdata/searched.md in which bugs were detected.
func allSeen(table string) map[string]caught {
	seen := map[string]caught{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(strings.TrimSuffix(line, " |\n"), " | "); len(cells) == 5 {
			seen[strings.TrimPrefix(cells[0], "| ")] = caught{cells[2], cells[3], cells[4]}
		}
	}
	return seen
}

// find lets the simulator or the explorer search for the bug, first in the known world and then everywhere.
func (m mutant) find(t *testing.T, bin string, number int, seen caught) caught {
	t.Helper()
	args := []string{"-seed", "1", "-steps", strconv.Itoa(mutantSteps), "-brief"}
	if lossMutants[m.name] {
		args = append(args, "-losses")
	}
	if live[m.name] {
		args = append(args, "-live")
	}
	if m.explore {
		args = []string{"-explore", "100000"}
	} else if seen.world != "" {
		if c, _, _ := m.run(t, bin, number, append(args, "-world", seen.world)); slices.Contains(m.caught, c.by) {
			return caught{c.by, seen.world, seen.steps}
		}
		t.Logf("no longer in world %s: searching all; -update notes the world", seen.world)
	}
	c, out, err := m.run(t, bin, number, args)
	switch {
	case err == nil:
		t.Fatalf("not caught within %d steps", mutantSteps)
	case c.by == "":
		t.Fatalf("%v: %s", err, out)
	case !slices.Contains(m.caught, c.by):
		t.Fatalf("caught by %s, which should not be the first to see it: %s", c.by, out)
	}
	return c
}

var violation = regexp.MustCompile(`VIOLATION (\w+) after (\d+) steps(?: of world (\d+))?`)

// run executes one search.
func (m mutant) run(t *testing.T, bin string, number int, args []string) (c caught, out []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(cmd.Environ(), fmt.Sprintf("%s=%d", plantedVar, number+1))
	out, err = cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatal("does not end")
	}
	if s := violation.FindSubmatch(out); s != nil {
		c = caught{string(s[1]), cmp.Or(string(s[3]), "explored"), string(s[2])}
	}
	return c, out, err
}
