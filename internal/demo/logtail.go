package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
)

// logTail is a writer for the director's log. It keeps the last warnings, errors, and lines that are not JSON, because
// an operator would read them after a failure.
type logTail struct {
	out io.Writer // if not nil, receives every line

	mu    sync.Mutex
	lines []string
}

// maxLogLines is the number of lines that logTail keeps, few enough to fit on a screen.
const maxLogLines = 40

// Write processes one line.
func (t *logTail) Write(data []byte) (int, error) {
	var l line
	if json.Unmarshal(data, &l) != nil || l.Level != "info" && l.Level != "debug" {
		t.mu.Lock()
		if t.lines = append(t.lines, strings.TrimSpace(string(data))); len(t.lines) > maxLogLines {
			t.lines = t.lines[1:]
		}
		t.mu.Unlock()
	}
	if t.out == nil {
		return len(data), nil
	}
	return t.out.Write(data)
}

// last returns the last five lines, for an error.
func (t *logTail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines[max(0, len(t.lines)-5):], "\n")
}

func (t *logTail) print(out io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) > 0 {
		fmt.Fprintf(out, "\nwarnings and errors in the director's log:\n%s\n", strings.Join(t.lines, "\n"))
	}
}
