package config

import (
	"retake/internal/recovery/policy"
)

// workKeys describes the keys in the sections from rate_limits to telemetry, in documentation order.
var workKeys = []row{
	{
		key: "rate_limits.github.max_concurrent_requests", def: "2", unit: "requests", min: 1, max: 100,
		doc: "Maximum number of concurrent requests to GitHub.",
		at:  func(c *Config) any { return &c.RateLimits.GitHub.MaxConcurrentRequests },
	},
	{
		key: "rate_limits.github.min_seconds_between_writes", def: "2", unit: "seconds", min: 1, max: 3600,
		doc: "Minimum time between two writes to GitHub.",
		at:  func(c *Config) any { return &c.RateLimits.GitHub.MinBetweenWrites },
	},
	{
		key: "rate_limits.github.cooldown_on_rate_limit_seconds", def: "60", unit: "seconds", min: 1, max: day,
		doc: "First pause after a rate limit if GitHub does not specify a duration.",
		at:  func(c *Config) any { return &c.RateLimits.GitHub.CooldownOnRateLimit },
	},

	{
		key: "rate_limits.model.max_concurrent_requests", def: "1", unit: "requests", min: 1, max: 1000,
		doc: "Maximum number of concurrent requests to one model provider, across all workers that use leases.",
		at:  func(c *Config) any { return &c.RateLimits.Model.MaxConcurrentRequests },
	},
	{
		key: "rate_limits.model.min_seconds_between_requests", def: "1", unit: "seconds", min: 0, max: 3600,
		doc: "Minimum time between the starts of two requests to one model provider.",
		at:  func(c *Config) any { return &c.RateLimits.Model.MinBetweenRequests },
	},
	{
		key: "rate_limits.model.cooldown_on_error_seconds", def: "10", unit: "seconds", min: 0, max: day,
		doc: "Pause after a model provider's rate limit or error, if the provider does not specify a duration.",
		at:  func(c *Config) any { return &c.RateLimits.Model.CooldownOnError },
	},
	{
		key: "rate_limits.model.max_wait_seconds", def: "900", unit: "seconds", min: 1, max: day,
		doc: "Maximum time per day that rate limits reported by a single task can close models to other tasks. If a " +
			"second task reports the same limit, they can stay closed longer.",
		at: func(c *Config) any { return &c.RateLimits.Model.MaxWait },
	},

	{
		key: "policy.sync_main.max_commits_behind", def: "20", unit: "commits", min: 0, max: 1_000_000,
		doc: "If a checkout is more than this many commits behind its base branch, Retake merges the base branch " +
			"into it before the next attempt. 0 merges after every new commit.",
		at: func(c *Config) any { return &c.SyncMain.MaxCommitsBehind },
	},
	{
		key: "policy.sync_main.max_seconds_behind", def: "86400", unit: "seconds", min: 0, max: 52 * week,
		doc: "If a checkout has been behind its base branch for longer than this, Retake merges the base branch into " +
			"it before the next attempt. 0 merges after every new commit.",
		at: func(c *Config) any { return &c.SyncMain.MaxBehind },
	},

	{
		key: "github.repositories", def: "[]", check: validRepository, want: `"owner/name", without .git`,
		doc: "Repositories to work on. `director run` needs at least one.",
		at:  func(c *Config) any { return &c.GitHub.Repositories },
	},
	{
		key: "github.api_url", def: `"https://api.github.com/"`, check: validAPIURL,
		want: "an http(s) URL without credentials, query or fragment", doc: "Address of GitHub's API.",
		at: func(c *Config) any { return &c.GitHub.APIURL },
	},
	{
		key: "github.token_env", def: `"GITHUB_TOKEN"`, check: validTokenEnv,
		want: "the name of an environment variable, not the token itself",
		doc:  "Name of the variable that holds the token.",
		at:   func(c *Config) any { return &c.GitHub.TokenEnv },
	},
	{
		key: "github.token_file", def: `""`, path: true, want: fileWant, doc: "File with the token, instead of token_env.",
		at: func(c *Config) any { return &c.GitHub.TokenFile },
	},
	{
		key: "github.app_id", def: "0", unit: "id", min: 0, max: maxID,
		doc: "ID of the GitHub App to use instead of a token, together with installation_id and private_key_file. " +
			"The director creates and renews the App's tokens. 0 disables it.",
		at: func(c *Config) any { return &c.GitHub.AppID },
	},
	{
		key: "github.installation_id", def: "0", unit: "id", min: 0, max: maxID,
		doc: "Installation ID of the App: the number at the end of the installation page's URL.",
		at:  func(c *Config) any { return &c.GitHub.InstallationID },
	},
	{
		key: "github.private_key_file", def: `""`, path: true, want: fileWant, doc: "PEM file with the App's private key.",
		at: func(c *Config) any { return &c.GitHub.PrivateKeyFile },
	},
	{
		key: "github.webhook_secret_env", def: `"RETAKE_WEBHOOK_SECRET"`, check: validTokenEnv,
		want: "the name of an environment variable, not the secret itself",
		doc: "Name of the variable that holds the secret for GitHub's webhooks, used only with director.http_listen. " +
			"Without a secret, webhooks are rejected.",
		at: func(c *Config) any { return &c.GitHub.WebhookSecretEnv },
	},
	{
		key: "github.webhook_secret_file", def: `""`, path: true, want: fileWant,
		doc: "File with that secret, instead of webhook_secret_env.",
		at:  func(c *Config) any { return &c.GitHub.WebhookSecretFile },
	},
	{
		key: "github.writes", def: "false", doc: "Allow writes to GitHub.",
		at: func(c *Config) any { return &c.GitHub.Writes },
	},
	{
		key: "github.poll_seconds", def: "30", unit: "seconds", min: 1, max: day,
		doc: "Time between two polls of a repository for changed issues.",
		at:  func(c *Config) any { return &c.GitHub.Poll },
	},
	{
		key: "github.delivery", def: `"pull_request"`, allowed: []string{"pull_request", "branch", "none"},
		doc: "How Retake delivers finished work: as a pull request, as a branch only, or by keeping it locally.",
		at:  func(c *Config) any { return &c.GitHub.Delivery },
	},
	{
		key: "github.base_branch", def: `"main"`, check: validBranch, want: "a branch name",
		doc: "Existing branch to start work from.",
		at:  func(c *Config) any { return &c.GitHub.BaseBranch },
	},
	{
		key: "github.review", def: "true", doc: "Watch a pull request until it is merged or closed. Failing " +
			"checks, conflicts and requested changes start another attempt on the same branch.",
		at: func(c *Config) any { return &c.GitHub.Review },
	},
	{
		key: "github.delete_branch", def: "true", doc: "Delete the branch of a merged pull request, unless people " +
			"pushed to it later.",
		at: func(c *Config) any { return &c.GitHub.DeleteBranch },
	},
	{
		key: "github.trusted_authors", def: `["OWNER", "MEMBER", "COLLABORATOR"]`, allowed: associations,
		doc: "Values of GitHub's author_association. A claim or release marker is valid only if its author is " +
			"Retake's account, or has one of these values and write access. Answers need only write access.",
		at: func(c *Config) any { return &c.GitHub.TrustedAuthors },
	},
	{
		key: "github.issue_authors", def: `"labelled"`, allowed: []string{authorsLabelled, AuthorsTrusted},
		doc: "Authors whose issues Retake accepts. labelled accepts all authors after a person with triage rights " +
			"adds the task label, which approves the current text. A template's label counts only if the author has " +
			"triage rights. trusted accepts only trusted_authors.",
		at: func(c *Config) any { return &c.GitHub.IssueAuthors },
	},
	{
		key: "github.priorities", def: "{}", check: labelForm.MatchString, want: labelWant, min: -8760, max: 8760,
		doc: "Hours to add to the waiting time of issues with a label. With { urgent = 24, later = -72 } an urgent " +
			"issue precedes issues that have waited for less than a day. With several labels, the largest value " +
			"counts.",
		at: func(c *Config) any { return &c.GitHub.Priorities },
	},
	{
		key: "github.label_caps", def: "{}", check: labelForm.MatchString, want: labelWant, min: 0, max: 100,
		doc: "Maximum number of issues with a label that may run at " +
			"the same time, such as { \"area/db\" = 1 }.",
		at: func(c *Config) any { return &c.GitHub.LabelCaps },
	},
	{
		key: "github.labels.task", def: `"agent-task"`, check: labelForm.MatchString, want: labelWant,
		doc: "Label for issues to work on.", at: func(c *Config) any { return &c.GitHub.Labels.Task },
	},
	{
		key: "github.labels.claimed", def: `"agent-claimed"`, check: labelForm.MatchString, want: labelWant,
		doc: "Label for issues in progress.",
		at:  func(c *Config) any { return &c.GitHub.Labels.Claimed },
	},
	{
		key: "github.labels.blocked", def: `"agent-blocked"`, check: labelForm.MatchString, want: labelWant,
		doc: "Label for issues waiting for a person.",
		at:  func(c *Config) any { return &c.GitHub.Labels.Blocked },
	},
	{
		key: "github.labels.review", def: `"agent-review"`, check: labelForm.MatchString, want: labelWant,
		doc: "Label for issues waiting for review.",
		at:  func(c *Config) any { return &c.GitHub.Labels.Review },
	},

	{
		key: "escalation.remind_after_seconds", def: "259200", unit: "seconds", min: 0, max: 52 * week,
		doc: "Time after which Retake repeats an unanswered question once. 0 disables it.",
		at:  func(c *Config) any { return &c.Escalation.RemindAfter },
	},
	{
		key: "escalation.incident_issues", def: "true", doc: "Open one issue for each outage that keeps tasks waiting.",
		at: func(c *Config) any { return &c.Escalation.IncidentIssues },
	},
	{
		key: "escalation.plain_answers", def: "true", doc: "Treat a comment without a command, by a person with " +
			"write access, as the answer to an agent's question. If false, people can discuss the question first.",
		at: func(c *Config) any { return &c.Escalation.PlainAnswers },
	},

	{
		key: "scope.deny", def: protectedDefault, reason: faultOfGlob, want: globWant,
		doc: "Files and directories that deliveries must not change, regardless of case. The prefix ! permits a " +
			"file. If work changes a denied file, Retake asks a person instead of pushing it. @default stands for " +
			"files that other systems run with secrets; internal/secrets/protected/README.md lists them.",
		at: func(c *Config) any { return &c.Scope.Deny },
	},
	{
		key: "scope.ask", def: protectedDefault, reason: faultOfGlob, want: globWant,
		doc: "Files that only a draft pull request may change. Without pull requests, Retake asks a person. @default " +
			"stands for files that control people's tools or agents.",
		at: func(c *Config) any { return &c.Scope.Ask },
	},
	{
		key: "scope.allow", def: "{}", check: labelForm.MatchString, reason: faultOfGlob, want: labelWant,
		doc: "Exceptions to scope.deny and scope.ask for issues with a label: { \"ci-ok\" = [\".github/workflows/\"] " +
			"}. If projects.allow lists this key, people who can push to the base branch can permit protected paths.",
		at: func(c *Config) any { return &c.Scope.Allow },
	},
	{
		key: "scope.allow_secrets", def: "[]", reason: faultOfGlob, want: globWant,
		doc: "Files that are not searched for secrets before a push, such as test data with fake secrets. If " +
			"projects.allow lists this key, people who can push to the base branch can add files.",
		at: func(c *Config) any { return &c.Scope.AllowSecrets },
	},
	{
		key: "scope.allow_raw", def: "[]", reason: faultOfGlob, want: globWant,
		doc: "Files that Retake pushes unfiltered, although .gitattributes sets a filter such as LFS. Retake does " +
			"not run filters, so it asks a person about any other file with a filter.",
		at: func(c *Config) any { return &c.Scope.AllowRaw },
	},
	{
		key: "scope.allow_left_out", def: "[]", reason: faultOfGlob, want: globWant,
		doc: "Files in submodule directories, and .git directories of nested repositories, that Retake leaves out of " +
			"deliveries without asking a person.",
		at: func(c *Config) any { return &c.Scope.AllowLeftOut },
	},
	{
		key: "scope.max_file_bytes", def: "10485760", unit: "bytes", min: 1, max: 100 << 20,
		doc: "Maximum size of a new or changed file in a push. GitHub's limit is 100 MiB.",
		at:  func(c *Config) any { return &c.Scope.MaxFileBytes },
	},

	{
		key: "checkout.max_files", def: "500000", unit: "entries", min: 100, max: 50_000_000,
		doc: "Maximum number of files and directories in a checkout, including ignored files, counted before Retake " +
			"reads them. If a checkout exceeds this limit, or one of the following limits, Retake asks a person.",
		at: func(c *Config) any { return &c.Checkout.MaxFiles },
	},
	{
		key: "checkout.max_entries", def: "100000", unit: "entries", min: 100, max: 50_000_000,
		doc: "Maximum number of entries in one directory of a checkout.",
		at:  func(c *Config) any { return &c.Checkout.MaxEntries },
	},
	{
		key: "checkout.max_depth", def: "200", unit: "directories", min: 10, max: 2000,
		doc: "Maximum depth of nested directories in a checkout.",
		at:  func(c *Config) any { return &c.Checkout.MaxDepth },
	},
	{
		key: "checkout.max_path_bytes", def: "1024", unit: "bytes", min: 100, max: 4000,
		doc: "Maximum length of a path in a checkout.", at: func(c *Config) any { return &c.Checkout.MaxPathBytes },
	},
	{
		key: "checkout.max_bytes", def: "21474836480", unit: "bytes", min: 1 << 20, max: 1 << 50,
		doc: "Maximum total size of all files in a checkout: apparent or allocated, whichever is larger. Sparse " +
			"files therefore count at their apparent size.",
		at: func(c *Config) any { return &c.Checkout.MaxBytes },
	},
	{
		key: "checkout.max_work_bytes", def: "4294967296", unit: "bytes", min: 1 << 20, max: 1 << 50,
		doc: "Maximum size of all files that git must store, whether changed or not. Ignored files and agent state " +
			"do not count.", at: func(c *Config) any { return &c.Checkout.MaxWorkBytes },
	},
	{
		key: "checkout.git_seconds", def: "300", unit: "seconds", min: 1, max: day,
		doc: "Maximum duration of a git command on a checkout. The command may use twice as much CPU time. Commands " +
			"that contact a server may take an hour.", at: func(c *Config) any { return &c.Checkout.Git },
	},
	{
		key: "checkout.git_memory", def: `"4GiB"`, check: validMemory,
		want: `a size such as "4GiB", from 16MiB to 16TiB`, doc: "Address space limit for each git process.",
		at: func(c *Config) any { return &c.Checkout.GitMemory },
	},
	{
		key: "checkout.quota", def: `""`, check: validQuota,
		want: `a size such as "10GiB", from 16MiB to 16TiB, or "" to disable it`,
		doc: "Disk quota for a new checkout: a separate file system in a file, mounted by a director that runs as " +
			"root on the host (not in a container). If empty, only director.disk_watermark limits checkouts.",
		at: func(c *Config) any { return &c.Checkout.Quota },
	},

	{
		key: "workspace.transport", def: `"mount"`, allowed: []string{"mount", TransportSync},
		doc: "How checkouts reach workers. mount shares a directory on this machine, so the engine must run here as " +
			"well. sync copies the checkout and its changes over the agent bus, so that workers can run elsewhere " +
			"(DOCKER_HOST, a cluster), and stores checkouts on the bus.",
		at: func(c *Config) any { return &c.Workspace.Transport },
	},
	{
		key: "workspace.checkpoint_seconds", def: "60", unit: "seconds", min: 1, max: day,
		doc: "Time between two checkpoints with transport sync. Each stage also ends with a checkpoint. If a worker " +
			"vanishes, its work since the last checkpoint is lost, and the issue shows the time of that checkpoint.",
		at: func(c *Config) any { return &c.Workspace.Checkpoint },
	},

	{
		key: "worker.fix_attempts", def: "3", unit: "rounds", min: 1, max: 20,
		doc: "Rounds of CODE and VALIDATE within one attempt, including the first.",
		at:  func(c *Config) any { return &c.Worker.FixAttempts },
	},
	{
		key: "worker.validate", def: `"inside"`, allowed: []string{"inside", "fresh"},
		doc: "Container in which VALIDATE runs. inside uses the agent's container, in rounds with CODE. fresh uses a " +
			"new container afterwards, with a copy of the delivery, but without the agent, the env_passthrough " +
			"variables, or mounts that agents can write to. fix_attempts then limits the repairs.",
		at: func(c *Config) any { return &c.Worker.Validate },
	},

	{
		key: "recovery.preset", def: `"director"`, allowed: policy.Presets,
		doc: "Policy for failures; see docs/specs/error-handling.md. It also supplies the limits for unset keys.",
		at:  func(c *Config) any { return &c.Recovery.Preset },
	},
	{
		key: "recovery.continue_on_error", def: "false", doc: "Continue with other tasks after a final failure, " +
			"even if the preset would stop them.",
		at: func(c *Config) any { return &c.Recovery.ContinueOnError },
	},
	{
		key: "recovery.max_consecutive_errors", def: "5", unit: "errors", min: -1, max: 100_000,
		doc: "Number of consecutive errors after which Retake gives up on a task. If 0 or unset, the preset's bound " +
			"applies, if any. -1 means unlimited.", at: func(c *Config) any { return &c.Recovery.MaxConsecutiveErrors },
	},
	{
		key: "recovery.iteration_budget", def: "50", unit: "iterations", min: -1, max: 1_000_000,
		doc: "Attempts per task after the first, minus refunds for cache hits. If 0 or unset, the preset's bound " +
			"applies, if any. -1 means unlimited.",
		at: func(c *Config) any { return &c.Recovery.IterationBudget },
	},
	{
		key: "recovery.paid_call_budget", def: "10", unit: "calls", min: -1, max: 1_000_000,
		doc: "Paid calls per task, including failed runs (see `paid` of `[[stage]]`). Each attempt can use the " +
			"remaining calls. If 0 or unset, the preset's bound applies, if any. -1 means unlimited.",
		at: func(c *Config) any { return &c.Recovery.PaidCallBudget },
	},
	{
		key: "recovery.cost_budget_usd", def: "0.0", unit: "US dollars", min: 0, max: 1_000_000,
		doc: "Cost limit per task, counting only costs that agents report. 0 means unlimited.",
		at:  func(c *Config) any { return &c.Recovery.CostBudgetUSD },
	},
	{
		key: "recovery.rules_file", def: `""`, path: true, want: fileWant,
		doc: "TOML file with additional classification rules, in the format of internal/recovery/classify/rules.toml.",
		at:  func(c *Config) any { return &c.Recovery.RulesFile },
	},
	{
		key: "recovery.policy_file", def: `""`, path: true, want: fileWant,
		doc: "TOML file with policy rows that override the preset, like " +
			"internal/recovery/policy/presets/director.toml.",
		at: func(c *Config) any { return &c.Recovery.PolicyFile },
	},
	{
		key: "recovery.agents_file", def: `""`, path: true, want: fileWant,
		doc: "TOML file with agent profiles. A profile may replace the built-in profile of the same name.",
		at:  func(c *Config) any { return &c.Recovery.AgentsFile },
	},

	{
		key: "telemetry.otlp_endpoint", def: `""`, check: validOTLPEndpoint,
		want: `an http(s) URL without credentials, query or fragment, such as "http://127.0.0.1:4318"; may be empty`,
		doc: "OpenTelemetry collector that receives one trace per task, as protobuf over HTTP at the path " +
			"/v1/traces. If empty, tracing is off. See docs/specs/tracing.md.",
		at: func(c *Config) any { return &c.Telemetry.OTLPEndpoint },
	},
	{
		key: "telemetry.otlp_headers_env", def: `"` + standardHeadersEnv + `"`, check: validTokenEnv,
		want: "the name of an environment variable, not the headers themselves",
		doc: "Name of the optional variable with headers for the collector, as name=value,name=value with " +
			"percent-encoded values.",
		at: func(c *Config) any { return &c.Telemetry.OTLPHeadersEnv },
	},
	{
		key: "telemetry.sample_ratio", def: "1.0", unit: "share of tasks", min: 0, max: 1,
		doc: "Share of tasks to trace. After a restart, the director traces the same tasks.",
		at:  func(c *Config) any { return &c.Telemetry.SampleRatio },
	},

	{
		key: "projects.allow", def: "[]", allowed: AllowedKeys(),
		doc: "Keys that a repository can set in its own contract, .github/retake.toml on the base branch; prompt " +
			"permits its .github/retake-prompt.md. If the list is empty, Retake reads neither. If it contains " +
			"scope.allow or scope.allow_secrets, people who can push to the base branch can permit protected paths " +
			"and secrets. See docs/specs/projects.md.",
		at: func(c *Config) any { return &c.ProjectsAllow },
	},
}
