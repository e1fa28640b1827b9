package config

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/recovery/policy"
	"retake/internal/secrets/redact"
)

// Config is the whole configuration. The tables in this package and docs/specs/configuration.md give units, ranges and
// meanings.
type Config struct {
	Director   Director
	Timeouts   Timeouts
	Retry      Retry
	Containers Containers
	Kubernetes Kubernetes
	AgentBus   AgentBus
	Journal    Journal
	RateLimits RateLimits
	SyncMain   SyncMain
	GitHub     GitHub
	Escalation Escalation
	Scope      Scope
	Checkout   Checkout
	Workspace  Workspace
	Worker     Worker
	Recovery   Recovery
	Telemetry  Telemetry
	Stages     []Stage // in the order in which they run
	Routes     []Route

	Projects      []Project // see For
	ProjectsAllow []string  // keys that a repository's contract may set; see Contract

	Agents *agent.Table // built-in agents plus those in recovery.agents_file; never nil after Load or Default

	policy *policy.Policy // of recovery.policy_file as Load read it; nil without such a file

	InWorkingDir bool // Director.DataDir is in the working directory, as in older versions; see settlePaths

	moved   []string     // see Moved
	doubled []twoFolders // see startProblems

	assumed []policy.Bound // bounds that are not configured, so the preset's or policy file's values apply
}

// Director configures the daemon.
type Director struct {
	Interval   time.Duration
	MaxWorkers int
	MaxRetries int
	Fleet      string
	DataDir    string // absolute, or relative to the working directory; see settlePaths
	// DiskWatermark is in percent. 0 disables it.
	DiskWatermark float64
	DiskReserve   string // see DiskReserveBytes
	Lease         time.Duration
	SharedDir     string // like DataDir; "" means DataDir itself
	HTTPListen    string // host:port; "" disables HTTP
	// PageTokenEnv and MetricsTokenEnv are names of variables. The files take precedence.
	PageTokenEnv, PageTokenFile       string
	MetricsTokenEnv, MetricsTokenFile string
}

// Timeouts limits the duration of attempts and claims.
type Timeouts struct {
	WorkerHeartbeatTTL time.Duration
	WorkerWatchdog     time.Duration
	IssueClaimStale    time.Duration // longer than WorkerWatchdog
	WorkerStart        time.Duration
	StopGrace          time.Duration
	Delivery           time.Duration
}

// Retry configures the backoff between attempts.
type Retry struct {
	BackoffMode    string // exponential or linear
	BackoffInitial time.Duration
	BackoffMax     time.Duration
	BackoffFactor  float64
	Jitter         string // full, equal or none
}

// Containers configures the workers' environment.
type Containers struct {
	Runtime        string // docker, kubernetes, process, or FormerRuntime, which means docker
	OCIRuntime     string // runtime of the engine; "" means its default
	SameUser       bool   // allows plain processes as the director's user
	Image          string
	Workdir        string
	Memory         string // see MemoryBytes
	CPUs           float64
	PIDs           int
	User           string // "uid:gid"; see UIDGID
	Network        string
	EnvPassthrough []string
	Mounts         []string // see ParsedMounts
	ReadOnly       bool     // makes the image's file system read-only
	Scratch        []string // writable paths in the container
	Env            map[string]string
	Secrets        []string // names of secret variables, or, after the prefix NoSecret, of public variables
	Egress         []string // egressAll, egressNone, or hosts; see EgressHosts
	Reachable      []string // address:port; see Doors
	ProxyListen    string   // auto, or host:port
	ProxyURL       string   // "" means the workers' gateway with ProxyListen's port
	// maps the director's variable for a provider's key to the provider's host or host:port
	ProxiedKeys map[string]string
}

// Kubernetes configures workers for Containers.Runtime = OnKubernetes.
type Kubernetes struct {
	Namespace      string // "" means the namespace of the kubeconfig or of the director's pod
	Kubeconfig     string // path; "" means the account of the director's pod, or KUBECONFIG
	WorkerImage    string
	PodTemplate    string // path, or empty
	Address        string // address at which pods reach the director, or ""
	PendingTimeout time.Duration
}

// OnDamageRebuild is the value of Journal.OnDamage that makes the director rebuild a damaged journal at startup.
const OnDamageRebuild = "rebuild"

// OnKubernetes is the value of Containers.Runtime that runs attempts as Jobs in a Kubernetes cluster.
const OnKubernetes = "kubernetes"

// Keywords in Containers.Egress.
const (
	egressAll  = "all"
	egressNone = "none"
)

// ProxyPort is the port for Containers.ProxyListen = "auto".
const ProxyPort = 8732

// FormerRuntime is a deprecated value of Containers.Runtime, which now means docker. In older versions it meant plain
// processes if Docker did not answer.
const FormerRuntime = "auto"

// NoSecret is a prefix in Containers.Secrets. It marks a variable that is not secret.
const NoSecret = "!"

// Mount is an additional directory or volume in the container.
type Mount struct {
	Source   string // absolute path on the host, or the volume's name
	Target   string // absolute path in the container
	ReadOnly bool
	Volume   bool
}

// AgentBus configures NATS, embedded or shared.
type AgentBus struct {
	URL               string // "" means embedded
	Credentials       string // key directory; required with URL
	ListenAddr        string // auto, or an IP address
	ListenPort        int    // 0 picks a free port and stores it
	Prefix            string
	Replicas          int
	MaxMessageBytes   int
	HeartbeatInterval time.Duration
	Sync              string // always or default
}

// Journal configures the handling of a damaged journal, and the retention of archived segments.
type Journal struct {
	OnDamage string // stop or OnDamageRebuild
	KeepDays int    // retention of archived segments; 0 keeps all
}

// RateLimits limits the requests to GitHub and to model providers.
type RateLimits struct {
	GitHub GitHubLimits
	Model  ModelLimits
}

// GitHubLimits keep the director below GitHub's rate limits.
type GitHubLimits struct {
	MaxConcurrentRequests int
	MinBetweenWrites      time.Duration
	CooldownOnRateLimit   time.Duration
}

// ModelLimits apply to each model provider. All workers share them.
type ModelLimits struct {
	MaxConcurrentRequests int
	MinBetweenRequests    time.Duration // minimum time between request starts; 0 disables it
	CooldownOnError       time.Duration // pause after a rate limit or an error, if the provider does not state one
	MaxWait               time.Duration // maximum time per day that one task can close models to other tasks
}

// SyncMain limits how far a checkout may fall behind its base branch. If it exceeds either limit, the next attempt
// begins by merging the base branch.
type SyncMain struct {
	MaxCommitsBehind int
	MaxBehind        time.Duration
}

// GitHub configures which issues are worked on, and how results are delivered.
type GitHub struct {
	Repositories []string       // owner/name
	APIURL       string         // ends in a slash
	TokenEnv     string         // name of the variable
	TokenFile    string         // takes precedence over TokenEnv
	Priorities   map[string]int // maps a label to hours added to an issue's waiting time
	LabelCaps    map[string]int // maps a label to how many of its tasks may run at a time
	// IssueAuthors is authorsLabelled or AuthorsTrusted.
	IssueAuthors string
	// AppID, InstallationID and PrivateKeyFile configure a GitHub App instead of a token. Set all or none.
	AppID, InstallationID int
	PrivateKeyFile        string
	// WebhookSecretEnv names a variable. WebhookSecretFile takes precedence.
	WebhookSecretEnv, WebhookSecretFile string
	Writes                              bool
	Poll                                time.Duration
	Labels                              Labels
	Delivery                            string // pull_request, branch or none
	BaseBranch                          string
	Review                              bool // watch a pull request until it is merged or closed
	DeleteBranch                        bool // delete the branch of a merged pull request
	// TrustedAuthors are values of GitHub's author_association.
	TrustedAuthors []string
}

// Values of GitHub.IssueAuthors.
const (
	authorsLabelled = "labelled" // any author, if a person with triage rights added the label
	AuthorsTrusted  = "trusted"  // only authors in trusted_authors
)

// Labels holds the names of the labels that show an issue's state.
type Labels struct {
	Task, Claimed, Blocked, Review string
}

// Escalation configures how Retake asks people for help.
type Escalation struct {
	RemindAfter    time.Duration // 0 means never
	IncidentIssues bool
	PlainAnswers   bool // a comment without a command answers an agent's question
}

// Checkout limits a checkout's content, and the resources that Retake's git commands use on it.
type Checkout struct {
	MaxFiles     int
	MaxEntries   int // entries in one directory
	MaxDepth     int
	MaxPathBytes int
	MaxBytes     int
	MaxWorkBytes int
	Git          time.Duration
	GitMemory    string // see GitMemoryBytes
	Quota        string // see QuotaBytes
}

// Workspace configures how checkouts reach workers.
type Workspace struct {
	Transport  string        // mount or sync
	Checkpoint time.Duration // interval between checkpoints of a travelling checkout
}

// TransportSync is the transport of travelling checkouts.
const TransportSync = "sync"

// Scope limits the patches that may be pushed.
type Scope struct {
	Deny         []string            // globs
	Ask          []string            // globs
	Allow        map[string][]string // by label: globs
	AllowSecrets []string            // globs
	AllowRaw     []string            // globs
	AllowLeftOut []string            // globs
	MaxFileBytes int
}

// Worker configures how an attempt validates and repairs its work.
type Worker struct {
	FixAttempts int
	Validate    string // inside or fresh
}

// Stage is one step of an attempt.
type Stage = agent.Stage

// Callers maps stage names to their configured callers. It omits stages without one.
func (c Config) Callers() map[string]string {
	all := map[string]string{}
	for _, s := range c.Stages {
		if s.Caller != "" {
			all[s.Name] = s.Caller
		}
	}
	return all
}

// Recovery selects the policy and the user's files.
type Recovery struct {
	Preset               string
	ContinueOnError      bool
	MaxConsecutiveErrors int // for this and the next two, 0 means the preset's bound and -1 means unlimited
	IterationBudget      int
	PaidCallBudget       int
	CostBudgetUSD        float64 // 0 means unlimited
	RulesFile            string
	PolicyFile           string
	AgentsFile           string
}

// Telemetry configures the export of traces.
type Telemetry struct {
	OTLPEndpoint   string  // base URL; "" disables traces
	OTLPHeadersEnv string  // name of the variable, or empty
	SampleRatio    float64 // fraction of tasks to trace, 0 to 1
}

// standardHeadersEnv is OpenTelemetry's standard variable for the request headers of OTLP exporters.
const standardHeadersEnv = "OTEL_EXPORTER_OTLP_HEADERS"

// Default returns the configuration without a file, environment variables or flags. It panics if a default in the table
// is invalid.
func Default() Config {
	c := Config{Agents: builtinAgents(), assumed: assumed(nil)}
	for _, r := range keys(&c) {
		if wrong := r.setText(r.def); wrong != nil {
			// Only a mistake in the table causes this.
			panic(fmt.Sprint("config: invalid default for ", r.key, ": ", wrong))
		}
	}
	return c
}

// String formats every key with its value as a TOML file. Loading that file gives the same configuration, except for
// redacted passwords.
func (c Config) String() string {
	var b strings.Builder
	section := ""
	write := func(rows []row) {
		for _, r := range rows {
			s, key := cutLast(r.key)
			if s != section && s != "stage" && s != "route" {
				section = s
				b.WriteString("[" + s + "]\n")
			}
			b.WriteString(key + " = " + r.literal() + "\n")
		}
	}
	write(keys(&c))
	for i := range c.Stages {
		b.WriteString("[[stage]]\n")
		write(stageKeys(&c.Stages[i]))
	}
	for i := range c.Routes {
		b.WriteString("[[route]]\n")
		write(routeKeys(&c.Routes[i]))
	}
	for _, p := range c.Projects {
		b.WriteString(p.literal())
	}
	return redact.New().JSON(b.String())
}

// GoString returns String, so %#v hides the same secrets.
func (c Config) GoString() string { return c.String() }
