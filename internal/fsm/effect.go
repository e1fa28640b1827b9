package fsm

import (
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
)

// EffectKind says what an effect does.
type EffectKind string

// The kinds. The first seven are durable: planned by a fact, emitted again after a restart, carried out in order for each
// task, and harmless when carried out twice. The others are soft: lost with the process, and nothing depends on them.
const (
	DoClaim    EffectKind = "claim"    // run the claim protocol
	DoRecheck  EffectKind = "recheck"  // read the issue again: is it still ours?
	DoStart    EffectKind = "start"    // checkout, credential, container
	DoStop     EffectKind = "stop"     // end the container, confirm it gone, read its last reports
	DoDeliver  EffectKind = "deliver"  // commit, push, pull request, labels
	DoEscalate EffectKind = "escalate" // comment and agent-blocked
	DoRelease  EffectKind = "release"  // take our labels off, say so

	DoWelcome  EffectKind = "welcome"  // answer a hello
	DoRefuse   EffectKind = "refuse"   // answer a hello: incompatible
	DoFence    EffectKind = "fence"    // tell a worker that its attempt is over
	DoProbe    EffectKind = "probe"    // ask a silent worker
	DoRemove   EffectKind = "remove"   // remove a container that no task knows
	DoLook     EffectKind = "look"     // read one issue now; saves waiting for the next poll
	DoProgress EffectKind = "progress" // edit the task's one comment
	DoRead     EffectKind = "read"     // read what people answered to a question
	DoReclaim  EffectKind = "reclaim"  // look at a claim that no task knows; give it back if it is stale
	DoPause    EffectKind = "pause"    // tell a worker to stop at its next stage boundary
	DoGoOn     EffectKind = "go_on"    // tell a paused worker to go on
	DoForget   EffectKind = "forget"   // the claim is over: remove checkout and credential
)

// effectInfo is what the machine must know of a kind.
type effectInfo struct {
	durable bool
	github  bool // waits while GitHub cools down
	// overtaken: pointless once the attempt is stopped or the claim released, if it was not begun.
	overtaken bool
}

var effects = map[EffectKind]effectInfo{
	DoClaim:    {durable: true, github: true, overtaken: true},
	DoRecheck:  {durable: true, github: true, overtaken: true},
	DoStart:    {durable: true, github: true, overtaken: true}, // reads the issue and fetches the base branch
	DoStop:     {durable: true},
	DoDeliver:  {durable: true, github: true},
	DoEscalate: {durable: true, github: true, overtaken: true},
	DoRelease:  {durable: true, github: true},
	DoWelcome:  {},
	DoRefuse:   {},
	DoFence:    {},
	DoProbe:    {},
	DoRemove:   {},
	DoLook:     {github: true},
	DoProgress: {github: true},
	DoRead:     {github: true},
	DoReclaim:  {github: true},
	DoPause:    {},
	DoGoOn:     {},
	DoForget:   {},
}

// Durable says whether the kind is planned by a fact.
func (k EffectKind) Durable() bool { return effects[k].durable }

// About names what an effect is about: its attempt, and which answer of a human it follows. A second effect of the same
// kind is never about the same.
func (e Effect) About() string { return strings.Replace(e.ID, "/"+string(e.Kind), "", 1) }

// Effect is something to do in the world. ID is derived from the facts: the same effect has the same id for ever.
type Effect struct {
	ID      string     `json:"id"`
	Kind    EffectKind `json:"kind"`
	Task    IssueKey   `json:"task,omitempty"`
	Nonce   string     `json:"nonce,omitempty"`
	Attempt int        `json:"attempt,omitempty"`
	At      time.Time  `json:"at,omitzero"`      // when it was planned
	Worker  string     `json:"worker,omitempty"` // attempt id; of soft effects, maybe one that no task knows

	Start      *StartOrder  `json:"start,omitempty"`
	Stop       *StopOrder   `json:"stop,omitempty"`
	Escalation *Escalation  `json:"escalation,omitempty"`
	Release    *ReleaseNote `json:"release,omitempty"`

	Failures []Failure `json:"failures,omitempty"` // of a delivery: what was tried before

	Token    uint64        `json:"-"` // of the hello that Welcome, Refuse and Fence answer
	Progress *ProgressView `json:"-"`
	Why      string        `json:"why,omitempty"`
}

// StartOrder says how the attempt is to be made.
type StartOrder struct {
	Action recovery.Action `json:"action,omitempty"` // empty: the first attempt
	// Alternative: the other model, since a verdict asked for it; until a human answers.
	Alternative bool      `json:"alternative,omitempty"`
	Failures    []Failure `json:"failures,omitempty"`
	Hints       []Hint    `json:"hints,omitempty"`
	WatchdogAt  time.Time `json:"watchdog_at"`
}

// StopOrder says how gently.
type StopOrder struct {
	Grace time.Duration `json:"grace"` // 0: kill at once
	Why   string        `json:"why"`   // "reported", "withdrawn", "watchdog", "silent", …
}

// Escalation is what a human is told.
type Escalation struct {
	Stage  string          `json:"stage,omitempty"`
	Reason recovery.Reason `json:"reason"`
	Cause  string          `json:"cause"`
	Why    string          `json:"why"` // why the director stopped
	Ask    string          `json:"ask"`
	Tried  []Failure       `json:"tried,omitempty"`
	Stale  bool            `json:"stale,omitempty"`  // the claim went stale again, instead of an attempt failing
	Report *ReportRef      `json:"report,omitempty"` // whose tail is shown
}

// ReleaseNote says why a claim was given up.
type ReleaseNote struct {
	Why string `json:"why"`
	// Restore: the issue is offered again, with a reclaim comment. Else no label of ours stays.
	Restore bool `json:"restore,omitempty"`
}

// ProgressView is what the task's comment shows.
type ProgressView struct {
	State   State
	Attempt int
	At      time.Time
	History []Failure
	Why     string
}

// effectID names an effect by what it is about: the attempt, or the claim before its first. Between two attempts a
// human may answer more than once, so the answers are counted.
func effectID(kind EffectKind, attempt string, answers int) string {
	id := attempt + "/" + string(kind)
	if answers > 0 {
		id += "." + strconv.Itoa(answers)
	}
	return id
}
