package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"retake/internal/bus/wire"
)

// truncatedPayload stands where a payload was too long.
var truncatedPayload = map[string]any{"_truncated_placeholder": true}

// line returns an event as one line of at most limit bytes, its line feed included. Of one that is too long the envelope
// stays; if that is too long, too, its texts are cut.
func (e Event) line(limit int) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil { // a payload that is no JSON: a channel, an infinite number
		e.Payload, e.Truncated = map[string]any{"_unreadable": err.Error()}, true
		if text, err = json.Marshal(e); err != nil {
			return nil, err
		}
	}
	if len(text) < limit {
		return append(text, '\n'), nil
	}
	e.Payload, e.Truncated = truncatedPayload, true
	if text, err = json.Marshal(e); err == nil && len(text) < limit {
		return append(text, '\n'), nil
	}
	e.Meta = nil
	for _, s := range []*string{&e.Type, &e.SessionID, &e.Stage, &e.Cycle} {
		*s = wire.CutTail(*s, 128)
	}
	text, err = json.Marshal(e)
	if err == nil && len(text) >= limit {
		err = fmt.Errorf("audit: an event does not fit into %d bytes", limit)
	}
	return append(text, '\n'), err
}

// telemetry appends to events.jsonl and rotates it.
type telemetry struct {
	disk
	path  string
	max   int64 // bytes of one file
	files int   // rotated ones that are kept
}

// add appends lines, each of which is whole. No file grows above max, unless one line alone is longer.
func (t telemetry) add(lines [][]byte) error {
	size, err := sizeOf(t.path)
	if err != nil {
		return err
	}
	var chunk []byte
	for _, l := range lines {
		if at := size + int64(len(chunk)); at > 0 && at+int64(len(l)) > t.max {
			if len(chunk) > 0 {
				if err := t.disk.add(t.path, chunk); err != nil {
					return err
				}
			}
			if err := t.rotate(); err != nil {
				return err
			}
			size, chunk = 0, nil
		}
		chunk = append(chunk, l...)
	}
	return t.disk.add(t.path, chunk)
}

// rotate makes room: .1 is the youngest, the oldest goes.
func (t telemetry) rotate() error {
	numbered := func(n int) string { return fmt.Sprintf("%s.%d", t.path, n) }
	if t.files < 1 {
		return os.Remove(t.path)
	}
	for n := t.files - 1; n >= 0; n-- {
		from := numbered(n)
		if n == 0 {
			from = t.path
		}
		if err := os.Rename(from, numbered(n+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDir(filepath.Dir(t.path))
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
