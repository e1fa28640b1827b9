package recovery

import "slices"

// Reason is what the evidence of a failure means. The list is closed: see Reasons.
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
	AgentCrash        Reason = "agent_crash"
	NoProgress        Reason = "no_progress"
	Unknown           Reason = "unknown"
)

// Cause is the origin of a failure. Causes never share a meter: an outage must not use up the agent's chances.
type Cause string

// The causes.
const (
	Infrastructure Cause = "infrastructure"
	Agent          Cause = "agent"
	RateLimit      Cause = "rate_limit"
	Human          Cause = "human"
)

// Class is the founding harness's view of a reason: what heals it.
type Class string

// The classes.
const (
	Transient Class = "transient" // time heals it: retry, bounded
	Permanent Class = "permanent" // the same input fails again: fail fast
	NeedHuman Class = "human"     // only a person can decide
)

// Category is the founding document's class of error, by which reports group reasons.
type Category string

// Categories, in that document's order.
const (
	TaskError        Category = "TaskError"
	AgentError       Category = "AgentError"
	ValidationError  Category = "ValidationError"
	SessionError     Category = "SessionError"
	EnvironmentError Category = "EnvironmentError"
)

// Categories lists every category once.
var Categories = []Category{TaskError, AgentError, ValidationError, SessionError, EnvironmentError}

// Scope says what several tasks that fail for the same reason may have in common.
type Scope string

// The scopes.
const (
	OneTask       Scope = "task"       // nothing: each task fails by itself, however alike it looks
	OneModel      Scope = "model"      // the model that an agent called, whatever the texts
	OneRemote     Scope = "remote"     // whatever was called, whatever the texts; nothing if it is not known what that was
	OneHost       Scope = "host"       // the director's host, whatever the texts
	OneRepository Scope = "repository" // the repository, if the signatures are equal: its base branch or stages are broken
)

// About is what is known of a reason itself, whatever the policy makes of it.
type About struct {
	Reason    Reason
	Cause     Cause
	Class     Class
	Retryable bool // the same attempt may soon succeed without anybody doing anything
	Category  Category
	Scope     Scope
	Title     string // of the comment that asks a person: "Retake needs a human: …"
	Means     string // one line for people, no trailing dot
	Ask       string // the one thing that a person is asked when a task blocks for this reason
	words     presetWords
}

// presetWords is what a reason is called in the vocabularies of the founding documents, by preset.
type presetWords struct{ reviewcat, gdd, cortex, prp, dispatch string }

// Reasons lists every reason once. Every property of a reason is a column of this table.
var Reasons = []About{
	{
		RateLimited, RateLimit, Transient, true, AgentError, OneTask, "a rate limit does not clear",
		"a provider refused for now: too many requests",
		"Nothing is wrong with the change. Check whether the limit is shared with other users of the key, then resume the task.",
		presetWords{"github_rate_limited", "rate_limited", "transient", "non-fatal", "transient"},
	},
	{
		QuotaExhausted, RateLimit, Transient, false, AgentError, OneTask, "a quota is used up",
		"a quota, credit or usage cap is used up",
		"Add credit or wait for the quota's reset, then resume the task.",
		presetWords{"github_rate_limited", "rate_limited", "transient", "non-fatal", "transient"},
	},
	{
		Overloaded, Infrastructure, Transient, true, AgentError, OneModel, "a provider is overloaded",
		"a provider is overloaded or failing on its side",
		"Check the provider's status page, then resume the task.",
		presetWords{"github_mcp_timeout", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		NetworkTransient, Infrastructure, Transient, true, EnvironmentError, OneRemote, "connections keep failing",
		"a connection was cut, refused or reset",
		"Check the network between the workers and the named host, then resume the task.",
		presetWords{"github_mcp_timeout", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		NetworkPermanent, Infrastructure, Permanent, false, EnvironmentError, OneRemote, "a host cannot be reached",
		"a host name, certificate or route is wrong",
		"Correct the address, DNS entry or certificate named below.",
		presetWords{"invalid_config", "network_permanent", "fatal", "non-fatal", "tooling"},
	},
	{
		ContextOverflow, Agent, Permanent, false, AgentError, OneTask, "the task does not fit the model's context",
		"the prompt does not fit the model's context",
		"Make the issue smaller, or name the files that matter.",
		presetWords{"docker_exit_nonzero", "context_overflow", "context", "non-fatal", "prompt_too_large"},
	},
	{
		AuthError, Human, NeedHuman, false, EnvironmentError, OneModel, "a login is refused",
		"a credential is missing, wrong or expired",
		"Renew the credential named below and restart the director with it.",
		presetWords{"missing_prereq", "auth_error", "fatal", "fatal", "auth"},
	},
	{
		PermissionDenied, Human, NeedHuman, false, EnvironmentError, OneRepository, "a permission is missing",
		"a permission is missing",
		"Grant the permission named below, or change the issue so that it needs none.",
		presetWords{"missing_prereq", "auth_error", "fatal", "non-fatal", "auth"},
	},
	{
		ToolNotFound, Human, Permanent, false, EnvironmentError, OneRepository, "a program is missing",
		"a program that a stage needs is not there",
		"Add the program to the worker image, or correct the stage's command in the configuration.",
		presetWords{"missing_prereq", "tool_not_found", "permanent", "non-fatal", "tooling"},
	},
	{
		InvalidConfig, Human, Permanent, false, ValidationError, OneRepository, "the configuration is wrong",
		"a configuration, flag, model or address is wrong",
		"Correct the setting named below.",
		presetWords{"invalid_config", "validation", "permanent", "fatal", "tooling"},
	},
	{
		Validation, Agent, Permanent, false, ValidationError, OneRepository, "a check or a request says no",
		"a check refused the change, or a request or an argument was malformed",
		"Read the message below: what is refused stays refused, so trying again cannot help.",
		presetWords{"docker_exit_nonzero", "validation", "permanent", "non-fatal", "tooling"},
	},
	{
		BuildFailed, Agent, Permanent, false, TaskError, OneRepository, "the build fails",
		"the change does not compile",
		"Read the compiler's message below, and state in the issue what the change should look like.",
		presetWords{"build_failed", "validation", "permanent", "non-fatal", "contract_violation"},
	},
	{
		TestsFailed, Agent, Permanent, false, TaskError, OneRepository, "the tests fail",
		"the change breaks a test",
		"Read the failing test below, and state in the issue which behaviour is right.",
		presetWords{"tests_failed", "validation", "permanent", "non-fatal", "contract_violation"},
	},
	{
		LintFailed, Agent, Permanent, false, TaskError, OneRepository, "the linter fails",
		"a linter, formatter or type checker refuses the change",
		"Read the linter's message below, or relax the rule.",
		presetWords{"build_failed", "validation", "permanent", "non-fatal", "contract_violation"},
	},
	{
		GitConflict, Agent, Permanent, false, TaskError, OneTask, "a merge conflict",
		"the change does not merge with the base branch",
		"Resolve the conflict, or close the competing change.",
		presetWords{"docker_exit_nonzero", "validation", "permanent", "non-fatal", "contract_violation"},
	},
	{
		DockerDaemon, Infrastructure, Transient, true, EnvironmentError, OneHost, "the container engine fails",
		"the container engine failed or could not be reached",
		"Check the container engine on the director's host (docker info).",
		presetWords{"docker_exit_nonzero", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		ImagePullFailed, Infrastructure, Transient, true, EnvironmentError, OneHost, "the worker image cannot be pulled",
		"the worker image is missing or could not be pulled",
		"Build or pull the image named below on the director's host, or correct containers.image.",
		presetWords{"docker_exit_nonzero", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		OOMKilled, Infrastructure, Transient, true, EnvironmentError, OneTask, "the work runs out of memory",
		"the container's memory limit killed the work",
		"Raise containers.memory, or make the issue smaller.",
		presetWords{"docker_exit_nonzero", "unknown", "transient", "fatal", "transient"},
	},
	{
		DiskFull, Infrastructure, Transient, true, SessionError, OneHost, "the disk is full",
		"a disk is full",
		"Free space on the disk named below.",
		presetWords{"docker_exit_nonzero", "unknown", "transient", "fatal", "tooling"},
	},
	{
		Timeout, Infrastructure, Transient, true, TaskError, OneTask, "the work takes too long",
		"a deadline ended the work",
		"Raise the stage's timeout_seconds or the watchdog, or make the issue smaller.",
		presetWords{"github_mcp_timeout", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		WorkerLost, Infrastructure, Transient, true, EnvironmentError, OneRepository, "the worker keeps disappearing",
		"the worker ended or went silent without a report",
		"Look at the host: what ended the container, and is memory short?",
		presetWords{"docker_exit_nonzero", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		BusDisconnect, Infrastructure, Transient, true, EnvironmentError, OneHost, "the agent bus cannot be reached",
		"the agent bus was out of reach",
		"Check that the workers' network reaches the agent bus.",
		presetWords{"agent_bus_disconnect", "network_transient", "transient", "non-fatal", "transient"},
	},
	{
		PolicyViolation, Human, NeedHuman, false, AgentError, OneTask, "a safety rule forbids the work",
		"a safety rule, content filter or sandbox refused the work",
		"Decide whether the work is wanted at all; if so, do the refused step by hand or change the rule.",
		presetWords{"docker_exit_nonzero", "validation", "permanent", "non-fatal", "scope_violation"},
	},
	{
		ScopeViolation, Human, NeedHuman, false, TaskError, OneTask, "the change leaves the issue's scope",
		"the change leaves the issue's scope",
		"Decide whether the wider change is wanted, and state it in the issue.",
		presetWords{"docker_exit_nonzero", "validation", "permanent", "non-fatal", "scope_violation"},
	},
	{
		ContractViolation, Human, Permanent, false, ValidationError, OneRepository, "a worker or tool breaks the protocol",
		"a worker or tool broke the protocol",
		"Use matching versions of the worker image and the director.",
		presetWords{"docker_exit_nonzero", "validation", "permanent", "non-fatal", "contract_violation"},
	},
	{
		NeedsHuman, Human, NeedHuman, false, TaskError, OneTask, "a question",
		"the agent asks for a decision",
		"Answer the question below.",
		presetWords{"docker_exit_nonzero", "unknown", "permanent", "non-fatal", "unknown"},
	},
	{
		CorruptState, Infrastructure, Permanent, false, SessionError, OneRepository, "stored data is damaged",
		"a repository, session or database is damaged",
		"Look at the damaged files named below.",
		presetWords{"docker_exit_nonzero", "unknown", "context", "fatal", "tooling"},
	},
	{
		AgentCrash, Agent, Transient, true, AgentError, OneRepository, "the agent crashes",
		"the agent program crashed",
		"Look at the crash below. Another version of the agent may help.",
		presetWords{"docker_exit_nonzero", "unknown", "transient", "non-fatal", "unknown"},
	},
	{
		NoProgress, Agent, Permanent, false, TaskError, OneTask, "no progress",
		"the agent ended well but changed nothing",
		"State in the issue more exactly what to change, or close it.",
		presetWords{"docker_exit_nonzero", "unknown", "permanent", "non-fatal", "unknown"},
	},
	{
		Unknown, Agent, Transient, true, TaskError, OneRepository, "an unknown failure",
		"nothing in the evidence says what happened",
		"Read the output below; its meaning is not known.",
		presetWords{"docker_exit_nonzero", "unknown", "transient", "non-fatal", "unknown"},
	},
}

// Deterministic reports whether the same work in the same repository fails like that again, however long anybody waits.
func (r Reason) Deterministic() bool {
	a, _ := Describe(r)
	return a.Scope == OneRepository && a.Class != Transient
}

// Describe returns what is known of r. An r that is not on the list is described as Unknown, ok false.
func Describe(r Reason) (a About, ok bool) {
	if i := slices.IndexFunc(Reasons, func(a About) bool { return a.Reason == r }); i >= 0 {
		return Reasons[i], true
	}
	return Reasons[len(Reasons)-1], false
}
