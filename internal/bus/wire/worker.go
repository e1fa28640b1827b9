package wire

import "retake/internal/recovery/circumstances"

// Built-in stages. A configuration can define others, so messages can contain any non-empty name.
const (
	StageStart       = "START"
	StageContextLoad = "CONTEXT_LOAD"
	StageCode        = "CODE"
	StageValidate    = "VALIDATE"
	StageDone        = "DONE"
)

// StepPaused is the step in a paused worker's heartbeat.
const StepPaused = "paused"

// OutcomeOK is the only outcome of a worker_result.v1. Every other outcome is a worker_error.v1.
const OutcomeOK = "ok"

// Hello opens a worker's session. The worker starts its stages only after a Welcome.
type Hello struct {
	ProtocolVersion string      `json:"protocol_version"` // "major.minor"; see CheckVersion
	Capabilities    []string    `json:"capabilities,omitempty"`
	Worker          HelloWorker `json:"worker"`
	Repo            *HelloRepo  `json:"repo,omitempty"`
}

// HelloWorker identifies the worker of a hello.
type HelloWorker struct {
	WorkerID     string `json:"worker_id"`
	AttemptID    string `json:"attempt_id"`
	ContainerID  string `json:"container_id,omitempty"`
	ImageTag     string `json:"image_tag,omitempty"`
	WorktreePath string `json:"worktree_path,omitempty"`
	BranchName   string `json:"branch_name,omitempty"`
}

// HelloRepo identifies the base branch commit from which the worker's checkout starts.
type HelloRepo struct {
	MainSHASeen string `json:"main_sha_seen,omitempty"`
}

// Heartbeat shows that a worker is alive and reports its state. It is soft state, and is also the reply to a probe.
type Heartbeat struct {
	State HeartbeatState `json:"state"`
	Usage *Usage         `json:"usage,omitempty"`
}

// HeartbeatState is the current state of a worker.
type HeartbeatState struct {
	Stage        string     `json:"stage"`
	IssueNumber  int        `json:"issue_number"` // at least 1
	Attempt      int        `json:"attempt"`      // at least 1
	Progress     *Progress  `json:"progress,omitempty"`
	Repo         *RepoState `json:"repo,omitempty"`
	LastErrorID  *string    `json:"last_error_id"` // null if there has been no error so far
	LastUpdateAt Time       `json:"last_update_at"`
}

// Progress reports the progress of a stage.
type Progress struct {
	Step    string   `json:"step,omitempty"`
	Percent *float64 `json:"percent,omitempty"` // 0 to 100
}

// RepoState shows how far a worker's checkout is behind the base branch.
type RepoState struct {
	BranchName      string `json:"branch_name,omitempty"`
	BaseBranch      string `json:"base_branch,omitempty"`
	MainAncestorSHA string `json:"main_ancestor_sha,omitempty"`
}

// Usage counts the tokens, cost and calls of an attempt so far. Cache hits refund iterations, and paid
// calls are charged to the paid-call budget.
type Usage struct {
	Tokens    int64   `json:"tokens"`
	CostUSD   float64 `json:"cost_usd"`
	PaidCalls int     `json:"paid_calls"`
	CacheHits int     `json:"cache_hits"`
}

// TaskProgress is one line of progress between heartbeats. It is soft state.
type TaskProgress struct {
	IssueNumber int      `json:"issue_number"` // at least 1
	Attempt     int      `json:"attempt"`      // at least 1
	Stage       string   `json:"stage"`
	Step        string   `json:"step,omitempty"`
	Percent     *float64 `json:"percent,omitempty"` // 0 to 100
	Note        string   `json:"note,omitempty"`
}

// WorkerError reports a failure. Its flags are only assertions: the director decides based on the evidence.
type WorkerError struct {
	ErrorID         string `json:"error_id"` // unique within the attempt; identifies duplicates
	WorkerID        string `json:"worker_id"`
	IssueNumber     int    `json:"issue_number"` // at least 1
	Stage           string `json:"stage"`
	Attempt         int    `json:"attempt"`    // at least 1
	ErrorType       string `json:"error_type"` // any text; the classifier maps it to a reason
	IsTransient     bool   `json:"is_transient"`
	ShouldRetry     bool   `json:"should_retry"`
	EscalateToHuman bool   `json:"escalate_to_human"`
	Message         string `json:"message"`
	ExitCode        *int   `json:"exit_code,omitempty"`
	ContainerID     string `json:"container_id,omitempty"`
	WorktreePath    string `json:"worktree_path,omitempty"`
	LastStdoutTail  string `json:"last_stdout_tail,omitempty"`
	LastStderrTail  string `json:"last_stderr_tail,omitempty"`

	// AttemptID is optional. If it is absent, the worker id in the subject is the attempt's id.
	AttemptID         string            `json:"attempt_id,omitempty"`
	Final             *bool             `json:"final,omitempty"` // absent means true; see IsFinal
	Signal            string            `json:"signal,omitempty"`
	HTTPStatus        int               `json:"http_status,omitempty"`
	Headers           map[string]string `json:"headers,omitempty"`
	Provider          string            `json:"provider,omitempty"`
	Tool              string            `json:"tool,omitempty"`
	RetryAfterSeconds *float64          `json:"retry_after_seconds,omitempty"` // at least 0
	Question          string            `json:"question,omitempty"`
	FixRounds         int               `json:"fix_rounds,omitempty"`
	Usage             *Usage            `json:"usage,omitempty"` // usage of the whole attempt, including its last stage
	// Circumstances is set only by workers. Reports by the director and by people omit it.
	Circumstances *circumstances.Record `json:"circumstances,omitempty"`
	// Stages lists the stages that ran, including the failed one.
	Stages []StageResult `json:"stages,omitempty"`
}

// IsFinal reports whether the error ends the attempt. The attempt continues only if the message contains `"final":
// false`.
func (e WorkerError) IsFinal() bool { return e.Final == nil || *e.Final }

// WorkerResult reports success.
type WorkerResult struct {
	ResultID     string            `json:"result_id"` // unique within the attempt; identifies duplicates
	AttemptID    string            `json:"attempt_id"`
	IssueNumber  int               `json:"issue_number"` // at least 1
	Attempt      int               `json:"attempt"`      // at least 1
	Outcome      string            `json:"outcome"`      // OutcomeOK
	Stages       List[StageResult] `json:"stages"`
	ChangedFiles int               `json:"changed_files"`
	// Summary is the agent's final message, masked and at most 4 KiB, or empty.
	Summary string `json:"summary,omitempty"`
	Usage   *Usage `json:"usage,omitempty"`
}

// StageResult is one stage that ran.
type StageResult struct {
	Stage      string   `json:"stage"`
	ExitCode   int      `json:"exit_code"`
	DurationMS int64    `json:"duration_ms"`
	Command    []string `json:"command,omitempty"`   // configured command line, masked and truncated; absent if unknown
	StartedAt  Time     `json:"started_at,omitzero"` // start time by the worker's clock; absent if unknown
}

// BudgetAcquire asks for a lease on a rate-limited resource.
type BudgetAcquire struct {
	Resource string `json:"resource"`
	WorkerID string `json:"worker_id"`
}

// BudgetRelease gives a lease back.
type BudgetRelease struct {
	GrantID string `json:"grant_id"`
}

// BudgetReport is the outcome of a leased call.
type BudgetReport struct {
	GrantID           string            `json:"grant_id"`
	Status            string            `json:"status"`                        // ok | rate_limited | error
	RetryAfterSeconds *float64          `json:"retry_after_seconds,omitempty"` // at least 0
	Headers           map[string]string `json:"headers,omitempty"`
}
