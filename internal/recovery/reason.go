package recovery

import "slices"

// Reason is the classification of a failure, one of Reasons.
type Reason string

// The reasons, in the order in which documents list them.
const (
	RateLimited       Reason = "rate_limited"
	QuotaExhausted    Reason = "quota_exhausted"
	Overloaded        Reason = "overloaded"
	NetworkTransient  Reason = "network_transient"
	NetworkPermanent  Reason = "network_permanent"
	ContextOverflow   Reason = "context_overflow"
	AuthError         Reason = "auth_error"
	PermissionDenied  Reason = "permission_denied"
	ToolNotFound      Reason = "tool_not_found"
	InvalidConfig     Reason = "invalid_config"
	Validation        Reason = "validation"
	BuildFailed       Reason = "build_failed"
	TestsFailed       Reason = "tests_failed"
	LintFailed        Reason = "lint_failed"
	GitConflict       Reason = "git_conflict"
	DockerDaemon      Reason = "docker_daemon"
	ImagePullFailed   Reason = "image_pull_failed"
	NoCapacity        Reason = "no_capacity"
	OOMKilled         Reason = "oom_killed"
	DiskFull          Reason = "disk_full"
	Timeout           Reason = "timeout"
	WorkerLost        Reason = "worker_lost"
	BusDisconnect     Reason = "bus_disconnect"
	PolicyViolation   Reason = "policy_violation"
	ScopeViolation    Reason = "scope_violation"
	ContractViolation Reason = "contract_violation"
	NeedsHuman        Reason = "needs_human"
	CorruptState      Reason = "corrupt_state"
	WorkLost          Reason = "work_lost"
	AgentCrash        Reason = "agent_crash"
	NoProgress        Reason = "no_progress"
	Unknown           Reason = "unknown"
)

// Cause groups reasons by origin. Each cause is charged separately, so that an outage does not use up the agent's
// attempts.
type Cause string

// The causes.
const (
	Infrastructure Cause = "infrastructure"
	Agent          Cause = "agent"
	RateLimit      Cause = "rate_limit"
	Human          Cause = "human"
)

// Class groups reasons by remedy, as in the founding harness.
type Class string

// The classes.
const (
	Transient Class = "transient" // it passes with time, so a few retries help
	Permanent Class = "permanent" // the same input would fail again, so retries do not help
	NeedHuman Class = "human"     // only a person can decide
)

// Category is the class of error in the founding document. Reports group reasons by category.
type Category string

// Categories, in the founding document's order.
const (
	TaskError        Category = "TaskError"
	AgentError       Category = "AgentError"
	ValidationError  Category = "ValidationError"
	SessionError     Category = "SessionError"
	EnvironmentError Category = "EnvironmentError"
)

// Categories lists every category once.
var Categories = []Category{TaskError, AgentError, ValidationError, SessionError, EnvironmentError}

// Scope is the possible common cause if several tasks fail for the same reason.
type Scope string

// The scopes.
const (
	OneTask  Scope = "task"  // each task fails separately, even if the texts are equal
	OneModel Scope = "model" // the agent's model, even if the texts differ
	// OneRemote is the called service, even if the texts differ. An unknown service has no scope.
	OneRemote  Scope = "remote"
	OneHost    Scope = "host"    // the director's host, even if the texts differ
	OneCluster Scope = "cluster" // the workers' cluster, even if the texts differ
	// OneRepository is the repository's base branch or stages, if the signatures are equal.
	OneRepository Scope = "repository"
)

// About describes a reason. It does not depend on the policy.
type About struct {
	Reason    Reason
	Cause     Cause
	Class     Class
	Retryable bool // the same attempt may soon succeed unchanged
	Category  Category
	Scope     Scope
	Means     string // one line, without a full stop
	words     presetWords
}

// presetWords are a reason's names in the founding documents, by preset.
type presetWords struct{ reviewcat, gdd, cortex, prp, dispatch string }

// Title returns the reason's general title (see Case). It is a method, so that the worker does not link the wordings.
func (a About) Title() string { return ownWords(a.Reason).Title }

// Ask returns the reason's general question to a person.
func (a About) Ask() string { return ownWords(a.Reason).Alone }

// Reasons lists every reason once. Every property of a reason is a column of this table.
var Reasons = []About{
	{
		RateLimited, RateLimit, Transient, true, AgentError, OneTask,
		"a provider refused a request because too many were sent",
		presetWords{"github_rate_limited", "rate_limited", "transient", "non-fatal", "transient"},
	},
	{
		QuotaExhausted, RateLimit, Transient, false, AgentError, OneTask,
		"a quota, credit or usage cap is used up",
		presetWords{"github_rate_limited", "rate_limited", "transient", "non-fatal", "transient"},
	},
	{
		Overloaded, Infrastructure, Transient, true, AgentError, OneModel,
		"a provider is overloaded or failing on its side",
		presetWords{"github_mcp_timeout", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		NetworkTransient, Infrastructure, Transient, true, EnvironmentError, OneRemote,
		"a connection was cut, refused or reset",
		presetWords{"github_mcp_timeout", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		NetworkPermanent, Infrastructure, Permanent, false, EnvironmentError, OneRemote,
		"a host name, certificate or route is wrong",
		presetWords{"invalid_config", "network_permanent", "fatal", "non-fatal", "tooling"},
	},
	{
		ContextOverflow, Agent, Permanent, false, AgentError, OneTask,
		"the prompt does not fit the model's context",
		presetWords{"docker_exit_nonzero", "context_overflow", "context", "non-fatal", "prompt_too_large"},
	},
	{
		AuthError, Human, NeedHuman, false, EnvironmentError, OneModel,
		"a credential is missing, wrong or expired",
		presetWords{"missing_prereq", "auth_error", "fatal", "fatal", "auth"},
	},
	{
		PermissionDenied, Human, NeedHuman, false, EnvironmentError, OneRepository,
		"a permission is missing",
		presetWords{"missing_prereq", "auth_error", "fatal", "non-fatal", "auth"},
	},
	{
		ToolNotFound, Human, Permanent, false, EnvironmentError, OneRepository,
		"a program that a stage needs is missing",
		presetWords{"missing_prereq", "tool_not_found", "permanent", "non-fatal", "tooling"},
	},
	{
		InvalidConfig, Human, Permanent, false, ValidationError, OneRepository,
		"a configuration, flag, model or address is wrong",
		presetWords{"invalid_config", "validation", "permanent", "fatal", "tooling"},
	},
	{
		Validation, Agent, Permanent, false, ValidationError, OneRepository,
		"a check rejected the change, or a request or argument was malformed",
		presetWords{"docker_exit_nonzero", "validation", "permanent", "non-fatal", "tooling"},
	},
	{
		BuildFailed, Agent, Permanent, false, TaskError, OneRepository,
		"the change does not compile",
		presetWords{"build_failed", "validation", "permanent", "non-fatal", "contract_violation"},
	},
	{
		TestsFailed, Agent, Permanent, false, TaskError, OneRepository,
		"the change breaks a test",
		presetWords{"tests_failed", "validation", "permanent", "non-fatal", "contract_violation"},
	},
	{
		LintFailed, Agent, Permanent, false, TaskError, OneRepository,
		"a linter, formatter or type checker rejects the change",
		presetWords{"build_failed", "validation", "permanent", "non-fatal", "contract_violation"},
	},
	{
		GitConflict, Agent, Permanent, false, TaskError, OneTask,
		"the change conflicts with the base branch",
		presetWords{"docker_exit_nonzero", "validation", "permanent", "non-fatal", "contract_violation"},
	},
	{
		DockerDaemon, Infrastructure, Transient, true, EnvironmentError, OneHost,
		"the container engine failed or could not be reached",
		presetWords{"docker_exit_nonzero", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		ImagePullFailed, Infrastructure, Transient, true, EnvironmentError, OneHost,
		"the worker image is missing or could not be pulled",
		presetWords{"docker_exit_nonzero", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		NoCapacity, Infrastructure, Transient, true, EnvironmentError, OneCluster,
		"the cluster had no room for the worker in time, or could not start it",
		presetWords{"docker_exit_nonzero", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		OOMKilled, Infrastructure, Transient, true, EnvironmentError, OneTask,
		"the container's memory limit killed the work",
		presetWords{"docker_exit_nonzero", "unknown", "transient", "fatal", "transient"},
	},
	{
		DiskFull, Infrastructure, Transient, true, SessionError, OneHost,
		"a disk is full",
		presetWords{"docker_exit_nonzero", "unknown", "transient", "fatal", "tooling"},
	},
	{
		Timeout, Infrastructure, Transient, true, TaskError, OneTask,
		"the work exceeded a deadline",
		presetWords{"github_mcp_timeout", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		WorkerLost, Infrastructure, Transient, true, EnvironmentError, OneRepository,
		"the worker exited or went silent without sending a report",
		presetWords{"docker_exit_nonzero", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		BusDisconnect, Infrastructure, Transient, true, EnvironmentError, OneHost,
		"the agent bus was unreachable",
		presetWords{"agent_bus_disconnect", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		PolicyViolation, Human, NeedHuman, false, AgentError, OneTask,
		"a safety rule, content filter or sandbox refused the work",
		presetWords{"docker_exit_nonzero", "validation", "permanent", "non-fatal", "scope_violation"},
	},
	{
		ScopeViolation, Human, NeedHuman, false, TaskError, OneTask,
		"the change exceeds the issue's scope",
		presetWords{"docker_exit_nonzero", "validation", "permanent", "non-fatal", "scope_violation"},
	},
	{
		ContractViolation, Human, Permanent, false, ValidationError, OneRepository,
		"a worker or tool broke the protocol",
		presetWords{"docker_exit_nonzero", "validation", "permanent", "non-fatal", "contract_violation"},
	},
	{
		NeedsHuman, Human, NeedHuman, false, TaskError, OneTask,
		"the agent asks for a decision",
		presetWords{"docker_exit_nonzero", "unknown", "permanent", "non-fatal", "unknown"},
	},
	{
		CorruptState, Infrastructure, Permanent, false, SessionError, OneRepository,
		"a repository, session or database is damaged",
		presetWords{"docker_exit_nonzero", "unknown", "context", "fatal", "tooling"},
	},
	{
		WorkLost, Infrastructure, Transient, true, SessionError, OneTask,
		"the task's stored work on the director's machine is damaged and cannot be restored",
		presetWords{"docker_exit_nonzero", "unknown", "transient", "non-fatal", "unknown"},
	},
	{
		AgentCrash, Agent, Transient, true, AgentError, OneRepository,
		"the agent program crashed",
		presetWords{"docker_exit_nonzero", "unknown", "transient", "non-fatal", "unknown"},
	},
	{
		NoProgress, Agent, Permanent, false, TaskError, OneTask,
		"the agent succeeded but changed nothing",
		presetWords{"docker_exit_nonzero", "unknown", "permanent", "non-fatal", "unknown"},
	},
	{
		Unknown, Agent, Transient, true, TaskError, OneRepository,
		"the evidence does not explain the failure",
		presetWords{"docker_exit_nonzero", "unknown", "transient", "non-fatal", "unknown"},
	},
}

// Deterministic reports whether the same work in the same repository would always fail again.
func (r Reason) Deterministic() bool {
	a, _ := Describe(r)
	return a.Scope == OneRepository && a.Class != Transient
}

// Describe returns the row of r in Reasons. For an unlisted r it returns the row of Unknown, and false.
func Describe(r Reason) (a About, ok bool) {
	if i := slices.IndexFunc(Reasons, func(a About) bool { return a.Reason == r }); i >= 0 {
		return Reasons[i], true
	}
	return Reasons[len(Reasons)-1], false
}
