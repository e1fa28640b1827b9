package wire

// Plan is the director's input for a worker, which reads it from standard input when it starts. The credential, the key
// and the secrets exist nowhere else in the container.
type Plan struct {
	WorkerID      string      `json:"worker_id"`
	AttemptID     string      `json:"attempt_id"`
	RunID         string      `json:"run_id"`
	Issue         IssueRef    `json:"issue"`
	Attempt       int         `json:"attempt"` // number of the attempt: 1, 2, …
	Branch        string      `json:"branch"`
	BaseBranch    string      `json:"base_branch"`
	BaseSHA       string      `json:"base_sha"`
	ImageTag      string      `json:"image_tag"`
	Bus           PlanBus     `json:"bus"`
	SignKey       []byte      `json:"sign_key"` // attempt's key for signing reports, in base64
	Workdir       string      `json:"workdir"`
	Stages        []StagePlan `json:"stages"`
	FixAttempts   int         `json:"fix_attempts"`
	PaidCallsLeft *int64      `json:"paid_calls_left,omitempty"` // remaining budget of the task; null means unlimited
	// ValidateFirst means that an earlier attempt has done the work, so CODE runs only if VALIDATE fails.
	ValidateFirst bool `json:"validate_first,omitempty"`
	// ValidateOnly means that the worker only validates an earlier attempt's work, without an agent or leases.
	ValidateOnly bool `json:"validate_only,omitempty"`
	// Rejected is set if validation in a clean container rejected the work, and explains why.
	Rejected                 *Rejection  `json:"rejected,omitempty"`
	HeartbeatIntervalSeconds float64     `json:"heartbeat_interval_seconds"`
	StopGraceSeconds         float64     `json:"stop_grace_seconds"`
	WatchdogSeconds          float64     `json:"watchdog_seconds"`
	Budget                   *PlanBudget `json:"budget,omitempty"` // null means the documented defaults
	// values that the worker must mask in all its messages
	Secrets []string `json:"secrets,omitempty"`
	// the content of .retake/attempt.json
	AttemptFile *AttemptFile `json:"attempt_file,omitempty"`
	// Prompt is the repository's own prompt for CODE, as rendered for this attempt. If it is empty, the worker uses the
	// default prompt.
	Prompt string `json:"prompt,omitempty"`
	// StatePaths are globs for files that hold agents' state and do not count as work; see package worktree.
	StatePaths []string `json:"state_paths,omitempty"`
	// Tracked lists files in the base that count as work even though state_paths or a .gitignore matches them.
	Tracked []string `json:"tracked,omitempty"`
	// a StageMark precedes the output of each stage
	MarkStages bool `json:"mark_stages,omitempty"`
	// Unchanged means that the checkout does not contain work from an earlier attempt.
	Unchanged bool `json:"unchanged,omitempty"`
	// the attempt's span (see TraceParent); empty disables tracing
	TraceParent string        `json:"traceparent,omitempty"`
	Checkout    *PlanCheckout `json:"checkout,omitempty"` // null if the checkout is already in the workdir
	// docker, kubernetes or process; the worker repeats it in failure reports
	Runtime string `json:"runtime,omitempty"`
	// configuration keys of limits left at their default, such as "stage[1].timeout_seconds"
	Defaults []string `json:"defaults,omitempty"`
}

// Rejection holds the report of an attempt that validated the work and failed.
type Rejection struct {
	Stage      string `json:"stage"`
	ExitCode   int    `json:"exit_code"`
	Message    string `json:"message"`
	StdoutTail string `json:"stdout_tail"`
	StderrTail string `json:"stderr_tail"`
}

// PlanBus describes a worker's connection to the bus. Each worker has a separate credential.
type PlanBus struct {
	URL             string `json:"url"`
	JWT             string `json:"jwt"`
	Seed            string `json:"seed"`
	CA              string `json:"ca,omitempty"` // certificates to trust for a tls URL, in PEM
	Prefix          string `json:"prefix"`
	MaxMessageBytes int    `json:"max_message_bytes"`
}

// PlanBudget holds the director's limits for each model resource. The worker applies them itself while the director
// does not answer.
type PlanBudget struct {
	MaxConcurrent   int     `json:"max_concurrent"`   // concurrent leases, at least 1
	SpacingSeconds  float64 `json:"spacing_seconds"`  // minimum time between two grants
	CooldownSeconds float64 `json:"cooldown_seconds"` // pause after a failed call that does not specify a wait
	LeaseSeconds    float64 `json:"lease_seconds"`    // lifetime of one grant; 0 means the director's default
}

// StagePlan is one stage. The worker runs the argument vector Run without a shell. If Agent is set, Run has
// placeholders that the worker fills in.
type StagePlan struct {
	Name string `json:"name"`
	// position of the stage in the configuration, from 1; 0 means unknown
	Number         int               `json:"number,omitempty"`
	Run            []string          `json:"run"`
	TimeoutSeconds float64           `json:"timeout_seconds"`
	Env            map[string]string `json:"env,omitempty"`
	// Resource is the model resource for which the stage needs leases, such as "model.<provider>". Empty means the
	// agent's provider, or model.default.
	Resource string `json:"resource,omitempty"`
	Model    string `json:"model,omitempty"` // if empty, the program chooses a model
	// AlternativeModel replaces Model in an attempt after a verdict that requires another model.
	AlternativeModel string     `json:"alternative_model,omitempty"`
	Agent            *PlanAgent `json:"agent,omitempty"` // null if Run does not start an agent
	// PaidAuto, PaidAlways or PaidNever; empty means PaidAuto
	Paid string `json:"paid,omitempty"`
	// LogPaths are globs of the stage's log files, relative to the work tree, or to the stage's HOME if they begin with
	// "~/".
	LogPaths []string `json:"log_paths,omitempty"`
}

// Values of StagePlan.Paid. With PaidAuto, a run is a paid call if the stage has an agent or a resource, or if its
// program gets a lease on a model.
const (
	PaidAuto   = "auto"
	PaidAlways = "always"
	PaidNever  = "never"
)

// PlanAgent describes how a worker starts an agent's program and reads its output. Custom agent files use the same
// keys.
type PlanAgent struct {
	Name    string   `json:"name" toml:"name"`
	Format  string   `json:"format" toml:"format"`   // format of the agent's output, as in package agent
	Streams []string `json:"streams" toml:"streams"` // streams that have this format: stdout, stderr or both
	// the model's provider; empty if the model's name contains it, as in provider/model
	Provider string `json:"provider,omitempty" toml:"provider"`
	// replaces {model} in Run if there is a model
	ModelArgs []string `json:"model_args,omitempty" toml:"model_args"`
	// variables to set unless they are already set, as NAME=value
	Env  []string `json:"env,omitempty" toml:"env"`
	Keys []string `json:"keys,omitempty" toml:"keys"` // variables that may hold the agent's API key
	// files that the worker writes below .retake/agent before the agent starts
	Files []PlanFile `json:"files,omitempty" toml:"files"`
	Exits []PlanExit `json:"exits,omitempty" toml:"exits"` // exit codes with a specific meaning
	// type of the event that ends a complete stream, or empty
	EndsWith string `json:"ends_with,omitempty" toml:"ends_with"`
	// maximum time from that event to the program's exit; 0 means unlimited
	ExitSeconds float64 `json:"exit_seconds,omitempty" toml:"exit_seconds"`
	PromptBytes int     `json:"prompt_bytes" toml:"prompt_bytes"` // maximum prompt size
}

// PlanFile is one small file.
type PlanFile struct {
	Name    string `json:"name" toml:"name"`
	Content string `json:"content" toml:"content"`
}

// PlanExit is the meaning of one exit code of an agent.
type PlanExit struct {
	Code   int    `json:"code" toml:"code"`
	Status int    `json:"status,omitempty" toml:"status"` // HTTP status with the same meaning, or 0
	Means  string `json:"means" toml:"means"`
}

// IssueRef is an issue as a worker sees it.
type IssueRef struct {
	Key    string       `json:"key"` // owner/repo#n
	Number int          `json:"number,omitempty"`
	Title  string       `json:"title"`
	Body   string       `json:"body"`
	Labels List[string] `json:"labels"`
	URL    string       `json:"url"`
}

// AttemptFile is the content of .retake/attempt.json in the workspace. It tells an agent about earlier attempts.
type AttemptFile struct {
	AttemptID       string               `json:"attempt_id"`
	Attempt         int                  `json:"attempt"`
	Action          string               `json:"action"` // action of the verdict that led to this attempt
	Issue           IssueRef             `json:"issue"`
	Model           *string              `json:"model"` // null means the default model
	Hints           List[Hint]           `json:"hints"`
	EarlierFailures List[EarlierFailure] `json:"earlier_failures"`
	Summary         string               `json:"summary"` // ready-made text for a prompt, at most 4 KiB
	// Conflicts lists the files with unresolved merge conflicts, each with its problem, such as "a.txt: has conflict
	// markers".
	Conflicts []string `json:"conflicts,omitempty"`
}

// Hint is a comment by a person, quoted as data.
type Hint struct {
	From string `json:"from"`
	At   Time   `json:"at"`
	Text string `json:"text"`
}

// EarlierFailure describes the failure of an earlier attempt of the same claim.
type EarlierFailure struct {
	Attempt int    `json:"attempt"`
	Stage   string `json:"stage"`
	Reason  string `json:"reason"`
	Cause   string `json:"cause"`
	At      Time   `json:"at"`
}
