package fsm

import (
	"slices"
	"strings"
	"time"
)

// Settings are the parts of the configuration that the journal stores, because the next run may use different values.
type Settings struct {
	Fleet        string     `json:"fleet,omitempty"`
	Prefix       string     `json:"prefix,omitempty"` // agent_bus.prefix
	Repositories []string   `json:"repositories,omitempty"`
	Labels       LabelNames `json:"labels,omitzero"`
	Image        string     `json:"image,omitempty"`
	MaxWorkers   int        `json:"max_workers,omitempty"`
}

// LabelNames are the names of the four labels.
type LabelNames struct {
	Task    string `json:"task"`
	Claimed string `json:"claimed"`
	Blocked string `json:"blocked"`
	Review  string `json:"review"`
}

// maxLabelNames limits how many sets of label names the machine remembers.
const maxLabelNames = 8

// LastSettings returns the last run's settings, or nil if the journal does not contain any.
func (m *memory) LastSettings() *Settings { return m.hard.Settings }

// EarlierLabels returns the sets of label names used since the task list was last empty, including the last run's set.
func (m *memory) EarlierLabels() []LabelNames { return slices.Clone(m.hard.LabelNames) }

// RecallLabels adds sets of label names found outside the journal. They count as older than the machine's sets. A
// rebuild calls RecallLabels before the first decision.
func (m *agenda) RecallLabels(older []LabelNames) {
	names := slices.DeleteFunc(slices.Clone(older),
		func(l LabelNames) bool { return slices.Contains(m.hard.LabelNames, l) })
	m.hard.LabelNames = lastNames(append(names, m.hard.LabelNames...))
}

// lastNames returns the newest maxLabelNames sets.
func lastNames(all []LabelNames) []LabelNames { return all[max(0, len(all)-maxLabelNames):] }

// Covers reports whether the director takes new issues of a repository. It still finishes existing tasks in
// other repositories.
func (m *memory) Covers(repo string) bool {
	return len(m.cfg.Repositories) == 0 ||
		slices.ContainsFunc(m.cfg.Repositories, func(r string) bool { return strings.EqualFold(r, repo) })
}

// takes reports whether this run may take the task from the queue.
func (m *memory) takes(t *Task) bool {
	return len(m.cfg.Only) == 0 ||
		slices.ContainsFunc(m.cfg.Only, func(k IssueKey) bool { return k.fold() == t.Key.fold() })
}

// dropUncovered removes queued tasks if the new configuration does not offer their issues as work. The issues are not
// claimed, so there is nothing to release.
func (m *Machine) dropUncovered(before, now *Settings) {
	for _, t := range slices.Clone(m.hard.Tasks) {
		switch {
		case t.State != Queued:
		case !m.Covers(t.Key.Repo()):
			m.move(t, OnWithdrawn, "its repository is no longer in github.repositories", time.Time{})
		case before != nil && now != nil && !strings.EqualFold(before.Labels.Task, now.Labels.Task):
			m.move(t, OnWithdrawn, "the label that offers work is now "+now.Labels.Task, time.Time{})
		}
	}
}

// Configure replaces the configuration for later decisions. Earlier decisions stand.
func (m *Machine) Configure(cfg Config) {
	m.cfg = cfg
	m.revisitAll() // deadlines depend on the configuration
}

// A new configuration alone never stops, restarts or charges an attempt.
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

// remember stores the settings of a run. It ignores nil, which occurs in old journals.
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
