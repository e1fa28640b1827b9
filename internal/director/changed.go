package director

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.uber.org/zap"

	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/safefile"
)

// settings returns the settings that tasks remember.
func (d *daemon) settings() *fsm.Settings { return d.settingsOf(d.setup()) }

func (d *daemon) settingsOf(c *inforce.Setup) *fsm.Settings {
	return &fsm.Settings{
		Fleet: c.Director.Fleet, Prefix: c.AgentBus.Prefix, Repositories: c.GitHub.Repositories,
		Labels: fsm.LabelNames(c.GitHub.Labels),
		Image:  d.image(), MaxWorkers: c.Director.MaxWorkers,
	}
}

// meetTasks checks the configuration against the tasks of the last run, before the machine decides anything. It
// refuses a change that the tasks cannot follow, logs once how a change affects each task, and keeps recognising
// earlier label names.
func (s *session) meetTasks(m *fsm.Machine) error {
	before, now := m.LastSettings(), s.settings()
	s.recogniseLabels(m)
	if before != nil && before.Prefix != now.Prefix {
		if workers := liveWorkers(m); len(workers) > 0 {
			return fmt.Errorf("%w: agent_bus.prefix is %q, and workers that run speak on %q (%s): set it back until "+
				"they have finished (director drain --wait), or remove their containers first",
				errForGood, now.Prefix, before.Prefix, strings.Join(workers, ", "))
		}
	}
	if s.met == nil || !reflect.DeepEqual(before, now) { // otherwise this run has checked them already
		s.met = &meeting{before: before, attempts: map[fsm.IssueKey]string{}}
		for _, t := range m.Tasks() {
			s.met.attempts[t.Key] = t.AttemptID()
		}
		s.daemon.met = s.met // for later sessions
	}
	for _, t := range m.Tasks() {
		if fate := fateOf(m, t, before, now); fate != "" {
			s.log.Warn("the configuration has changed under a task", zap.String("issue", string(t.Key)),
				zap.String("task", t.Nonce),
				zap.Stringer("state", t.State), zap.String("reason", fate))
		}
	}
	return nil
}

// recogniseLabels makes GitHub labels count that tasks got under earlier names.
func (s *session) recogniseLabels(m *fsm.Machine) {
	var earlier []github.Labels
	for _, l := range m.EarlierLabels() {
		earlier = append(earlier, github.Labels(l))
	}
	s.github.Recognise(earlier)
}

// meeting is what a configuration found at its start: the previous run's settings, and the attempts at that time.
type meeting struct {
	before   *fsm.Settings
	attempts map[fsm.IssueKey]string
}

// fate says how the configuration change affects a task. For an attempt that began after the change, it says only
// what holds for the whole repository.
func (x *meeting) fate(m *fsm.Machine, t *fsm.Task, now *fsm.Settings) string {
	before := x.before
	if x.attempts[t.Key] != t.AttemptID() {
		before = nil
	}
	return fateOf(m, t, before, now)
}

func liveWorkers(m *fsm.Machine) (workers []string) {
	for _, t := range m.Tasks() {
		if t.State.Info().Live && t.Attempt > 0 {
			workers = append(workers, t.AttemptID())
		}
	}
	return workers
}

// fateOf says how the current configuration affects a task, or returns "" if nothing has changed for it. before is
// nil if the last run did not record its settings.
func fateOf(m *fsm.Machine, t *fsm.Task, before, now *fsm.Settings) string {
	var fate []string
	say := func(format string, args ...any) { fate = append(fate, fmt.Sprintf(format, args...)) }
	live := t.State.Info().Live
	if !m.Covers(t.Key.Repo()) {
		switch {
		case t.State == fsm.Queued:
			return "its repository is not in github.repositories any more: it is dropped, and was never claimed"
		case t.State.Info().Slot || t.State == fsm.Backoff:
			say("its repository is not in github.repositories any more: it is finished and handed in, and nothing " +
				"new begins there")
		default:
			say("its repository is not in github.repositories any more: it is still watched until it is over")
		}
	}
	if before == nil {
		return strings.Join(fate, "; ")
	}
	switch {
	case before.Labels == now.Labels:
	case t.State != fsm.Queued:
		say("labels are called otherwise now: on its issue the earlier ones count, and are taken off")
	case !strings.EqualFold(before.Labels.Task, now.Labels.Task):
		return fmt.Sprintf("the label that offers work is %s now: it is dropped, and was never claimed",
			now.Labels.Task)
	}
	if live && before.Image != now.Image {
		say("its attempt goes on in %s, the next one is in %s", before.Image, now.Image)
	}
	if live && now.MaxWorkers < before.MaxWorkers && now.MaxWorkers < len(liveWorkers(m)) {
		say("more workers run than director.max_workers = %d: all go on, and nothing begins before there are fewer",
			now.MaxWorkers)
	}
	return strings.Join(fate, "; ")
}

// watched returns the repositories to poll: those in the configuration, and those with an unfinished task.
func (s *session) watched(m *fsm.Machine) []string {
	all := slices.Clone(s.config.GitHub.Repositories)
	for _, t := range m.Tasks() {
		if repo := t.Key.Repo(); !slices.ContainsFunc(all, func(r string) bool { return strings.EqualFold(r, repo) }) {
			all = append(all, repo)
		}
	}
	return all
}

// fleetFile names the fleet that a data directory belongs to. Streams, containers and comments carry the fleet's
// name, so another fleet would not find them.
const fleetFile = "fleet.json"

type fleetState struct {
	Fleet      string   `json:"fleet"`
	Unfinished []string `json:"unfinished,omitempty"` // issues with a claim when the file was written
	// Labels are the names that labels on these issues may have, newest last. If the journal is lost, only this
	// file knows the earlier names.
	Labels []fsm.LabelNames `json:"labels,omitempty"`
}

// readFleet returns nil if the file is missing or unreadable. In both cases it is written again.
func (d *daemon) readFleet() *fleetState {
	path := filepath.Join(d.config.Director.DataDir, fleetFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	was := &fleetState{}
	if err == nil {
		err = json.Unmarshal(data, was)
	}
	if err != nil {
		d.log.Warn("it is not known which fleet this data directory belongs to", zap.String("file", path),
			zap.Error(err))
		return nil
	}
	return was
}

// checkFleet refuses a fleet other than the one with unfinished tasks in this data directory.
func (d *daemon) checkFleet() error {
	was := d.readFleet()
	if now := d.config.Director.Fleet; was != nil && was.Fleet != now && len(was.Unfinished) > 0 {
		return fmt.Errorf("director: director.fleet is %q, and the tasks of fleet %q in %s are not finished (%s): "+
			"set it back until they are, or give fleet %q a director.data_dir of its own",
			now, was.Fleet, d.config.Director.DataDir, strings.Join(was.Unfinished, ", "), now)
	}
	return nil
}

// fleetOf returns what must survive a change of the fleet or the loss of the journal.
func (d *daemon) fleetOf(m *fsm.Machine) fleetState {
	now := fsm.LabelNames(d.config.GitHub.Labels)
	labels := slices.DeleteFunc(m.EarlierLabels(), func(l fsm.LabelNames) bool { return l == now })
	f := fleetState{Fleet: d.config.Director.Fleet, Labels: append(labels, now)}
	for _, t := range m.Tasks() {
		if t.State != fsm.Queued && t.State != fsm.Forgotten && !t.State.Info().Final {
			f.Unfinished = append(f.Unfinished, string(t.Key))
		}
	}
	return f
}

// keepFleet writes the fleet file if its content has changed.
func (s *session) keepFleet(f fleetState) {
	data, err := json.Marshal(f)
	if err == nil && string(data) != s.fleetKept {
		err = safefile.Write(filepath.Join(s.config.Director.DataDir, fleetFile), 0o600, append(data, '\n'))
		s.fleetKept = string(data)
	}
	if err != nil {
		s.log.Warn("it is not written down which fleet this data directory belongs to", zap.Error(err))
	}
}
