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

// The content of a line in the agents' file.
const (
	runBegan    = "began"
	runAlive    = "alive"
	runOverlaps = "overlaps" // another agent of the same issue lives
	runAsked    = "asked"
	runFailed   = "failed"
	runFinished = "finished" // the work is done and checked, and only the report is missing
)

// runLine is one line of the file.
type runLine struct {
	At      time.Time `json:"at"`
	What    string    `json:"what"`
	Issue   string    `json:"issue"`
	Attempt string    `json:"attempt"`
	Round   string    `json:"round"` // of CODE within the attempt
	PID     int       `json:"pid"`
}

// runsFile is the file's name, in a directory that all agents of a world share.
const runsFile = "runs.jsonl"

// write adds a line. It is one write at the end of the file: lines of several agents do not mix.
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

// agentRun is one run of an agent: one CODE of one attempt.
type agentRun struct {
	issue, attempt, round string
	began, alive          time.Time // when it was last seen alive
	finished              time.Time // zero if it never ended
	asked, failed         bool
	overlaps              bool // it found another agent of its issue alive
}

// readRuns reads the agents' file, runs in the order in which they began.
func readRuns(dir string) (runs []*agentRun, err error) {
	data, err := os.ReadFile(filepath.Join(dir, runsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("chaos: the agents' file: %w", err)
	}
	for text := range bytes.Lines(data) {
		var l runLine
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("chaos: the agents' file: %q: %w", text, err)
		}
		runs = l.addTo(runs)
	}
	return runs, nil
}

// addTo adds a line: the first one makes a run, the others belong to the latest run of their attempt.
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

// overlapping are the runs that began while another one of their issue was alive.
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

// twice are the runs that had been before: the same attempt, the same round.
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
