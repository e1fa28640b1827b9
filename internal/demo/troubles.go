package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
)

// troubles is a writer for the director's log. It keeps the last lines that an operator would look at when something
// went wrong: warnings, errors, and what is no log line at all.
type troubles struct {
	out io.Writer // gets everything; nil: nobody does

	mu    sync.Mutex
	lines []string
}

// maxTroubles is a screen.
const maxTroubles = 40

// Write takes one line.
func (t *troubles) Write(data []byte) (int, error) {
	var l line
	if json.Unmarshal(data, &l) != nil || l.Level != "info" && l.Level != "debug" {
		t.mu.Lock()
		if t.lines = append(t.lines, strings.TrimSpace(string(data))); len(t.lines) > maxTroubles {
			t.lines = t.lines[1:]
		}
		t.mu.Unlock()
	}
	if t.out == nil {
		return len(data), nil
	}
	return t.out.Write(data)
}

// last is the end of it, for an error.
func (t *troubles) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines[max(0, len(t.lines)-5):], "\n")
}

func (t *troubles) print(out io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) > 0 {
		fmt.Fprintf(out, "\nwarnings and errors in the director's log:\n%s\n", strings.Join(t.lines, "\n"))
	}
}
