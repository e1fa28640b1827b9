package inforce

import (
	"errors"
	"slices"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/budget"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
	"retake/internal/secrets/scope"
	"retake/internal/workspace"
	"retake/internal/worktree"
)

// Setup is a configuration and what was derived from it. Nobody changes one that is in force.
type Setup struct {
	config.Config
	Read       config.Config // as it was read, but for keys that wait for a restart; the next one is compared with it
	Digest     string
	Classifier *classify.Classifier
	Policy     *policy.Policy // without the configuration's limits
	StagePlans []wire.StagePlan
	StateGlobs worktree.Globs
	Pushable   *scope.Rules
	FileSums   map[string]string // of the configuration's own files, by key

	// Change is what the journal has, or is to have, about this setup; nil at the start, which has a fact of its own.
	Change  *fsm.SettingsChanged
	decided chan struct{}
	decide  func()
}

// New derives a setup from a configuration that has no problems. fileSums are the sums of its own files, by
// key. With an error the setup holds what could be derived.
func New(read config.Config, fileSums map[string]string) (*Setup, error) {
	s := &Setup{Config: read, Read: read, Digest: read.Digest(fileSums), FileSums: fileSums}
	s.GitHub.Priorities, s.GitHub.LabelCaps = lowered(read.GitHub.Priorities), lowered(read.GitHub.LabelCaps)
	tables, problems := read.Tables()
	s.Classifier, s.Policy = tables.Classifier, tables.Policy
	var stages, state, push error
	s.StagePlans, stages = stagePlans(read)
	s.StateGlobs, state = worktree.Compile(read.Agents.StatePaths(read.Stages))
	s.Pushable, push = scope.New(scope.Options{
		Deny: s.Scope.Deny, Allow: s.Scope.Allow, AllowSecrets: s.Scope.AllowSecrets,
		MaxFileBytes: int64(s.Scope.MaxFileBytes),
	})
	return s, errors.Join(problems.Err(), stages, state, push)
}

// lowered maps labels in lower case, since GitHub ignores their case.
func lowered(labels map[string]int) map[string]int {
	out := make(map[string]int, len(labels))
	for name, n := range labels {
		out[strings.ToLower(name)] = n
	}
	return out
}

// stagePlans are the configured stages as workers get them: an agent's profile becomes a command.
func stagePlans(c config.Config) ([]wire.StagePlan, error) {
	var out []wire.StagePlan
	var faults []error
	for _, g := range c.Stages {
		p, err := c.Agents.Expand(g)
		out, faults = append(out, p), append(faults, err)
	}
	return out, errors.Join(faults...)
}

// FenceAfter is how long the director goes on asking for the end of an attempt that its runtime cannot confirm. A node
// that restarts, or was cut off for a moment, confirms the end by itself; meanwhile the attempt holds a slot.
const FenceAfter = time.Minute

// outboxRetry paces failed effects. An outage of hours must not cost thousands of calls.
var outboxRetry = recovery.Backoff{
	Initial: time.Second, Max: 5 * time.Minute, Factor: 2, Jitter: recovery.EqualJitter,
}

// Machine is the part of the setup that decisions are made by, for a run that takes only some issues; none: all.
func (s *Setup) Machine(only []fsm.IssueKey) fsm.Config {
	cfg := fsm.Config{
		Repositories: s.GitHub.Repositories, Caps: s.GitHub.LabelCaps, Only: only,
		MaxWorkers: s.Director.MaxWorkers, HeartbeatTTL: s.Timeouts.WorkerHeartbeatTTL,
		Watchdog:     s.Timeouts.WorkerWatchdog,
		StartTimeout: s.Timeouts.WorkerStart, StopGrace: s.Timeouts.StopGrace, ClaimStale: s.Timeouts.IssueClaimStale,
		RemindAfter: s.Escalation.RemindAfter, DeliverFor: s.Timeouts.Delivery,
		CleanValidation: s.ValidatesFresh() && len(s.ValidateStages()) > 0, FixRounds: s.Worker.FixAttempts,
		Policy: s.Policy.With(s.Limits()), HasAlternative: s.AlternativeModel() != "", Models: s.models(),
		MaxStatedWait: s.RateLimits.Model.MaxWait, Classify: s.Classifier.Classify, Classifier: s.Classifier,
		Retry: outboxRetry, FenceAfter: FenceAfter, CheckoutTravels: s.Workspace.Travels(),
	}
	if s.Containers.Runtime == config.OnKubernetes { // it places attempts by itself
		cfg.PendingTimeout = s.Kubernetes.PendingTimeout
	}
	return cfg
}

// SyncPolicy says when a checkout is too far behind its base branch.
func (s *Setup) SyncPolicy() workspace.SyncPolicy {
	return workspace.SyncPolicy{MaxCommits: s.SyncMain.MaxCommitsBehind, MaxBehind: s.SyncMain.MaxBehind}
}

// ModelLimits hold for each provider of models.
func (s *Setup) ModelLimits() budget.Limits {
	l := s.RateLimits.Model
	return budget.Limits{
		MaxConcurrent: l.MaxConcurrentRequests, Spacing: l.MinBetweenRequests,
		Cooldown: l.CooldownOnError,
	}
}

// ValidateStages are the stages that judge the work, and those that follow them.
func (s *Setup) ValidateStages() []wire.StagePlan {
	from := slices.IndexFunc(s.StagePlans, func(g wire.StagePlan) bool { return g.Name == wire.StageValidate })
	if from < 0 {
		return nil
	}
	return s.StagePlans[from:]
}

// StagesOf are the stages of an attempt. The order has what the configuration said when the attempt began, because the
// machine relies on that when the attempt ends.
func (s *Setup) StagesOf(o *fsm.StartOrder) []wire.StagePlan {
	validate := s.ValidateStages()
	switch {
	case o.Validate:
		return validate
	case o.LeavesValidation:
		return s.StagePlans[:len(s.StagePlans)-len(validate)]
	}
	return s.StagePlans
}

// AlternativeModel is the model to change to when a verdict wants another one: that of the first stage that has one.
func (s *Setup) AlternativeModel() string {
	for _, g := range s.StagePlans {
		if g.AlternativeModel != "" {
			return g.AlternativeModel
		}
	}
	return ""
}

// models are the resources that the stages use; none means that a stage's program may use any.
func (s *Setup) models() (out []string) {
	for _, g := range s.StagePlans {
		if g.Name == wire.StageCode && g.Agent == nil && g.Resource == "" {
			return nil
		}
		for _, model := range []string{g.Model, g.AlternativeModel} {
			r := agent.Resource(g, model)
			if (g.Agent != nil || g.Resource != "") && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}
