package config

import (
	"retake/internal/recovery/policy"
)

// workKeys are the keys about the work, in the order of the documentation.
var workKeys = []row{
	{
		key: "rate_limits.github.max_concurrent_requests", def: "2", unit: "requests", min: 1, max: 100,
		doc: "Requests to GitHub at the same time.",
		at:  func(c *Config) any { return &c.RateLimits.GitHub.MaxConcurrentRequests },
	},
	{
		key: "rate_limits.github.min_seconds_between_writes", def: "2", unit: "seconds", min: 1, max: 3600,
		doc: "Pause between two writes.",
		at:  func(c *Config) any { return &c.RateLimits.GitHub.MinBetweenWrites },
	},
	{
		key: "rate_limits.github.cooldown_on_rate_limit_seconds", def: "60", unit: "seconds", min: 1, max: day,
		doc: "First pause after a rate limit that does not say how long.",
		at:  func(c *Config) any { return &c.RateLimits.GitHub.CooldownOnRateLimit },
	},

	{
		key: "rate_limits.model.max_concurrent_requests", def: "1", unit: "requests", min: 1, max: 1000,
		doc: "Requests to one model provider at the same time, over all workers that ask the director for leave.",
		at:  func(c *Config) any { return &c.RateLimits.Model.MaxConcurrentRequests },
	},
	{
		key: "rate_limits.model.min_seconds_between_requests", def: "1", unit: "seconds", min: 0, max: 3600,
		doc: "Time between the starts of two requests to one model provider.",
		at:  func(c *Config) any { return &c.RateLimits.Model.MinBetweenRequests },
	},
	{
		key: "rate_limits.model.cooldown_on_error_seconds", def: "10", unit: "seconds", min: 0, max: day,
		doc: "Pause for a model provider after a rate limit or an error that does not say how long.",
		at:  func(c *Config) any { return &c.RateLimits.Model.CooldownOnError },
	},
	{
		key: "rate_limits.model.max_wait_seconds", def: "900", unit: "seconds", min: 1, max: day,
		doc: "For how long one task's word that models are limited closes them for the others, in sum over a " +
			"day, however many it names. It stays closed beyond that as far as a second task says the same.",
		at: func(c *Config) any { return &c.RateLimits.Model.MaxWait },
	},

	{
		key: "policy.sync_main.max_commits_behind", def: "20", unit: "commits", min: 0, max: 1_000_000,
		doc: "A checkout that is more commits behind its base branch is merged with it before the next attempt. " +
			"0: whenever it is behind.", at: func(c *Config) any { return &c.SyncMain.MaxCommitsBehind },
	},
	{
		key: "policy.sync_main.max_seconds_behind", def: "86400", unit: "seconds", min: 0, max: 52 * week,
		doc: "The same for a checkout that has been behind for longer. 0: whenever it is behind.",
		at:  func(c *Config) any { return &c.SyncMain.MaxBehind },
	},

	{
		key: "github.repositories", def: "[]", check: validRepository, want: `"owner/name", without .git`,
		doc: "Repositories whose issues are worked on; `director run` needs at least one.",
		at:  func(c *Config) any { return &c.GitHub.Repositories },
	},
	{
		key: "github.api_url", def: `"https://api.github.com/"`, check: validAPIURL,
		want: "an http(s) URL without credentials, query and fragment", doc: "Address of GitHub's API.",
		at: func(c *Config) any { return &c.GitHub.APIURL },
	},
	{
		key: "github.token_env", def: `"GITHUB_TOKEN"`, check: validTokenEnv,
		want: "the name of an environment variable, not the token itself",
		doc:  "Name of the variable that holds the token.",
		at:   func(c *Config) any { return &c.GitHub.TokenEnv },
	},
	{
		key: "github.token_file", def: `""`, want: fileWant, doc: "File that holds the token, instead of token_env.",
		at: func(c *Config) any { return &c.GitHub.TokenFile },
	},
	{
		key: "github.app_id", def: "0", unit: "id", min: 0, max: maxID,
		doc: "GitHub App to be, instead of a token's account; with installation_id and private_key_file. Its " +
			"tokens are minted and renewed by the director. 0: none.",
		at: func(c *Config) any { return &c.GitHub.AppID },
	},
	{
		key: "github.installation_id", def: "0", unit: "id", min: 0, max: maxID,
		doc: "Where the App is installed: the number at the end of its installation's page.",
		at:  func(c *Config) any { return &c.GitHub.InstallationID },
	},
	{
		key: "github.private_key_file", def: `""`, want: fileWant, doc: "PEM file with the App's private key.",
		at: func(c *Config) any { return &c.GitHub.PrivateKeyFile },
	},
	{
		key: "github.webhook_secret_env", def: `"RETAKE_WEBHOOK_SECRET"`, check: validTokenEnv,
		want: "the name of an environment variable, not the secret itself",
		doc: "Name of the variable that holds the secret of GitHub's webhooks; read only with " +
			"director.http_listen. While the variable is not set no webhooks are taken.",
		at: func(c *Config) any { return &c.GitHub.WebhookSecretEnv },
	},
	{
		key: "github.webhook_secret_file", def: `""`, want: fileWant,
		doc: "File that holds that secret, instead of webhook_secret_env.",
		at:  func(c *Config) any { return &c.GitHub.WebhookSecretFile },
	},
	{
		key: "github.writes", def: "false", doc: "Nothing is written to GitHub unless this is true.",
		at: func(c *Config) any { return &c.GitHub.Writes },
	},
	{
		key: "github.poll_seconds", def: "30", unit: "seconds", min: 1, max: day,
		doc: "Time between two requests for a repository's changed issues.",
		at:  func(c *Config) any { return &c.GitHub.Poll },
	},
	{
		key: "github.delivery", def: `"pull_request"`, allowed: []string{"pull_request", "branch", "none"},
		doc: "How a result is handed in: as a pull request, as a branch only, not at all.",
		at:  func(c *Config) any { return &c.GitHub.Delivery },
	},
	{
		key: "github.base_branch", def: `"main"`, check: validBranch, want: "a branch name",
		doc: "Branch that work starts from; it must exist.",
		at:  func(c *Config) any { return &c.GitHub.BaseBranch },
	},
	{
		key: "github.review", def: "true", doc: "A pull request is watched until it is merged or closed: failing " +
			"checks, conflicts and requested changes begin another attempt on the same branch.",
		at: func(c *Config) any { return &c.GitHub.Review },
	},
	{
		key: "github.delete_branch", def: "true", doc: "The branch of a pull request is removed when that was " +
			"merged, unless somebody has pushed to it since.",
		at: func(c *Config) any { return &c.GitHub.DeleteBranch },
	},
	{
		key: "github.trusted_authors", def: `["OWNER", "MEMBER", "COLLABORATOR"]`, allowed: associations,
		doc: "Whose claim and release markers count beside our own, by GitHub's author_association. They also " +
			"need write access. Answers need write access alone.",
		at: func(c *Config) any { return &c.GitHub.TrustedAuthors },
	},
	{
		key: "github.issue_authors", def: `"labelled"`, allowed: []string{authorsLabelled, AuthorsTrusted},
		doc: "Whose issues are worked on. labelled: anybody's, once somebody with rights in the repository has " +
			"put the task label on, which approves the text as it is then; a template's label does not count " +
			"unless who opened the issue has triage rights. trusted: of those only the ones of trusted_authors.",
		at: func(c *Config) any { return &c.GitHub.IssueAuthors },
	},
	{
		key: "github.priorities", def: "{}", check: labelForm.MatchString, want: labelWant, min: -8760, max: 8760,
		doc: `Labels and the hours of waiting that each is worth: with { urgent = 24, later = -72 } an urgent issue goes before what has waited for less than a day. Of several the largest counts; without any: 0.`,
		at:  func(c *Config) any { return &c.GitHub.Priorities },
	},
	{
		key: "github.label_caps", def: "{}", check: labelForm.MatchString, want: labelWant, min: 0, max: 100,
		doc: `Labels and how many issues with each are worked on at the same time, e.g. { "area/db" = 1 }.`,
		at:  func(c *Config) any { return &c.GitHub.LabelCaps },
	},
	{
		key: "github.labels.task", def: `"agent-task"`, check: labelForm.MatchString, want: labelWant,
		doc: "Label of issues to be worked on.", at: func(c *Config) any { return &c.GitHub.Labels.Task },
	},
	{
		key: "github.labels.claimed", def: `"agent-claimed"`, check: labelForm.MatchString, want: labelWant,
		doc: "Label of issues that are being worked on.",
		at:  func(c *Config) any { return &c.GitHub.Labels.Claimed },
	},
	{
		key: "github.labels.blocked", def: `"agent-blocked"`, check: labelForm.MatchString, want: labelWant,
		doc: "Label of issues that wait for a person.",
		at:  func(c *Config) any { return &c.GitHub.Labels.Blocked },
	},
	{
		key: "github.labels.review", def: `"agent-review"`, check: labelForm.MatchString, want: labelWant,
		doc: "Label of issues whose result waits for review.",
		at:  func(c *Config) any { return &c.GitHub.Labels.Review },
	},

	{
		key: "escalation.remind_after_seconds", def: "259200", unit: "seconds", min: 0, max: 52 * week,
		doc: "A question that nobody has answered for so long is raised once more. 0: never.",
		at:  func(c *Config) any { return &c.Escalation.RemindAfter },
	},
	{
		key: "escalation.incident_issues", def: "true", doc: "An outage that keeps tasks waiting is shown as one " +
			"issue, which is opened, kept up to date and closed.",
		at: func(c *Config) any { return &c.Escalation.IncidentIssues },
	},

	{
		key: "scope.deny", def: denyDefault, reason: faultOfGlob, want: globWant,
		doc: "Files and folders that no delivery may change, for example what runs with rights of its own once " +
			"it is pushed; with ! in front: that it may. Work that does is not pushed, and a person is asked.",
		at: func(c *Config) any { return &c.Scope.Deny },
	},
	{
		key: "scope.allow", def: "{}", check: labelForm.MatchString, reason: faultOfGlob, want: labelWant,
		doc: "What issues with a label may change although scope.deny has it, by label: { \"ci-ok\" = " +
			"[\".github/workflows/\"] }.", at: func(c *Config) any { return &c.Scope.Allow },
	},
	{
		key: "scope.allow_secrets", def: "[]", reason: faultOfGlob, want: globWant,
		doc: "Files that are not searched for secrets before they are pushed, such as test data with " +
			"invented ones.", at: func(c *Config) any { return &c.Scope.AllowSecrets },
	},
	{
		key: "scope.max_file_bytes", def: "10485760", unit: "bytes", min: 1, max: 100 << 20,
		doc: "Largest file that is pushed, whether new or changed. GitHub takes none above 100 MiB.",
		at:  func(c *Config) any { return &c.Scope.MaxFileBytes },
	},

	{
		key: "checkout.max_files", def: "500000", unit: "files and folders", min: 100, max: 50_000_000,
		doc: "What a checkout may hold, ignored files included. It is counted before anything is read; a " +
			"checkout with more is left alone, and a person is asked. So with the other limits.",
		at: func(c *Config) any { return &c.Checkout.MaxFiles },
	},
	{
		key: "checkout.max_entries", def: "100000", unit: "files and folders", min: 100, max: 50_000_000,
		doc: "What one folder of a checkout may hold.",
		at:  func(c *Config) any { return &c.Checkout.MaxEntries },
	},
	{
		key: "checkout.max_depth", def: "200", unit: "folders", min: 10, max: 2000,
		doc: "How many folders may lie in each other.", at: func(c *Config) any { return &c.Checkout.MaxDepth },
	},
	{
		key: "checkout.max_path_bytes", def: "1024", unit: "bytes", min: 100, max: 4000,
		doc: "Longest path in a checkout.", at: func(c *Config) any { return &c.Checkout.MaxPathBytes },
	},
	{
		key: "checkout.max_bytes", def: "21474836480", unit: "bytes", min: 1 << 20, max: 1 << 50,
		doc: "Size of all files of a checkout: what they say or what they use of the disk, whichever is more. A " +
			"sparse file counts as large as it says.", at: func(c *Config) any { return &c.Checkout.MaxBytes },
	},
	{
		key: "checkout.max_work_bytes", def: "4294967296", unit: "bytes", min: 1 << 20, max: 1 << 50,
		doc: "Size of the files that git has to store: neither ignored nor the state of agents, whether " +
			"changed or not.", at: func(c *Config) any { return &c.Checkout.MaxWorkBytes },
	},
	{
		key: "checkout.git_seconds", def: "300", unit: "seconds", min: 1, max: day,
		doc: "Longest run of git on a checkout; it may use twice as much of a processor. A run that asks a " +
			"server has an hour.", at: func(c *Config) any { return &c.Checkout.Git },
	},
	{
		key: "checkout.git_memory", def: `"4GiB"`, check: validMemory,
		want: `a size such as "4GiB", from 16MiB to 16TiB`, doc: "Address space of each git process.",
		at: func(c *Config) any { return &c.Checkout.GitMemory },
	},
	{
		key: "checkout.quota", def: `""`, check: validQuota,
		want: `a size such as "10GiB", from 16MiB to 16TiB, or "" for none`,
		doc: "What a new checkout may use of the disk: a file system of its own in a file, mounted by a " +
			"director that runs as root on the host itself (not in a container). Empty: no quota, see " +
			"director.disk_watermark.", at: func(c *Config) any { return &c.Checkout.Quota },
	},

	{
		key: "workspace.transport", def: `"mount"`, allowed: []string{"mount", TransportSync},
		doc: "How a checkout comes to its worker. mount: as a folder of this machine, which the engine has to be " +
			"on, too. sync: the worker fetches it over the agent bus, and sends what changes in it; then workers " +
			"can run elsewhere (DOCKER_HOST, a cluster), and checkouts are stored on the bus, too.",
		at: func(c *Config) any { return &c.Workspace.Transport },
	},
	{
		key: "workspace.checkpoint_seconds", def: "60", unit: "seconds", min: 1, max: day,
		doc: "With transport sync: how often a worker sends what has changed in its checkout, beside the end of " +
			"each stage. A worker that vanishes loses what it did since its last checkpoint that counts; the " +
			"issue says since when.", at: func(c *Config) any { return &c.Workspace.Checkpoint },
	},

	{
		key: "worker.fix_attempts", def: "3", unit: "rounds", min: 1, max: 20,
		doc: "Rounds of CODE and VALIDATE within one attempt, including the first.",
		at:  func(c *Config) any { return &c.Worker.FixAttempts },
	},
	{
		key: "worker.validate", def: `"inside"`, allowed: []string{"inside", "fresh"},
		doc: "Where VALIDATE runs. inside: in the agent's container, in rounds with CODE. fresh: after the " +
			"agent's container is gone, in a new one that has a copy of what would be delivered, no agent, no " +
			"variables of env_passthrough, and nothing that an agent can write to; fix_attempts then bounds how " +
			"often the agent mends what that refuses.", at: func(c *Config) any { return &c.Worker.Validate },
	},

	{
		key: "recovery.preset", def: `"director"`, allowed: policy.Presets,
		doc: "Policy that decides what a failure leads to; docs/specs/error-handling.md compares them. Its own " +
			"bounds hold where no key of yours is set.", at: func(c *Config) any { return &c.Recovery.Preset },
	},
	{
		key: "recovery.continue_on_error", def: "false", doc: "Whether the other tasks go on after one has failed " +
			"for good, even where the preset would stop them.",
		at: func(c *Config) any { return &c.Recovery.ContinueOnError },
	},
	{
		key: "recovery.max_consecutive_errors", def: "5", unit: "errors", min: -1, max: 100_000,
		doc: "Errors in a row that end a task. 0, or left out: as the preset says, if it says anything; " +
			"-1: no bound.", at: func(c *Config) any { return &c.Recovery.MaxConsecutiveErrors },
	},
	{
		key: "recovery.iteration_budget", def: "50", unit: "iterations", min: -1, max: 1_000_000,
		doc: "Attempts per task after the first; cache hits give some back. 0 and left out as above; -1: no bound.",
		at:  func(c *Config) any { return &c.Recovery.IterationBudget },
	},
	{
		key: "recovery.paid_call_budget", def: "10", unit: "calls", min: -1, max: 1_000_000,
		doc: "Runs of an agent, or of CODE with a program of your own, per task, including failed ones. An " +
			"attempt gets what is left. 0 and left out as above; -1: no bound.",
		at: func(c *Config) any { return &c.Recovery.PaidCallBudget },
	},
	{
		key: "recovery.cost_budget_usd", def: "0.0", unit: "US dollars", min: 0, max: 1_000_000,
		doc: "Cost per task, as far as agents report it. 0: no bound.",
		at:  func(c *Config) any { return &c.Recovery.CostBudgetUSD },
	},
	{
		key: "recovery.rules_file", def: `""`, want: fileWant,
		doc: "TOML file with rules of your own for reading failures, like internal/recovery/classify/rules.toml; " +
			"relative to the working directory.", at: func(c *Config) any { return &c.Recovery.RulesFile },
	},
	{
		key: "recovery.policy_file", def: `""`, want: fileWant,
		doc: "TOML file with policy rows of your own, laid over the preset's, like " +
			"internal/recovery/policy/presets/director.toml; relative to the working directory.",
		at: func(c *Config) any { return &c.Recovery.PolicyFile },
	},
	{
		key: "recovery.agents_file", def: `""`, want: fileWant,
		doc: "TOML file with agent profiles of your own, new or in place of built-in ones, like " +
			"internal/agent/agents.toml; relative to the working directory.",
		at: func(c *Config) any { return &c.Recovery.AgentsFile },
	},

	{
		key: "telemetry.otlp_endpoint", def: `""`, check: validOTLPEndpoint,
		want: `an http(s) URL without credentials, query and fragment, such as "http://127.0.0.1:4318", or nothing`,
		doc: "OpenTelemetry collector that gets one trace for each task, over HTTP in protobuf; /v1/traces is " +
			"added to its path. Empty: nothing is traced. docs/specs/tracing.md says what is sent.",
		at: func(c *Config) any { return &c.Telemetry.OTLPEndpoint },
	},
	{
		key: "telemetry.otlp_headers_env", def: `"` + standardHeadersEnv + `"`, check: validTokenEnv,
		want: "the name of an environment variable, not the headers themselves",
		doc: "Name of the variable with headers for the collector, as name=value,name=value with values in " +
			"percent-encoding; it may be unset.",
		at: func(c *Config) any { return &c.Telemetry.OTLPHeadersEnv },
	},
	{
		key: "telemetry.sample_ratio", def: "1.0", unit: "of all tasks", min: 0, max: 1,
		doc: "Part of the tasks that are traced: all of one task or nothing, the same ones after a restart.",
		at:  func(c *Config) any { return &c.Telemetry.SampleRatio },
	},
}
