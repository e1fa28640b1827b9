package inforce

import (
	"fmt"
	"reflect"
	"strings"

	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/fsm"
)

// Settings returns the settings that the journal records when a run starts. image is the workers' image.
func (s *Setup) Settings(image string) *fsm.Settings {
	return &fsm.Settings{
		Fleet: s.Director.Fleet, Prefix: s.AgentBus.Prefix, Repositories: s.GitHub.Repositories,
		Labels: fsm.LabelNames(s.GitHub.Labels),
		Image:  image, MaxWorkers: s.Director.MaxWorkers,
	}
}

// Meeting holds the settings of an earlier run, and the attempts that existed when the current configuration was first
// checked against the tasks.
type Meeting struct {
	before   *fsm.Settings
	attempts map[fsm.IssueKey]string
}

// Meet checks the configuration against the tasks of the last run, before the machine decides anything. It logs how a
// change affects each task, and returns an error if the change is incompatible with running workers. had is the Meeting
// from an earlier session of this process, or nil.
func (had *Meeting) Meet(m *fsm.Machine, now *fsm.Settings, log *zap.Logger) (*Meeting, error) {
	before := m.LastSettings()
	if before != nil && before.Prefix != now.Prefix {
		if workers := liveWorkers(m); len(workers) > 0 {
			return had, fmt.Errorf("%w: agent_bus.prefix is %q, but running workers use %q (%s): change it back "+
				"until they have finished (director drain --wait), or remove their containers first",
				failure.ErrForGood, now.Prefix, before.Prefix, strings.Join(workers, ", "))
		}
	}
	if had == nil || !reflect.DeepEqual(before, now) { // otherwise this process has checked the tasks already
		had = &Meeting{before: before, attempts: map[fsm.IssueKey]string{}}
		for _, t := range m.Tasks() {
			had.attempts[t.Key] = t.AttemptID()
		}
	}
	for _, t := range m.Tasks() {
		if fate := fateOf(m, t, before, now); fate != "" {
			log.Warn("configuration of a running task changed", zap.String("issue", string(t.Key)),
				zap.String("task", t.Nonce),
				zap.Stringer("state", t.State), zap.String("reason", fate))
		}
	}
	return had, nil
}

// Fate describes how a configuration change affects a task. If the attempt began after the change, Fate reports only
// that the repository is no longer configured. It returns "" if the change does not affect the task.
func (x *Meeting) Fate(m *fsm.Machine, t *fsm.Task, now *fsm.Settings) string {
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

// fateOf describes the effect of the current configuration on a task, or returns "" if it has no effect. before is
// nil if the last run did not record its settings.
func fateOf(m *fsm.Machine, t *fsm.Task, before, now *fsm.Settings) string {
	var fate []string
	say := func(format string, args ...any) { fate = append(fate, fmt.Sprintf(format, args...)) }
	live := t.State.Info().Live
	if !m.Covers(t.Key.Repo()) {
		switch {
		case t.State == fsm.Queued:
			return "its repository is no longer in github.repositories: Retake drops the unclaimed issue"
		case t.State.Info().Slot || t.State == fsm.Backoff:
			say("its repository is no longer in github.repositories: Retake completes and delivers this task, but " +
				"does not begin others there")
		default:
			say("its repository is no longer in github.repositories: Retake watches this task until it ends")
		}
	}
	if before == nil {
		return strings.Join(fate, "; ")
	}
	switch {
	case before.Labels == now.Labels:
	case t.State != fsm.Queued:
		say("labels were renamed: on this issue, the old labels still count, and Retake removes them")
	case !strings.EqualFold(before.Labels.Task, now.Labels.Task):
		return fmt.Sprintf("the label that offers work is now %s: Retake drops the unclaimed issue",
			now.Labels.Task)
	}
	if live && before.Image != now.Image {
		say("its attempt continues in %s, and the next attempt uses %s", before.Image, now.Image)
	}
	if live && now.MaxWorkers < before.MaxWorkers && now.MaxWorkers < len(liveWorkers(m)) {
		say("more workers are running than director.max_workers = %d: all of them continue, and new attempts wait",
			now.MaxWorkers)
	}
	return strings.Join(fate, "; ")
}
