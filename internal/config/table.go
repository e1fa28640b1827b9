package config

import (
	"strings"

	"retake/internal/recovery"
)

// row is everything there is to know about one key.
type row struct {
	key      string   // section.key; "stage.x" stands in every [[stage]]
	def      string   // default, as text of TOML
	unit     string   // for the documentation
	min, max float64  // of numbers, inclusive
	allowed  []string // closed list of texts; empty: any that check lets through
	// check says what is wrong with one text (each of a list), or nothing.
	check func(string) string
	want  string // what check lets through, for messages
	doc   string
	field func(c *Config, stage int) any
}

func (r row) stage() bool { return strings.HasPrefix(r.key, "stage.") }

const (
	day  = 86400
	week = 7 * day
)

// rows are ordered as the documentation shall be.
var rows = []row{
	{key: "director.interval_seconds", def: "60", unit: "seconds", min: 0.1, max: 3600, doc: "Housekeeping tick. Decisions are event-driven and don't wait for it.", field: func(c *Config, _ int) any { return &c.Director.Interval }},
	{key: "director.max_workers", def: "3", unit: "containers", min: 1, max: 100, doc: "Worker containers that run at the same time.", field: func(c *Config, _ int) any { return &c.Director.MaxWorkers }},
	{key: "director.max_retries", def: "3", unit: "dispatches", min: 0, max: 100, doc: "Re-dispatches per task over all causes, before a human is asked.", field: func(c *Config, _ int) any { return &c.Director.MaxRetries }},
	{key: "director.fleet", def: `"default"`, check: matches(fleetForm), want: "1 to 32 of a-z, 0-9 and -, beginning with a letter", doc: "Names this director's containers, streams and markers.", field: func(c *Config, _ int) any { return &c.Director.Fleet }},
	{key: "director.data_dir", def: `".retake"`, check: notEmpty, want: "a path", doc: "Journal, mirrors and checkouts; relative to the working directory. In compose the same absolute path inside and outside.", field: func(c *Config, _ int) any { return &c.Director.DataDir }},

	{key: "timeouts.worker_heartbeat_ttl_seconds", def: "90", unit: "seconds", min: 0.1, max: 3600, doc: "Silence after which a worker is suspect. At least 3 times agent_bus.heartbeat_interval_seconds.", field: func(c *Config, _ int) any { return &c.Timeouts.WorkerHeartbeatTTL }},
	{key: "timeouts.worker_watchdog_seconds", def: "3600", unit: "seconds", min: 0.1, max: week, doc: "An attempt's whole life. More than worker_start_seconds, and no less than any stage's timeout_seconds.", field: func(c *Config, _ int) any { return &c.Timeouts.WorkerWatchdog }},
	{key: "timeouts.issue_claim_stale_seconds", def: "21600", unit: "seconds", min: 1, max: 4 * week, doc: "A claim without progress for this long is given back. More than worker_watchdog_seconds.", field: func(c *Config, _ int) any { return &c.Timeouts.IssueClaimStale }},
	{key: "timeouts.worker_start_seconds", def: "60", unit: "seconds", min: 0.1, max: 3600, doc: "From the container's creation to the worker's hello.", field: func(c *Config, _ int) any { return &c.Timeouts.WorkerStart }},
	{key: "timeouts.stop_grace_seconds", def: "10", unit: "seconds", min: 0, max: 300, doc: "From the request to stop to the kill.", field: func(c *Config, _ int) any { return &c.Timeouts.StopGrace }},

	{key: "retry.backoff_mode", def: `"exponential"`, allowed: []string{"exponential", "linear"}, doc: "How the delay between attempts grows.", field: func(c *Config, _ int) any { return &c.Retry.BackoffMode }},
	{key: "retry.backoff_initial_seconds", def: "1", unit: "seconds", min: 0, max: 3600, doc: "First delay.", field: func(c *Config, _ int) any { return &c.Retry.BackoffInitial }},
	{key: "retry.backoff_max_seconds", def: "30", unit: "seconds", min: 0, max: day, doc: "Longest delay; no less than backoff_initial_seconds.", field: func(c *Config, _ int) any { return &c.Retry.BackoffMax }},
	{key: "retry.backoff_factor", def: "2.0", unit: "", min: 1, max: 10, doc: "What a delay is multiplied with to give the next one.", field: func(c *Config, _ int) any { return &c.Retry.BackoffFactor }},
	{key: "retry.jitter", def: `"full"`, allowed: []string{"full", "equal", "none"}, doc: "How much of a delay is left to chance: all, half, nothing.", field: func(c *Config, _ int) any { return &c.Retry.Jitter }},

	{key: "containers.runtime", def: `"auto"`, allowed: []string{"auto", "docker", "process"}, doc: "What workers run in. process, for development: plain processes of the director's machine, without an image, a network of their own or limits. auto: docker if an engine answers, else process with a warning.", field: func(c *Config, _ int) any { return &c.Containers.Runtime }},
	{key: "containers.image", def: `"retake-dev:main"`, check: matches(imageForm), want: "an image reference such as repo/name:tag", doc: "Image of the workers; it needs nothing of ours in it.", field: func(c *Config, _ int) any { return &c.Containers.Image }},
	{key: "containers.workdir", def: `"/workspace"`, check: checkWorkdir, want: "an absolute path in the container, none of the system's or Retake's own", doc: "Where the checkout is mounted in the container.", field: func(c *Config, _ int) any { return &c.Containers.Workdir }},
	{key: "containers.memory", def: `"2GiB"`, unit: "bytes", min: 16 << 20, max: 16 << 40, doc: "Memory limit of a worker.", field: func(c *Config, _ int) any { return &c.Containers.Memory }},
	{key: "containers.cpus", def: "1.0", unit: "processors", min: 0.01, max: 1024, doc: "Processor limit of a worker.", field: func(c *Config, _ int) any { return &c.Containers.CPUs }},
	{key: "containers.pids", def: "512", unit: "processes", min: 16, max: 4194304, doc: "Limit of processes and threads of a worker.", field: func(c *Config, _ int) any { return &c.Containers.PIDs }},
	{key: "containers.user", def: `"1000:1000"`, check: checkUser, want: `"uid:gid" in numbers, neither of them 0 (root)`, doc: "Who workers run as, and who owns their checkouts. Never root.", field: func(c *Config, _ int) any { return &c.Containers.User }},
	{key: "containers.network", def: `"retake"`, check: checkNetwork, want: "a name of letters, digits, _ . -, and not host, none, default or bridge", doc: "Docker network of the workers, made if missing.", field: func(c *Config, _ int) any { return &c.Containers.Network }},
	{key: "containers.env_passthrough", def: "[]", check: checkVariable, want: "names of environment variables, none beginning with RETAKE_", doc: `Names of the director's variables that workers may see, e.g. ["ANTHROPIC_API_KEY"]. Never the GitHub token's.`, field: func(c *Config, _ int) any { return &c.Containers.EnvPassthrough }},
	{key: "containers.mounts", def: "[]", want: mountForm, doc: `More that workers see: "/host/path:/path" (read-only unless ":rw" follows) or "volume:name:/path" (writable unless ":ro" follows).`, field: func(c *Config, _ int) any { return &c.Containers.Mounts }},
	{key: "containers.env", def: "{}", check: checkVariable, want: "names of environment variables, none beginning with RETAKE_", doc: "Variables for the stages, with their values. Secrets: env_passthrough.", field: func(c *Config, _ int) any { return &c.Containers.Env }},

	{key: "agent_bus.url", def: `""`, check: checkBusURL, want: "nats:// or tls:// URLs, separated by commas, or nothing", doc: "NATS server to join; empty: one embedded in the director.", field: func(c *Config, _ int) any { return &c.AgentBus.URL }},
	{key: "agent_bus.listen_addr", def: `"auto"`, check: checkListenAddr, want: `"auto" or an IP address`, doc: "Where the embedded server listens. auto: loopback, and the worker network's gateway for containers.", field: func(c *Config, _ int) any { return &c.AgentBus.ListenAddr }},
	{key: "agent_bus.listen_port", def: "8731", unit: "port", min: 0, max: 65535, doc: "Port of the embedded server; 0: any free one. Persisted, so that workers find it again.", field: func(c *Config, _ int) any { return &c.AgentBus.ListenPort }},
	{key: "agent_bus.prefix", def: `"retake.v1"`, check: matches(prefixForm), want: "words of letters, digits, _ and -, joined by dots", doc: "First part of every subject.", field: func(c *Config, _ int) any { return &c.AgentBus.Prefix }},
	{key: "agent_bus.replicas", def: "1", unit: "servers", min: 1, max: 5, doc: "Copies of every stream: 1, 3 or 5. More than 1 needs a cluster at agent_bus.url.", field: func(c *Config, _ int) any { return &c.AgentBus.Replicas }},
	{key: "agent_bus.max_message_bytes", def: "65536", unit: "bytes", min: 4096, max: 1 << 20, doc: "Longest message.", field: func(c *Config, _ int) any { return &c.AgentBus.MaxMessageBytes }},
	{key: "agent_bus.heartbeat_interval_seconds", def: "15", unit: "seconds", min: 0.1, max: 600, doc: "How often a worker reports that it lives.", field: func(c *Config, _ int) any { return &c.AgentBus.HeartbeatInterval }},
	{key: "agent_bus.sync", def: `"default"`, allowed: []string{"default", "always"}, doc: "What a power cut may cost: default, the last moments; always, nothing, at half a millisecond per message.", field: func(c *Config, _ int) any { return &c.AgentBus.Sync }},

	{key: "rate_limits.github.max_concurrent_requests", def: "2", unit: "requests", min: 1, max: 100, doc: "Requests to GitHub under way at the same time.", field: func(c *Config, _ int) any { return &c.RateLimits.GitHub.MaxConcurrentRequests }},
	{key: "rate_limits.github.min_seconds_between_writes", def: "2", unit: "seconds", min: 1, max: 3600, doc: "Pause between two writes.", field: func(c *Config, _ int) any { return &c.RateLimits.GitHub.MinBetweenWrites }},
	{key: "rate_limits.github.cooldown_on_rate_limit_seconds", def: "60", unit: "seconds", min: 1, max: day, doc: "First pause after a limit that doesn't say how long.", field: func(c *Config, _ int) any { return &c.RateLimits.GitHub.CooldownOnRateLimit }},

	{key: "rate_limits.model.max_concurrent_requests", def: "1", unit: "requests", min: 1, max: 1000, doc: "Requests to one model provider under way at the same time, over all workers that ask the budget.", field: func(c *Config, _ int) any { return &c.RateLimits.Model.MaxConcurrentRequests }},
	{key: "rate_limits.model.min_seconds_between_requests", def: "1", unit: "seconds", min: 0, max: 3600, doc: "Pause between the starts of two requests to one model provider.", field: func(c *Config, _ int) any { return &c.RateLimits.Model.MinBetweenRequests }},
	{key: "rate_limits.model.cooldown_on_error_seconds", def: "10", unit: "seconds", min: 0, max: day, doc: "Pause of a model provider after a limit or an error that doesn't say how long.", field: func(c *Config, _ int) any { return &c.RateLimits.Model.CooldownOnError }},

	{key: "policy.sync_main.max_commits_behind", def: "20", unit: "commits", min: 0, max: 1_000_000, doc: "A checkout that is more commits than this behind its base branch is brought up to date before the next attempt; 0: whenever there is one.", field: func(c *Config, _ int) any { return &c.SyncMain.MaxCommitsBehind }},
	{key: "policy.sync_main.max_seconds_behind", def: "86400", unit: "seconds", min: 0, max: 52 * week, doc: "The same for a checkout that has been behind for longer than this; 0: whenever it is.", field: func(c *Config, _ int) any { return &c.SyncMain.MaxBehind }},

	{key: "github.repositories", def: "[]", check: checkRepository, want: `"owner/name"`, doc: "Repositories whose issues are worked on; run needs at least one.", field: func(c *Config, _ int) any { return &c.GitHub.Repositories }},
	{key: "github.api_url", def: `"https://api.github.com/"`, check: checkAPIURL, want: "an http(s) URL without credentials, query and fragment", doc: "GitHub's API.", field: func(c *Config, _ int) any { return &c.GitHub.APIURL }},
	{key: "github.token_env", def: `"GITHUB_TOKEN"`, check: checkTokenEnv, want: "the name of an environment variable, not the token itself", doc: "Variable that holds the token.", field: func(c *Config, _ int) any { return &c.GitHub.TokenEnv }},
	{key: "github.token_file", def: `""`, doc: "File that holds the token; instead of token_env.", field: func(c *Config, _ int) any { return &c.GitHub.TokenFile }},
	{key: "github.writes", def: "false", doc: "Nothing is written to GitHub unless this is true.", field: func(c *Config, _ int) any { return &c.GitHub.Writes }},
	{key: "github.poll_seconds", def: "30", unit: "seconds", min: 1, max: day, doc: "How often each repository is asked for changed issues.", field: func(c *Config, _ int) any { return &c.GitHub.Poll }},
	{key: "github.delivery", def: `"pull_request"`, allowed: []string{"pull_request", "branch", "none"}, doc: "How a result is handed in.", field: func(c *Config, _ int) any { return &c.GitHub.Delivery }},
	{key: "github.base_branch", def: `"main"`, check: checkBranch, want: "a branch name", doc: "Branch that work begins at.", field: func(c *Config, _ int) any { return &c.GitHub.BaseBranch }},
	{key: "github.trusted_authors", def: `["OWNER", "MEMBER", "COLLABORATOR"]`, allowed: associations, doc: "Whose comments count as answers, by GitHub's author_association. Commands need write access besides.", field: func(c *Config, _ int) any { return &c.GitHub.TrustedAuthors }},
	{key: "github.labels.task", def: `"agent-task"`, check: checkLabel, want: labelWant, doc: "Label of issues to be worked on.", field: func(c *Config, _ int) any { return &c.GitHub.Labels.Task }},
	{key: "github.labels.claimed", def: `"agent-claimed"`, check: checkLabel, want: labelWant, doc: "Label of issues that are being worked on.", field: func(c *Config, _ int) any { return &c.GitHub.Labels.Claimed }},
	{key: "github.labels.blocked", def: `"agent-blocked"`, check: checkLabel, want: labelWant, doc: "Label of issues that wait for a human.", field: func(c *Config, _ int) any { return &c.GitHub.Labels.Blocked }},
	{key: "github.labels.review", def: `"agent-review"`, check: checkLabel, want: labelWant, doc: "Label of issues whose result waits for review.", field: func(c *Config, _ int) any { return &c.GitHub.Labels.Review }},

	{key: "worker.fix_attempts", def: "3", unit: "rounds", min: 1, max: 20, doc: "Rounds of CODE and VALIDATE inside one attempt, the first included.", field: func(c *Config, _ int) any { return &c.Worker.FixAttempts }},

	{key: "stage.name", allowed: stageOrder, doc: "Which stage. Stages run in the order of the file, which must be this one; VALIDATE may stand there more than once. CODE is needed.", field: func(c *Config, i int) any { return &c.Stages[i].Name }},
	{key: "stage.run", def: "[]", want: `an argument vector such as ["make", "test"], no shell`, doc: `Argument vector, no shell: ["make", "test"]. Instead of agent.`, field: func(c *Config, i int) any { return &c.Stages[i].Run }},
	{key: "stage.agent", def: `""`, check: checkAgentName, want: "the name of an agent profile", doc: "Agent CLI to run, by the name of its profile (docs/specs/agents.md has them all, recovery.agents_file adds more). Instead of run.", field: func(c *Config, i int) any { return &c.Stages[i].Agent }},
	{key: "stage.model", def: `""`, check: checkModel, want: modelWant, doc: "Model to use: the agent's flag for it, and RETAKE_MODEL. Nothing: the program's own choice.", field: func(c *Config, i int) any { return &c.Stages[i].Model }},
	{key: "stage.alternative_model", def: `""`, check: checkModel, want: modelWant, doc: "Model for an attempt that a verdict wants with another one. Nothing: there is none to change to.", field: func(c *Config, i int) any { return &c.Stages[i].AlternativeModel }},
	{key: "stage.resource", def: `""`, check: checkResource, want: "model.<provider>, of letters, digits, -, _ and dots, or nothing", doc: "What the calls of the model count under in rate_limits.model. Nothing: the agent's provider, or model.default.", field: func(c *Config, i int) any { return &c.Stages[i].Resource }},
	{key: "stage.timeout_seconds", def: "1800", unit: "seconds", min: 0.1, max: week, doc: "How long the stage may take; at most timeouts.worker_watchdog_seconds.", field: func(c *Config, i int) any { return &c.Stages[i].Timeout }},

	{key: "recovery.preset", def: `"director"`, allowed: recovery.Presets, doc: "Policy that decides what a failure leads to; docs/specs/error-handling.md has them side by side.", field: func(c *Config, _ int) any { return &c.Recovery.Preset }},
	{key: "recovery.continue_on_error", def: "false", doc: "A task that has failed for good does not stop the others, also where the preset would stop them.", field: func(c *Config, _ int) any { return &c.Recovery.ContinueOnError }},
	{key: "recovery.max_consecutive_errors", def: "5", unit: "errors", min: -1, max: 100_000, doc: "Errors in a row that end a task. 0: as the preset says; -1: no bound.", field: func(c *Config, _ int) any { return &c.Recovery.MaxConsecutiveErrors }},
	{key: "recovery.iteration_budget", def: "50", unit: "iterations", min: -1, max: 1_000_000, doc: "Re-dispatches per task (attempts after the first); cache hits give some back. 0: as the preset says; -1: no bound.", field: func(c *Config, _ int) any { return &c.Recovery.IterationBudget }},
	{key: "recovery.paid_call_budget", def: "10", unit: "calls", min: -1, max: 1_000_000, doc: "Paid calls per task, failed ones included: each run of an agent is one. 0: as the preset says; -1: no bound.", field: func(c *Config, _ int) any { return &c.Recovery.PaidCallBudget }},
	{key: "recovery.cost_budget_usd", def: "0.0", unit: "US dollars", min: 0, max: 1_000_000, doc: "Cost per task, as far as agents state it. 0: no bound.", field: func(c *Config, _ int) any { return &c.Recovery.CostBudgetUSD }},
	{key: "recovery.rules_file", def: `""`, want: fileWant, doc: "TOML file with rules of your own for reading failures, in the form of internal/recovery/rules.toml; relative to the working directory.", field: func(c *Config, _ int) any { return &c.Recovery.RulesFile }},
	{key: "recovery.policy_file", def: `""`, want: fileWant, doc: "TOML file with a policy of your own over the preset, in the form of internal/recovery/presets/director.toml; relative to the working directory.", field: func(c *Config, _ int) any { return &c.Recovery.PolicyFile }},
	{key: "recovery.agents_file", def: `""`, want: fileWant, doc: "TOML file with agent profiles of your own over the built-in ones, in the form of internal/agent/agents.toml; relative to the working directory.", field: func(c *Config, _ int) any { return &c.Recovery.AgentsFile }},
}

// associations are GitHub's values of author_association, the closest first.
var associations = []string{"OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIME_CONTRIBUTOR", "FIRST_TIMER", "MANNEQUIN", "NONE"}

// stageOrder is the order that stages run in.
var stageOrder = []string{"START", "CONTEXT_LOAD", "CODE", "VALIDATE", "DONE"}

// unsupported are the keys that the design has and nothing uses yet. Supporting one: move it into rows.
var unsupported = []struct{ key, what string }{
	{"containers.scale_to_zero_idle_seconds", "nothing idles: a container ends with its attempt and is removed at once, so without work there are none"},
	{"github.app_id", "GitHub Apps are not supported, use token_env or token_file"},
	{"github.installation_id", "GitHub Apps are not supported, use token_env or token_file"},
	{"github.private_key_file", "GitHub Apps are not supported, use token_env or token_file"},
}

var (
	rowByKey     = map[string]row{}
	notYetByKey  = map[string]string{}
	sections     = map[string]bool{} // every proper prefix of a key
	keyByEnvName = map[string]string{}
)

func init() {
	add := func(key string) {
		for i, r := range key {
			if r == '.' {
				sections[key[:i]] = true
			}
		}
		if !strings.HasPrefix(key, "stage.") {
			keyByEnvName[envName(key)] = key
		}
	}
	for _, r := range rows {
		rowByKey[r.key] = r
		add(r.key)
	}
	for _, u := range unsupported {
		notYetByKey[u.key] = u.what
		add(u.key)
	}
}

// EnvPrefix begins the name of every variable that sets a key.
const EnvPrefix = "RETAKE_CFG_"

// envName is the variable that sets a key: rate_limits.github.x is RETAKE_CFG_RATE_LIMITS_GITHUB_X.
func envName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
