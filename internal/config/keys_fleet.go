package config

import (
	"strings"

	"retake/internal/bus/wire"
)

// fleetKeys are the keys about the fleet, in the order of the documentation.
var fleetKeys = []row{
	{
		key: "director.interval_seconds", def: "60", unit: "seconds", min: 0.1, max: 3600,
		doc: "Interval of housekeeping. Decisions follow events and do not wait for it.",
		at:  func(c *Config) any { return &c.Director.Interval },
	},
	{
		key: "director.max_workers", def: "3", unit: "containers", min: 1, max: 100,
		doc: "Worker containers that may run at the same time.",
		at:  func(c *Config) any { return &c.Director.MaxWorkers },
	},
	{
		key: "director.max_retries", def: "3", unit: "re-dispatches", min: 0, max: 100,
		doc: "Re-dispatches per task, over all causes, before it asks a person. Waits for rate limits do not " +
			"count. Left out: as the preset says, if it says anything.",
		at: func(c *Config) any { return &c.Director.MaxRetries },
	},
	{
		key: "director.fleet", def: `"default"`, check: fleetForm.MatchString,
		want: "1 to 32 of a-z, 0-9 and -, beginning with a letter",
		doc:  "Part of the names of this director's containers, streams and markers.",
		at:   func(c *Config) any { return &c.Director.Fleet },
	},
	{
		key: "director.data_dir", def: `".retake"`, check: notBlank, want: "a path, not empty",
		doc: "Folder of the journal, mirrors and checkouts; relative to the working directory. With compose: the " +
			"same absolute path inside and outside of the container.",
		at: func(c *Config) any { return &c.Director.DataDir },
	},
	{
		key: "director.disk_watermark", def: "95.0", unit: "percent", min: 0, max: 100,
		doc: "When more than this of the disk of data_dir, or of shared_dir, is used and less than 8 GiB are " +
			"free (of its files: 500,000), nothing new is begun until there is room, and the attempt that fills " +
			"the disk of the checkouts is stopped, and a person is asked: the rest is the journal's. 0: never.",
		at: func(c *Config) any { return &c.Director.DiskWatermark },
	},
	{
		key: "director.disk_reserve", def: `"64MiB"`, check: validQuota,
		want: `a size such as "64MiB", from 16MiB to 16TiB, or "" for none`,
		doc: "Space of the disk of data_dir that is kept for the journal, in the file `reserve` there, and " +
			"given up when the disk is full otherwise; at most a twentieth of the disk.",
		at: func(c *Config) any { return &c.Director.DiskReserve },
	},

	{
		key: "director.lease_seconds", def: "10", unit: "seconds", min: 0.2, max: 300,
		doc: "Of several directors on one joined bus the one that leads renews its lease every third of this; " +
			"after so long without a renewal another one leads. On the embedded bus: nothing.",
		at: func(c *Config) any { return &c.Director.Lease },
	},
	{key: "director.shared_dir", def: `""`, doc: "Folder of mirrors, checkouts and processes that all directors " +
		"of one fleet see under the same path, so that the one that takes over goes on with running work. Empty: " +
		"data_dir, which is each director's own.", at: func(c *Config) any { return &c.Director.SharedDir }},
	{
		key: "director.http_listen", def: `""`, check: validHTTPListen,
		want: `host:port such as "127.0.0.1:8730", or nothing`,
		doc: "Where the director serves HTTP, without TLS, which a proxy in front adds: the page for people at " +
			"/, metrics for Prometheus at /metrics, a yes or no for supervisors at /healthz (is it healthy) and " +
			"/livez (would a restart not help), and GitHub's webhooks at /webhooks/github, if there is a secret " +
			"for them (github.webhook_secret_env or webhook_secret_file). On an address of this machine only, " +
			"such as 127.0.0.1, whoever reaches it may look at the page; on any other the page is shown only to " +
			"who has signed in. Metrics have no password: let a proxy that others reach pass on what they may " +
			"see. Empty: nowhere; the poll sees everything, later.",
		at: func(c *Config) any { return &c.Director.HTTPListen },
	},
	{
		key: "director.page_token_env", def: `"RETAKE_PAGE_TOKEN"`, check: validTokenEnv,
		want: "the name of an environment variable, not the token itself",
		doc: "Name of the variable that holds the token with which people sign in on the page, of at least 16 " +
			"characters. While it is not set nobody can sign in, and nothing can be done on the page.",
		at: func(c *Config) any { return &c.Director.PageTokenEnv },
	},
	{
		key: "director.page_token_file", def: `""`, want: fileWant,
		doc: "File that holds that token, instead of page_token_env.",
		at:  func(c *Config) any { return &c.Director.PageTokenFile },
	},

	{
		key: "timeouts.worker_heartbeat_ttl_seconds", def: "90", unit: "seconds", min: 0.1, max: 3600,
		doc: "A worker that is silent for longer is suspect. At least 3 times " +
			"agent_bus.heartbeat_interval_seconds.",
		at: func(c *Config) any { return &c.Timeouts.WorkerHeartbeatTTL },
	},
	{
		key: "timeouts.worker_watchdog_seconds", def: "3600", unit: "seconds", min: 0.1, max: week,
		doc: "Longest attempt. More than worker_start_seconds and worker_heartbeat_ttl_seconds, and no less than " +
			"any stage's timeout_seconds.", at: func(c *Config) any { return &c.Timeouts.WorkerWatchdog },
	},
	{
		key: "timeouts.issue_claim_stale_seconds", def: "21600", unit: "seconds", min: 1, max: 4 * week,
		doc: "A claim without progress for longer is given back. More than worker_watchdog_seconds.",
		at:  func(c *Config) any { return &c.Timeouts.IssueClaimStale },
	},
	{
		key: "timeouts.worker_start_seconds", def: "60", unit: "seconds", min: 0.1, max: 3600,
		doc: "Longest time from the creation of the container to the worker's first message.",
		at:  func(c *Config) any { return &c.Timeouts.WorkerStart },
	},
	{
		key: "timeouts.stop_grace_seconds", def: "10", unit: "seconds", min: 0, max: 300,
		doc: "Time from the request to stop to the kill. Pods of a cluster have what it was at the start of " +
			"the director.", at: func(c *Config) any { return &c.Timeouts.StopGrace },
	},
	{
		key: "timeouts.delivery_seconds", def: "900", unit: "seconds", min: 0.1, max: week,
		doc: "For how long finished work is handed in again and again while that fails. Then a person is asked; " +
			"the work is kept.", at: func(c *Config) any { return &c.Timeouts.Delivery },
	},

	{
		key: "retry.backoff_mode", def: `"exponential"`, allowed: []string{"exponential", "linear"},
		doc: "How the delay between attempts grows.", at: func(c *Config) any { return &c.Retry.BackoffMode },
	},
	{
		key: "retry.backoff_initial_seconds", def: "1", unit: "seconds", min: 0, max: 3600, doc: "First delay.",
		at: func(c *Config) any { return &c.Retry.BackoffInitial },
	},
	{
		key: "retry.backoff_max_seconds", def: "30", unit: "seconds", min: 0, max: day,
		doc: "Longest delay; no less than backoff_initial_seconds.",
		at:  func(c *Config) any { return &c.Retry.BackoffMax },
	},
	{
		key: "retry.backoff_factor", def: "2.0", unit: "", min: 1, max: 10,
		doc: "Each delay is the one before times this.",
		at:  func(c *Config) any { return &c.Retry.BackoffFactor },
	},
	{
		key: "retry.jitter", def: `"full"`, allowed: []string{"full", "equal", "none"},
		doc: "How much of a delay is random: all, half, nothing.",
		at:  func(c *Config) any { return &c.Retry.Jitter },
	},

	{
		key: "containers.runtime", def: `"docker"`, allowed: []string{"docker", "kubernetes", "process"},
		former: []string{FormerRuntime}, doc: "What workers run in. kubernetes makes each attempt a Job of a " +
			"cluster, see [kubernetes]. process is for development and work that you trust: plain processes on " +
			"the director's machine, as containers.user, without image, limits or a network of their own; it " +
			"needs a director that is root. An old \"auto\" is docker.",
		at: func(c *Config) any { return &c.Containers.Runtime },
	},
	{
		key: "containers.oci_runtime", def: `""`, check: validOCIRuntime,
		want: "a name of letters, digits, _ . and -, or nothing",
		doc: "Which of the engine's runtimes workers run in, e.g. runsc for gVisor: one that `docker info` " +
			"lists. Empty: the engine's own default, mostly runc.",
		at: func(c *Config) any { return &c.Containers.OCIRuntime },
	},
	{
		key: "containers.process_same_user", def: "false",
		doc: "Plain processes may run as the director's own user, or without a view of their own: agents can " +
			"read and change what that user can, the journal, credentials and other checkouts among it.",
		at: func(c *Config) any { return &c.Containers.SameUser },
	},
	{
		key: "containers.image", def: `"retake-dev:main"`, check: imageForm.MatchString,
		want: "an image reference such as repo/name:tag",
		doc:  "Image of the workers; it need not contain anything of Retake's.",
		at:   func(c *Config) any { return &c.Containers.Image },
	},
	{
		key: "containers.workdir", def: `"/workspace"`, check: validWorkdir,
		want: "an absolute path in the container without a colon, outside of the system's folders and of /retake",
		doc:  "Where the checkout is mounted in the container.",
		at:   func(c *Config) any { return &c.Containers.Workdir },
	},
	{
		key: "containers.memory", def: `"2GiB"`, check: validMemory,
		want: `a size such as "2GiB", from 16MiB to 16TiB`, doc: "Memory limit of a worker.",
		at: func(c *Config) any { return &c.Containers.Memory },
	},
	{
		key: "containers.cpus", def: "1.0", unit: "processors", min: 0.01, max: 1024,
		doc: "Processor limit of a worker.", at: func(c *Config) any { return &c.Containers.CPUs },
	},
	{
		key: "containers.pids", def: "512", unit: "processes", min: 16, max: 4194304,
		doc: "Limit of a worker's processes and threads.",
		at:  func(c *Config) any { return &c.Containers.PIDs },
	},
	{
		key: "containers.user", def: `"1000:1000"`, check: validUser,
		want: `"uid:gid" in numbers, neither of them 0 (root)`,
		doc:  "User and group of the workers, who own their checkouts. Never root.",
		at:   func(c *Config) any { return &c.Containers.User },
	},
	{
		key: "containers.network", def: `"retake"`, check: validNetwork,
		want: "a name of letters, digits, _ . and -, and none of Docker's own: host, none, default, bridge",
		doc:  "Docker network of the workers; created if it does not exist.",
		at:   func(c *Config) any { return &c.Containers.Network },
	},
	{
		key: "containers.env_passthrough", def: "[]", check: validVariable,
		want: "the name of an environment variable, not beginning with RETAKE_ (those are the director's)",
		doc:  `Names of the director's variables that workers get, e.g. ["ANTHROPIC_API_KEY"]. Never the GitHub token's.`,
		at:   func(c *Config) any { return &c.Containers.EnvPassthrough },
	},
	{
		key: "containers.mounts", def: "[]", reason: checkMount, want: mountForm,
		doc: `Host folders and volumes that workers see besides the checkout: "/host/path:/path" (read-only unless ":rw" follows) or "volume:name:/path" (writable unless ":ro" follows).`,
		at:  func(c *Config) any { return &c.Containers.Mounts },
	},
	{
		key: "containers.read_only", def: "true", doc: "The image's file system cannot be changed by workers: they " +
			"write to the checkout, their home, `/tmp`, `/var/tmp`, `/run`, mounts that say so and `scratch`.",
		at: func(c *Config) any { return &c.Containers.ReadOnly },
	},
	{
		key: "containers.scratch", def: "[]", check: validWorkdir,
		want: "an absolute path in the container without a colon, outside of the system's folders and of /retake",
		doc: "Folders of the container in which everybody may write, empty at first, in memory that counts " +
			"against `memory`.", at: func(c *Config) any { return &c.Containers.Scratch },
	},
	{
		key: "containers.env", def: "{}", check: validVariable,
		want: "the name of an environment variable, not beginning with RETAKE_ (those are the director's)",
		doc:  "Variables of the stages, with their values. For secrets: env_passthrough.",
		at:   func(c *Config) any { return &c.Containers.Env },
	},
	{
		key: "containers.secrets", def: "[]",
		check: func(s string) bool { return validVariable(strings.TrimPrefix(s, NoSecret)) },
		want:  `the name of a variable of env or env_passthrough, or that with ! in front`,
		doc: "Variables whose values are secrets, and with ! in front those whose values are none. What is not " +
			"named here is judged by its name and value. No patch with a secret in it is pushed.",
		at: func(c *Config) any { return &c.Containers.Secrets },
	},
	{
		key: "containers.egress", def: `"all"`, word: true, check: validEgress, want: egressWant,
		doc: "What workers reach besides the bus and containers.reachable, in Docker: all public addresses of " +
			"the internet, none, or these hosts only, through a proxy of the director's. Neighbours, services of " +
			"this machine, private networks and metadata addresses are never among it.",
		at: func(c *Config) any { return &c.Containers.Egress },
	},
	{
		key: "containers.reachable", def: "[]", check: validDoor,
		want: `an address with a port such as "10.0.0.7:8080"`,
		doc: "What workers reach besides containers.egress: services of private networks, or of this machine at " +
			"an address of its own.", at: func(c *Config) any { return &c.Containers.Reachable },
	},
	{
		key: "containers.proxied_keys", def: "{}", secretNames: true, check: validProxiedKey, want: proxiedKeyWant(),
		doc: `Keys of model providers that workers use and do not have: name of the director's variable = host of the provider. Workers get a word of their attempt in its place, and the address of the director's proxy in the variable that agents know (ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL); the proxy puts the key in, for that host only.`,
		at:  func(c *Config) any { return &c.Containers.ProxiedKeys },
	},
	{
		key: "containers.proxy_listen", def: `"auto"`, check: func(s string) bool {
			return s == "auto" ||
				validHTTPListen(s) && s != ""
		}, want: `"auto" (port 8732 at the workers' gateway), or host:port`,
		doc: "Where the director's proxy listens, if there is need for one: egress is a list of hosts, or there " +
			"are proxied_keys.", at: func(c *Config) any { return &c.Containers.ProxyListen },
	},
	{
		key: "containers.proxy_url", def: `""`, check: validProxyURL, want: `"http://HOST:PORT", or nothing`,
		doc: "How workers find the proxy when something stands between, as in compose. Empty: where it listens.",
		at:  func(c *Config) any { return &c.Containers.ProxyURL },
	},

	{
		key: "kubernetes.namespace", def: `""`, check: validNamespace,
		want: "a name of lower case letters, digits and -, or nothing",
		doc: "Namespace of the workers' Jobs, pods and Secrets; it has to be there. Empty: that of the " +
			"kubeconfig, or of the director's own pod.",
		at: func(c *Config) any { return &c.Kubernetes.Namespace },
	},
	{
		key: "kubernetes.kubeconfig", def: `""`, want: fileWant,
		doc: "File that says how the cluster is reached; relative to the working directory. Empty: in a pod its " +
			"service account, elsewhere what KUBECONFIG names, or ~/.kube/config.",
		at: func(c *Config) any { return &c.Kubernetes.Kubeconfig },
	},
	{
		key: "kubernetes.worker_image", def: `""`, check: func(s string) bool {
			return s == "" ||
				imageForm.MatchString(s)
		}, want: "an image reference such as repo/name:tag, or nothing",
		doc: "Image with Retake's own program `worker` in its PATH, of the director's version, such as the " +
			"director's image: an init container copies it from there into each pod, whose image can then be any " +
			"(containers.image). Needed with containers.runtime = \"kubernetes\".",
		at: func(c *Config) any { return &c.Kubernetes.WorkerImage },
	},
	{
		key: "kubernetes.pod_template", def: `""`, want: fileWant,
		doc: "YAML file with a pod template (metadata and spec, as in a Deployment) for what else pods have: " +
			"runtimeClassName, nodeSelector, tolerations, affinity, priorityClassName, serviceAccountName, " +
			"imagePullSecrets, volumes, requests of the container `worker`, labels and annotations, which Jobs " +
			"get, too. What an attempt needs lies over it; a field that says otherwise is named at the start. " +
			"Relative to the working directory.", at: func(c *Config) any { return &c.Kubernetes.PodTemplate },
	},
	{
		key: "kubernetes.address", def: `""`, check: validAddress, want: "a host name or an IP address, or nothing",
		doc: "Where pods reach this director: its Service, or its machine. Needed unless a bus is joined " +
			"(agent_bus.url), and for the proxy of containers.egress unless containers.proxy_url says where that " +
			"is. With \"auto\" bus and proxy then listen on all addresses.",
		at: func(c *Config) any { return &c.Kubernetes.Address },
	},
	{
		key: "kubernetes.pending_timeout_seconds", def: "1800", unit: "seconds", min: 1, max: week,
		doc: "For how long an attempt may wait for the cluster to start it: for room or a volume; for an image " +
			"that cannot be had five minutes at most.",
		at: func(c *Config) any { return &c.Kubernetes.PendingTimeout },
	},

	{
		key: "agent_bus.url", def: `""`, check: validBusURL,
		want: "nats:// or tls:// URLs, separated by commas, or nothing",
		doc:  "NATS server to join. Empty: a server embedded in the director.",
		at:   func(c *Config) any { return &c.AgentBus.URL },
	},
	{
		key: "agent_bus.credentials", def: `""`, want: fileWant,
		doc: "Folder with the keys of the server at agent_bus.url: director/ of what `director bus init` makes; " +
			"relative to the working directory. An embedded server has its own.",
		at: func(c *Config) any { return &c.AgentBus.Credentials },
	},
	{
		key: "agent_bus.listen_addr", def: `"auto"`, check: validListenAddr, want: `"auto" or an IP address`,
		doc: "Where the embedded server listens. auto: on loopback, and for containers on the gateway of " +
			"their network.", at: func(c *Config) any { return &c.AgentBus.ListenAddr },
	},
	{
		key: "agent_bus.listen_port", def: "8731", unit: "port", min: 0, max: 65535,
		doc: "Port of the embedded server. 0: any free one, which is kept for the next start, so that workers " +
			"find it again.", at: func(c *Config) any { return &c.AgentBus.ListenPort },
	},
	{
		key: "agent_bus.prefix", def: `"retake.v1"`, check: prefixForm.MatchString,
		want: "words of letters, digits, _ and -, separated by dots", doc: "First part of every subject.",
		at: func(c *Config) any { return &c.AgentBus.Prefix },
	},
	{
		key: "agent_bus.replicas", def: "1", unit: "servers", min: 1, max: 5, doc: "Copies of every stream: 1, 3 or " +
			"5. More than 1 needs a cluster at agent_bus.url.",
		at: func(c *Config) any { return &c.AgentBus.Replicas },
	},
	{
		key: "agent_bus.max_message_bytes", def: "65536", unit: "bytes", min: 4096, max: wire.LongestMessage,
		doc: "Longest message of a worker that is started from now on.",
		at:  func(c *Config) any { return &c.AgentBus.MaxMessageBytes },
	},
	{
		key: "agent_bus.heartbeat_interval_seconds", def: "15", unit: "seconds", min: 0.1, max: 600,
		doc: "Time between two heartbeats of a worker.",
		at:  func(c *Config) any { return &c.AgentBus.HeartbeatInterval },
	},
	{
		key: "agent_bus.sync", def: `"always"`, allowed: []string{"always", "default"},
		doc: "What a power cut may cost. always: nothing that was acknowledged. default: the last minutes, or " +
			"the whole journal while it is young.", at: func(c *Config) any { return &c.AgentBus.Sync },
	},

	{
		key: "journal.on_damage", def: `"stop"`, allowed: []string{"stop", "rebuild"},
		doc: "What to do when the journal is not as it was written. stop: end with the exact place, change " +
			"nothing. rebuild: set it aside, and find out again what GitHub, containers and reports know.",
		at: func(c *Config) any { return &c.Journal.OnDamage },
	},
	{
		key: "journal.keep_days", def: "90", unit: "days", min: 0, max: 36500,
		doc: "For how long parts of the journal are kept that no restart needs any more: compressed, in " +
			"<data_dir>/journal. 0: for ever.", at: func(c *Config) any { return &c.Journal.KeepDays },
	},
}
