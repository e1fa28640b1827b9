package restore

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

// note records that a rebuild is in progress. It exists from before the old journal is moved aside until the new one is
// complete, so that the director can finish an interrupted rebuild. On a shared bus, the server stores the note for the
// next leader. Otherwise the note is a file in the data directory.
type note struct {
	ID  string `json:"id"`
	Why string `json:"why"`
	// ID of the journal to move aside; empty if an older version wrote the note
	Journal string `json:"journal,omitempty"`
	state   []byte // the machine's state before the rebuild
}

// over reports whether the note is obsolete, because the rebuild is complete, or because the current journal is a
// third one, different from the journal to rebuild and from its replacement. h is the state of the current, undamaged
// journal.
func (n *note) over(h *State, journal string) bool {
	if n.ID != "" && h.rebuild.ID == n.ID {
		return true
	}
	return n.Journal != "" && n.Journal != journal && h.Head.Seq > 0
}

// noteFile is the note's file: a line of JSON, then the state.
const noteFile = "rebuilding"

func (n *note) encode() ([]byte, error) {
	line, err := json.Marshal(n)
	return slices.Concat(line, []byte("\n"), n.state), err
}

// decodeNote decodes a note. An older version's note has only the reason.
func decodeNote(data []byte) *note {
	line, state, _ := bytes.Cut(data, []byte("\n"))
	n := &note{state: state}
	if json.Unmarshal(line, n) != nil {
		n.Why = strings.TrimSpace(string(line))
	}
	n.Why = cmp.Or(n.Why, "a rebuild was interrupted")
	return n
}

func notePath(c config.Config) string {
	return filepath.Join(c.Director.DataDir, noteFile)
}

func (r *Restorer) writeNote(ctx context.Context, n *note) error {
	data, err := n.encode()
	switch {
	case err != nil:
		return err
	case r.Config.AgentBus.URL != "":
		return r.Bus().Journal().NoteRebuild(ctx, data)
	}
	return safefile.Write(notePath(r.Config), 0o600, data)
}

// readNote returns nil if no rebuild is in progress.
func (r *Restorer) readNote(ctx context.Context) (*note, error) {
	var data []byte
	var err error
	if r.Config.AgentBus.URL != "" {
		data, err = r.Bus().Journal().RebuildNote(ctx)
	} else if data, err = os.ReadFile(notePath(r.Config)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || r.Config.AgentBus.URL != "" && data == nil {
		return nil, err
	}
	return decodeNote(data), nil
}

// ForgetRebuild removes the note of a rebuild durably. If a power cut could restore the note, a director would rebuild
// an undamaged journal.
func ForgetRebuild(ctx context.Context, c config.Config, b *bus.Bus) error {
	if c.AgentBus.URL != "" {
		return b.Journal().ForgetRebuild(ctx)
	}
	switch err := os.Remove(notePath(c)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return safefile.SyncDir(c.Director.DataDir)
}
