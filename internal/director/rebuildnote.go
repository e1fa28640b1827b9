package director

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"retake/internal/bus"
	"retake/internal/config"
	"retake/internal/safefile"
)

// rebuildNote exists from before the old journal is moved aside until the new one is complete. A director that
// finds it finishes the rebuild. On a joined bus the server stores it for the next leader. Otherwise it is a file
// in the data directory.
type rebuildNote struct {
	ID  string `json:"id"`
	Why string `json:"why"`
	// ID of the journal to move aside; empty in a note of an older version
	Journal string `json:"journal,omitempty"`
	state   []byte // the machine's state before the rebuild
}

// over reports whether the note is obsolete: the rebuild is complete, or the current journal is neither the one to
// rebuild nor its replacement. h is the state of the current journal, which is sound.
func (n *rebuildNote) over(h *state, journal string) bool {
	if n.ID != "" && h.rebuild.ID == n.ID {
		return true
	}
	return n.Journal != "" && n.Journal != journal && h.head.Seq > 0
}

// rebuildingFile is the note's file: a line of JSON, then the state.
const rebuildingFile = "rebuilding"

func (n *rebuildNote) encode() ([]byte, error) {
	line, err := json.Marshal(n)
	return slices.Concat(line, []byte("\n"), n.state), err
}

// decodeNote decodes a note. A note of an older version contains only the reason.
func decodeNote(data []byte) *rebuildNote {
	line, state, _ := bytes.Cut(data, []byte("\n"))
	n := &rebuildNote{state: state}
	if json.Unmarshal(line, n) != nil {
		n.Why = strings.TrimSpace(string(line))
	}
	n.Why = cmp.Or(n.Why, "a rebuild was interrupted")
	return n
}

func rebuildingPath(c config.Config) string {
	return filepath.Join(c.Director.DataDir, rebuildingFile)
}

func (d *daemon) writeNote(ctx context.Context, n *rebuildNote) error {
	data, err := n.encode()
	switch {
	case err != nil:
		return err
	case d.config.AgentBus.URL != "":
		return d.bus.Journal().NoteRebuild(ctx, data)
	}
	return safefile.Write(rebuildingPath(d.config), 0o600, data)
}

// readNote returns nil if no rebuild is in progress.
func (d *daemon) readNote(ctx context.Context) (*rebuildNote, error) {
	var data []byte
	var err error
	if d.config.AgentBus.URL != "" {
		data, err = d.bus.Journal().RebuildNote(ctx)
	} else if data, err = os.ReadFile(rebuildingPath(d.config)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || d.config.AgentBus.URL != "" && data == nil {
		return nil, err
	}
	return decodeNote(data), nil
}

func (d *daemon) removeNote(ctx context.Context) error {
	return removeNote(ctx, d.config, d.bus)
}

// removeNote removes the note durably. Otherwise a power cut could bring it back, and a sound journal would be
// rebuilt.
func removeNote(ctx context.Context, c config.Config, b *bus.Bus) error {
	if c.AgentBus.URL != "" {
		return b.Journal().ForgetRebuild(ctx)
	}
	switch err := os.Remove(rebuildingPath(c)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return safefile.SyncDir(c.Director.DataDir)
}
