package restore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/tracker"
	"retake/internal/safefile"
)

// fleetFile records which fleet a data directory belongs to. Streams, containers and comments carry the fleet's name,
// so another fleet would not find them.
const fleetFile = "fleet.json"

// FleetFile stores the data that must survive a change of fleet or the loss of the journal.
type FleetFile struct {
	Dir    string         // the data directory
	Fleet  string         // the configured fleet
	Labels fsm.LabelNames // the configured labels
	Log    *zap.Logger

	written string // the content last written
}

// FleetState is the content of a FleetFile.
type FleetState struct {
	Fleet      string   `json:"fleet"`
	Unfinished []string `json:"unfinished,omitempty"` // issues with a claim when the file was written
	// Labels lists the sets of label names that these issues may carry, newest last. If the journal is lost, only
	// this file has the earlier names.
	Labels []fsm.LabelNames `json:"labels,omitempty"`
}

// Read returns the content of the file, or nil if the file is missing or unreadable. The director then writes it again.
func (f *FleetFile) Read() *FleetState {
	path := filepath.Join(f.Dir, fleetFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	was := &FleetState{}
	if err == nil {
		err = json.Unmarshal(data, was)
	}
	if err != nil {
		f.Log.Warn("could not read the fleet of this data directory", zap.String("file", path),
			zap.Error(err))
		return nil
	}
	return was
}

// Check returns an error if this data directory has another fleet's unfinished tasks.
func (f *FleetFile) Check() error {
	if was := f.Read(); was != nil && was.Fleet != f.Fleet && len(was.Unfinished) > 0 {
		return fmt.Errorf("director: director.fleet is %q, but fleet %q still has unfinished tasks in %s (%s): "+
			"restore the old value until they finish, or give fleet %q a separate director.data_dir",
			f.Fleet, was.Fleet, f.Dir, strings.Join(was.Unfinished, ", "), f.Fleet)
	}
	return nil
}

// Of returns the content to write for a machine's state.
func (f *FleetFile) Of(m *fsm.Machine) FleetState {
	labels := slices.DeleteFunc(m.EarlierLabels(), func(l fsm.LabelNames) bool { return l == f.Labels })
	now := FleetState{Fleet: f.Fleet, Labels: append(labels, f.Labels)}
	for _, t := range m.Tasks() {
		if t.State != fsm.Queued && t.State != fsm.Forgotten && !t.State.Info().Final {
			now.Unfinished = append(now.Unfinished, string(t.Key))
		}
	}
	return now
}

// Keep writes the file if its content has changed.
func (f *FleetFile) Keep(now FleetState) {
	data, err := json.Marshal(now)
	if err == nil && string(data) != f.written {
		err = safefile.Write(filepath.Join(f.Dir, fleetFile), 0o600, append(data, '\n'))
		f.written = string(data)
	}
	if err != nil {
		f.Log.Warn("could not record the fleet of this data directory", zap.Error(err))
	}
}

// RecogniseLabels makes the GitHub client accept the earlier names of our labels that tasks may still carry.
func RecogniseLabels(g *github.Client, m *fsm.Machine) {
	var earlier []tracker.Labels
	for _, l := range m.EarlierLabels() {
		earlier = append(earlier, tracker.Labels(l))
	}
	g.Issues.Recognise(earlier)
}
