package config

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/recovery/policy"
	"retake/internal/secrets/redact"
)

// Config is the whole configuration. The rows of the tables in this package, and docs/specs/configuration.md,
// describe units, ranges and meanings.
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

	Agents *agent.Table // the built-in agents and the agents of recovery.agents_file; never nil after Load and Default

	InWorkingDir bool // Director.DataDir is the former location; see settlePaths

	moved   []string     // see Moved
	doubled []twoFolders // see startProblems

	assumed []policy.Bound // bounds left at their default, which a policy file or preset overrides
}

// Director configures the daemon.
type Director struct {
	Interval   time.Duration
	MaxWorkers int
	MaxRetries int
	Fleet      string
	DataDir    string // absolute, or relative to the working directory; see settlePaths
	// DiskWatermark is in percent. Zero disables it.
	DiskWatermark float64
	DiskReserve   string // see DiskReserveBytes
	Lease         time.Duration
	SharedDir     string // like DataDir; if empty, DataDir itself
	HTTPListen    string // host:port; not served if empty
	// PageTokenEnv names a variable. PageTokenFile wins over it.
	PageTokenEnv, PageTokenFile string
}

// Timeouts bound attempts and claims.
type Timeouts struct {
	WorkerHeartbeatTTL time.Duration
	WorkerWatchdog     time.Duration
	IssueClaimStale    time.Duration // above WorkerWatchdog
	WorkerStart        time.Duration
	StopGrace          time.Duration
	Delivery           time.Duration
}

// Retry shapes the backoff between attempts.
type Retry struct {
	BackoffMode    string // exponential | linear
	BackoffInitial time.Duration
	BackoffMax     time.Duration
	BackoffFactor  float64
	Jitter         string // full | equal | none
}

// Containers configures the workers' environment.
type Containers struct {
	Runtime        string // docker | kubernetes | process | FormerRuntime, which is docker
	OCIRuntime     string // runtime of the engine; empty for its default
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
	ReadOnly       bool     // the image's file system
	Scratch        []string // writable paths in the container
	Env            map[string]string
	Secrets        []string // names of secret variables; NoSecret in front means the opposite
	Egress         []string // egressAll, egressNone, or hosts; see EgressHosts
	Reachable      []string // address:port; see Doors
	ProxyListen    string   // auto, or host:port
	ProxyURL       string   // if empty, the workers' gateway with ProxyListen's port
	// name of the director's variable with a provider's key → host of the provider, or host:port
	ProxiedKeys map[string]string
}

// Kubernetes configures workers with Containers.Runtime = OnKubernetes.
type Kubernetes struct {
	Namespace      string // if empty, the namespace of the kubeconfig or of the director's pod
	Kubeconfig     string // path; if empty, the account of the director's pod, or KUBECONFIG
	WorkerImage    string
	PodTemplate    string // path, or empty
	Address        string // address at which pods reach the director, if they need to
	PendingTimeout time.Duration
}

// OnDamageRebuild is Journal.OnDamage for starts that rebuild a damaged journal.
const OnDamageRebuild = "rebuild"

// OnKubernetes is Containers.Runtime for Jobs of a cluster.
const OnKubernetes = "kubernetes"

// Keywords in Containers.Egress.
const (
	egressAll  = "all"
	egressNone = "none"
)

// ProxyPort is the port for Containers.ProxyListen = "auto".
const ProxyPort = 8732

// FormerRuntime selected docker if an engine answered, and plain processes otherwise. Plain processes now require an
// explicit setting.
const FormerRuntime = "auto"

// NoSecret precedes the name of a non-secret variable in Containers.Secrets.
const NoSecret = "!"

// Mount is a directory or volume in addition to the checkout.
type Mount struct {
	Source   string // absolute path on the host, or the volume's name
	Target   string // absolute path in the container
	ReadOnly bool
	Volume   bool
}

// AgentBus is NATS, embedded or joined.
type AgentBus struct {
	URL               string // embedded if empty
	Credentials       string // directory of the keys; needed with URL only
	ListenAddr        string // auto, or an IP address
	ListenPort        int    // 0 picks a free port and persists it
	Prefix            string
	Replicas          int
	MaxMessageBytes   int
	HeartbeatInterval time.Duration
	Sync              string // always | default
}

// Journal configures the reaction to damage of the director's journal, and the age of its segments.
type Journal struct {
	OnDamage string // stop | OnDamageRebuild
	KeepDays int    // retention of archived segments; 0 keeps all
}

// RateLimits are the limits for each service.
type RateLimits struct {
	GitHub GitHubLimits
	Model  ModelLimits
}

// GitHubLimits keep the director below the rate limits of GitHub.
type GitHubLimits struct {
	MaxConcurrentRequests int
	MinBetweenWrites      time.Duration
	CooldownOnRateLimit   time.Duration
}

// ModelLimits are shared by the workers. They hold for each model provider.
type ModelLimits struct {
	MaxConcurrentRequests int
	MinBetweenRequests    time.Duration // pause between the starts of two requests; 0 disables spacing
	CooldownOnError       time.Duration // after a rate limit or an error without a stated wait
	MaxWait               time.Duration // limit on closing a model for others because of one task
}

// SyncMain is the distance that a checkout may fall behind its base branch. Beyond either limit the two are merged
// before the next attempt.
type SyncMain struct {
	MaxCommitsBehind int
	MaxBehind        time.Duration
}

// GitHub configures which issues are worked on, and how results are delivered.
type GitHub struct {
	Repositories []string       // owner/name
	APIURL       string         // ends in a slash
	TokenEnv     string         // name of the variable
	TokenFile    string         // wins over TokenEnv
	Priorities   map[string]int // label → hours of waiting that it is worth
	LabelCaps    map[string]int // label → how many tasks with it have a worker at the same time
	// IssueAuthors is authorsLabelled or AuthorsTrusted.
	IssueAuthors string
	// AppID, InstallationID and PrivateKeyFile configure a GitHub App instead of a token. Set all or none.
	AppID, InstallationID int
	PrivateKeyFile        string
	// WebhookSecretEnv names a variable. WebhookSecretFile wins over it.
	WebhookSecretEnv, WebhookSecretFile string
	Writes                              bool
	Poll                                time.Duration
	Labels                              Labels
	Delivery                            string // pull_request | branch | none
	BaseBranch                          string
	Review                              bool // a pull request is watched until it is merged or closed
	DeleteBranch                        bool // delete the branch of a merged pull request
	// TrustedAuthors are values of GitHub's author_association.
	TrustedAuthors []string
}

// Values of GitHub.IssueAuthors.
const (
	authorsLabelled = "labelled" // any author, if someone with permissions in the repository added the label
	AuthorsTrusted  = "trusted"  // only authors in trusted_authors
)

// Labels name the states of an issue.
type Labels struct {
	Task, Claimed, Blocked, Review string
}

// Escalation configures questions to people.
type Escalation struct {
	RemindAfter    time.Duration // 0 means never
	IncidentIssues bool
	PlainAnswers   bool // a comment without a command answers a question that the agent wrote
}

// Checkout limits the content of a checkout, and the resources of Retake's git commands on it.
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

// Workspace configures the creation of checkouts.
type Workspace struct {
	Transport  string        // mount | sync
	Checkpoint time.Duration // between two checkpoints of a checkout that travels
}

// TransportSync is the transport of checkouts that travel.
const TransportSync = "sync"

// Scope bounds the patches that may be pushed.
type Scope struct {
	Deny         []string            // globs
	Allow        map[string][]string // by label: globs
	AllowSecrets []string            // globs
	AllowRaw     []string            // globs
	AllowLeftOut []string            // globs
	MaxFileBytes int
}

// Worker configures the course of an attempt.
type Worker struct {
	FixAttempts int
	Validate    string // inside | fresh
}

// Stage is one step of an attempt.
type Stage = agent.Stage

// Callers returns the configured callers by the name of the stage.
func (c Config) Callers() map[string]string {
	all := map[string]string{}
	for _, s := range c.Stages {
		if s.Caller != "" {
			all[s.Name] = s.Caller
		}
	}
	return all
}

// Recovery chooses the policy and the user's own files.
type Recovery struct {
	Preset               string
	ContinueOnError      bool
	MaxConsecutiveErrors int // 0 uses the value of the preset, -1 is unlimited; likewise for the next two
	IterationBudget      int
	PaidCallBudget       int
	CostBudgetUSD        float64 // 0 is unbounded
	RulesFile            string
	PolicyFile           string
	AgentsFile           string
}

// Telemetry configures the export of traces.
type Telemetry struct {
	OTLPEndpoint   string  // base URL; disabled if empty
	OTLPHeadersEnv string  // name of the variable, or empty
	SampleRatio    float64 // sampled part of the tasks, 0 to 1
}

// standardHeadersEnv is the variable that every exporter of OTLP reads its headers from.
const standardHeadersEnv = "OTEL_EXPORTER_OTLP_HEADERS"

// Default returns the configuration without a file, environment variables or flags. It panics if a default in the table
// is invalid.
func Default() Config {
	c := Config{Agents: builtinAgents(), assumed: assumed(nil)}
	for _, r := range keys(&c) {
		if wrong := r.setText(r.def); wrong != nil {
			panic(fmt.Sprint("config: default of ", r.key, ": ", wrong)) // a mistake in the table
		}
	}
	return c
}

// String shows every key with its value as a TOML file. It loads to the same configuration, except for redacted
// passwords.
func (c Config) String() string {
	var b strings.Builder
	section := ""
	write := func(rows []row) {
		for _, r := range rows {
			s, key := cutLast(r.key)
			if s != section && s != "stage" {
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
	return redact.New().JSON(b.String())
}

// GoString returns String, so %#v hides the same secrets.
func (c Config) GoString() string { return c.String() }
