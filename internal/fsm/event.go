package fsm

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"retake/internal/recovery"
)

// Event is an observation of the world and the time at which the director made it.
type Event struct {
	At   time.Time
	Body EventBody
}

// EventBody is implemented by each kind of event.
type EventBody interface {
	eventKind() string
	step(m *Machine)
}

// Booted marks the start of this process. The shell offers it once, after the replay and before any other event.
type Booted struct {
	RunID    string    `json:"run_id"`
	Settings *Settings `json:"settings,omitempty"`
}

// SettingsRead means that the configuration was read again and has changed. Config replaces the machine's whole
// configuration.
type SettingsRead struct {
	SettingsChanged
	Config *Config `json:"-"` // a replay does not need it, because the journal contains the resulting decisions
}

// Tick means that time has passed. It lets the machine act on deadlines without another event.
type Tick struct{}

// DirectorResumed means that the director was suspended, or cut off from the bus, for Gap. Silence during that time
// does not count against any worker.
type DirectorResumed struct {
	Gap time.Duration `json:"gap"`
}

// SignalReceived asks the director to stop. The machine stops intake and leaves running workers to the next process.
type SignalReceived struct {
	Signal string `json:"signal"`
}

// OperatorCommanded is a command from the operator to the director as a whole.
type OperatorCommanded struct {
	Command OperatorCommand `json:"command"`
}

// OperatorCommand is the name of an operator's command to the director as a whole.
type OperatorCommand string

// The commands. Pause and drain prevent new attempts. Pause also stops workers at their next stage boundary, but drain
// lets them finish. Resume ends both.
const (
	Pause  OperatorCommand = "pause"
	Resume OperatorCommand = "resume"
	Drain  OperatorCommand = "drain"
)

// QuestionAnswered contains comments written in reply to a blocked task's question by people with write access. By is
// empty if none of the comments asks the task to continue.
type QuestionAnswered struct {
	Task    IssueKey `json:"task"`
	By      string   `json:"by,omitempty"`
	Command string   `json:"command"`           // their command, such as "/agent retry"
	Comment int64    `json:"comment,omitempty"` // id of the comment, or 0
	// Hints holds all comments since the question. Only the last maxHints count, truncated to maxHintBytes each.
	Hints []Hint `json:"hints,omitempty"`
}

// CommentsSeen contains the comments by people with write access found in one poll of a repository. The cursor does not
// advance until the machine has decided on all of them.
type CommentsSeen struct {
	Repo     string        `json:"repo"`
	Cursor   string        `json:"cursor,omitempty"` // empty if unchanged
	Comments []CommentView `json:"said,omitempty"`
}

// CommentView is the machine's view of a comment.
type CommentView struct {
	Task IssueKey `json:"task"`
	CommandRef
	On      IssueKey      `json:"on,omitempty"` // the pull request with the comment; empty for the issue
	By      string        `json:"by"`
	Text    string        `json:"text,omitempty"`    // text without the command
	Command Command       `json:"command,omitempty"` // empty if the comment has no command
	For     time.Duration `json:"for,omitempty"`     // duration of a snooze
	Amount  int           `json:"amount,omitempty"`  // number of attempts that a budget command grants
}

// ReviewSeen is the state of a task's pull request at one poll.
type ReviewSeen struct {
	Task    IssueKey  `json:"task"`
	AskedAt time.Time `json:"asked_at"`
	Number  int       `json:"number"`
	State   string    `json:"state"` // open, merged or closed
	By      string    `json:"by,omitempty"`
	Head    string    `json:"head"`
	// IssueClosed means that the issue is closed. The pull request may still be open.
	IssueClosed bool `json:"issue_closed,omitempty"`
	// Conflict means that the pull request conflicts with the base branch. Settled means that all checks of Head have
	// finished.
	Conflict bool          `json:"conflict,omitempty"`
	Settled  bool          `json:"settled,omitempty"`
	Failing  []FailedCheck `json:"failing,omitempty"`
	Changes  []Change      `json:"changes,omitempty"` // requested by people with write access
}

// FailedCheck is a failed check of a pull request.
type FailedCheck struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`
	Text string `json:"text,omitempty"`
}

// Change is a reviewer's request for changes. Later requests have higher ids.
type Change struct {
	ID int64 `json:"id"`
	Hint
}

// IncidentShown identifies the issue that reports an incident. Issue is empty once that issue has been closed or
// deleted.
type IncidentShown struct {
	Key   string   `json:"key"`
	Issue IssueKey `json:"issue,omitempty"`
}

// BudgetEdited means that an operator set the number of paid calls that a task has used.
type BudgetEdited struct {
	Task      IssueKey `json:"task"`
	PaidCalls int64    `json:"paid_calls"`
}

// IssuesSeen is the result of one poll, or of reading a single issue. The cursor does not advance while the machine
// cannot decide on an issue because the view is older than our own labels or a claim is in progress. The shell must
// then offer the next result as well, even if GitHub reports no change.
type IssuesSeen struct {
	Repo    string      `json:"repo"`
	Cursor  string      `json:"cursor,omitempty"` // the start of the next poll; empty if unchanged
	AskedAt time.Time   `json:"asked_at"`         // time of the request, by the same clock as Event.At
	Issues  []IssueView `json:"issues"`
}

// IssueView is the machine's view of an issue.
type IssueView struct {
	Key   IssueKey `json:"key"`
	Title string   `json:"title,omitempty"`
	URL   string   `json:"url,omitempty"`
	Open  bool     `json:"open"`
	// Labels are the roles of our labels on the issue.
	Labels []Label `json:"labels,omitempty"`
	// UpdatedAt is the time of the last change according to GitHub, in whole seconds.
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	// Standing is set only for an issue that offers work.
	Standing Standing `json:"standing,omitzero"`
	// Nonce is a fresh nonce for a claim that this view starts.
	Nonce string `json:"nonce,omitempty"`
}

// Hello is a worker's first message. Token identifies the request to answer.
type Hello struct {
	Worker string `json:"worker"`
	Token  uint64 `json:"-"`
	// Incompatible is the worker's protocol version if this director does not support it.
	Incompatible string `json:"incompatible,omitempty"`
}

// WorkerSeen is a sign of life: a heartbeat, progress or the answer to a probe.
type WorkerSeen struct {
	Worker   string   `json:"worker"`
	Activity Activity `json:"activity,omitzero"`
}

// WorkersSeen is a batch with the newest sign of life of each worker since the last batch. The shell may coalesce
// heartbeats in it. It must then offer the batch before any event that makes a deadline due (see Machine.Due), so that
// a heartbeat counts if it arrived in time.
type WorkersSeen struct {
	Signs []Sign
	More  bool // set if another part follows; deadlines are checked after the last part
}

// atOnce limits how many deadlines or signs of life one step handles, and thus the size of a journal record. Further
// steps handle the rest.
const atOnce = 400

// InParts splits signs of life into events small enough for the journal. The shell must offer them in order, all with
// the same time.
func InParts(all []Sign) (parts []WorkersSeen) {
	for part := range slices.Chunk(all, atOnce) {
		parts = append(parts, WorkersSeen{Signs: part, More: true})
	}
	if n := len(parts); n > 0 {
		parts[n-1].More = false
	}
	return parts
}

// Sign is a sign of life and its time of arrival.
type Sign struct {
	WorkerSeen
	At time.Time
}

// MarshalJSON writes only the number of signs, because the facts contain all their consequences.
func (w WorkersSeen) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"workers":%d}`, len(w.Signs)), nil
}

// ReportReceived is a worker's report, read from the stream.
type ReportReceived struct {
	Worker string `json:"worker"`
	Report Report `json:"report"`
}

// Report is a worker_result or a worker_error.
type Report struct {
	Ref      ReportRef         `json:"ref"`
	OK       bool              `json:"ok"`    // true for a worker_result, false for a worker_error
	Final    bool              `json:"final"` // false for a notice during the attempt
	Stage    string            `json:"stage,omitempty"`
	Exit     bool              `json:"exit,omitempty"`  // written by the director for a container that did not report
	Usage    *recovery.Usage   `json:"usage,omitempty"` // usage of the attempt so far; nil if unknown
	Evidence recovery.Evidence `json:"-"`               // stays in the stream at Ref
	// Classified is an earlier finding on Evidence, or nil.
	Classified *Classified `json:"-"`
	// Issue and N are the issue and attempt named in the report, or 0.
	Issue, N int `json:"-"`
	// Persons marks a report sent by a person, without a worker's signature.
	Persons bool `json:"-"`
}

// Classified is a finding with its classifier, because another classifier might reach a different conclusion.
type Classified struct {
	By      any // Config.Classifier
	Finding recovery.Finding
}

// ContainersListed is the runtime's list of this fleet's containers.
type ContainersListed struct {
	TakenAt    time.Time   `json:"taken_at"` // when the list was requested
	Containers []Container `json:"containers"`
}

// Container is one row of the runtime's list.
type Container struct {
	Attempt string `json:"attempt"`
	Running bool   `json:"running"` // false if exited, dead or never started; true if paused
	// Pending means that the runtime has accepted the container, but has not started it. Waiting is the runtime's
	// explanation.
	Pending bool   `json:"pending,omitempty"`
	Waiting string `json:"waiting,omitempty"`
}

// CooldownReported means that the director hit a limit on a resource, and must not use it until a deadline.
type CooldownReported Cooldown

// LimitReported means that a worker hit a limit on a resource, which lasts until a deadline. The attempt continues.
type LimitReported struct {
	Worker   string    `json:"worker"`
	Resource string    `json:"resource"`
	Until    time.Time `json:"until"`
	Text     string    `json:"text"`
}

// LiftCommanded is an operator's command to open a closed resource.
type LiftCommanded struct {
	Resource string `json:"resource"`
}

// EffectEnded is the outcome of an effect. Failure is nil on success. Other results depend on the effect's kind.
type EffectEnded struct {
	Task     IssueKey       `json:"task"`
	Effect   string         `json:"effect"`
	Failure  *EffectError   `json:"failure,omitempty"`
	Claim    *ClaimResult   `json:"claim,omitempty"`
	Stop     *StopResult    `json:"gone,omitempty"`
	Delivery *DeliverResult `json:"pushed,omitempty"`
	Asked    *Asked         `json:"asked,omitempty"`    // the question of an escalation
	Contract *Contract      `json:"contract,omitempty"` // the contract that a started attempt uses
}

// Asked is a question to a person, as posted in the comment on the issue.
type Asked struct {
	Title string `json:"title"`           // the problem as a title
	Ask   string `json:"ask"`             // the next steps
	Alone string `json:"alone,omitempty"` // Ask as shown outside the comment, if different
	Reply string `json:"reply,omitempty"` // the one recommended comment, in which people replace <…>
	// Question is the agent's question, redacted and truncated. It is absent in old journals, and if the agent did not
	// ask.
	Question string `json:"question,omitempty"`
	// Comment is the id of the comment on the issue. AgentAsked means that the agent wrote the question. Both are
	// absent in old journals.
	Comment    int64 `json:"comment,omitempty"`
	AgentAsked bool  `json:"agent_asked,omitempty"`
}

// EffectError explains why an effect failed, and whether a retry can help.
type EffectError struct {
	Reason recovery.Reason `json:"reason"`
	Text   string          `json:"text"`
	// Transient means that the same effect may succeed later. Until is the end of a rate limit, or zero. Waiting for
	// Until does not count as a failure.
	Transient bool      `json:"transient,omitempty"`
	Resource  string    `json:"resource,omitempty"` // the resource that failed or refused the request, or empty
	Until     time.Time `json:"until,omitzero"`
	Closed    string    `json:"closed,omitempty"` // the closed GitHub resource; GitHubWrite if empty
	// Doubtful marks a failure that a single wrong answer from a server could explain. It counts only if it persists.
	Doubtful bool `json:"doubtful,omitempty"`
}

// ClaimResult is the outcome of Claim and Recheck, and of a delivery that found the issue closed before it published
// anything.
type ClaimResult struct {
	Ours  bool   `json:"ours"`
	Why   string `json:"why,omitempty"` // if not ours
	Title string `json:"title,omitempty"`
}

// StopResult is the outcome of Stop: either the container is confirmed gone, or the attempt is fenced. Reports of the
// attempt's worker count only if they are in Reports.
type StopResult struct {
	// Fenced means that the container's end cannot be confirmed. The bus confirmed that it had shut the worker out
	// before Reports were read.
	Fenced   bool     `json:"fenced,omitempty"`
	Cause    EndCause `json:"cause,omitempty"`     // why the runtime ended it, if known
	Words    string   `json:"words,omitempty"`     // the runtime's explanation of Cause, or of Fenced
	ExitCode *int     `json:"exit_code,omitempty"` // nil if there was no container
	OOM      bool     `json:"oom,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	Killed   bool     `json:"killed,omitempty"` // the director ended the container
	Limit    string   `json:"limit,omitempty"`  // the memory limit as text
	// Lost is a clause describing work that was lost without a report, or empty.
	Lost    string   `json:"lost,omitempty"`
	Reports []Report `json:"reports,omitempty"`
}

// DeliverResult describes a push, or sets one flag if the delivery did not push. Nothing means that the work tree
// equals the base, Merged means that the merged base needs validation, and Changed means that the work differs from the
// validated work.
type DeliverResult struct {
	Nothing     bool   `json:"nothing,omitempty"`
	Merged      bool   `json:"merged,omitempty"`
	Changed     bool   `json:"changed,omitempty"`
	Branch      string `json:"branch,omitempty"`
	SHA         string `json:"sha,omitempty"`
	URL         string `json:"url,omitempty"`
	PullRequest int    `json:"pull_request,omitempty"` // the pull request to watch, or 0
	// Unfinished is the branch with an attempt's unfinished work on the pull request, and UnfinishedSHA is its commit.
	// Both are empty if Branch contains all work.
	Unfinished    string `json:"unfinished,omitempty"`
	UnfinishedSHA string `json:"unfinished_sha,omitempty"`
}

func (Booted) eventKind() string            { return "booted" }
func (Rebuilt) eventKind() string           { return "rebuilt" }
func (SettingsRead) eventKind() string      { return "settings_read" }
func (Tick) eventKind() string              { return "tick" }
func (DirectorResumed) eventKind() string   { return "resumed" }
func (SignalReceived) eventKind() string    { return "signalled" }
func (OperatorCommanded) eventKind() string { return "operator_said" }
func (QuestionAnswered) eventKind() string  { return "answered" }
func (CommentsSeen) eventKind() string      { return "comments_seen" }
func (ReviewSeen) eventKind() string        { return "review_seen" }
func (IncidentShown) eventKind() string     { return "incident_shown" }
func (BudgetEdited) eventKind() string      { return "budget_edited" }
func (IssuesSeen) eventKind() string        { return "issues_seen" }
func (Hello) eventKind() string             { return "hello" }
func (WorkerSeen) eventKind() string        { return "heard" }
func (WorkersSeen) eventKind() string       { return "heard_together" }
func (ReportReceived) eventKind() string    { return "reported" }
func (ContainersListed) eventKind() string  { return "listed" }
func (CooldownReported) eventKind() string  { return "cooldown_reported" }
func (LimitReported) eventKind() string     { return "limit_reported" }
func (LiftCommanded) eventKind() string     { return "lift_commanded" }
func (EffectEnded) eventKind() string       { return "effect_ended" }

// Cause is an event as the journal stores it: its kind, and its body without bulk evidence.
type Cause struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body"`
}

// causeBytes limits the stored body of one event. A page of a hundred issues takes about a quarter of this.
const causeBytes = 64 << 10

func causeOf(e Event) (Cause, error) {
	body, err := json.Marshal(e.Body)
	if len(body) > causeBytes {
		body = fmt.Appendf(nil, `{"omitted_bytes":%d}`, len(body))
	}
	return Cause{Kind: e.Body.eventKind(), Body: body}, err
}
