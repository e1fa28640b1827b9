package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/testbed"
)

// line holds the fields that the demo reads from a line of the director's log.
type line struct {
	at      time.Time // when it was read
	Message string    `json:"msg"`
	Level   string    `json:"level"`
	Issue   string    `json:"issue"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	Event   string    `json:"event"`
	Reason  string    `json:"reason"`
	Action  string    `json:"action"`
	Cause   string    `json:"cause"`
	Branch  string    `json:"branch"`
	URL     string    `json:"url"`
	Error   string    `json:"error"`
	Effect  string    `json:"effect"`
	Attempt any       `json:"attempt"` // a number or an attempt id, depending on the line
}

// directorProcess runs the director and collects the lines of its log until take returns them.
type directorProcess struct {
	*testbed.Process
	dataDir string
	log     io.Writer     // receives the lines unchanged
	more    chan struct{} // receives a value when lines are available

	mu    sync.Mutex
	lines []line
}

func newDirectorProcess(s *world, log io.Writer) *directorProcess {
	d := &directorProcess{dataDir: s.data(), log: log, more: make(chan struct{}, 1)}
	d.Process = &testbed.Process{
		Name: "director", Argv: []string{s.director, "run", "--config", s.config(), "--worker-binary", s.worker},
		Env: testbed.DirectorEnv(os.Environ(), s.token), Line: d.add,
	}
	return d
}

// add passes a line to log and keeps it for take.
func (d *directorProcess) add(text string) {
	var l line
	_ = json.Unmarshal([]byte(text), &l) // only logTail uses lines that are not JSON
	l.at = time.Now()
	fmt.Fprintln(d.log, text)
	d.mu.Lock()
	d.lines = append(d.lines, l)
	d.mu.Unlock()
	select {
	case d.more <- struct{}{}:
	default:
	}
}

// take returns and removes the collected lines.
func (d *directorProcess) take() (lines []line) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines, d.lines = d.lines, nil
	return lines
}

// snapshot asks the director for its state. ok is false if the director does not answer, because it is starting or
// was killed.
func (d *directorProcess) snapshot(ctx context.Context) (s wire.Snapshot, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	s, err := operator.AskSnapshot(ctx, d.dataDir)
	return s, err == nil && operator.Decides(s.Director.Phase)
}

var errDirector = errors.New("demo: the director ended unexpectedly")
