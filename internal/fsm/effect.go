package fsm

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
)

// EffectKind is the kind of an effect.
type EffectKind string

// The kinds. Durable effects come first. A fact plans each of them, and a task's effects run in order. A new process
// emits unfinished effects again, so repeating an effect must be harmless. The other kinds are soft: they are lost with
// the process, and decisions do not depend on them.
const (
	DoClaim    EffectKind = "claim"    // run the claim protocol
	DoRecheck  EffectKind = "recheck"  // read the issue again to see whether it is still ours
	DoStart    EffectKind = "start"    // create the checkout, credential and container
	DoStop     EffectKind = "stop"     // end the container, confirm that it is gone, read its last reports
	DoDeliver  EffectKind = "deliver"  // commit, push, open the pull request, set labels
	DoEscalate EffectKind = "escalate" // post a question and set agent-blocked
	DoRelease  EffectKind = "release"  // remove our labels and post a comment
	DoRemind   EffectKind = "remind"   // remind people of an unanswered question

	DoWelcome     EffectKind = "welcome"      // answer a hello
	DoRefuse      EffectKind = "refuse"       // answer a hello from an incompatible worker
	DoFence       EffectKind = "fence"        // tell a worker that its attempt is over
	DoProbe       EffectKind = "probe"        // ask a silent worker for a sign of life
	DoRemove      EffectKind = "remove"       // remove a container that does not belong to a task
	DoReadIssue   EffectKind = "read_issue"   // read one issue now instead of waiting for the next poll
	DoProgress    EffectKind = "progress"     // edit the task's one comment
	DoReadAnswers EffectKind = "read_answers" // read people's answers to a question
	DoReadReview  EffectKind = "read_review"  // read the pull request now instead of waiting for the next poll
	DoReply       EffectKind = "reply"        // acknowledge a person's command, and answer it in words if necessary
	DoReclaim     EffectKind = "reclaim"      // inspect an orphan claim; release it if it is stale
	DoTidy        EffectKind = "tidy"         // remove Retake labels other than the label of the task's state
	DoPause       EffectKind = "pause"        // tell a worker to stop at its next stage boundary
	DoResume      EffectKind = "resume"       // tell a paused worker to continue
	DoForget      EffectKind = "forget"       // the claim is over: remove checkout and credential
)

// durableEffects lists the kinds of effects planned by facts.
var durableEffects = []EffectKind{DoClaim, DoRecheck, DoStart, DoStop, DoDeliver, DoEscalate, DoRelease, DoRemind}

// githubEffects wait during GitHub's cooldowns. They include the start of an attempt, because it reads the issue and
// fetches the base branch.
var githubEffects = []EffectKind{
	DoClaim, DoRecheck, DoStart, DoDeliver, DoEscalate, DoRelease, DoRemind, DoReadIssue, DoProgress, DoReadAnswers,
	DoReadReview, DoReply, DoReclaim, DoTidy,
}

// overtakenEffects are pointless once the attempt is stopped or the claim released, unless they have already started.
var overtakenEffects = []EffectKind{DoClaim, DoRecheck, DoStart, DoEscalate, DoRemind}

// DurableEffects lists the kinds of durable effects.
func DurableEffects() []EffectKind { return slices.Clone(durableEffects) }

// Durable reports whether effects of the kind are durable.
func (k EffectKind) Durable() bool { return slices.Contains(durableEffects, k) }

// About identifies a durable effect among the effects of its kind, by the attempt and the number of earlier answers.
func (e Effect) About() string { return e.Worker + afterAnswers(e.Answers) }

// readAnswers sets Answers for an effect read from the journal.
func (e *Effect) readAnswers() {
	_, n, _ := strings.Cut(e.ID, ".")
	e.Answers, _ = strconv.Atoi(n) // 0 if the id has no number
}

// Effect is an action for the shell to carry out. ID is derived from the facts, so the same effect keeps the same id
// across restarts and replays.
type Effect struct {
	ID      string     `json:"id"`
	Kind    EffectKind `json:"kind"`
	Task    IssueKey   `json:"task,omitempty"`
	Nonce   string     `json:"nonce,omitempty"`
	Attempt int        `json:"attempt,omitempty"`
	At      time.Time  `json:"at,omitzero"`      // when it was planned
	Worker  string     `json:"worker,omitempty"` // attempt id; in a soft effect, possibly from an unknown worker
	// Answers is Task.Answers when a durable effect was planned. The journal stores it as part of the id.
	Answers int `json:"-"`

	Start      *StartOrder  `json:"start,omitempty"`
	Stop       *StopOrder   `json:"stop,omitempty"`
	Escalation *Escalation  `json:"escalation,omitempty"`
	Release    *ReleaseNote `json:"release,omitempty"`

	Deliver *DeliverOrder  `json:"deliver,omitempty"`
	Work    *DeliverResult `json:"work,omitempty"` // the claim's earlier push, or nil

	Failures []Failure `json:"failures,omitempty"` // earlier failures, for a delivery
	Contract *Contract `json:"contract,omitempty"` // the contract that the attempt began with, or nil

	Token    uint64        `json:"-"` // the request that Welcome, Refuse or Fence answers
	Unheard  uint64        `json:"-"` // sequence of a person's report about a worker without an attempt, or 0
	Progress *ProgressView `json:"-"`
	Reply    *Reply        `json:"-"`
	Why      string        `json:"why,omitempty"`
}

// StartOrder describes how to run the attempt.
type StartOrder struct {
	Action recovery.Action `json:"action,omitempty"` // empty for the first attempt
	// Alternative selects the other model, because a verdict asked for it. It applies until a human answers.
	Alternative bool `json:"alternative,omitempty"`
	Fresh       bool `json:"fresh,omitempty"` // the checkout restarts from the base branch
	// Validate limits the attempt to the stage VALIDATE, which runs in a clean container on the work to be delivered.
	Validate bool `json:"validate_only,omitempty"`
	// LeavesValidation ends the plan before VALIDATE, which another attempt runs.
	LeavesValidation bool `json:"leaves_validation,omitempty"`
	// Travels makes the worker fetch the checkout and send its changes back. Otherwise it works on the director's
	// checkout. The flag is absent in old journals.
	Travels bool `json:"travels,omitempty"`
	// PaidCallsLeft is the task's remaining budget, or nil if unlimited. It is absent in old journals.
	PaidCallsLeft *int64    `json:"paid_calls_left,omitempty"`
	Failures      []Failure `json:"failures,omitempty"`
	Hints         []Hint    `json:"hints,omitempty"`
	WatchdogAt    time.Time `json:"watchdog_at"`
}

// DeliverOrder describes how to deliver the work.
type DeliverOrder struct {
	// Validate permits another attempt to validate the result if the base branch must be merged first. Otherwise the
	// pull request states that the work is not validated.
	Validate bool `json:"validate,omitempty"`
	// Validated restricts the delivery to the work that this attempt has validated in its clean container.
	Validated bool           `json:"validated,omitempty"`
	Hints     []Hint         `json:"said,omitempty"` // people's comments
	Spent     recovery.Usage `json:"spent,omitzero"` // usage of all attempts
}

// StopOrder sets the grace period and the reason for a stop.
type StopOrder struct {
	Grace  time.Duration `json:"grace"` // 0 kills immediately
	Reason StopReason    `json:"why"`
	// FenceAt is the time at which the attempt is fenced if its end is still unconfirmed. Zero means never, because the
	// attempt could still change the director's checkout.
	FenceAt time.Time `json:"fence_at,omitzero"`
}

// Escalation is a question for a human.
type Escalation struct {
	Stage  string          `json:"stage,omitempty"`
	Reason recovery.Reason `json:"reason"`
	Cause  string          `json:"cause"`
	Why    string          `json:"why"` // why the director stopped
	Ask    string          `json:"ask"`
	// Topic is absent in old journals, where it follows from the verdict.
	Topic  recovery.Topic `json:"topic,omitempty"`
	Tried  []Failure      `json:"tried,omitempty"`
	Hints  []Hint         `json:"said,omitempty"`   // earlier answers from people
	Stale  bool           `json:"stale,omitempty"`  // the cause is a claim gone stale again, not a failure
	Report *ReportRef     `json:"report,omitempty"` // the report that the comment quotes
	Alike  []string       `json:"alike,omitempty"`  // the tasks with the same failure, including this one
}

// ReleaseNote explains why a claim was given up.
type ReleaseNote struct {
	Why string `json:"why"`
	// Restore offers the issue again. Otherwise all our labels are removed.
	Restore bool `json:"restore,omitempty"`
	// Reclaim offers the issue again after a stale claim. A comment informs other directors.
	Reclaim bool   `json:"reclaim,omitempty"`
	Merged  bool   `json:"merged,omitempty"` // the pull request was merged, so no comment is needed
	By      string `json:"by,omitempty"`     // the person who merged it, if known
	Taken   string `json:"taken,omitempty"`  // the person who takes over; the work is pushed for them
}

// Reply is the answer to a person's command.
type Reply struct {
	CommandRef
	On      IssueKey // see CommentView.On
	Command Command
	Answers bool   // a comment without a command answered the agent's question
	Refused string // why the command was refused, or empty
	Known   bool   // the issue is one of our tasks; the fields below describe it
	View    ProgressView
	Waits   Waiting
}

// ProgressView is the content of the task's progress comment.
type ProgressView struct {
	State   State
	Attempt int
	At      time.Time
	History []Failure
	Why     string
	Until   time.Time // when the wait ends; set only in state Parked
	// Validates means that the current or next attempt only validates the work.
	Validates bool
	// Review is the pull request in review, or 0.
	Review int
	// Incident is the issue about the outage that the task waits for, if any.
	Incident IssueKey
	// Commanded contains the operator's name and last command. It is empty if there was no command.
	Commanded string
}

// effectID derives an effect's id from its kind, its attempt and the number of answers so far. The attempt alone is not
// unique, because a human can answer more than once between two attempts.
func effectID(kind EffectKind, attempt string, answers int) string {
	return attempt + "/" + string(kind) + afterAnswers(answers)
}

// afterAnswers returns the id's suffix for the number of earlier answers. It is empty for 0.
func afterAnswers(n int) string {
	if n == 0 {
		return ""
	}
	return "." + strconv.Itoa(n)
}
