package director

import (
	"errors"
	"slices"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
	"retake/internal/scope"
	"retake/internal/workspace"
	"retake/internal/worktree"
)

// setup is a configuration and what was made of it, as one whole. A running director may replace it by another:
// whoever needs more than one thing of it takes it once, and never sees half of a change. Nobody changes one.
type setup struct {
	config.Config
	read       config.Config // as it was read, but for keys that wait for a restart: what the next one is compared with
	digest     string
	classifier *classify.Classifier
	policy     *policy.Policy // without the configuration's limits
	stages     []wire.StagePlan
	state      worktree.Globs
	scope      *scope.Rules // what may be pushed
	news       *fsm.SettingsChanged
	sums       map[string]string // of its own files, by key
	decided    chan struct{}     // closed when the journal has it; nil: of the start, which has a fact of its own
	decide     func()            // closes it
}

// setup is what is in force. Keys that need a restart are in d.config, too, which never changes.
func (d *daemon) setup() *setup {
	if c := d.configured.Load(); c != nil {
		return c
	}
	return &setup{Config: d.config} // nothing was opened yet
}

// newSetup makes what is needed of a configuration that has no problems.
func (d *daemon) newSetup(read config.Config, sums map[string]string) (*setup, error) {
	c := &setup{Config: read, read: read, digest: read.Digest(sums), sums: sums}
	c.GitHub.Priorities, c.GitHub.LabelCaps = lowered(read.GitHub.Priorities), lowered(read.GitHub.LabelCaps)
	c.Director.DataDir, c.Director.SharedDir = d.config.Director.DataDir, d.config.Director.SharedDir // absolute
	tables, problems := read.Tables()
	c.classifier, c.policy = tables.Classifier, tables.Policy
	var stages, state, push error
	c.stages, stages = stagePlans(read)
	c.state, state = worktree.Compile(read.Agents.StatePaths(read.Stages))
	c.scope, push = scope.New(scope.Options{
		Deny: c.Scope.Deny, Allow: c.Scope.Allow, AllowSecrets: c.Scope.AllowSecrets,
		MaxFileBytes: int64(c.Scope.MaxFileBytes),
	})
	return c, errors.Join(problems.Err(), stages, state, push)
}

// fenceAfter is for how long the end of an attempt is asked for that its runtime cannot confirm: a node that is
// started again, or cut off for a moment, can confirm it by itself. Whoever waits holds a slot.
const fenceAfter = time.Minute

// machineConfig is the part of a configuration that decisions are made by.
func (d *daemon) machineConfig(c *setup) fsm.Config {
	cfg := d.fleetConfig(c)
	cfg.CheckoutTravels = c.Workspace.Travels()
	if c.Containers.Runtime == config.OnKubernetes { // it places attempts by itself
		cfg.PendingTimeout = c.Kubernetes.PendingTimeout
	}
	if d.decides != nil {
		d.decides(&cfg)
	}
	return cfg
}

func (d *daemon) fleetConfig(c *setup) fsm.Config {
	return fsm.Config{
		Repositories: c.GitHub.Repositories, Caps: c.GitHub.LabelCaps, Only: d.only.issues(),
		MaxWorkers: c.Director.MaxWorkers, HeartbeatTTL: c.Timeouts.WorkerHeartbeatTTL,
		Watchdog:     c.Timeouts.WorkerWatchdog,
		StartTimeout: c.Timeouts.WorkerStart, StopGrace: c.Timeouts.StopGrace, ClaimStale: c.Timeouts.IssueClaimStale,
		RemindAfter: c.Escalation.RemindAfter, DeliverFor: c.Timeouts.Delivery,
		CleanValidation: c.ValidatesFresh() && len(c.validateStages()) > 0, FixRounds: c.Worker.FixAttempts,
		Policy: c.policy.With(c.Limits()), HasAlternative: alternative(c.stages) != "", Models: models(c.stages),
		MaxStatedWait: c.RateLimits.Model.MaxWait, Classify: c.classifier.Classify, Classifier: c.classifier,
		Retry: outboxRetry, FenceAfter: fenceAfter,
	}
}

// outboxRetry paces failed effects.
var outboxRetry = recovery.Backoff{Initial: outboxFirst, Max: outboxMax, Factor: 2, Jitter: recovery.EqualJitter}

func (c *setup) syncPolicy() workspace.SyncPolicy {
	return workspace.SyncPolicy{MaxCommits: c.SyncMain.MaxCommitsBehind, MaxBehind: c.SyncMain.MaxBehind}
}

// validateStages are the stages that judge the work, and what follows them.
func (c *setup) validateStages() []wire.StagePlan {
	from := slices.IndexFunc(c.stages, func(g wire.StagePlan) bool { return g.Name == wire.StageValidate })
	if from < 0 {
		return nil
	}
	return c.stages[from:]
}

// stagesOf are the stages of an attempt: what the configuration said when it began decides, and the machine
// knows it when the attempt ends.
func (c *setup) stagesOf(o *fsm.StartOrder) []wire.StagePlan {
	validate := c.validateStages()
	switch {
	case o.Validate:
		return validate
	case o.LeavesValidation:
		return c.stages[:len(c.stages)-len(validate)]
	}
	return c.stages
}
