package fsm

import (
	"slices"
	"strings"
	"time"
)

// Settings are what of the configuration tasks remember: the next run may have others.
type Settings struct {
	Fleet        string     `json:"fleet,omitempty"`
	Prefix       string     `json:"prefix,omitempty"` // agent_bus.prefix
	Repositories []string   `json:"repositories,omitempty"`
	Labels       LabelNames `json:"labels,omitzero"`
	Image        string     `json:"image,omitempty"`
	MaxWorkers   int        `json:"max_workers,omitempty"`
}

// LabelNames are what the four labels are called.
type LabelNames struct {
	Task    string `json:"task"`
	Claimed string `json:"claimed"`
	Blocked string `json:"blocked"`
	Review  string `json:"review"`
}

// maxLabelNames is how many sets of names are remembered.
const maxLabelNames = 8

// LastSettings are those of the last run; nil: no run has written them down.
func (m *memory) LastSettings() *Settings { return m.hard.Settings }

// EarlierLabels are the sets of names that the labels have had since there was no task, the last run's included.
func (m *memory) EarlierLabels() []LabelNames { return slices.Clone(m.hard.LabelNames) }

// RecallLabels adds sets of names that are known from elsewhere, as older than those that the machine knows:
// for a rebuild, before it decides anything.
func (m *agenda) RecallLabels(older []LabelNames) {
	names := slices.DeleteFunc(slices.Clone(older),
		func(l LabelNames) bool { return slices.Contains(m.hard.LabelNames, l) })
	m.hard.LabelNames = lastNames(append(names, m.hard.LabelNames...))
}

// lastNames are the newest sets, as many as are remembered.
func lastNames(all []LabelNames) []LabelNames { return all[max(0, len(all)-maxLabelNames):] }

// Covers reports whether issues of a repository are still worked on. What is under way in any other is finished.
func (m *memory) Covers(repo string) bool {
	return len(m.cfg.Repositories) == 0 ||
		slices.ContainsFunc(m.cfg.Repositories, func(r string) bool { return strings.EqualFold(r, repo) })
}

// takes reports whether this run takes the task from the queue.
func (m *memory) takes(t *Task) bool {
	return len(m.cfg.Only) == 0 ||
		slices.ContainsFunc(m.cfg.Only, func(k IssueKey) bool { return k.fold() == t.Key.fold() })
}

// dropUncovered takes out of the queue what the configuration does not offer any more. Nothing was claimed of it.
func (m *Machine) dropUncovered(before, now *Settings) {
	for _, t := range slices.Clone(m.hard.Tasks) {
		switch {
		case t.State != Queued:
		case !m.Covers(t.Key.Repo()):
			m.move(t, OnWithdrawn, "its repository is not in github.repositories any more", time.Time{})
		case before != nil && now != nil && !strings.EqualFold(before.Labels.Task, now.Labels.Task):
			m.move(t, OnWithdrawn, "the label that offers work is now "+now.Labels.Task, time.Time{})
		}
	}
}

// Configure replaces what decisions are made by. What was decided before stands.
func (m *Machine) Configure(cfg Config) {
	m.cfg = cfg
	m.revisitAll() // deadlines follow from it
}

// A configuration that was read again decides nothing by itself: no attempt is stopped, begun anew or charged
// because of it.
func (s SettingsRead) step(m *Machine) {
	if s.Config != nil {
		m.Configure(*s.Config)
	}
	m.record(s.SettingsChanged)
}

func (f SettingsChanged) apply(m *agenda, _ *Task) { m.remember(f.Settings) }

func (f RunBegan) apply(m *agenda, _ *Task) {
	m.hard.RunID = f.RunID
	m.remember(f.Settings)
}

// remember keeps what tasks remember of a configuration; nil: it is not said.
func (m *agenda) remember(s *Settings) {
	if s == nil {
		return
	}
	if m.hard.Settings = s; len(m.hard.Tasks) == 0 {
		m.hard.LabelNames = nil
	}
	names := slices.DeleteFunc(slices.Clone(m.hard.LabelNames), func(l LabelNames) bool { return l == s.Labels })
	m.hard.LabelNames = lastNames(append(names, s.Labels))
}
