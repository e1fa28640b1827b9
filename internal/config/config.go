package config

import (
	"strconv"
	"strings"
	"time"

	"retake/internal/agent"
	"retake/internal/recovery"
)

// Config is everything that can be configured. Units, ranges and meanings: the rows in table.go, or
// docs/specs/configuration.md.
type Config struct {
	Director   Director
	Timeouts   Timeouts
	Retry      Retry
	Containers Containers
	AgentBus   AgentBus
	RateLimits RateLimits
	SyncMain   SyncMain
	GitHub     GitHub
	Worker     Worker
	Recovery   Recovery
	Stages     []Stage // in the order in which they run

	Agents *agent.Table // the built-in ones and those of recovery.agents_file; never nil after Load and Default

	assumed []recovery.Bound // that nobody has set, if there is a policy file, whose own bounds then hold
}

// Director is about the daemon itself.
type Director struct {
	Interval   time.Duration
	MaxWorkers int
	MaxRetries int
	Fleet      string
	DataDir    string // as written; relative to the working directory
}

// Timeouts bound an attempt, and a claim.
type Timeouts struct {
	WorkerHeartbeatTTL time.Duration
	WorkerWatchdog     time.Duration
	IssueClaimStale    time.Duration // above WorkerWatchdog
	WorkerStart        time.Duration
	StopGrace          time.Duration
}

// Retry shapes the backoff between attempts.
type Retry struct {
	BackoffMode    string // exponential | linear
	BackoffInitial time.Duration
	BackoffMax     time.Duration
	BackoffFactor  float64
	Jitter         string // full | equal | none
}

// Containers says what workers run in.
type Containers struct {
	Runtime        string // docker | process | auto
	Image          string
	Workdir        string
	Memory         Size
	CPUs           float64
	PIDs           int
	User           string // "uid:gid"
	Network        string
	EnvPassthrough []string
	Mounts         []Mount
	Env            map[string]string
}

// Size is a number of bytes.
type Size int64

// Mount is one more folder or volume that workers see.
type Mount struct {
	Source   string // absolute path on the host, or the volume's name
	Target   string // absolute path in the container
	ReadOnly bool
	Volume   bool
}

// UIDGID splits User; both are above 0 in a Config without problems.
func (c Containers) UIDGID() (uid, gid int) {
	u, g, _ := strings.Cut(c.User, ":")
	uid, _ = strconv.Atoi(u)
	gid, _ = strconv.Atoi(g)
	return uid, gid
}

// AgentBus is NATS, embedded or joined.
type AgentBus struct {
	URL               string // empty: embedded
	ListenAddr        string // auto, or an IP address
	ListenPort        int    // 0: any free one, persisted
	Prefix            string
	Replicas          int
	MaxMessageBytes   int
	HeartbeatInterval time.Duration
	Sync              string // default | always
}

// RateLimits hold per service.
type RateLimits struct {
	GitHub GitHubLimits
	Model  ModelLimits
}

// GitHubLimits is how we hold back before GitHub has to.
type GitHubLimits struct {
	MaxConcurrentRequests int
	MinBetweenWrites      time.Duration
	CooldownOnRateLimit   time.Duration
}

// ModelLimits is how workers share each model provider: one set of numbers, kept per provider.
type ModelLimits struct {
	MaxConcurrentRequests int
	MinBetweenRequests    time.Duration // from start to start; 0: no spacing
	CooldownOnError       time.Duration // after a limit or an error that doesn't say how long
}

// SyncMain is how far a checkout may fall behind its base branch. Beyond either number it is merged before the next attempt.
type SyncMain struct {
	MaxCommitsBehind int
	MaxBehind        time.Duration
}

// GitHub says which issues are worked on, and how results are handed in.
type GitHub struct {
	Repositories []string // owner/name
	APIURL       string   // ends in a slash
	TokenEnv     string   // name of the variable
	TokenFile    string   // wins over TokenEnv
	Writes       bool
	Poll         time.Duration
	Labels       Labels
	Delivery     string // pull_request | branch | none
	BaseBranch   string
	// TrustedAuthors are values of GitHub's author_association.
	TrustedAuthors []string
}

// Labels name the states of an issue.
type Labels struct {
	Task, Claimed, Blocked, Review string
}

// Worker is about what happens inside of an attempt.
type Worker struct {
	FixAttempts int
}

// Stage is one step of an attempt.
type Stage struct {
	Name             string   // START | CONTEXT_LOAD | CODE | VALIDATE | DONE
	Run              []string // argument vector; empty if there is an agent
	Agent            string   // a name of Agents; empty if there is something to run
	Model            string
	AlternativeModel string
	Resource         string // model.<provider>; empty: the agent's
	Timeout          time.Duration
}

var _ = agent.Stage(Stage{}) // what agent.Expand takes

// Recovery chooses the policy, and what of it is one's own.
type Recovery struct {
	Preset               string
	ContinueOnError      bool
	MaxConsecutiveErrors int // 0: as the preset says; -1: no bound; so for the next two
	IterationBudget      int
	PaidCallBudget       int
	CostBudgetUSD        float64 // 0: no bound
	RulesFile            string  // as written; relative to the working directory
	PolicyFile           string
	AgentsFile           string
}

// Default is the configuration without file, environment and flags.
func Default() Config {
	c := Config{Agents: builtinAgents()}
	for _, r := range rows {
		if r.stage() {
			continue
		}
		if wrong := r.setText(&c, 0, r.def); wrong != "" {
			panic("config: default of " + r.key + ": " + wrong) // a mistake in the table; a test would have said so
		}
	}
	return c
}

// String shows every key with its value as a TOML file that loads to the same configuration, but for masked passwords.
func (c Config) String() string {
	var b strings.Builder
	section := ""
	write := func(r row, i int) {
		at := strings.LastIndexByte(r.key, '.')
		if r.key[:at] != section && !r.stage() {
			section = r.key[:at]
			b.WriteString("[" + section + "]\n")
		}
		b.WriteString(r.key[at+1:] + " = " + literal(r.field(&c, i)) + "\n")
	}
	for _, r := range rows {
		if !r.stage() {
			write(r, 0)
		}
	}
	for i := range c.Stages {
		b.WriteString("[[stage]]\n")
		for _, r := range rows {
			if r.stage() {
				write(r, i)
			}
		}
	}
	return b.String()
}

// GoString is String, so that no way of printing shows more.
func (c Config) GoString() string { return c.String() }
