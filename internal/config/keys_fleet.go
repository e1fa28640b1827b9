package config

import (
	"strings"

	"retake/internal/bus/wire"
)

// fleetKeys describes the keys in the sections from director to journal, in documentation order.
var fleetKeys = []row{
	{
		key: "director.interval_seconds", def: "60", unit: "seconds", min: 0.1, max: 3600,
		doc: "Time between housekeeping rounds. The director reacts to events immediately.",
		at:  func(c *Config) any { return &c.Director.Interval },
	},
	{
		key: "director.max_workers", def: "3", unit: "containers", min: 1, max: 100,
		doc: "Maximum number of worker containers that run at the same time.",
		at:  func(c *Config) any { return &c.Director.MaxWorkers },
	},
	{
		key: "director.max_retries", def: "3", unit: "re-dispatches", min: 0, max: 100,
		doc: "Number of times Retake retries a failed task, across all causes, before it asks a person. Waits for " +
			"rate limits do not count. If the key is not set, the preset's bound applies, if any.",
		at: func(c *Config) any { return &c.Director.MaxRetries },
	},
	{
		key: "director.fleet", def: `"default"`, check: fleetForm.MatchString,
		want: "1 to 32 of a-z, 0-9 and -, beginning with a letter",
		doc:  "Part of the names of this director's containers, streams and markers.",
		at:   func(c *Config) any { return &c.Director.Fleet },
	},
	{
		key: "director.data_dir", def: `".retake"`, check: notBlank, path: true, want: "a non-empty path",
		doc: "Directory for the journal, mirrors and checkouts. With compose: the same absolute path inside and " +
			"outside the container.",
		at: func(c *Config) any { return &c.Director.DataDir },
	},
	{
		key: "director.disk_watermark", def: "95.0", unit: "percent", min: 0, max: 100,
		doc: "Maximum usage of the disk that holds data_dir or shared_dir. Above it, new work waits, and the " +
			"director stops the attempt that fills the disk and asks a person. The limit applies only if less than 8 " +
			"GiB or fewer than 500,000 inodes are free. 0 disables it.",
		at: func(c *Config) any { return &c.Director.DiskWatermark },
	},
	{
		key: "director.disk_reserve", def: `"64MiB"`, check: validQuota,
		want: `a size such as "64MiB", from 16MiB to 16TiB, or "" to disable it`,
		doc: "Space for the journal on data_dir's disk, reserved by the file `reserve` and released when " +
			"the disk is full. At most a twentieth of the disk.",
		at: func(c *Config) any { return &c.Director.DiskReserve },
	},

	{
		key: "director.lease_seconds", def: "10", unit: "seconds", min: 0.2, max: 300,
		doc: "Duration of the leading director's lease on a joined bus. The leader renews it after a third of this " +
			"time. If the lease expires, another director takes over. Unused on the embedded bus.",
		at: func(c *Config) any { return &c.Director.Lease },
	},
	{
		key: "director.shared_dir", def: `""`, path: true, doc: "Directory for mirrors, checkouts and processes. All " +
			"directors of a fleet must see it under the same path, so that a director that takes over can continue " +
			"running attempts. If empty, the director uses data_dir, which directors do not share.",
		at: func(c *Config) any { return &c.Director.SharedDir },
	},
	{
		key: "director.http_listen", def: `""`, check: validHTTPListen,
		want: `host:port such as "127.0.0.1:8730"; may be empty`,
		doc: "Address for HTTP without TLS: the page at /, metrics at /metrics, health at /healthz, /readyz and " +
			"/livez, and GitHub's webhooks at /webhooks/github, if their secret is set (github.webhook_secret_env or " +
			"webhook_secret_file). Reading the page and metrics requires their tokens. Without tokens, only a " +
			"loopback address serves them, to all local users. If empty, HTTP is off, and the director polls GitHub.",
		at: func(c *Config) any { return &c.Director.HTTPListen },
	},
	{
		key: "director.page_token_env", def: `"RETAKE_PAGE_TOKEN"`, check: validTokenEnv,
		want: "the name of an environment variable, not the token itself",
		doc: "Name of the variable that holds the token for signing in to the page. The token needs at least 16 " +
			"characters. Without it, the page is read-only, and served only on a loopback address.",
		at: func(c *Config) any { return &c.Director.PageTokenEnv },
	},
	{
		key: "director.page_token_file", def: `""`, path: true, want: fileWant,
		doc: "File with that token, instead of page_token_env.",
		at:  func(c *Config) any { return &c.Director.PageTokenFile },
	},
	{
		key: "director.metrics_token_env", def: `"RETAKE_METRICS_TOKEN"`, check: validTokenEnv,
		want: "the name of an environment variable, not the token itself",
		doc: "Name of the variable that holds the bearer token for /metrics, of at least 16 characters. Without it, " +
			"/metrics rejects all requests, except on a loopback address without a page token.",
		at: func(c *Config) any { return &c.Director.MetricsTokenEnv },
	},
	{
		key: "director.metrics_token_file", def: `""`, path: true, want: fileWant,
		doc: "File with that token, instead of metrics_token_env.",
		at:  func(c *Config) any { return &c.Director.MetricsTokenFile },
	},

	{
		key: "timeouts.worker_heartbeat_ttl_seconds", def: "90", unit: "seconds", min: 0.1, max: 3600,
		doc: "A worker that does not send a message for this long becomes suspect. At least 3 times " +
			"agent_bus.heartbeat_interval_seconds.",
		at: func(c *Config) any { return &c.Timeouts.WorkerHeartbeatTTL },
	},
	{
		key: "timeouts.worker_watchdog_seconds", def: "3600", unit: "seconds", min: 0.1, max: week,
		doc: "Maximum duration of an attempt. It must exceed worker_start_seconds and worker_heartbeat_ttl_seconds, " +
			"and must not be shorter than any stage's timeout_seconds.",
		at: func(c *Config) any { return &c.Timeouts.WorkerWatchdog },
	},
	{
		key: "timeouts.issue_claim_stale_seconds", def: "21600", unit: "seconds", min: 1, max: 4 * week,
		doc: "The director releases a claim after this long without progress. Must exceed worker_watchdog_seconds.",
		at:  func(c *Config) any { return &c.Timeouts.IssueClaimStale },
	},
	{
		key: "timeouts.worker_start_seconds", def: "60", unit: "seconds", min: 0.1, max: 3600,
		doc: "Maximum time from creating the container to the worker's first message.",
		at:  func(c *Config) any { return &c.Timeouts.WorkerStart },
	},
	{
		key: "timeouts.stop_grace_seconds", def: "10", unit: "seconds", min: 0, max: 300,
		doc: "Time between asking a worker to stop and killing it. For pods, a new value applies only after the " +
			"director restarts.", at: func(c *Config) any { return &c.Timeouts.StopGrace },
	},
	{
		key: "timeouts.delivery_seconds", def: "900", unit: "seconds", min: 0.1, max: week,
		doc: "How long Retake retries a failing delivery. After that, it keeps the work and asks a person.",
		at:  func(c *Config) any { return &c.Timeouts.Delivery },
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
		doc: "Maximum delay; at least backoff_initial_seconds.",
		at:  func(c *Config) any { return &c.Retry.BackoffMax },
	},
	{
		key: "retry.backoff_factor", def: "2.0", unit: "", min: 1, max: 10,
		doc: "Growth factor from one delay to the next in exponential mode.",
		at:  func(c *Config) any { return &c.Retry.BackoffFactor },
	},
	{
		key: "retry.jitter", def: `"full"`, allowed: []string{"full", "equal", "none"},
		doc: "Random part of each delay: all of it (full), half (equal) or none.",
		at:  func(c *Config) any { return &c.Retry.Jitter },
	},

	{
		key: "containers.runtime", def: `"docker"`, allowed: []string{"docker", "kubernetes", "process"},
		former: []string{FormerRuntime}, doc: "How workers run. kubernetes runs each attempt as a Job in a " +
			"cluster; see [kubernetes]. process is for development and trusted work: it runs plain processes on the " +
			"director's machine, as containers.user, without an image, limits or a separate network. It needs a " +
			"director that runs as root. \"auto\", from older versions, means docker.",
		at: func(c *Config) any { return &c.Containers.Runtime },
	},
	{
		key: "containers.oci_runtime", def: `""`, check: validOCIRuntime,
		want: "a name of letters, digits, _ . and -; may be empty",
		doc: "Runtime that the container engine uses for workers, from the list in `docker info`, such as runsc for " +
			"gVisor. If empty, the engine uses its default, usually runc.",
		at: func(c *Config) any { return &c.Containers.OCIRuntime },
	},
	{
		key: "containers.process_same_user", def: "false",
		doc: "Allow plain processes as the director's user, or without separate namespaces: agents can then read " +
			"and change the journal, credentials and other checkouts.",
		at: func(c *Config) any { return &c.Containers.SameUser },
	},
	{
		key: "containers.image", def: `"retake-dev:main"`, check: imageForm.MatchString,
		want: "an image reference such as repo/name:tag",
		doc:  "The workers' image. It need not contain any part of Retake.",
		at:   func(c *Config) any { return &c.Containers.Image },
	},
	{
		key: "containers.workdir", def: `"/workspace"`, check: validWorkdir,
		want: "an absolute container path without colons, outside system directories and /retake",
		doc:  "Path of the checkout in the container.",
		at:   func(c *Config) any { return &c.Containers.Workdir },
	},
	{
		key: "containers.memory", def: `"2GiB"`, check: validMemory,
		want: `a size such as "2GiB", from 16MiB to 16TiB`, doc: "Memory limit per worker.",
		at: func(c *Config) any { return &c.Containers.Memory },
	},
	{
		key: "containers.cpus", def: "1.0", unit: "processors", min: 0.01, max: 1024,
		doc: "CPU limit per worker.", at: func(c *Config) any { return &c.Containers.CPUs },
	},
	{
		key: "containers.pids", def: "512", unit: "processes", min: 16, max: 4194304,
		doc: "Limit on a worker's processes and threads.",
		at:  func(c *Config) any { return &c.Containers.PIDs },
	},
	{
		key: "containers.user", def: `"1000:1000"`, check: validUser,
		want: `numeric "uid:gid", neither of them 0 (root)`,
		doc:  "User and group that workers run as and that own their checkouts. Never root.",
		at:   func(c *Config) any { return &c.Containers.User },
	},
	{
		key: "containers.network", def: `"retake"`, check: validNetwork,
		want: "a name of letters, digits, _ . and -, except Docker's host, none, default and bridge",
		doc:  "The workers' Docker network; created if it does not exist.",
		at:   func(c *Config) any { return &c.Containers.Network },
	},
	{
		key: "containers.env_passthrough", def: "[]", check: validVariable,
		want: "the name of an environment variable, not beginning with RETAKE_ (reserved for the director)",
		doc: "Names of the director's variables to pass to workers, such as [\"ANTHROPIC_API_KEY\"]. Never the " +
			"GitHub token.",
		at: func(c *Config) any { return &c.Containers.EnvPassthrough },
	},
	{
		key: "containers.mounts", def: "[]", reason: checkMount, want: mountForm,
		doc: `Additional host directories and volumes for workers: "/host/path:/path" (read-only unless ":rw" follows) ` +
			`or "volume:name:/path" (writable unless ":ro" follows).`,
		at: func(c *Config) any { return &c.Containers.Mounts },
	},
	{
		key: "containers.read_only", def: "true", doc: "Make the image's file system read-only. Workers write to " +
			"the checkout, their home, `/tmp`, `/var/tmp`, `/run`, writable mounts and `scratch`.",
		at: func(c *Config) any { return &c.Containers.ReadOnly },
	},
	{
		key: "containers.scratch", def: "[]", check: validWorkdir,
		want: "an absolute container path without colons, outside system directories and /retake",
		doc: "Writable in-memory directories in the container, initially empty. Their contents count against " +
			"`memory`.",
		at: func(c *Config) any { return &c.Containers.Scratch },
	},
	{
		key: "containers.env", def: "{}", check: validVariable,
		want: "the name of an environment variable, not beginning with RETAKE_ (reserved for the director)",
		doc:  "Variables for the stages, with their values. Use env_passthrough for secrets.",
		at:   func(c *Config) any { return &c.Containers.Env },
	},
	{
		key: "containers.secrets", def: "[]",
		check: func(s string) bool { return validVariable(strings.TrimPrefix(s, NoSecret)) },
		want:  `the name of a variable in env or env_passthrough, optionally prefixed with !`,
		doc: "Variables with secret values. The prefix ! marks a variable that is not secret. For all other " +
			"variables, Retake decides by name and value. Retake never pushes a patch that contains a secret.",
		at: func(c *Config) any { return &c.Containers.Secrets },
	},
	{
		key: "containers.egress", def: `"all"`, word: true, check: validEgress, want: egressWant,
		doc: "Workers' internet access in Docker: all public addresses, none, or only the listed hosts, through the " +
			"director's proxy. Other containers, services on this machine, private networks and metadata addresses " +
			"stay unreachable, except for the bus and containers.reachable.",
		at: func(c *Config) any { return &c.Containers.Egress },
	},
	{
		key: "containers.reachable", def: "[]", check: validDoor,
		want: `an address with a port such as "10.0.0.7:8080"`,
		doc: "Services that workers can reach in addition to containers.egress: on private networks, or on this " +
			"machine at a separate address.", at: func(c *Config) any { return &c.Containers.Reachable },
	},
	{
		key: "containers.proxied_keys", def: "{}", secretNames: true, check: validProxiedKey, want: proxiedKeyWant(),
		doc: "Model provider keys that the director's proxy adds to requests, so that workers never see them. The " +
			"table maps the director's variable to the provider's host. Workers get a token for their attempt " +
			"instead of the key, and the proxy's address in the usual variable (ANTHROPIC_BASE_URL, OPENAI_BASE_URL, " +
			"GOOGLE_GEMINI_BASE_URL). The proxy sends the key only to that host.",
		at: func(c *Config) any { return &c.Containers.ProxiedKeys },
	},
	{
		key: "containers.proxy_listen", def: `"auto"`, check: func(s string) bool {
			return s == "auto" ||
				validHTTPListen(s) && s != ""
		}, want: `"auto" (port 8732 at the workers' gateway), or host:port`,
		doc: "Address of the director's proxy. The proxy runs if egress is a list of hosts, or if proxied_keys is set.",
		at:  func(c *Config) any { return &c.Containers.ProxyListen },
	},
	{
		key: "containers.proxy_url", def: `""`, check: validProxyURL, want: `"http://HOST:PORT"; may be empty`,
		doc: "Address of the proxy for workers behind a relay, as in compose. If empty, workers use the address in " +
			"`proxy_listen`.",
		at: func(c *Config) any { return &c.Containers.ProxyURL },
	},

	{
		key: "kubernetes.namespace", def: `""`, check: validNamespace,
		want: "a name of lower-case letters, digits and -; may be empty",
		doc: "Existing namespace for the workers' Jobs, pods and Secrets. If empty, the namespace of the kubeconfig " +
			"or of the director's pod is used.",
		at: func(c *Config) any { return &c.Kubernetes.Namespace },
	},
	{
		key: "kubernetes.kubeconfig", def: `""`, path: true, want: fileWant,
		doc: "Kubeconfig file. If empty, the director uses KUBECONFIG or ~/.kube/config, and if neither exists, the " +
			"service account of its pod.",
		at: func(c *Config) any { return &c.Kubernetes.Kubeconfig },
	},
	{
		key: "kubernetes.worker_image", def: `""`, check: func(s string) bool {
			return s == "" ||
				imageForm.MatchString(s)
		}, want: "an image reference such as repo/name:tag; may be empty",
		doc: "Image with Retake's `worker` program in its PATH, in the same version as the director. The director's " +
			"own image works. An init container copies the program into each pod, so containers.image can be any " +
			"image. Required with containers.runtime = \"kubernetes\".",
		at: func(c *Config) any { return &c.Kubernetes.WorkerImage },
	},
	{
		key: "kubernetes.pod_template", def: `""`, path: true, want: fileWant,
		doc: "YAML file with a pod template (metadata and spec, as in a Deployment) for other pod fields: " +
			"runtimeClassName, nodeSelector, tolerations, affinity, priorityClassName, serviceAccountName, " +
			"imagePullSecrets, volumes, the `worker` container's requests, labels and annotations (for Jobs as " +
			"well). At startup, the director rejects a template that conflicts with the fields it sets itself.",
		at: func(c *Config) any { return &c.Kubernetes.PodTemplate },
	},
	{
		key: "kubernetes.address", def: `""`, check: validAddress, want: "a host name or an IP address; may be empty",
		doc: "Address at which pods reach the director: its Service, or its machine. Required if agent_bus.url is " +
			"empty, or if workers use the director's proxy and containers.proxy_url is empty. On Kubernetes, " +
			"\"auto\" in agent_bus.listen_addr or containers.proxy_listen means all addresses.",
		at: func(c *Config) any { return &c.Kubernetes.Address },
	},
	{
		key: "kubernetes.pending_timeout_seconds", def: "1800", unit: "seconds", min: 1, max: week,
		doc: "Maximum time the cluster may take to start an attempt, for example until a node has capacity or a " +
			"volume is bound. Retake waits at most five minutes for a missing image.",
		at: func(c *Config) any { return &c.Kubernetes.PendingTimeout },
	},

	{
		key: "agent_bus.url", def: `""`, check: validBusURL,
		want: "nats:// or tls:// URLs, separated by commas; may be empty",
		doc:  "NATS server to join. If empty, the director embeds a server.",
		at:   func(c *Config) any { return &c.AgentBus.URL },
	},
	{
		key: "agent_bus.credentials", def: `""`, path: true, want: fileWant,
		doc: "Directory with the keys of the server at agent_bus.url: `director/` in the output of `director bus " +
			"init`. An embedded server creates its own keys.",
		at: func(c *Config) any { return &c.AgentBus.Credentials },
	},
	{
		key: "agent_bus.listen_addr", def: `"auto"`, check: validListenAddr, want: `"auto" or an IP address`,
		doc: "Address of the embedded server. auto means loopback plus, for containers, the gateway of their network.",
		at:  func(c *Config) any { return &c.AgentBus.ListenAddr },
	},
	{
		key: "agent_bus.listen_port", def: "8731", unit: "port", min: 0, max: 65535,
		doc: "Port of the embedded server. 0 selects a free port and keeps it for later starts, so that running " +
			"workers can reconnect.", at: func(c *Config) any { return &c.AgentBus.ListenPort },
	},
	{
		key: "agent_bus.prefix", def: `"retake.v1"`, check: prefixForm.MatchString,
		want: "words of letters, digits, _ and -, separated by dots", doc: "First part of every subject.",
		at: func(c *Config) any { return &c.AgentBus.Prefix },
	},
	{
		key: "agent_bus.replicas", def: "1", unit: "servers", min: 1, max: 5, doc: "Copies of every stream (1, 3 or " +
			"5). More than one copy requires a cluster at agent_bus.url.",
		at: func(c *Config) any { return &c.AgentBus.Replicas },
	},
	{
		key: "agent_bus.max_message_bytes", def: "65536", unit: "bytes", min: 4096, max: wire.LongestMessage,
		doc: "Size limit for a worker's messages. Workers that are already running keep their previous limit.",
		at:  func(c *Config) any { return &c.AgentBus.MaxMessageBytes },
	},
	{
		key: "agent_bus.heartbeat_interval_seconds", def: "15", unit: "seconds", min: 0.1, max: 600,
		doc: "Time between a worker's heartbeats.",
		at:  func(c *Config) any { return &c.AgentBus.HeartbeatInterval },
	},
	{
		key: "agent_bus.sync", def: `"always"`, allowed: []string{"always", "default"},
		doc: "When the bus flushes data to disk. always flushes before each acknowledgement, so a power cut loses " +
			"only unacknowledged data. default flushes at intervals, so a power cut can lose the last minutes or a " +
			"new journal.",
		at: func(c *Config) any { return &c.AgentBus.Sync },
	},

	{
		key: "journal.on_damage", def: `"stop"`, allowed: []string{"stop", "rebuild"},
		doc: "How the director handles a damaged journal. stop exits without changes and reports the exact position. " +
			"rebuild sets the journal aside and rebuilds it from GitHub, containers and reports.",
		at: func(c *Config) any { return &c.Journal.OnDamage },
	},
	{
		key: "journal.keep_days", def: "90", unit: "days", min: 0, max: 36500,
		doc: "How long the director keeps archived journal segments, compressed in <data_dir>/journal. 0 keeps them " +
			"forever.", at: func(c *Config) any { return &c.Journal.KeepDays },
	},
}
