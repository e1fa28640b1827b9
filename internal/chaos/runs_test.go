package chaos

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// lines returns the runs that the given lines describe. The lines are one second apart.
func lines(all ...runLine) (runs []*agentRun) {
	at := time.Unix(1_800_000_000, 0)
	for _, l := range all {
		at = at.Add(time.Second)
		l.At = at
		runs = l.addTo(runs)
	}
	return runs
}

func one(what, issue, attempt string) runLine {
	return runLine{What: what, Issue: "a/b#" + issue, Attempt: attempt, Round: "1"}
}

func TestOverlapping(t *testing.T) {
	for _, c := range []struct {
		name string
		runs []*agentRun
		want int
	}{
		{"sequentially", lines(one(runBegan, "1", "x-1"), one(runAlive, "1", "x-1"), one(runBegan, "1", "x-2"),
			one(runAlive, "1", "x-2")), 0},
		{"two issues", lines(one(runBegan, "1", "x-1"), one(runBegan, "2", "y-1"), one(runAlive, "1", "x-1")), 0},
		{
			"the first lives on", lines(one(runBegan, "1", "x-1"), one(runBegan, "1", "x-2"),
				one(runAlive, "1", "x-1")),
			1,
		},
		{"the first is frozen", lines(one(runBegan, "1", "x-1"), one(runBegan, "1", "x-2"),
			one(runOverlaps, "1", "x-2")), 1},
		{"the same attempt twice", lines(one(runBegan, "1", "x-1"), one(runBegan, "1", "x-1"),
			one(runAlive, "1", "x-1")), 0},
	} {
		if got := overlapping(c.runs); len(got) != c.want {
			t.Errorf("%s: %d overlap, want %d", c.name, len(got), c.want)
		}
	}
}

func TestTwice(t *testing.T) {
	second := one(runBegan, "1", "x-1")
	second.Round = "2"
	if got := twice(lines(one(runBegan, "1", "x-1"), second, one(runBegan, "1", "x-2"))); len(got) != 0 {
		t.Errorf("a second round and a second attempt are not repetitions: %d", len(got))
	}
	if got := twice(lines(one(runBegan, "1", "x-1"), one(runAlive, "1", "x-1"), one(runBegan, "1", "x-1"))); len(
		got) != 1 {
		t.Errorf("the same round of the same attempt: %d, want 1", len(got))
	}
}

func TestRunsAreReadAsTheyWereWritten(t *testing.T) {
	dir := t.TempDir()
	r := one("", "7", "x-1")
	for _, what := range []string{runBegan, runAlive, runFinished} {
		if err := r.write(dir, what); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := readRuns(dir)
	if err != nil || len(runs) != 1 || runs[0].finished.IsZero() || runs[0].issue != "a/b#7" {
		t.Fatalf("%+v, %v", runs, err)
	}
	if err := os.WriteFile(filepath.Join(dir, runsFile), []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readRuns(dir); err == nil {
		t.Error("half a line was read")
	}
}

func TestASecondAgentIsNotAlone(t *testing.T) {
	dir := t.TempDir()
	unlock, alone, err := lockIssue(dir, "a/b#7")
	if err != nil || !alone {
		t.Fatal(alone, err)
	}
	if again, alone, err := lockIssue(dir, "a/b#7"); err != nil || alone {
		t.Error("a second agent got the lock although no first one holds it", err)
	} else {
		again()
	}
	unlock()
	again, alone, err := lockIssue(dir, "a/b#7")
	if err != nil || !alone {
		t.Error("the lock outlives the first", err)
	}
	again()
}
