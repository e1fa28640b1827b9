package fsm

import (
	"cmp"
	"fmt"
	"slices"
)

// State is a task's state. The values are in the order in which a task usually passes through them. The zero value is
// not a state.
type State uint8

// The states. Forgotten is the last state of a task without a claim. Such a task leaves memory when its outbox is
// empty.
const (
	Forgotten State = iota + 1
	Queued
	Claiming
	Starting
	Running
	Suspect
	Stopping
	Backoff
	Parked
	Delivering
	InReview
	Done
	Blocked
	Released
)

// Label is the role of one of the four configured GitHub labels.
type Label string

// The roles. NoLabel means that the issue has none of our labels.
const (
	LabelTask    Label = "task"
	LabelClaimed Label = "claimed"
	LabelBlocked Label = "blocked"
	LabelReview  Label = "review"
	NoLabel      Label = ""
)

// StateInfo is one row of the table of states.
type StateInfo struct {
	State State
	Name  string
	Label Label
	// Slot means that the task counts against director.max_workers.
	Slot bool
	// Live means that the current attempt may have a worker whose messages count.
	Live bool
	// Final means that the claim is over. The task leaves memory once its outbox is empty.
	Final bool
	Means string
}

// States is the table of states, in order.
var States = []StateInfo{
	{State: Forgotten, Name: "Forgotten", Means: "not claimed, or given up; leftovers of a refused claim are being " +
		"removed"},
	{State: Queued, Name: "Queued", Label: LabelTask, Means: "eligible, waiting for a slot"},
	{State: Claiming, Name: "Claiming", Label: LabelTask, Slot: true, Means: "the claim protocol is running on GitHub"},
	{
		State: Starting, Name: "Starting", Label: LabelClaimed, Slot: true, Live: true,
		Means: "the checkout and the container are being created; the worker has not said hello yet",
	},
	{
		State: Running, Name: "Running", Label: LabelClaimed, Slot: true, Live: true,
		Means: "the worker said hello, and its heartbeats are arriving",
	},
	{
		State: Suspect, Name: "Suspect", Label: LabelClaimed, Slot: true, Live: true,
		Means: "the worker has been silent longer than the TTL; the director probes it and lists containers",
	},
	{
		State: Stopping, Name: "Stopping", Label: LabelClaimed, Slot: true, Live: true,
		Means: "the attempt is ending; its container must be confirmed gone, or the attempt fenced",
	},
	{State: Backoff, Name: "Backoff", Label: LabelClaimed, Means: "waiting for the next attempt"},
	{State: Parked, Name: "Parked", Label: LabelClaimed, Means: "postponed by a person until a given time"},
	{
		State: Delivering, Name: "Delivering", Label: LabelClaimed,
		Means: "the work is being committed, pushed and published",
	},
	{
		State: InReview, Name: "InReview", Label: LabelReview,
		Means: "the work is in an open pull request",
	},
	{State: Done, Name: "Done", Label: LabelReview, Final: true, Means: "delivered; if there was a pull request, it " +
		"was merged"},
	{State: Blocked, Name: "Blocked", Label: LabelBlocked, Means: "a person must answer a question"},
	{State: Released, Name: "Released", Label: NoLabel, Final: true, Means: "the claim was given up"},
}

// Info returns the state's row.
func (s State) Info() StateInfo {
	if s < Forgotten || int(s) > len(States) {
		return StateInfo{State: s, Name: fmt.Sprintf("State(%d)", uint8(s))}
	}
	return States[s-1]
}

func (s State) String() string { return s.Info().Name }

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses a state's name.
func (s *State) UnmarshalText(b []byte) error {
	for _, i := range States {
		if i.Name == string(b) {
			*s = i.State
			return nil
		}
	}
	return fmt.Errorf("fsm: unknown state %q", b)
}

// Trigger makes a task leave a state. The journal stores the string, so it never changes.
type Trigger string

// The triggers of transitions.
const (
	OnDispatch       Trigger = "slot_free"
	OnWon            Trigger = "claim_won"
	OnLost           Trigger = "claim_lost"
	OnWithdrawn      Trigger = "withdrawn"
	OnStillOurs      Trigger = "still_ours"
	OnDeliverAgain   Trigger = "deliver_again"
	OnHello          Trigger = "hello"
	OnStartFailed    Trigger = "start_failed"
	OnNoHello        Trigger = "no_hello"
	OnNotPlaced      Trigger = "not_placed"
	OnIncompatible   Trigger = "incompatible"
	OnReport         Trigger = "final_report"
	OnContainerEnded Trigger = "container_gone"
	OnWatchdog       Trigger = "watchdog"
	OnOverspent      Trigger = "overspent"
	OnSilent         Trigger = "silent"
	OnSeenAgain      Trigger = "seen_again"
	OnStillSilent    Trigger = "still_silent"
	OnGoneOK         Trigger = "gone_ok"
	OnValidate       Trigger = "validate"
	OnGoneWithdrawn  Trigger = "gone_withdrawn"
	OnRetry          Trigger = "retry"
	OnEscalate       Trigger = "escalate"
	OnDelivered      Trigger = "delivered"
	OnInReview       Trigger = "in_review"
	OnMerged         Trigger = "merged"
	OnRejected       Trigger = "closed_unmerged"
	OnSnoozed        Trigger = "snoozed"
	OnSnoozeOver     Trigger = "snooze_over"
	OnReclaim        Trigger = "reclaim"
	OnUnblocked      Trigger = "answered"
	OnIncidentOver   Trigger = "incident_over"
	OnStale          Trigger = "claim_stale"
)

// StopReason is the reason for stopping an attempt.
type StopReason string

// The reasons. After a withdrawal or a watchdog timeout, the director first asks the worker to stop. In all other
// cases, the worker has exited, is silent, or must not continue.
const (
	StopWithdrawn  StopReason = "withdrawn"
	StopWatchdog   StopReason = "watchdog"
	StopOverBudget StopReason = "over_budget"
	StopNotStarted StopReason = "not_started" // includes workers with a different protocol version
	StopSilent     StopReason = "silent"
	StopEnded      StopReason = "ended" // the worker ended, with or without a final report
)

// Info returns the trigger's row that has Means set. For an unknown trigger, it returns a row without states.
func (t Trigger) Info() Transition {
	for _, x := range Transitions {
		if x.Means != "" && (x.On == t || x.old != "" && x.old == string(t)) {
			return x
		}
	}
	return Transition{On: t, Means: string(t)}
}

// UnmarshalText parses a trigger's string, including old strings. It rejects an unknown trigger, because a transition
// may depend on it.
func (t *Trigger) UnmarshalText(b []byte) error {
	x := Trigger(b).Info()
	if *t = x.On; x.From == nil {
		return fmt.Errorf("fsm: unknown trigger %q: the journal was written by a newer version", b)
	}
	return nil
}

// UnmarshalText parses a reason. Old journals contain the trigger's string instead.
func (r *StopReason) UnmarshalText(b []byte) error {
	*r = cmp.Or(Trigger(b).Info().Stop, StopReason(b))
	return nil
}

// Transition is one row of the table of transitions.
type Transition struct {
	From  []State
	On    Trigger
	To    State
	Stop  StopReason // the reason for stopping the attempt, if any
	Means string     // a sentence without its full stop; set in one row per trigger
	old   string     // the trigger's string in old journals, set together with Means; empty for newer triggers
}

// begun lists the states before Stopping in which the task has a current attempt.
var begun = []State{Starting, Running, Suspect}

// idle lists the states of a claim without an attempt or delivery in progress.
var idle = []State{Backoff, Parked, InReview, Blocked}

// Transitions is the table of all transitions of a task.
var Transitions = []Transition{
	{
		From: []State{Queued}, On: OnDispatch, To: Claiming,
		Means: "A slot was free, so the director began to claim the issue", old: "slot free, resource open",
	},
	{From: []State{Queued}, On: OnWithdrawn, To: Forgotten},
	{
		From: []State{Claiming}, On: OnWon, To: Starting, Means: "The claim was won, and a worker is being started",
		old: "claim won",
	},
	{
		From: []State{Claiming}, On: OnLost, To: Forgotten,
		Means: "Another claim won, or the issue is no longer eligible", old: "claim lost, or no longer eligible",
	},
	{From: []State{Starting}, On: OnHello, To: Running, Means: "The worker said hello", old: "hello of this attempt"},
	{
		From: []State{Starting}, On: OnStartFailed, To: Stopping, Stop: StopNotStarted,
		Means: "The worker could not be started", old: "start failed",
	},
	{
		From: []State{Starting}, On: OnNoHello, To: Stopping, Stop: StopNotStarted,
		Means: "The worker did not say hello in time", old: "no hello in time",
	},
	{
		From: []State{Starting}, On: OnNotPlaced, To: Stopping, Stop: StopNotStarted,
		Means: "The cluster did not start the worker in time",
	},
	{From: []State{Running}, On: OnSilent, To: Suspect, Means: "No heartbeat arrived in time, so the worker is " +
		"being probed", old: "TTL passed"},
	{
		From: []State{Suspect}, On: OnSeenAgain, To: Running, Means: "The worker showed signs of life again",
		old: "heartbeat or probe answered",
	},
	{
		From: []State{Suspect}, On: OnStillSilent, To: Stopping, Stop: StopSilent,
		Means: "The worker stayed silent, and Retake gave up on it", old: "second deadline",
	},
	{
		From: begun, On: OnIncompatible, To: Stopping, Stop: StopNotStarted,
		Means: "The worker speaks a different protocol version", old: "another protocol",
	},
	{
		From: begun, On: OnReport, To: Stopping, Stop: StopEnded, Means: "The worker sent its final report",
		old: "final report",
	},
	{
		From: begun, On: OnContainerEnded, To: Stopping, Stop: StopEnded,
		Means: "The container ended before a final report arrived", old: "container gone",
	},
	{
		From: begun, On: OnWatchdog, To: Stopping, Stop: StopWatchdog, Means: "The attempt took too long",
		old: "watchdog",
	},
	{
		From: begun, On: OnOverspent, To: Stopping, Stop: StopOverBudget, Means: "The attempt exceeded a budget",
		old: "a budget is overspent",
	},
	{From: begun, On: OnWithdrawn, To: Stopping, Stop: StopWithdrawn, Means: "The issue was closed, lost its label " +
		"or was taken over by another person", old: "closed, unlabelled or taken"},
	{From: []State{Stopping}, On: OnGoneOK, To: Delivering, Means: "All stages passed and the container is gone, so " +
		"the work is being delivered", old: "confirmed gone: ok"},
	{From: []State{Stopping}, On: OnValidate, To: Backoff, Means: "The agent is done and its container is gone, so a " +
		"clean container validates the work"},
	{
		From: []State{Stopping}, On: OnGoneWithdrawn, To: Released,
		Means: "The container is gone, and Retake no longer holds the issue", old: "confirmed gone: withdrawn",
	},
	{
		From: []State{Stopping, Delivering, InReview}, On: OnRetry, To: Backoff, Means: "Verdict: another attempt",
		old: "verdict: another attempt",
	},
	{
		From: []State{Stopping, Delivering, InReview}, On: OnReclaim, To: Released,
		Means: "Verdict: give the issue back", old: "verdict: give the issue back",
	},
	{
		From: []State{Stopping, Delivering, Backoff, Parked, InReview, Claiming}, On: OnEscalate, To: Blocked,
		Means: "Verdict: ask a person", old: "verdict: ask a human",
	},
	{From: []State{Backoff}, On: OnStillOurs, To: Starting, Means: "The wait is over and Retake still holds the " +
		"issue, so a worker is being started", old: "due, slot free, re-read and still ours"},
	{
		From: []State{Backoff}, On: OnDeliverAgain, To: Delivering,
		Means: "The work is finished and saved, so Retake tries to deliver it again",
	},
	{
		From: []State{Backoff}, On: OnStale, To: Released, Means: "The claim made no progress, so Retake gave it up",
		old: "claim without progress",
	},
	{From: idle, On: OnWithdrawn, To: Released},
	{From: []State{Delivering}, On: OnWithdrawn, To: Released},
	{From: []State{Delivering}, On: OnDelivered, To: Done, Means: "The work was delivered", old: "delivered"},
	{
		From: []State{Delivering}, On: OnInReview, To: InReview,
		Means: "The work was delivered as a pull request, which the director now watches",
	},
	{From: idle, On: OnMerged, To: Done, Means: "The pull request was merged"},
	{From: idle, On: OnRejected, To: Released, Means: "The pull request was closed without being merged"},
	{From: []State{Backoff, Parked, Blocked}, On: OnSnoozed, To: Parked, Means: "A person snoozed the task"},
	{From: []State{Parked}, On: OnSnoozeOver, To: Backoff, Means: "The snooze is over"},
	{From: idle, On: OnUnblocked, To: Backoff, Means: "A person answered", old: "a human answered"},
	{
		From: []State{Blocked}, On: OnIncidentOver, To: Backoff,
		Means: "The incident that blocked the task is over", old: "the incident healed",
	},
}

// After returns the state after a trigger. ok is false if the state ignores the trigger.
func (s State) After(on Trigger) (to State, ok bool) {
	for _, t := range Transitions {
		if t.On == on && slices.Contains(t.From, s) {
			return t.To, true
		}
	}
	return 0, false
}
