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

// Cause says whose fault a failure is. Causes never share a meter: an outage must not use up the agent's chances.
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

// About is what is known of a reason itself, whatever the policy makes of it.
type About struct {
	Reason    Reason
	Cause     Cause
	Class     Class
	Retryable bool   // the same attempt may soon succeed without anybody doing anything
	Means     string // one line for people, no trailing dot
	Ask       string // the one thing that a person is asked when a task blocks for this reason
}

// Reasons lists every reason once.
var Reasons = []About{
	{RateLimited, RateLimit, Transient, true, "a provider refused for now: too many requests", "Nothing is wrong with the change. Check whether the limit is shared with other users of the key, then let it go on."},
	{QuotaExhausted, RateLimit, Transient, false, "a quota, credit or usage cap is used up", "Add credit or wait for the quota's reset, then let it go on."},
	{Overloaded, Infrastructure, Transient, true, "a provider is overloaded or failing on its side", "Check the provider's status page, then let it go on."},
	{NetworkTransient, Infrastructure, Transient, true, "a connection was cut, refused or reset", "Check the network between the workers and the named host, then let it go on."},
	{NetworkPermanent, Infrastructure, Permanent, false, "a host name, certificate or route is wrong", "Correct the address, DNS or certificate that is named below."},
	{ContextOverflow, Agent, Permanent, false, "the prompt does not fit the model's context", "Make the issue smaller, or name the files that matter."},
	{AuthError, Human, NeedHuman, false, "a credential is missing, wrong or expired", "Renew the credential that is named below and restart the director with it."},
	{PermissionDenied, Human, NeedHuman, false, "a permission is missing", "Grant the permission that is named below, or change the issue so that it is not needed."},
	{ToolNotFound, Human, Permanent, false, "a program that a stage needs is not there", "Add the program to the worker image, or correct the stage's command in the configuration."},
	{InvalidConfig, Human, Permanent, false, "a configuration, flag, model or address is wrong", "Correct the setting that is named below."},
	{Validation, Agent, Permanent, false, "a request or an argument was refused as malformed", "Read the message below: the request itself is refused, so a repetition cannot help."},
	{BuildFailed, Agent, Permanent, false, "the change does not compile", "Read the compiler's message below, and say in the issue what the change should look like."},
	{TestsFailed, Agent, Permanent, false, "the change breaks a test", "Read the failing test below, and say in the issue which behaviour is right."},
	{LintFailed, Agent, Permanent, false, "a linter, formatter or type checker refuses the change", "Read the linter's message below, or relax the rule."},
	{GitConflict, Agent, Permanent, false, "the change does not merge with the base branch", "Resolve the conflict, or close the competing change."},
	{DockerDaemon, Infrastructure, Transient, true, "the container engine failed or could not be reached", "Check the container engine on the director's host (docker info)."},
	{ImagePullFailed, Infrastructure, Transient, true, "the worker image is missing or could not be pulled", "Build or pull the image that is named below on the director's host, or correct containers.image."},
	{OOMKilled, Infrastructure, Transient, true, "the container's memory limit killed the work", "Raise containers.memory, or make the issue smaller."},
	{DiskFull, Infrastructure, Transient, true, "a disk is full", "Make room on the disk that is named below."},
	{Timeout, Infrastructure, Transient, true, "a deadline ended the work", "Raise the stage's timeout_seconds or the watchdog, or make the issue smaller."},
	{WorkerLost, Infrastructure, Transient, true, "the worker ended or went silent without a report", "Look at the host: who ended the container, and is memory short?"},
	{BusDisconnect, Infrastructure, Transient, true, "the agent bus was out of reach", "Check that the workers' network reaches the agent bus."},
	{PolicyViolation, Human, NeedHuman, false, "a safety rule, content filter or sandbox refused the work", "Decide whether the work is wanted at all; if so, do the refused step by hand or change the rule."},
	{ScopeViolation, Human, NeedHuman, false, "the change leaves the issue's scope", "Decide whether the wider change is wanted, and say so in the issue."},
	{ContractViolation, Human, Permanent, false, "a worker or tool broke the protocol", "Bring the worker image and the director to versions that fit each other."},
	{NeedsHuman, Human, NeedHuman, false, "the agent asks for a decision", "Answer the question below."},
	{CorruptState, Infrastructure, Permanent, false, "a repository, session or database is damaged", "Look at the damaged files that are named below."},
	{AgentCrash, Agent, Transient, true, "the agent program crashed", "Look at the crash below; another version of the agent may help."},
	{NoProgress, Agent, Permanent, false, "the agent ended well but changed nothing", "Say in the issue more exactly what is to be changed, or close it."},
	{Unknown, Agent, Transient, true, "nothing in the evidence says what happened", "Read the output below; what it means could not be told."},
}

// Describe returns what is known of r. An r that is not on the list is described as Unknown, ok false.
func Describe(r Reason) (a About, ok bool) {
	if i := slices.IndexFunc(Reasons, func(a About) bool { return a.Reason == r }); i >= 0 {
		return Reasons[i], true
	}
	return Reasons[len(Reasons)-1], false
}
