package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Values of runLine.What.
const (
	runBegan    = "began"
	runAlive    = "alive"
	runOverlaps = "overlaps" // another agent of the same issue is alive
	runAsked    = "asked"
	runFailed   = "failed"
	runFinished = "finished" // the agent has done and checked the work, and only the report is missing
)

// runLine is one line of runsFile.
type runLine struct {
	At      time.Time `json:"at"`
	What    string    `json:"what"`
	Issue   string    `json:"issue"`
	Attempt string    `json:"attempt"`
	Round   string    `json:"round"` // number of the CODE stage within the attempt
	PID     int       `json:"pid"`
}

// runsFile is the name of the file in which all agents of a world record their runs.
const runsFile = "runs.jsonl"

// write appends a line to the file in a single write, so that lines from several agents do not interleave.
func (r runLine) write(dir, what string) error {
	r.At, r.What = time.Now().UTC(), what
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, runsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	return errors.Join(err, f.Close())
}

// agentRun is one run of an agent, for one CODE stage of one attempt.
type agentRun struct {
	issue, attempt, round string
	began, alive          time.Time // start of the run, and the last sign of life
	finished              time.Time // zero if it did not finish
	asked, failed         bool
	overlaps              bool // another agent of its issue was alive when it began
}

// readRuns returns the runs recorded in the agents' file, in the order in which they began.
func readRuns(dir string) (runs []*agentRun, err error) {
	data, err := os.ReadFile(filepath.Join(dir, runsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("chaos: read the agents' file: %w", err)
	}
	for text := range bytes.Lines(data) {
		var l runLine
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("chaos: parse the agents' file: %q: %w", text, err)
		}
		runs = l.addTo(runs)
	}
	return runs, nil
}

// addTo adds a line to the runs. A runBegan line adds a run. The other lines belong to their attempt's latest run.
func (r runLine) addTo(runs []*agentRun) []*agentRun {
	if r.What == runBegan {
		return append(runs, &agentRun{issue: r.Issue, attempt: r.Attempt, round: r.Round, began: r.At, alive: r.At})
	}
	for _, x := range slices.Backward(runs) {
		if x.attempt != r.Attempt {
			continue
		}
		x.alive = r.At
		switch r.What {
		case runFinished:
			x.finished = r.At
		case runAsked:
			x.asked = true
		case runFailed:
			x.failed = true
		case runOverlaps:
			x.overlaps = true
		}
		break
	}
	return runs
}

// overlapping returns the runs that began while another run of their issue was alive.
func overlapping(runs []*agentRun) (found []*agentRun) {
	for i, b := range runs {
		if b.overlaps || slices.ContainsFunc(runs[:i], func(a *agentRun) bool {
			return a.issue == b.issue && b.began.Before(a.alive)
		}) {
			found = append(found, b)
		}
	}
	return found
}

// twice returns the runs that repeat an earlier run's attempt and round.
func twice(runs []*agentRun) (found []*agentRun) {
	for i, b := range runs {
		if slices.ContainsFunc(runs[:i], func(a *agentRun) bool {
			return a.attempt == b.attempt && a.round == b.round
		}) {
			found = append(found, b)
		}
	}
	return found
}
