package wire

// Reasons for a stop.v1.
const (
	StopFenced    = "fenced"    // the attempt is over
	StopWithdrawn = "withdrawn" // the issue was closed, unlabelled or taken
	StopWatchdog  = "watchdog"
	StopShutdown  = "shutdown"
	StopReplaced  = "replaced"
)

// Welcome admits a worker for one attempt.
type Welcome struct {
	ProtocolVersion          string          `json:"protocol_version"`
	Director                 WelcomeDirector `json:"director"`
	AttemptID                string          `json:"attempt_id"`
	HeartbeatIntervalSeconds float64         `json:"heartbeat_interval_seconds"` // above 0
}

// WelcomeDirector identifies the director in a Welcome.
type WelcomeDirector struct {
	RunID           string `json:"run_id"`
	MainSHAExpected string `json:"main_sha_expected,omitempty"`
}

// Incompatibility refuses a worker with a different major version.
type Incompatibility struct {
	Reason                  string `json:"reason"`
	ExpectedProtocolVersion string `json:"expected_protocol_version"`
	SenderProtocolVersion   string `json:"sender_protocol_version"`
	RequiredAction          string `json:"required_action"`
}

// Probe asks a worker for an immediate heartbeat.
type Probe struct {
	ProbeID string `json:"probe_id"`
}

// Stop ends a worker after at most GraceSeconds.
type Stop struct {
	Reason       string  `json:"reason"`        // one of the Stop constants
	GraceSeconds float64 `json:"grace_seconds"` // at least 0, which means at once
}

// Pause asks a worker not to start another stage.
type Pause struct{}

// Resume ends a pause.
type Resume struct{}

// SyncRequired informs a worker that its checkout is too far behind the base branch.
type SyncRequired struct {
	Reason          string     `json:"reason"` // always "behind_main"
	MainSHAExpected string     `json:"main_sha_expected"`
	Policy          SyncPolicy `json:"policy"`
	RequiredAction  string     `json:"required_action"` // always "merge_main"
}

// SyncPolicy holds the limit that the checkout has exceeded.
type SyncPolicy struct {
	MaxCommitsBehind int `json:"max_commits_behind"`
}

// Snapshot is the state of the whole project, for people and tools.
type Snapshot struct {
	Director  SnapshotDirector       `json:"director"`
	Workers   List[SnapshotWorker]   `json:"workers"`
	Queue     SnapshotQueue          `json:"queue"`
	Tasks     List[SnapshotTask]     `json:"tasks"`
	Cooldowns List[SnapshotCooldown] `json:"cooldowns"`
	Meters    map[string]float64     `json:"meters"`
}

// SnapshotDirector describes the director itself.
type SnapshotDirector struct {
	RunID  string `json:"run_id"`
	Leader bool   `json:"leader"`
	Phase  string `json:"phase"`
	Since  Time   `json:"since"` // when this director started
	// PhaseSince is the time when the phase began, or when this director started if that was later. It is absent if
	// unknown.
	PhaseSince *Time `json:"phase_since,omitempty"`

	// Problem is a clause that tells people about a problem with the running director. It may be empty.
	Problem    string              `json:"problem,omitempty"`
	Leadership *SnapshotLeadership `json:"leadership,omitempty"` // set if several directors share the bus
	// Only lists the issues that this run takes from the queue. Empty means all.
	Only   []string        `json:"only,omitempty"`
	Config *SnapshotConfig `json:"config,omitempty"` // result of the last configuration load
}

// SnapshotConfig is the result of the last configuration load.
type SnapshotConfig struct {
	ReadAt Time   `json:"read_at"`
	By     string `json:"by"`             // the trigger: start, SIGHUP, a command, or changed files
	Digest string `json:"digest"`         // digest of the active configuration
	Since  Time   `json:"since"`          // when the active configuration was read
	File   string `json:"file,omitempty"` // absolute path of the configuration file; empty if no file is used

	Restart  []string `json:"restart,omitempty"`  // keys whose new values take effect only after a restart
	Problems []string `json:"problems,omitempty"` // why the director refused the new configuration
}

// SnapshotLeadership identifies the leading director if several share one bus.
type SnapshotLeadership struct {
	RunID string `json:"run_id"`
	Host  string `json:"host"`
	Since Time   `json:"since"`
	Why   string `json:"why"` // a clause for people
}

// SnapshotWorker is one running worker.
type SnapshotWorker struct {
	WorkerID            string  `json:"worker_id"`
	Issue               string  `json:"issue"` // owner/repo#n
	State               string  `json:"state"`
	Stage               string  `json:"stage"`
	Attempt             int     `json:"attempt"`
	HeartbeatAgeSeconds float64 `json:"heartbeat_age_seconds"`
	Retries             int     `json:"retries"`
}

// SnapshotQueue lists the waiting and the claimed tasks by issue number.
type SnapshotQueue struct {
	EligibleIssueNumbers List[int] `json:"eligible_issue_numbers"`
	ClaimedIssueNumbers  List[int] `json:"claimed_issue_numbers"`

	WaitsFor string `json:"waits_for,omitempty"` // why the next issue is waiting, for people
	Until    *Time  `json:"until,omitempty"`     // when the wait ends, if known
}

// SnapshotTask is the state of one task.
type SnapshotTask struct {
	Issue        string  `json:"issue"` // owner/repo#n
	State        string  `json:"state"`
	Attempt      int     `json:"attempt"`
	Reason       *string `json:"reason"`              // null if the last attempt did not fail
	NextDeadline *Time   `json:"next_deadline"`       // latest time at which the wait ends; null if unlimited
	WaitsFor     string  `json:"waits_for,omitempty"` // a clause for people
}

// SnapshotCooldown describes one closed resource or one incident.
type SnapshotCooldown struct {
	Resource string `json:"resource"` // for an incident, "incident/" and its key
	Until    Time   `json:"until"`
	Why      string `json:"why"`
	// State is the state of an incident: open, half_open, ramp, held or told (which does not block tasks).
	State string `json:"state,omitempty"`
	// Tasks lists the tasks that caused the incident (owner/repo#n). For a resource, it lists the tasks whose workers
	// reported the limit.
	Tasks []string `json:"tasks,omitempty"`
	Since *Time    `json:"since,omitempty"` // when the resource was closed; absent if unknown
	// StatedBy holds the workers' reports of the limit. It is empty if the director itself ran into the limit.
	StatedBy []SnapshotStated `json:"stated_by,omitempty"`
}

// SnapshotStated is a worker's report of a limit.
type SnapshotStated struct {
	Issue   string `json:"issue"` // owner/repo#n
	Attempt int    `json:"attempt"`
	At      Time   `json:"at"`
	Until   Time   `json:"until"` // as reported
	Text    string `json:"text"`
}

// BudgetGrant answers a BudgetAcquire with a lease, or with a wait and its reason. An empty BudgetGrant acknowledges a
// BudgetRelease or BudgetReport.
type BudgetGrant struct {
	GrantID      string  `json:"grant_id,omitempty"`
	LeaseSeconds float64 `json:"lease_seconds,omitempty"`
	WaitSeconds  float64 `json:"wait_seconds,omitempty"`
	Why          string  `json:"why,omitempty"`
}
