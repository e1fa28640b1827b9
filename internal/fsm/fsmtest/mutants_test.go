package fsmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutantSteps is how many steps the simulator has to catch a bug.
const mutantSteps = 1_000_000

// TestMutants plants bugs into the production code, one for each build, and lists what catches them: an invariant that
// nothing violates proves nothing.
func TestMutants(t *testing.T) {
	switch {
	case testing.Short():
		t.Skip("each mutant is a build of its own")
	case raced:
		t.Skip("the mutants are programs of their own, which the race detector does not see")
	}
	internal, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]string, len(mutants))
	t.Run("all", func(t *testing.T) {
		for i, m := range mutants {
			t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
				t.Parallel()
				by, steps := m.run(t, internal)
				t.Logf("%-45s %-35s %8s steps", m.name, by, steps)
				rows[i] = fmt.Sprintf("| %s | `%s` | %s | %s |", m.name, m.file, by, steps)
			})
		}
	})
	if *update && !t.Failed() {
		rewrite(t, "mutants", append([]string{"| bug | in | caught by | after steps |", "|---|---|---|---|"}, rows...))
	}
}

// run lets the simulator, or the explorer, look for the bug.
func (m mutant) run(t *testing.T, internal string) (by, steps string) {
	t.Helper()
	bin := m.build(t, internal)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args := []string{"-seed", "1", "-steps", fmt.Sprint(mutantSteps), "-brief"}
	if m.explore {
		args = []string{"-explore", "100000"}
	}
	out, err := exec.CommandContext(ctx, bin, args...).CombinedOutput()
	seen := violation.FindSubmatch(out)
	switch {
	case ctx.Err() != nil:
		t.Fatal("does not end")
	case err == nil:
		t.Fatalf("not caught within %d steps", mutantSteps)
	case seen == nil:
		t.Fatalf("%v: %s", err, out)
	case !slices.Contains(m.caught, string(seen[1])):
		t.Fatalf("caught by %s, which should not be the first to see it: %s", seen[1], out)
	}
	return string(seen[1]), string(seen[2])
}

var violation = regexp.MustCompile(`VIOLATION (\w+) after (\d+) steps`)

// build compiles the simulator with the bug in it. The sources stay as they are: an overlay replaces the file.
func (m mutant) build(t *testing.T, internal string) (bin string) {
	t.Helper()
	file, dir := filepath.Join(internal, m.file), t.TempDir()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s has %d places like this, the mutant needs one:\n%s", m.file, n, m.old)
	}
	changed := filepath.Join(dir, "changed.go")
	text := strings.Replace(string(source), m.old, m.new, 1) + mutantTails[m.name]
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(dir, "sim")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", bin, "./cmd/sim").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}
