package config

import (
	"strings"

	"retake/internal/bus/wire"
	"retake/internal/recovery/policy"
)

// row is everything there is to know about one key.
type row struct {
	key         string  // section.key; "stage.x" stands in every [[stage]]
	def         string  // default, as text of TOML; empty: the key is required
	unit        string  // for the documentation
	min, max    float64 // of numbers, inclusive
	allowed     []string
	former      []string            // understood, and no longer offered: Notes says what to write
	check       func(string) bool   // of a text, of each element of a list, of each name of a table
	reason      func(string) string // a check that tells why; empty: nothing is wrong
	secretNames bool                // of a table: its names may be those of secrets, which its values are not
	word        bool                // of a list: one text may stand for a list of one
	want        string              // what the checks let through, for messages
	doc         string
	// the field: *bool, *int, *float64, *time.Duration, *string, *[]string, *map[string]string,
	// *map[string][]string or *map[string]int
	to any
}

const (
	day   = 86400
	week  = 7 * day
	maxID = 1 << 53 // TOML and JSON have numbers beyond it that they do not keep exactly
)

// keys are the keys of a configuration but for its stages, bound to the fields of c, in the order of the documentation.
func keys(c *Config) []row {
	return []row{
		{
			key: "director.interval_seconds", def: "60", unit: "seconds", min: 0.1, max: 3600,
			doc: "Interval of housekeeping. Decisions follow events and do not wait for it.", to: &c.Director.Interval,
		},
		{
			key: "director.max_workers", def: "3", unit: "containers", min: 1, max: 100,
			doc: "Worker containers that may run at the same time.", to: &c.Director.MaxWorkers,
		},
		{
			key: "director.max_retries", def: "3", unit: "re-dispatches", min: 0, max: 100,
			doc: "Re-dispatches per task, over all causes, before it asks a person. Waits for rate limits do not " +
				"count. Left out: as the preset says, if it says anything.", to: &c.Director.MaxRetries,
		},
		{
			key: "director.fleet", def: `"default"`, check: fleetForm.MatchString,
			want: "1 to 32 of a-z, 0-9 and -, beginning with a letter",
			doc:  "Part of the names of this director's containers, streams and markers.", to: &c.Director.Fleet,
		},
		{
			key: "director.data_dir", def: `".retake"`, check: notBlank, want: "a path, not empty",
			doc: "Folder of the journal, mirrors and checkouts; relative to the working directory. With compose: the " +
				"same absolute path inside and outside of the container.", to: &c.Director.DataDir,
		},
		{
			key: "director.disk_watermark", def: "95.0", unit: "percent", min: 0, max: 100,
			doc: "When more than this of the disk of data_dir, or of shared_dir, is used and less than 8 GiB are " +
				"free (of its files: 500,000), nothing new is begun until there is room, and the attempt that fills " +
				"the disk of the checkouts is stopped, and a person is asked: the rest is the journal's. 0: never.",
			to: &c.Director.DiskWatermark,
		},
		{
			key: "director.disk_reserve", def: `"64MiB"`, check: validQuota,
			want: `a size such as "64MiB", from 16MiB to 16TiB, or "" for none`,
			doc: "Space of the disk of data_dir that is kept for the journal, in the file `reserve` there, and " +
				"given up when the disk is full otherwise; at most a twentieth of the disk.",
			to: &c.Director.DiskReserve,
		},

		{
			key: "director.lease_seconds", def: "10", unit: "seconds", min: 0.2, max: 300,
			doc: "Of several directors on one joined bus the one that leads renews its lease every third of this; " +
				"after so long without a renewal another one leads. On the embedded bus: nothing.",
			to: &c.Director.Lease,
		},
		{key: "director.shared_dir", def: `""`, doc: "Folder of mirrors, checkouts and processes that all directors " +
			"of one fleet see under the same path, so that the one that takes over goes on with running work. Empty: " +
			"data_dir, which is each director's own.", to: &c.Director.SharedDir},
		{
			key: "director.http_listen", def: `""`, check: validHTTPListen,
			want: `host:port such as "127.0.0.1:8730", or nothing`,
			doc: "Where the director serves HTTP, without TLS, which a proxy in front adds: the page for people at " +
				"/, metrics for Prometheus at /metrics, a yes or no for supervisors at /healthz (is it healthy) and " +
				"/livez (would a restart not help), and GitHub's webhooks at /webhooks/github, if there is a secret " +
				"for them (github.webhook_secret_env or webhook_secret_file). On an address of this machine only, " +
				"such as 127.0.0.1, whoever reaches it may look at the page; on any other the page is shown only to " +
				"who has signed in. Metrics have no password: let a proxy that others reach pass on what they may " +
				"see. Empty: nowhere; the poll sees everything, later.", to: &c.Director.HTTPListen,
		},
		{
			key: "director.page_token_env", def: `"RETAKE_PAGE_TOKEN"`, check: validTokenEnv,
			want: "the name of an environment variable, not the token itself",
			doc: "Name of the variable that holds the token with which people sign in on the page, of at least 16 " +
				"characters. While it is not set nobody can sign in, and nothing can be done on the page.",
			to: &c.Director.PageTokenEnv,
		},
		{
			key: "director.page_token_file", def: `""`, want: fileWant,
			doc: "File that holds that token, instead of page_token_env.", to: &c.Director.PageTokenFile,
		},

		{
			key: "timeouts.worker_heartbeat_ttl_seconds", def: "90", unit: "seconds", min: 0.1, max: 3600,
			doc: "A worker that is silent for longer is suspect. At least 3 times " +
				"agent_bus.heartbeat_interval_seconds.", to: &c.Timeouts.WorkerHeartbeatTTL,
		},
		{
			key: "timeouts.worker_watchdog_seconds", def: "3600", unit: "seconds", min: 0.1, max: week,
			doc: "Longest attempt. More than worker_start_seconds and worker_heartbeat_ttl_seconds, and no less than " +
				"any stage's timeout_seconds.", to: &c.Timeouts.WorkerWatchdog,
		},
		{
			key: "timeouts.issue_claim_stale_seconds", def: "21600", unit: "seconds", min: 1, max: 4 * week,
			doc: "A claim without progress for longer is given back. More than worker_watchdog_seconds.",
			to:  &c.Timeouts.IssueClaimStale,
		},
		{
			key: "timeouts.worker_start_seconds", def: "60", unit: "seconds", min: 0.1, max: 3600,
			doc: "Longest time from the creation of the container to the worker's first message.",
			to:  &c.Timeouts.WorkerStart,
		},
		{
			key: "timeouts.stop_grace_seconds", def: "10", unit: "seconds", min: 0, max: 300,
			doc: "Time from the request to stop to the kill. Pods of a cluster have what it was at the start of " +
				"the director.", to: &c.Timeouts.StopGrace,
		},
		{
			key: "timeouts.delivery_seconds", def: "900", unit: "seconds", min: 0.1, max: week,
			doc: "For how long finished work is handed in again and again while that fails. Then a person is asked; " +
				"the work is kept.", to: &c.Timeouts.Delivery,
		},

		{
			key: "retry.backoff_mode", def: `"exponential"`, allowed: []string{"exponential", "linear"},
			doc: "How the delay between attempts grows.", to: &c.Retry.BackoffMode,
		},
		{
			key: "retry.backoff_initial_seconds", def: "1", unit: "seconds", min: 0, max: 3600, doc: "First delay.",
			to: &c.Retry.BackoffInitial,
		},
		{
			key: "retry.backoff_max_seconds", def: "30", unit: "seconds", min: 0, max: day,
			doc: "Longest delay; no less than backoff_initial_seconds.", to: &c.Retry.BackoffMax,
		},
		{
			key: "retry.backoff_factor", def: "2.0", unit: "", min: 1, max: 10,
			doc: "Each delay is the one before times this.", to: &c.Retry.BackoffFactor,
		},
		{
			key: "retry.jitter", def: `"full"`, allowed: []string{"full", "equal", "none"},
			doc: "How much of a delay is random: all, half, nothing.", to: &c.Retry.Jitter,
		},

		{
			key: "containers.runtime", def: `"docker"`, allowed: []string{"docker", "kubernetes", "process"},
			former: []string{FormerRuntime}, doc: "What workers run in. kubernetes makes each attempt a Job of a " +
				"cluster, see [kubernetes]. process is for development and work that you trust: plain processes on " +
				"the director's machine, as containers.user, without image, limits or a network of their own; it " +
				"needs a director that is root. An old \"auto\" is docker.", to: &c.Containers.Runtime,
		},
		{
			key: "containers.oci_runtime", def: `""`, check: validOCIRuntime,
			want: "a name of letters, digits, _ . and -, or nothing",
			doc: "Which of the engine's runtimes workers run in, e.g. runsc for gVisor: one that `docker info` " +
				"lists. Empty: the engine's own default, mostly runc.", to: &c.Containers.OCIRuntime,
		},
		{
			key: "containers.process_same_user", def: "false",
			doc: "Plain processes may run as the director's own user, or without a view of their own: agents can " +
				"read and change what that user can, the journal, credentials and other checkouts among it.",
			to: &c.Containers.SameUser,
		},
		{
			key: "containers.image", def: `"retake-dev:main"`, check: imageForm.MatchString,
			want: "an image reference such as repo/name:tag",
			doc:  "Image of the workers; it need not contain anything of Retake's.", to: &c.Containers.Image,
		},
		{
			key: "containers.workdir", def: `"/workspace"`, check: validWorkdir,
			want: "an absolute path in the container without a colon, outside of the system's folders and of /retake",
			doc:  "Where the checkout is mounted in the container.", to: &c.Containers.Workdir,
		},
		{
			key: "containers.memory", def: `"2GiB"`, check: validMemory,
			want: `a size such as "2GiB", from 16MiB to 16TiB`, doc: "Memory limit of a worker.",
			to: &c.Containers.Memory,
		},
		{
			key: "containers.cpus", def: "1.0", unit: "processors", min: 0.01, max: 1024,
			doc: "Processor limit of a worker.", to: &c.Containers.CPUs,
		},
		{
			key: "containers.pids", def: "512", unit: "processes", min: 16, max: 4194304,
			doc: "Limit of a worker's processes and threads.", to: &c.Containers.PIDs,
		},
		{
			key: "containers.user", def: `"1000:1000"`, check: validUser,
			want: `"uid:gid" in numbers, neither of them 0 (root)`,
			doc:  "User and group of the workers, who own their checkouts. Never root.", to: &c.Containers.User,
		},
		{
			key: "containers.network", def: `"retake"`, check: validNetwork,
			want: "a name of letters, digits, _ . and -, and none of Docker's own: host, none, default, bridge",
			doc:  "Docker network of the workers; created if it does not exist.", to: &c.Containers.Network,
		},
		{
			key: "containers.env_passthrough", def: "[]", check: validVariable,
			want: "the name of an environment variable, not beginning with RETAKE_ (those are the director's)",
			doc:  `Names of the director's variables that workers get, e.g. ["ANTHROPIC_API_KEY"]. Never the GitHub token's.`, to: &c.Containers.EnvPassthrough,
		},
		{
			key: "containers.mounts", def: "[]", reason: checkMount, want: mountForm,
			doc: `Host folders and volumes that workers see besides the checkout: "/host/path:/path" (read-only unless ":rw" follows) or "volume:name:/path" (writable unless ":ro" follows).`, to: &c.Containers.Mounts,
		},
		{
			key: "containers.read_only", def: "true", doc: "The image's file system cannot be changed by workers: they " +
				"write to the checkout, their home, `/tmp`, `/var/tmp`, `/run`, mounts that say so and `scratch`.",
			to: &c.Containers.ReadOnly,
		},
		{
			key: "containers.scratch", def: "[]", check: validWorkdir,
			want: "an absolute path in the container without a colon, outside of the system's folders and of /retake",
			doc: "Folders of the container in which everybody may write, empty at first, in memory that counts " +
				"against `memory`.", to: &c.Containers.Scratch,
		},
		{
			key: "containers.env", def: "{}", check: validVariable,
			want: "the name of an environment variable, not beginning with RETAKE_ (those are the director's)",
			doc:  "Variables of the stages, with their values. For secrets: env_passthrough.", to: &c.Containers.Env,
		},
		{
			key: "containers.secrets", def: "[]",
			check: func(s string) bool { return validVariable(strings.TrimPrefix(s, NoSecret)) },
			want:  `the name of a variable of env or env_passthrough, or that with ! in front`,
			doc: "Variables whose values are secrets, and with ! in front those whose values are none. What is not " +
				"named here is judged by its name and value. No patch with a secret in it is pushed.",
			to: &c.Containers.Secrets,
		},
		{
			key: "containers.egress", def: `"all"`, word: true, check: validEgress, want: egressWant,
			doc: "What workers reach besides the bus and containers.reachable, in Docker: all public addresses of " +
				"the internet, none, or these hosts only, through a proxy of the director's. Neighbours, services of " +
				"this machine, private networks and metadata addresses are never among it.", to: &c.Containers.Egress,
		},
		{
			key: "containers.reachable", def: "[]", check: validDoor,
			want: `an address with a port such as "10.0.0.7:8080"`,
			doc: "What workers reach besides containers.egress: services of private networks, or of this machine at " +
				"an address of its own.", to: &c.Containers.Reachable,
		},
		{
			key: "containers.proxied_keys", def: "{}", secretNames: true, check: validProxiedKey, want: proxiedKeyWant(),
			doc: `Keys of model providers that workers use and do not have: name of the director's variable = host of the provider. Workers get a word of their attempt in its place, and the address of the director's proxy in the variable that agents know (ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL); the proxy puts the key in, for that host only.`, to: &c.Containers.ProxiedKeys,
		},
		{
			key: "containers.proxy_listen", def: `"auto"`, check: func(s string) bool {
				return s == "auto" ||
					validHTTPListen(s) && s != ""
			}, want: `"auto" (port 8732 at the workers' gateway), or host:port`,
			doc: "Where the director's proxy listens, if there is need for one: egress is a list of hosts, or there " +
				"are proxied_keys.", to: &c.Containers.ProxyListen,
		},
		{
			key: "containers.proxy_url", def: `""`, check: validProxyURL, want: `"http://HOST:PORT", or nothing`,
			doc: "How workers find the proxy when something stands between, as in compose. Empty: where it listens.",
			to:  &c.Containers.ProxyURL,
		},

		{
			key: "kubernetes.namespace", def: `""`, check: validNamespace,
			want: "a name of lower case letters, digits and -, or nothing",
			doc: "Namespace of the workers' Jobs, pods and Secrets; it has to be there. Empty: that of the " +
				"kubeconfig, or of the director's own pod.", to: &c.Kubernetes.Namespace,
		},
		{
			key: "kubernetes.kubeconfig", def: `""`, want: fileWant,
			doc: "File that says how the cluster is reached; relative to the working directory. Empty: in a pod its " +
				"service account, elsewhere what KUBECONFIG names, or ~/.kube/config.", to: &c.Kubernetes.Kubeconfig,
		},
		{
			key: "kubernetes.worker_image", def: `""`, check: func(s string) bool {
				return s == "" ||
					imageForm.MatchString(s)
			}, want: "an image reference such as repo/name:tag, or nothing",
			doc: "Image with Retake's own program `worker` in its PATH, of the director's version, such as the " +
				"director's image: an init container copies it from there into each pod, whose image can then be any " +
				"(containers.image). Needed with containers.runtime = \"kubernetes\".", to: &c.Kubernetes.WorkerImage,
		},
		{
			key: "kubernetes.pod_template", def: `""`, want: fileWant,
			doc: "YAML file with a pod template (metadata and spec, as in a Deployment) for what else pods have: " +
				"runtimeClassName, nodeSelector, tolerations, affinity, priorityClassName, serviceAccountName, " +
				"imagePullSecrets, volumes, requests of the container `worker`, labels and annotations, which Jobs " +
				"get, too. What an attempt needs lies over it; a field that says otherwise is named at the start. " +
				"Relative to the working directory.", to: &c.Kubernetes.PodTemplate,
		},
		{
			key: "kubernetes.address", def: `""`, check: validAddress, want: "a host name or an IP address, or nothing",
			doc: "Where pods reach this director: its Service, or its machine. Needed unless a bus is joined " +
				"(agent_bus.url), and for the proxy of containers.egress unless containers.proxy_url says where that " +
				"is. With \"auto\" bus and proxy then listen on all addresses.", to: &c.Kubernetes.Address,
		},
		{
			key: "kubernetes.pending_timeout_seconds", def: "1800", unit: "seconds", min: 1, max: week,
			doc: "For how long an attempt may wait for the cluster to start it: for room or a volume; for an image " +
				"that cannot be had five minutes at most.", to: &c.Kubernetes.PendingTimeout,
		},

		{
			key: "agent_bus.url", def: `""`, check: validBusURL,
			want: "nats:// or tls:// URLs, separated by commas, or nothing",
			doc:  "NATS server to join. Empty: a server embedded in the director.", to: &c.AgentBus.URL,
		},
		{
			key: "agent_bus.credentials", def: `""`, want: fileWant,
			doc: "Folder with the keys of the server at agent_bus.url: director/ of what `director bus init` makes; " +
				"relative to the working directory. An embedded server has its own.", to: &c.AgentBus.Credentials,
		},
		{
			key: "agent_bus.listen_addr", def: `"auto"`, check: validListenAddr, want: `"auto" or an IP address`,
			doc: "Where the embedded server listens. auto: on loopback, and for containers on the gateway of " +
				"their network.", to: &c.AgentBus.ListenAddr,
		},
		{
			key: "agent_bus.listen_port", def: "8731", unit: "port", min: 0, max: 65535,
			doc: "Port of the embedded server. 0: any free one, which is kept for the next start, so that workers " +
				"find it again.", to: &c.AgentBus.ListenPort,
		},
		{
			key: "agent_bus.prefix", def: `"retake.v1"`, check: prefixForm.MatchString,
			want: "words of letters, digits, _ and -, separated by dots", doc: "First part of every subject.",
			to: &c.AgentBus.Prefix,
		},
		{key: "agent_bus.replicas", def: "1", unit: "servers", min: 1, max: 5, doc: "Copies of every stream: 1, 3 or " +
			"5. More than 1 needs a cluster at agent_bus.url.", to: &c.AgentBus.Replicas},
		{
			key: "agent_bus.max_message_bytes", def: "65536", unit: "bytes", min: 4096, max: wire.LongestMessage,
			doc: "Longest message of a worker that is started from now on.", to: &c.AgentBus.MaxMessageBytes,
		},
		{
			key: "agent_bus.heartbeat_interval_seconds", def: "15", unit: "seconds", min: 0.1, max: 600,
			doc: "Time between two heartbeats of a worker.", to: &c.AgentBus.HeartbeatInterval,
		},
		{
			key: "agent_bus.sync", def: `"always"`, allowed: []string{"always", "default"},
			doc: "What a power cut may cost. always: nothing that was acknowledged. default: the last minutes, or " +
				"the whole journal while it is young.", to: &c.AgentBus.Sync,
		},

		{
			key: "journal.on_damage", def: `"stop"`, allowed: []string{"stop", "rebuild"},
			doc: "What to do when the journal is not as it was written. stop: end with the exact place, change " +
				"nothing. rebuild: set it aside, and find out again what GitHub, containers and reports know.",
			to: &c.Journal.OnDamage,
		},
		{
			key: "journal.keep_days", def: "90", unit: "days", min: 0, max: 36500,
			doc: "For how long parts of the journal are kept that no restart needs any more: compressed, in " +
				"<data_dir>/journal. 0: for ever.", to: &c.Journal.KeepDays,
		},

		{
			key: "rate_limits.github.max_concurrent_requests", def: "2", unit: "requests", min: 1, max: 100,
			doc: "Requests to GitHub at the same time.", to: &c.RateLimits.GitHub.MaxConcurrentRequests,
		},
		{
			key: "rate_limits.github.min_seconds_between_writes", def: "2", unit: "seconds", min: 1, max: 3600,
			doc: "Pause between two writes.", to: &c.RateLimits.GitHub.MinBetweenWrites,
		},
		{
			key: "rate_limits.github.cooldown_on_rate_limit_seconds", def: "60", unit: "seconds", min: 1, max: day,
			doc: "First pause after a rate limit that does not say how long.",
			to:  &c.RateLimits.GitHub.CooldownOnRateLimit,
		},

		{
			key: "rate_limits.model.max_concurrent_requests", def: "1", unit: "requests", min: 1, max: 1000,
			doc: "Requests to one model provider at the same time, over all workers that ask the director for leave.",
			to:  &c.RateLimits.Model.MaxConcurrentRequests,
		},
		{
			key: "rate_limits.model.min_seconds_between_requests", def: "1", unit: "seconds", min: 0, max: 3600,
			doc: "Time between the starts of two requests to one model provider.",
			to:  &c.RateLimits.Model.MinBetweenRequests,
		},
		{
			key: "rate_limits.model.cooldown_on_error_seconds", def: "10", unit: "seconds", min: 0, max: day,
			doc: "Pause for a model provider after a rate limit or an error that does not say how long.",
			to:  &c.RateLimits.Model.CooldownOnError,
		},
		{
			key: "rate_limits.model.max_wait_seconds", def: "900", unit: "seconds", min: 1, max: day,
			doc: "For how long one task's word that models are limited closes them for the others, in sum over a " +
				"day, however many it names. It stays closed beyond that as far as a second task says the same.",
			to: &c.RateLimits.Model.MaxWait,
		},

		{
			key: "policy.sync_main.max_commits_behind", def: "20", unit: "commits", min: 0, max: 1_000_000,
			doc: "A checkout that is more commits behind its base branch is merged with it before the next attempt. " +
				"0: whenever it is behind.", to: &c.SyncMain.MaxCommitsBehind,
		},
		{
			key: "policy.sync_main.max_seconds_behind", def: "86400", unit: "seconds", min: 0, max: 52 * week,
			doc: "The same for a checkout that has been behind for longer. 0: whenever it is behind.",
			to:  &c.SyncMain.MaxBehind,
		},

		{
			key: "github.repositories", def: "[]", check: validRepository, want: `"owner/name", without .git`,
			doc: "Repositories whose issues are worked on; `director run` needs at least one.",
			to:  &c.GitHub.Repositories,
		},
		{
			key: "github.api_url", def: `"https://api.github.com/"`, check: validAPIURL,
			want: "an http(s) URL without credentials, query and fragment", doc: "Address of GitHub's API.",
			to: &c.GitHub.APIURL,
		},
		{
			key: "github.token_env", def: `"GITHUB_TOKEN"`, check: validTokenEnv,
			want: "the name of an environment variable, not the token itself",
			doc:  "Name of the variable that holds the token.", to: &c.GitHub.TokenEnv,
		},
		{
			key: "github.token_file", def: `""`, want: fileWant, doc: "File that holds the token, instead of token_env.",
			to: &c.GitHub.TokenFile,
		},
		{
			key: "github.app_id", def: "0", unit: "id", min: 0, max: maxID,
			doc: "GitHub App to be, instead of a token's account; with installation_id and private_key_file. Its " +
				"tokens are minted and renewed by the director. 0: none.", to: &c.GitHub.AppID,
		},
		{
			key: "github.installation_id", def: "0", unit: "id", min: 0, max: maxID,
			doc: "Where the App is installed: the number at the end of its installation's page.",
			to:  &c.GitHub.InstallationID,
		},
		{
			key: "github.private_key_file", def: `""`, want: fileWant, doc: "PEM file with the App's private key.",
			to: &c.GitHub.PrivateKeyFile,
		},
		{
			key: "github.webhook_secret_env", def: `"RETAKE_WEBHOOK_SECRET"`, check: validTokenEnv,
			want: "the name of an environment variable, not the secret itself",
			doc: "Name of the variable that holds the secret of GitHub's webhooks; read only with " +
				"director.http_listen. While the variable is not set no webhooks are taken.",
			to: &c.GitHub.WebhookSecretEnv,
		},
		{
			key: "github.webhook_secret_file", def: `""`, want: fileWant,
			doc: "File that holds that secret, instead of webhook_secret_env.", to: &c.GitHub.WebhookSecretFile,
		},
		{
			key: "github.writes", def: "false", doc: "Nothing is written to GitHub unless this is true.",
			to: &c.GitHub.Writes,
		},
		{
			key: "github.poll_seconds", def: "30", unit: "seconds", min: 1, max: day,
			doc: "Time between two requests for a repository's changed issues.", to: &c.GitHub.Poll,
		},
		{
			key: "github.delivery", def: `"pull_request"`, allowed: []string{"pull_request", "branch", "none"},
			doc: "How a result is handed in: as a pull request, as a branch only, not at all.", to: &c.GitHub.Delivery,
		},
		{
			key: "github.base_branch", def: `"main"`, check: validBranch, want: "a branch name",
			doc: "Branch that work starts from; it must exist.", to: &c.GitHub.BaseBranch,
		},
		{key: "github.review", def: "true", doc: "A pull request is watched until it is merged or closed: failing " +
			"checks, conflicts and requested changes begin another attempt on the same branch.", to: &c.GitHub.Review},
		{key: "github.delete_branch", def: "true", doc: "The branch of a pull request is removed when that was " +
			"merged, unless somebody has pushed to it since.", to: &c.GitHub.DeleteBranch},
		{
			key: "github.trusted_authors", def: `["OWNER", "MEMBER", "COLLABORATOR"]`, allowed: associations,
			doc: "Whose claim and release markers count beside our own, by GitHub's author_association. They also " +
				"need write access. Answers need write access alone.", to: &c.GitHub.TrustedAuthors,
		},
		{
			key: "github.issue_authors", def: `"labelled"`, allowed: []string{AuthorsLabelled, AuthorsTrusted},
			doc: "Whose issues are worked on. labelled: anybody's, once somebody with rights in the repository has " +
				"put the task label on, which approves the text as it is then; a template's label does not count " +
				"unless who opened the issue has triage rights. trusted: of those only the ones of trusted_authors.",
			to: &c.GitHub.IssueAuthors,
		},
		{
			key: "github.priorities", def: "{}", check: labelForm.MatchString, want: labelWant, min: -8760, max: 8760,
			doc: `Labels and the hours of waiting that each is worth: with { urgent = 24, later = -72 } an urgent issue goes before what has waited for less than a day. Of several the largest counts; without any: 0.`, to: &c.GitHub.Priorities,
		},
		{
			key: "github.label_caps", def: "{}", check: labelForm.MatchString, want: labelWant, min: 0, max: 100,
			doc: `Labels and how many issues with each are worked on at the same time, e.g. { "area/db" = 1 }.`,
			to:  &c.GitHub.LabelCaps,
		},
		{
			key: "github.labels.task", def: `"agent-task"`, check: labelForm.MatchString, want: labelWant,
			doc: "Label of issues to be worked on.", to: &c.GitHub.Labels.Task,
		},
		{
			key: "github.labels.claimed", def: `"agent-claimed"`, check: labelForm.MatchString, want: labelWant,
			doc: "Label of issues that are being worked on.", to: &c.GitHub.Labels.Claimed,
		},
		{
			key: "github.labels.blocked", def: `"agent-blocked"`, check: labelForm.MatchString, want: labelWant,
			doc: "Label of issues that wait for a person.", to: &c.GitHub.Labels.Blocked,
		},
		{
			key: "github.labels.review", def: `"agent-review"`, check: labelForm.MatchString, want: labelWant,
			doc: "Label of issues whose result waits for review.", to: &c.GitHub.Labels.Review,
		},

		{
			key: "escalation.remind_after_seconds", def: "259200", unit: "seconds", min: 0, max: 52 * week,
			doc: "A question that nobody has answered for so long is raised once more. 0: never.",
			to:  &c.Escalation.RemindAfter,
		},
		{key: "escalation.incident_issues", def: "true", doc: "An outage that keeps tasks waiting is shown as one " +
			"issue, which is opened, kept up to date and closed.", to: &c.Escalation.IncidentIssues},

		{
			key: "scope.deny", def: denyDefault, reason: faultOfGlob, want: globWant,
			doc: "Files and folders that no delivery may change, for example what runs with rights of its own once " +
				"it is pushed; with ! in front: that it may. Work that does is not pushed, and a person is asked.",
			to: &c.Scope.Deny,
		},
		{
			key: "scope.allow", def: "{}", check: labelForm.MatchString, reason: faultOfGlob, want: labelWant,
			doc: "What issues with a label may change although scope.deny has it, by label: { \"ci-ok\" = " +
				"[\".github/workflows/\"] }.", to: &c.Scope.Allow,
		},
		{
			key: "scope.allow_secrets", def: "[]", reason: faultOfGlob, want: globWant,
			doc: "Files that are not searched for secrets before they are pushed, such as test data with " +
				"invented ones.", to: &c.Scope.AllowSecrets,
		},
		{
			key: "scope.max_file_bytes", def: "10485760", unit: "bytes", min: 1, max: 100 << 20,
			doc: "Largest file that is pushed, whether new or changed. GitHub takes none above 100 MiB.",
			to:  &c.Scope.MaxFileBytes,
		},

		{
			key: "checkout.max_files", def: "500000", unit: "files and folders", min: 100, max: 50_000_000,
			doc: "What a checkout may hold, ignored files included. It is counted before anything is read; a " +
				"checkout with more is left alone, and a person is asked. So with the other limits.",
			to: &c.Checkout.MaxFiles,
		},
		{
			key: "checkout.max_entries", def: "100000", unit: "files and folders", min: 100, max: 50_000_000,
			doc: "What one folder of a checkout may hold.", to: &c.Checkout.MaxEntries,
		},
		{
			key: "checkout.max_depth", def: "200", unit: "folders", min: 10, max: 2000,
			doc: "How many folders may lie in each other.", to: &c.Checkout.MaxDepth,
		},
		{
			key: "checkout.max_path_bytes", def: "1024", unit: "bytes", min: 100, max: 4000,
			doc: "Longest path in a checkout.", to: &c.Checkout.MaxPathBytes,
		},
		{
			key: "checkout.max_bytes", def: "21474836480", unit: "bytes", min: 1 << 20, max: 1 << 50,
			doc: "Size of all files of a checkout: what they say or what they use of the disk, whichever is more. A " +
				"sparse file counts as large as it says.", to: &c.Checkout.MaxBytes,
		},
		{
			key: "checkout.max_work_bytes", def: "4294967296", unit: "bytes", min: 1 << 20, max: 1 << 50,
			doc: "Size of the files that git has to store: neither ignored nor the state of agents, whether " +
				"changed or not.", to: &c.Checkout.MaxWorkBytes,
		},
		{
			key: "checkout.git_seconds", def: "300", unit: "seconds", min: 1, max: day,
			doc: "Longest run of git on a checkout; it may use twice as much of a processor. A run that asks a " +
				"server has an hour.", to: &c.Checkout.Git,
		},
		{
			key: "checkout.git_memory", def: `"4GiB"`, check: validMemory,
			want: `a size such as "4GiB", from 16MiB to 16TiB`, doc: "Address space of each git process.",
			to: &c.Checkout.GitMemory,
		},
		{
			key: "checkout.quota", def: `""`, check: validQuota,
			want: `a size such as "10GiB", from 16MiB to 16TiB, or "" for none`,
			doc: "What a new checkout may use of the disk: a file system of its own in a file, mounted by a " +
				"director that runs as root on the host itself (not in a container). Empty: no quota, see " +
				"director.disk_watermark.", to: &c.Checkout.Quota,
		},

		{
			key: "workspace.transport", def: `"mount"`, allowed: []string{"mount", TransportSync},
			doc: "How a checkout comes to its worker. mount: as a folder of this machine, which the engine has to be " +
				"on, too. sync: the worker fetches it over the agent bus, and sends what changes in it; then workers " +
				"can run elsewhere (DOCKER_HOST, a cluster), and checkouts are stored on the bus, too.",
			to: &c.Workspace.Transport,
		},
		{
			key: "workspace.checkpoint_seconds", def: "60", unit: "seconds", min: 1, max: day,
			doc: "With transport sync: how often a worker sends what has changed in its checkout, beside the end of " +
				"each stage. A worker that vanishes loses what it did since its last checkpoint that counts; the " +
				"issue says since when.", to: &c.Workspace.Checkpoint,
		},

		{
			key: "worker.fix_attempts", def: "3", unit: "rounds", min: 1, max: 20,
			doc: "Rounds of CODE and VALIDATE within one attempt, including the first.", to: &c.Worker.FixAttempts,
		},
		{
			key: "worker.validate", def: `"inside"`, allowed: []string{"inside", "fresh"},
			doc: "Where VALIDATE runs. inside: in the agent's container, in rounds with CODE. fresh: after the " +
				"agent's container is gone, in a new one that has a copy of what would be delivered, no agent, no " +
				"variables of env_passthrough, and nothing that an agent can write to; fix_attempts then bounds how " +
				"often the agent mends what that refuses.", to: &c.Worker.Validate,
		},

		{
			key: "recovery.preset", def: `"director"`, allowed: policy.Presets,
			doc: "Policy that decides what a failure leads to; docs/specs/error-handling.md compares them. Its own " +
				"bounds hold where no key of yours is set.", to: &c.Recovery.Preset,
		},
		{key: "recovery.continue_on_error", def: "false", doc: "Whether the other tasks go on after one has failed " +
			"for good, even where the preset would stop them.", to: &c.Recovery.ContinueOnError},
		{
			key: "recovery.max_consecutive_errors", def: "5", unit: "errors", min: -1, max: 100_000,
			doc: "Errors in a row that end a task. 0, or left out: as the preset says, if it says anything; " +
				"-1: no bound.", to: &c.Recovery.MaxConsecutiveErrors,
		},
		{
			key: "recovery.iteration_budget", def: "50", unit: "iterations", min: -1, max: 1_000_000,
			doc: "Attempts per task after the first; cache hits give some back. 0 and left out as above; -1: no bound.",
			to:  &c.Recovery.IterationBudget,
		},
		{
			key: "recovery.paid_call_budget", def: "10", unit: "calls", min: -1, max: 1_000_000,
			doc: "Runs of an agent, or of CODE with a program of your own, per task, including failed ones. An " +
				"attempt gets what is left. 0 and left out as above; -1: no bound.", to: &c.Recovery.PaidCallBudget,
		},
		{
			key: "recovery.cost_budget_usd", def: "0.0", unit: "US dollars", min: 0, max: 1_000_000,
			doc: "Cost per task, as far as agents report it. 0: no bound.", to: &c.Recovery.CostBudgetUSD,
		},
		{
			key: "recovery.rules_file", def: `""`, want: fileWant,
			doc: "TOML file with rules of your own for reading failures, like internal/recovery/classify/rules.toml; " +
				"relative to the working directory.", to: &c.Recovery.RulesFile,
		},
		{
			key: "recovery.policy_file", def: `""`, want: fileWant,
			doc: "TOML file with policy rows of your own, laid over the preset's, like " +
				"internal/recovery/policy/presets/director.toml; relative to the working directory.",
			to: &c.Recovery.PolicyFile,
		},
		{
			key: "recovery.agents_file", def: `""`, want: fileWant,
			doc: "TOML file with agent profiles of your own, new or in place of built-in ones, like " +
				"internal/agent/agents.toml; relative to the working directory.", to: &c.Recovery.AgentsFile,
		},

		{
			key: "telemetry.otlp_endpoint", def: `""`, check: validOTLPEndpoint,
			want: `an http(s) URL without credentials, query and fragment, such as "http://127.0.0.1:4318", or nothing`,
			doc: "OpenTelemetry collector that gets one trace for each task, over HTTP in protobuf; /v1/traces is " +
				"added to its path. Empty: nothing is traced. docs/specs/tracing.md says what is sent.",
			to: &c.Telemetry.OTLPEndpoint,
		},
		{
			key: "telemetry.otlp_headers_env", def: `"` + StandardHeadersEnv + `"`, check: validTokenEnv,
			want: "the name of an environment variable, not the headers themselves",
			doc: "Name of the variable with headers for the collector, as name=value,name=value with values in " +
				"percent-encoding; it may be unset.", to: &c.Telemetry.OTLPHeadersEnv,
		},
		{
			key: "telemetry.sample_ratio", def: "1.0", unit: "of all tasks", min: 0, max: 1,
			doc: "Part of the tasks that are traced: all of one task or nothing, the same ones after a restart.",
			to:  &c.Telemetry.SampleRatio,
		},
	}
}

// stageKeys are the keys of one [[stage]].
func stageKeys(s *Stage) []row {
	return []row{
		{key: "stage.name", allowed: stageOrder, doc: "Which stage. Stages must be in this order; VALIDATE may occur " +
			"more than once. CODE is required.", to: &s.Name},
		{
			key: "stage.run", def: "[]", want: `one argument, as in ["make", "test"]: no shell splits it`,
			doc: `Program and its arguments, instead of agent.`, to: &s.Run,
		},
		{
			key: "stage.agent", def: `""`, check: agentForm.MatchString, want: "the name of an agent profile",
			doc: "Agent to run, by the name of its profile, instead of run. docs/specs/agents.md lists the profiles; " +
				"recovery.agents_file adds more.", to: &s.Agent,
		},
		{
			key: "stage.model", def: `""`, check: modelForm.MatchString, want: modelWant,
			doc: "Model to use, passed on with the agent's flag for it and as RETAKE_MODEL. Empty: the " +
				"program's default.", to: &s.Model,
		},
		{
			key: "stage.alternative_model", def: `""`, check: modelForm.MatchString, want: modelWant,
			doc: "Model for an attempt that is to use another one. Empty: there is none to change to.",
			to:  &s.AlternativeModel,
		},
		{
			key: "stage.resource", def: `""`, check: validResource,
			want: "model.<provider> in letters, digits, -, _ and dots, or nothing",
			doc: "Under which provider the calls count in rate_limits.model. Empty: the agent's provider, or " +
				"model.default.", to: &s.Resource,
		},
		{
			key: "stage.state_paths", def: "[]", reason: faultOfGlob, want: globWant,
			doc: "Files and folders that do not count as work and are never committed, unless the base branch has " +
				"them; with ! in front: that do count. More than what is known of agents, see docs/specs/agents.md.",
			to: &s.StatePaths,
		},
		{
			key: "stage.timeout_seconds", def: "1800", unit: "seconds", min: 0.1, max: week,
			doc: "Longest time that the stage may take; at most timeouts.worker_watchdog_seconds.", to: &s.Timeout,
		},
	}
}

// denyDefault names workflows and the files of common CI systems: they run with the repository's secrets.
const denyDefault = `[".github/workflows/", ".github/actions/", ".forgejo/workflows/", ".gitea/workflows/", "**/.gitlab-ci.yml", ".gitlab/ci/", ` +
	`"**/Jenkinsfile", ".circleci/", ".travis.yml", "azure-pipelines.yml", ".azure-pipelines/", "bitbucket-pipelines.yml", ".buildkite/", ` +
	`".drone.yml", ".woodpecker.yml", ".woodpecker/", "appveyor.yml", ".appveyor.yml", ".cirrus.yml", ".semaphore/", ".teamcity/", ".tekton/"]`

// associations are GitHub's values of author_association, the closest first.
var associations = []string{
	"OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIME_CONTRIBUTOR", "FIRST_TIMER",
	"MANNEQUIN", "NONE",
}

// stageOrder is the order that stages run in.
var stageOrder = []string{"START", "CONTEXT_LOAD", "CODE", "VALIDATE", "DONE"}

// unsupported are the keys that the design has and nothing uses yet, and what to know meanwhile.
var unsupported = map[string]string{
	"containers.scale_to_zero_idle_seconds": "no container is ever idle: it ends with its attempt and is " +
		"removed at once",
}

// allRows are for lookups that need no Config.
var allRows = append(keys(&Config{}), stageKeys(&Stage{})...)

// sections has every table that keys stand in: "rate_limits" and "rate_limits.github".
var sections = func() map[string]bool {
	all := map[string]bool{}
	for _, r := range allRows {
		for s, _ := cutLast(r.key); s != ""; s, _ = cutLast(s) {
			all[s] = true
		}
	}
	return all
}()

func cutLast(key string) (section, last string) {
	i := strings.LastIndexByte(key, '.')
	return key[:max(i, 0)], key[i+1:]
}

// EnvPrefix begins the name of every variable that sets a key.
const EnvPrefix = "RETAKE_CFG_"

// envName is the variable that sets a key: rate_limits.github.x is RETAKE_CFG_RATE_LIMITS_GITHUB_X.
func envName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
