package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/safefile"
)

// Event is one line of events.jsonl.
type Event struct {
	Type      string            `json:"type"`
	Timestamp wire.Time         `json:"timestamp"`
	SessionID string            `json:"sessionId"`
	Stage     string            `json:"stage,omitempty"`
	Cycle     string            `json:"cycle,omitempty"` // the attempt id
	Payload   any               `json:"payload"`
	Meta      map[string]string `json:"_meta,omitempty"`
	Truncated bool              `json:"_truncated,omitempty"`
}

// Classified is a classification that led to a retry or was shown to a person. Reason and Retryable are always set.
type Classified struct {
	Caller    string `json:"caller"` // the component that made the classification
	Issue     string `json:"issue"`
	Attempt   int    `json:"attempt"`
	AttemptID string `json:"attempt_id"`
	Failure
}

// Classified adds a line to the telemetry of a run.
func (w *Writer) Classified(at time.Time, runID, stage string, c Classified) {
	w.put(eventsFile, 0, func() (string, error) {
		c, err := cleaned(c, w.o.Redact)
		if err != nil {
			return eventsFile, err
		}
		return w.writeEvent(Event{
			Type: "error.classified", Timestamp: wire.At(at), SessionID: runID, Stage: w.o.Redact(stage),
			Cycle: c.AttemptID, Payload: c,
		})
	})
}

// writeEvent appends a line to events.jsonl. Files stay below MaxEvents, unless a single line is longer.
func (w *Writer) writeEvent(e Event) (path string, err error) {
	path = filepath.Join(w.dir, eventsFile)
	line, err := e.line(w.o.MaxLine)
	if err != nil {
		return path, err
	}
	size, err := sizeOf(path)
	if err == nil && size > 0 && size+int64(len(line)) > w.o.MaxEvents {
		err = safefile.Rotate(path, w.o.Keep.EventFiles)
	}
	if err != nil {
		return path, err
	}
	return path, w.disk.add(path, line)
}

// truncatedPayload replaces a payload that is too long.
var truncatedPayload = map[string]any{"_truncated_placeholder": true}

// line returns an event as one line of at most limit bytes, including its line feed. It reduces a longer event to its
// envelope.
func (e Event) line(limit int) ([]byte, error) {
	text, err := json.Marshal(e)
	if err == nil && len(text) >= limit {
		e.Payload, e.Truncated = truncatedPayload, true
		text, err = json.Marshal(e)
	}
	if err == nil && len(text) >= limit {
		err = fmt.Errorf("audit: event does not fit into %d bytes", limit)
	}
	return append(text, '\n'), err
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
