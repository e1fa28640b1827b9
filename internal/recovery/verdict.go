package recovery

import "time"

// Action is the director's reaction to a failure.
type Action string

// The actions.
const (
	WaitReset        Action = "wait_reset"
	Retry            Action = "retry"
	RetryCompact     Action = "retry_compact"
	RetryAlternative Action = "retry_alternative"
	Replan           Action = "replan"
	FixAttempt       Action = "fix_attempt"
	Revalidate       Action = "revalidate"
	Reprobe          Action = "reprobe"
	RestartWorker    Action = "restart_worker"
	CoolDown         Action = "cooldown"
	Skip             Action = "skip"
	Reclaim          Action = "reclaim"
	Escalate         Action = "escalate"
	Stop             Action = "stop"
	Abort            Action = "abort"
)

// AboutAction describes an action. It does not depend on the policy.
type AboutAction struct {
	Action Action
	Again  bool // set if the action leads to another attempt
	Free   bool // set if the attempt is not charged
	Same   bool // set if the attempt uses the same provider, so that a stated wait counts
	Means  string
	Done   string // the action in the past tense, for a history, such as "tried again"
}

// Actions lists every action once.
var Actions = []AboutAction{
	{WaitReset, true, true, true, "wait for the reset, then try again without charge", "waited for the reset"},
	{Retry, true, false, true, "another attempt on the same checkout", "tried again"},
	{RetryCompact, true, false, true, "another attempt with a shorter context", "tried again with a shorter context"},
	{
		RetryAlternative, true, false, false, "another attempt with the alternative model",
		"tried again with the alternative model",
	},
	{Replan, true, false, true, "another attempt with a new plan", "tried again with a new plan"},
	{
		FixAttempt, true, false, true, "another attempt that receives the output of the failed check",
		"asked the agent to fix it",
	},
	{
		Revalidate, true, false, false, "another attempt that validates the work before an agent runs",
		"validated the work again",
	},
	{
		Reprobe, true, false, true, "another attempt after checking again for the missing program",
		"looked for it again",
	},
	{
		RestartWorker, true, false, true, "another attempt by a fresh worker, on the same checkout",
		"started a fresh worker on the same checkout",
	},
	{
		CoolDown, true, true, true, "close the resource for all tasks, then try again",
		"waited for the cooldown to end",
	},
	{Skip, false, false, false, "skip this task and continue", "skipped the task"},
	{Reclaim, false, false, false, "give the issue back", "gave the issue back"},
	{Escalate, false, false, false, "block the issue and ask a person", "asked a person"},
	{Stop, false, false, false, "stop this task and report", "stopped"},
	{Abort, false, false, false, "stop everything and report", "stopped the run"},
}

// About returns the row of a in Actions, or the zero value for an unknown action.
func (a Action) About() AboutAction { return *a.about() }

func (a Action) about() *AboutAction {
	for i := range Actions {
		if Actions[i].Action == a {
			return &Actions[i]
		}
	}
	return &noAction
}

var noAction AboutAction

// Again reports whether the action leads to another attempt.
func (a Action) Again() bool { return a.about().Again }

// Unlimited is the count of a step that the policy does not limit. The engine still limits it.
const Unlimited = -1

// Verdict is the decision about a failure, with its explanation.
type Verdict struct {
	Action   Action        `json:"action"`
	Delay    time.Duration `json:"delay"`     // wait before the next attempt, if any
	DelayMin time.Duration `json:"delay_min"` // DelayMin and DelayMax are the range of Delay with jitter
	DelayMax time.Duration `json:"delay_max"`
	Charges  Cause         `json:"charges,omitempty"` // the meter to charge for the next attempt; empty if free
	Reason   Reason        `json:"reason"`
	Was      Reason        `json:"was,omitempty"` // the reason before its retries were used up
	Why      string        `json:"why"`
	Row      string        `json:"row"`            // "<policy>.<row>"
	Veto     string        `json:"veto,omitempty"` // the guard that overruled the row
	Fatal    bool          `json:"fatal,omitempty"`
	// Continued means that the policy calls the failure fatal, but continue_on_error let the run continue. It is absent
	// from old journals.
	Continued   bool   `json:"continued,omitempty"`
	NextIfAgain Action `json:"next_if_again,omitempty"` // the action if the same failure happens again
	Cools       string `json:"cools,omitempty"`         // resource closed to all tasks for Delay
	Ask         string `json:"ask,omitempty"`           // the policy's question to a person
	Counter     string `json:"counter,omitempty"`       // the counter that tallies this failure
	Error       bool   `json:"error,omitempty"`         // set if this failure counts as a consecutive error
	Restarts    bool   `json:"restarts,omitempty"`      // set if backoffs restart at their first step
}
