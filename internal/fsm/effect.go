package fsm

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
)

// EffectKind says what an effect does.
type EffectKind string

// The kinds. The first eight are durable: planned by a fact, emitted again after a restart, carried out in
// order for each task, and harmless when carried out twice. The others are soft: lost with the process, and
// nothing depends on them.
const (
	DoClaim    EffectKind = "claim"    // run the claim protocol
	DoRecheck  EffectKind = "recheck"  // read the issue again: is it still ours?
	DoStart    EffectKind = "start"    // checkout, credential, container
	DoStop     EffectKind = "stop"     // end the container, confirm it gone, read its last reports
	DoDeliver  EffectKind = "deliver"  // commit, push, pull request, labels
	DoEscalate EffectKind = "escalate" // comment and agent-blocked
	DoRelease  EffectKind = "release"  // remove our labels and post a comment
	DoRemind   EffectKind = "remind"   // say once more that a question waits

	DoWelcome     EffectKind = "welcome"      // answer a hello
	DoRefuse      EffectKind = "refuse"       // answer a hello: incompatible
	DoFence       EffectKind = "fence"        // tell a worker that its attempt is over
	DoProbe       EffectKind = "probe"        // ask a silent worker for a sign of life
	DoRemove      EffectKind = "remove"       // remove a container that no task knows
	DoReadIssue   EffectKind = "read_issue"   // read one issue now instead of waiting for the next poll
	DoProgress    EffectKind = "progress"     // edit the task's one comment
	DoReadAnswers EffectKind = "read_answers" // read what people answered to a question
	DoReadReview  EffectKind = "read_review"  // read the pull request now instead of waiting for the next poll
	DoReply       EffectKind = "reply"        // acknowledge a person's command, and answer if that needs words
	DoReclaim     EffectKind = "reclaim"      // inspect a claim that no task knows; release it if it is stale
	DoTidy        EffectKind = "tidy"         // remove Retake labels that people put beside the task's label
	DoPause       EffectKind = "pause"        // tell a worker to stop at its next stage boundary
	DoResume      EffectKind = "resume"       // tell a paused worker to go on
	DoForget      EffectKind = "forget"       // the claim is over: remove checkout and credential
)

// durableEffects are planned by a fact.
var durableEffects = []EffectKind{DoClaim, DoRecheck, DoStart, DoStop, DoDeliver, DoEscalate, DoRelease, DoRemind}

// githubEffects wait while GitHub cools down. A start reads the issue and fetches the base branch.
var githubEffects = []EffectKind{
	DoClaim, DoRecheck, DoStart, DoDeliver, DoEscalate, DoRelease, DoRemind, DoReadIssue, DoProgress, DoReadAnswers,
	DoReadReview, DoReply, DoReclaim, DoTidy,
}

// overtakenEffects are pointless once the attempt is stopped or the claim released, if they were not begun.
var overtakenEffects = []EffectKind{DoClaim, DoRecheck, DoStart, DoEscalate, DoRemind}

// DurableEffects lists the kinds that are planned by a fact.
func DurableEffects() []EffectKind { return slices.Clone(durableEffects) }

// Durable reports whether the kind is planned by a fact.
func (k EffectKind) Durable() bool { return slices.Contains(durableEffects, k) }

// About names what a durable effect is about: its attempt, and which answer of a human it follows. A second effect of
// the same kind is never about the same.
func (e Effect) About() string { return e.Worker + afterAnswers(e.Answers) }

// readAnswers fills in Answers of an effect that was read from the journal.
func (e *Effect) readAnswers() {
	_, n, _ := strings.Cut(e.ID, ".")
	e.Answers, _ = strconv.Atoi(n) // nothing: none
}

// Effect is something to do in the world. ID is derived from the facts, so the same effect keeps the same id
// across restarts and replays.
type Effect struct {
	ID      string     `json:"id"`
	Kind    EffectKind `json:"kind"`
	Task    IssueKey   `json:"task,omitempty"`
	Nonce   string     `json:"nonce,omitempty"`
	Attempt int        `json:"attempt,omitempty"`
	At      time.Time  `json:"at,omitzero"`      // when it was planned
	Worker  string     `json:"worker,omitempty"` // attempt id; of soft effects, maybe one that no task knows
	// Answers is Task.Answers when a durable effect was planned. The journal has it as a part of the id.
	Answers int `json:"-"`

	Start      *StartOrder  `json:"start,omitempty"`
	Stop       *StopOrder   `json:"stop,omitempty"`
	Escalation *Escalation  `json:"escalation,omitempty"`
	Release    *ReleaseNote `json:"release,omitempty"`

	Deliver *DeliverOrder  `json:"deliver,omitempty"`
	Work    *DeliverResult `json:"work,omitempty"` // what was pushed of the claim before; nil if nothing

	Failures []Failure `json:"failures,omitempty"` // of a delivery, the earlier failures

	Token    uint64        `json:"-"` // of the hello that Welcome, Refuse and Fence answer
	Progress *ProgressView `json:"-"`
	Reply    *Reply        `json:"-"`
	Why      string        `json:"why,omitempty"`
}

// StartOrder says how to run the attempt.
type StartOrder struct {
	Action recovery.Action `json:"action,omitempty"` // empty for the first attempt
	// Alternative: use the other model. A verdict asked for it, and it holds until a human answers.
	Alternative bool `json:"alternative,omitempty"`
	Fresh       bool `json:"fresh,omitempty"` // the checkout begins anew at the base branch
	// Validate: only VALIDATE runs, in a clean container, on what would be delivered.
	Validate bool `json:"validate_only,omitempty"`
	// LeavesValidation: the plan ends before VALIDATE, which is another attempt's.
	LeavesValidation bool `json:"leaves_validation,omitempty"`
	// Travels: its worker fetches the checkout, and sends back what it changes; otherwise it works on the
	// director's own. Old journals do not say: it does not.
	Travels bool `json:"travels,omitempty"`
	// PaidCallsLeft is the rest of the task's budget, nil if unbounded. Old journals do not have it.
	PaidCallsLeft *int64    `json:"paid_calls_left,omitempty"`
	Failures      []Failure `json:"failures,omitempty"`
	Hints         []Hint    `json:"hints,omitempty"`
	WatchdogAt    time.Time `json:"watchdog_at"`
}

// DeliverOrder says how to deliver the work.
type DeliverOrder struct {
	// Validate: if the base branch has to be merged first, another attempt may validate what comes of it.
	// Otherwise the work is shown as not validated.
	Validate bool `json:"validate,omitempty"`
	// Validated: only what this attempt has validated in its clean container may be handed in.
	Validated bool           `json:"validated,omitempty"`
	Hints     []Hint         `json:"said,omitempty"` // people's comments
	Spent     recovery.Usage `json:"spent,omitzero"` // by all attempts
}

// StopOrder says how gently the attempt is stopped, and why.
type StopOrder struct {
	Grace  time.Duration `json:"grace"` // 0 kills at once
	Reason StopReason    `json:"why"`
	// FenceAt is when the attempt is fenced if its end cannot be confirmed by then. Zero means never, because
	// the attempt could still change the director's checkout.
	FenceAt time.Time `json:"fence_at,omitzero"`
}

// Escalation is the question to a human.
type Escalation struct {
	Stage  string          `json:"stage,omitempty"`
	Reason recovery.Reason `json:"reason"`
	Cause  string          `json:"cause"`
	Why    string          `json:"why"` // why the director stopped
	Ask    string          `json:"ask"`
	Tried  []Failure       `json:"tried,omitempty"`
	Hints  []Hint          `json:"said,omitempty"`   // what people answered before
	Stale  bool            `json:"stale,omitempty"`  // the claim went stale again, instead of an attempt failing
	Report *ReportRef      `json:"report,omitempty"` // whose tail is shown
	Alike  []string        `json:"alike,omitempty"`  // the tasks that failed alike, this one among them
}

// ReleaseNote says why a claim was given up.
type ReleaseNote struct {
	Why string `json:"why"`
	// Restore: the issue is offered again. Otherwise all our labels are removed.
	Restore bool `json:"restore,omitempty"`
	// Reclaim: the issue is offered again because the claim led nowhere, and a comment tells other directors.
	Reclaim bool   `json:"reclaim,omitempty"`
	Merged  bool   `json:"merged,omitempty"` // the pull request was merged: nothing is left to say
	By      string `json:"by,omitempty"`     // who merged it, if that is known
	Taken   string `json:"taken,omitempty"`  // by whom: the work is pushed for them
}

// Reply is the answer to a person's command.
type Reply struct {
	CommandRef
	On      IssueKey // as in CommentView
	Command Command
	Refused string // why it was not carried out; empty if it was
	Known   bool   // the issue is one of our tasks; the fields below describe it
	View    ProgressView
	Waits   Waiting
}

// ProgressView is what the task's comment shows.
type ProgressView struct {
	State   State
	Attempt int
	At      time.Time
	History []Failure
	Why     string
	Until   time.Time // Parked: until when
	// Validates: the attempt under way, or the one that is due, only validates the work.
	Validates bool
	// Incident is the issue about the outage that the task waits for, if any.
	Incident IssueKey
	// Commanded names the operator and their last command. It is empty if there was no command.
	Commanded string
}

// effectID names an effect by its kind, its attempt and the number of answers so far. A human may answer more
// than once between two attempts, so the attempt alone would not be unique.
func effectID(kind EffectKind, attempt string, answers int) string {
	return attempt + "/" + string(kind) + afterAnswers(answers)
}

// afterAnswers is the part of a name that says how many answers came before.
func afterAnswers(n int) string {
	if n == 0 {
		return ""
	}
	return "." + strconv.Itoa(n)
}
