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
	"retake/internal/recovery/plaintext"
	"retake/internal/recovery/policy"
	"retake/internal/secrets/scope"
	"retake/internal/workspace"
	"retake/internal/worktree"
)

// Setup is a configuration and the values derived from it. It must not change once it is in force.
type Setup struct {
	config.Config
	Read       config.Config // as read, minus changes that await a restart; compared with the next configuration
	Digest     string
	Classifier *classify.Classifier
	Policy     *policy.Policy // the policy as configured; Machine applies the configuration's limits to it
	StagePlans []wire.StagePlan
	StateGlobs worktree.Globs
	Pushable   *scope.Rules
	FileSums   map[string]string // checksums of the configuration's files, by key
	Prompt     string            // a repository's template for the prompt of CODE; empty means the default prompt

	// Change is the fact that will record this setup in the journal. It is nil for the first setup, because the fact
	// about the director's start already records it.
	Change  *fsm.SettingsChanged
	decided chan struct{}
	decide  func()

	projects map[string]*Setup // by lower-case repository; see For
}

// New derives a setup from a valid configuration. fileSums are the checksums of the configuration's files, by key.
// On error, the setup is incomplete.
func New(read config.Config, fileSums map[string]string) (*Setup, error) {
	tables, problems := read.Tables()
	s, err := derive(read, fileSums, tables, false)
	faults := []error{problems.Err(), err}
	s.projects = map[string]*Setup{}
	for _, p := range read.Projects {
		sub, err := s.With(read.For(p.Repository), false)
		s.projects[strings.ToLower(p.Repository)], faults = sub, append(faults, err)
	}
	return s, errors.Join(faults...)
}

// With returns the setup for a repository whose configuration differs from the setup's only in keys of projects and
// contracts. It does not read the files in [recovery] again, because they may have changed. accepted is as in
// config.Contract. The stages of such a contract have already run, so their agents may be missing.
func (s *Setup) With(read config.Config, accepted bool) (*Setup, error) {
	read.Projects = nil
	return derive(read, s.FileSums, config.Tables{Classifier: s.Classifier, Policy: s.Policy}, accepted)
}

// derive returns a setup without projects.
func derive(read config.Config, fileSums map[string]string, tables config.Tables, accepted bool) (*Setup, error) {
	s := &Setup{
		Config: read, Read: read, Digest: read.Digest(fileSums), FileSums: fileSums,
		Classifier: tables.Classifier, Policy: tables.Policy,
	}
	s.GitHub.Priorities, s.GitHub.LabelCaps = lowered(read.GitHub.Priorities), lowered(read.GitHub.LabelCaps)
	var stages, state, push error
	if s.StagePlans, stages = stagePlans(read); accepted {
		stages = nil
	}
	s.StateGlobs, state = worktree.Compile(read.Agents.StatePaths(read.Stages))
	s.Pushable, push = scope.New(scope.Options{
		Deny: s.Scope.Deny, Ask: s.Scope.Ask, Allow: s.Scope.Allow, AllowSecrets: s.Scope.AllowSecrets,
		AllowRaw: s.Scope.AllowRaw, AllowLeftOut: s.Scope.AllowLeftOut, MaxFileBytes: int64(s.Scope.MaxFileBytes),
	})
	return s, errors.Join(stages, state, push)
}

// For returns the setup for a repository: s itself unless the configuration has a [[project]] for it.
func (s *Setup) For(repo string) *Setup {
	if of := s.projects[strings.ToLower(repo)]; of != nil {
		return of
	}
	return s
}

// Routed returns the setup for an attempt that uses a route. It shares everything but the stages with s.
func (s *Setup) Routed(r config.Route) (*Setup, error) {
	out := *s
	out.Stages = r.Routed(s.Stages)
	var err error
	out.StagePlans, err = stagePlans(out.Config)
	return &out, err
}

// lowered returns the labels in lower case, because GitHub ignores their case.
func lowered(labels map[string]int) map[string]int {
	out := make(map[string]int, len(labels))
	for name, n := range labels {
		out[strings.ToLower(name)] = n
	}
	return out
}

// stagePlans converts the configured stages into the plans sent to workers. An agent's profile becomes a command.
func stagePlans(c config.Config) ([]wire.StagePlan, error) {
	var out []wire.StagePlan
	var faults []error
	for i, g := range c.Stages {
		p, err := c.Agents.Expand(g)
		p.Number = i + 1
		out, faults = append(out, p), append(faults, err)
	}
	return out, errors.Join(faults...)
}

// FenceAfter limits how long the director waits for a runtime to confirm that an attempt has ended. After that, the
// director fences the attempt. The limit gives a node time to restart or to become reachable again. Until then, the
// attempt occupies a slot.
const FenceAfter = time.Minute

// outboxRetry sets the pauses between retries of failed effects. They grow to minutes, so that a long outage does not
// cause thousands of calls.
var outboxRetry = recovery.Backoff{
	Initial: time.Second, Max: 5 * time.Minute, Factor: 2, Jitter: recovery.EqualJitter,
}

// Machine returns the part of the setup that the machine uses for decisions. If only is not empty, the machine takes
// just those issues.
func (s *Setup) Machine(only []fsm.IssueKey) fsm.Config {
	cfg := fsm.Config{
		Repositories: s.GitHub.Repositories, Caps: s.GitHub.LabelCaps, Only: only,
		MaxWorkers: s.Director.MaxWorkers, HeartbeatTTL: s.Timeouts.WorkerHeartbeatTTL,
		Watchdog:     s.Timeouts.WorkerWatchdog,
		StartTimeout: s.Timeouts.WorkerStart, StopGrace: s.Timeouts.StopGrace, ClaimStale: s.Timeouts.IssueClaimStale,
		RemindAfter: s.Escalation.RemindAfter, PlainAnswers: s.Escalation.PlainAnswers,
		DeliverFor:      s.Timeouts.Delivery,
		CleanValidation: s.validatesClean(), FixRounds: s.Worker.FixAttempts,
		Policy: s.Policy.With(s.Limits()), Callers: s.Callers(), HasAlternative: s.AlternativeModel() != "",
		Models:        s.models(),
		MaxStatedWait: s.RateLimits.Model.MaxWait, Classify: s.Classifier.Classify, Classifier: s.Classifier,
		Retry: outboxRetry, FenceAfter: FenceAfter, CheckoutTravels: s.Workspace.Travels(),
	}
	if s.Containers.Runtime == config.OnKubernetes { // the cluster's scheduler decides where and when an attempt runs
		cfg.PendingTimeout = s.Kubernetes.PendingTimeout
	}
	for repo, of := range s.projects {
		own := of.Machine(nil)
		if cfg.Projects == nil {
			cfg.Projects = map[string]*fsm.Config{}
		}
		cfg.Projects[repo] = &own
		cfg.Models = union(cfg.Models, own.Models)
	}
	return cfg
}

// validatesClean reports whether separate attempts validate the work. If contracts can define the stages, the rules
// require VALIDATE there.
func (s *Setup) validatesClean() bool {
	return s.ValidatesFresh() && (len(s.ValidateStages()) > 0 || slices.Contains(s.ProjectsAllow, "stage"))
}

// union returns the resources of two lists. An empty list stands for any resource.
func union(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// SyncPolicy returns the limits beyond which a checkout is too far behind its base branch.
func (s *Setup) SyncPolicy() workspace.SyncPolicy {
	return workspace.SyncPolicy{MaxCommits: s.SyncMain.MaxCommitsBehind, MaxBehind: s.SyncMain.MaxBehind}
}

// ModelLimits returns the limits for each model provider.
func (s *Setup) ModelLimits() budget.Limits {
	l := s.RateLimits.Model
	return budget.Limits{
		MaxConcurrent: l.MaxConcurrentRequests, Spacing: l.MinBetweenRequests,
		Cooldown: l.CooldownOnError,
	}
}

// ValidateStages returns the VALIDATE stage and the stages after it.
func (s *Setup) ValidateStages() []wire.StagePlan {
	from := slices.IndexFunc(s.StagePlans, func(g wire.StagePlan) bool { return g.Name == wire.StageValidate })
	if from < 0 {
		return nil
	}
	return s.StagePlans[from:]
}

// Checks returns the command lines of VALIDATE, for prompts. Stages that run an agent are not included.
func (s *Setup) Checks() (lines []string) {
	for _, g := range s.StagePlans {
		if g.Name == wire.StageValidate && g.Agent == nil {
			lines = append(lines, plaintext.CommandLine(g.Run))
		}
	}
	return lines
}

// StagesOf returns the stages of an attempt. The order decides whether they include validation, even if the setup has
// changed since, because the machine relies on the order when the attempt ends.
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

// AlternativeModel returns the model to use when a verdict asks for another one. It is the first alternative model
// configured for a stage.
func (s *Setup) AlternativeModel() string {
	for _, g := range s.StagePlans {
		if g.AlternativeModel != "" {
			return g.AlternativeModel
		}
	}
	return ""
}

// models returns the resources that the stages and routes use. Nil means that a stage's program may use any resource.
func (s *Setup) models() (out []string) {
	plans := slices.Clone(s.StagePlans)
	for _, r := range s.Routes {
		if routed, err := s.Routed(r); err == nil {
			plans = append(plans, routed.StagePlans...)
		}
	}
	for _, g := range plans {
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
