package wire

// Plan is what the director hands to a worker at launch, through its standard input: nothing else in the
// container holds the credential, the key and the values to mask.
type Plan struct {
	WorkerID      string      `json:"worker_id"`
	AttemptID     string      `json:"attempt_id"`
	RunID         string      `json:"run_id"`
	Issue         IssueRef    `json:"issue"`
	Attempt       int         `json:"attempt"` // 1, 2, …
	Branch        string      `json:"branch"`
	BaseBranch    string      `json:"base_branch"`
	BaseSHA       string      `json:"base_sha"`
	ImageTag      string      `json:"image_tag"`
	Bus           PlanBus     `json:"bus"`
	SignKey       []byte      `json:"sign_key"` // of the attempt, signs the reports; in base64
	Workdir       string      `json:"workdir"`
	Stages        []StagePlan `json:"stages"`
	FixAttempts   int         `json:"fix_attempts"`
	PaidCallsLeft *int64      `json:"paid_calls_left,omitempty"` // of the task's budget; null: no bound
	// the work is there: CODE runs only if VALIDATE refuses it
	ValidateFirst bool `json:"validate_first,omitempty"`
	// what others did is only validated: no agent, no leases
	ValidateOnly bool `json:"validate_only,omitempty"`
	// why the work was refused in its clean container; null: it was not
	Rejected                 *Rejection  `json:"rejected,omitempty"`
	HeartbeatIntervalSeconds float64     `json:"heartbeat_interval_seconds"`
	StopGraceSeconds         float64     `json:"stop_grace_seconds"`
	WatchdogSeconds          float64     `json:"watchdog_seconds"`
	Budget                   *PlanBudget `json:"budget,omitempty"` // null: the configuration reference's
	// values to mask in everything that the worker sends
	Secrets []string `json:"secrets,omitempty"`
	// what the worker writes to .retake/attempt.json
	AttemptFile *AttemptFile `json:"attempt_file,omitempty"`
	// globs of what is no work although it changes, see package worktree
	StatePaths []string `json:"state_paths,omitempty"`
	// files of the base that are work although state_paths or a .gitignore match them
	Tracked []string `json:"tracked,omitempty"`
	// a StageMark goes before what each stage prints
	MarkStages bool `json:"mark_stages,omitempty"`
	// the checkout has no work of an earlier attempt: nothing could be delivered yet
	Unchanged bool `json:"unchanged,omitempty"`
	// the attempt's span, see TraceParent; empty: nothing is traced
	TraceParent string        `json:"traceparent,omitempty"`
	Checkout    *PlanCheckout `json:"checkout,omitempty"` // null: it is in the workdir
}

// Rejection is what an attempt that only validated has reported.
type Rejection struct {
	Stage      string `json:"stage"`
	ExitCode   int    `json:"exit_code"`
	Message    string `json:"message"`
	StdoutTail string `json:"stdout_tail"`
	StderrTail string `json:"stderr_tail"`
}

// PlanBus is how a worker reaches the bus, with a credential of its own.
type PlanBus struct {
	URL             string `json:"url"`
	JWT             string `json:"jwt"`
	Seed            string `json:"seed"`
	CA              string `json:"ca,omitempty"` // PEM: what a URL with tls trusts
	Prefix          string `json:"prefix"`
	MaxMessageBytes int    `json:"max_message_bytes"`
}

// PlanBudget is the limits of each model resource. They are the director's own; the worker applies them while
// the director does not answer.
type PlanBudget struct {
	MaxConcurrent   int     `json:"max_concurrent"`   // leases at the same time, at least 1
	SpacingSeconds  float64 `json:"spacing_seconds"`  // between two grants
	CooldownSeconds float64 `json:"cooldown_seconds"` // after a failed call that does not say how long to wait
	LeaseSeconds    float64 `json:"lease_seconds"`    // of one grant; 0: the director's default
}

// StagePlan is one stage: an argument vector, no shell. With an agent, Run has placeholders that the worker fills in.
type StagePlan struct {
	Name           string            `json:"name"`
	Run            []string          `json:"run"`
	TimeoutSeconds float64           `json:"timeout_seconds"`
	Env            map[string]string `json:"env,omitempty"`
	// model.<provider> that its model calls count under; empty: the agent's, or model.default
	Resource string `json:"resource,omitempty"`
	Model    string `json:"model,omitempty"` // empty: the program's own choice
	// for an attempt whose verdict asks for another model
	AlternativeModel string     `json:"alternative_model,omitempty"`
	Agent            *PlanAgent `json:"agent,omitempty"` // null: Run is a program like any other
	// globs of its log files; "~/" is its HOME, else relative to the work tree
	LogPaths []string `json:"log_paths,omitempty"`
}

// PlanAgent is what a worker needs to start an agent's program and to read its output. Its keys are those of a
// file of agents, too.
type PlanAgent struct {
	Name    string   `json:"name" toml:"name"`
	Format  string   `json:"format" toml:"format"`   // of its stream, one of package agent's
	Streams []string `json:"streams" toml:"streams"` // stdout, stderr: those in that format
	// empty: the model's name has it, as in provider/model
	Provider string `json:"provider,omitempty" toml:"provider"`
	// what {model} in Run becomes if there is a model
	ModelArgs []string `json:"model_args,omitempty" toml:"model_args"`
	// NAME=value, for names that are not set otherwise
	Env  []string `json:"env,omitempty" toml:"env"`
	Keys []string `json:"keys,omitempty" toml:"keys"` // variables, one of which holds its key
	// written below .retake/agent before it starts
	Files       []PlanFile `json:"files,omitempty" toml:"files"`
	Exits       []PlanExit `json:"exits,omitempty" toml:"exits"`     // exit codes that mean more than failure
	PromptBytes int        `json:"prompt_bytes" toml:"prompt_bytes"` // limit of its prompt
}

// PlanFile is one small file.
type PlanFile struct {
	Name    string `json:"name" toml:"name"`
	Content string `json:"content" toml:"content"`
}

// PlanExit is the meaning of one exit code of an agent.
type PlanExit struct {
	Code   int    `json:"code" toml:"code"`
	Status int    `json:"status,omitempty" toml:"status"` // HTTP status that it stands for; 0: none
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

// AttemptFile is .retake/attempt.json in the workspace: what an agent may know about the attempts before its own.
type AttemptFile struct {
	AttemptID       string               `json:"attempt_id"`
	Attempt         int                  `json:"attempt"`
	Action          string               `json:"action"` // the verdict's action that led to this attempt
	Issue           IssueRef             `json:"issue"`
	Model           *string              `json:"model"` // null: the default one
	Hints           List[Hint]           `json:"hints"`
	EarlierFailures List[EarlierFailure] `json:"earlier_failures"`
	Summary         string               `json:"summary"` // ready-made text for a prompt, at most 4 KiB
	// files in which a merge left something to decide, and what: "a.txt: has conflict markers"
	Conflicts []string `json:"conflicts,omitempty"`
}

// Hint is a comment by a person, as quoted data.
type Hint struct {
	From string `json:"from"`
	At   Time   `json:"at"`
	Text string `json:"text"`
}

// EarlierFailure is how an earlier attempt of the same claim ended.
type EarlierFailure struct {
	Attempt int    `json:"attempt"`
	Stage   string `json:"stage"`
	Reason  string `json:"reason"`
	Cause   string `json:"cause"`
	At      Time   `json:"at"`
}
