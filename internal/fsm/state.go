package fsm

import "fmt"

// State is where a task stands. The order is the usual course of a task; only the zero value is not a state.
type State uint8

// The states. Forgotten is the end of a task that was never ours: it leaves memory as soon as its outbox is empty.
const (
	Forgotten State = iota + 1
	Queued
	Claiming
	Starting
	Running
	Suspect
	Stopping
	Backoff
	Delivering
	Done
	Blocked
	Released
)

// Label is the role of one of the four configured GitHub labels.
type Label string

// The roles. NoLabel: the task shows none of ours.
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
	// Slot: the task counts against director.max_workers.
	Slot bool
	// Live: the current attempt may have a worker whose messages count.
	Live bool
	// Final: the claim is over; the task leaves memory once its outbox is empty.
	Final bool
	Means string
}

// States is the table of states, in order.
var States = []StateInfo{
	{State: Forgotten, Name: "Forgotten", Means: "not ours (any more); what a refused claim left is taken back"},
	{State: Queued, Name: "Queued", Label: LabelTask, Means: "eligible, waits for a slot"},
	{State: Claiming, Name: "Claiming", Label: LabelTask, Slot: true, Means: "the claim protocol runs on GitHub"},
	{State: Starting, Name: "Starting", Label: LabelClaimed, Slot: true, Live: true, Means: "checkout and container are made; the worker has not said hello"},
	{State: Running, Name: "Running", Label: LabelClaimed, Slot: true, Live: true, Means: "the worker was welcomed and is heard"},
	{State: Suspect, Name: "Suspect", Label: LabelClaimed, Slot: true, Live: true, Means: "the worker is silent beyond the TTL; probe and runtime are asked"},
	{State: Stopping, Name: "Stopping", Label: LabelClaimed, Slot: true, Live: true, Means: "the attempt is decided; its container must be confirmed gone"},
	{State: Backoff, Name: "Backoff", Label: LabelClaimed, Means: "waits for the next attempt"},
	{State: Delivering, Name: "Delivering", Label: LabelClaimed, Means: "the work is committed, pushed and shown"},
	{State: Done, Name: "Done", Label: LabelReview, Final: true, Means: "delivered"},
	{State: Blocked, Name: "Blocked", Label: LabelBlocked, Means: "a human was asked"},
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

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(b []byte) error {
	for _, i := range States {
		if i.Name == string(b) {
			*s = i.State
			return nil
		}
	}
	return fmt.Errorf("fsm: no state is called %q", b)
}

// Trigger is what makes a task leave a state.
type Trigger string

// The triggers.
const (
	OnDispatch       Trigger = "slot free, resource open"
	OnWon            Trigger = "claim won"
	OnLost           Trigger = "claim lost, or no longer eligible"
	OnWithdrawn      Trigger = "closed, unlabelled or taken"
	OnStillOurs      Trigger = "due, slot free, re-read and still ours"
	OnHello          Trigger = "hello of this attempt"
	OnStartFailed    Trigger = "start failed"
	OnNoHello        Trigger = "no hello in time"
	OnIncompatible   Trigger = "another protocol"
	OnReport         Trigger = "final report"
	OnContainerEnded Trigger = "container gone"
	OnWatchdog       Trigger = "watchdog"
	OnOverspent      Trigger = "a budget is overspent"
	OnSilent         Trigger = "TTL passed"
	OnHeard          Trigger = "heartbeat or probe answered"
	OnStillSilent    Trigger = "second deadline"
	OnGoneOK         Trigger = "confirmed gone: ok"
	OnGoneWithdrawn  Trigger = "confirmed gone: withdrawn"
	OnRetry          Trigger = "verdict: another attempt"
	OnEscalate       Trigger = "verdict: ask a human"
	OnDelivered      Trigger = "delivered"
	OnReclaim        Trigger = "verdict: give the issue back"
	OnUnblocked      Trigger = "a human answered"
	OnHealed         Trigger = "the incident healed"
	OnStale          Trigger = "claim without progress"
)

// Transition is one row of the table of transitions.
type Transition struct {
	From State
	On   Trigger
	To   State
}

// Transitions is the whole life of a task. What is not in the table does not happen.
var Transitions = []Transition{
	{Queued, OnDispatch, Claiming},
	{Queued, OnWithdrawn, Forgotten},
	{Claiming, OnWon, Starting},
	{Claiming, OnLost, Forgotten},
	{Starting, OnHello, Running},
	{Starting, OnStartFailed, Stopping},
	{Starting, OnNoHello, Stopping},
	{Starting, OnIncompatible, Stopping},
	{Starting, OnReport, Stopping},
	{Starting, OnContainerEnded, Stopping},
	{Starting, OnWatchdog, Stopping},
	{Starting, OnOverspent, Stopping},
	{Starting, OnWithdrawn, Stopping},
	{Running, OnSilent, Suspect},
	{Running, OnIncompatible, Stopping},
	{Running, OnReport, Stopping},
	{Running, OnContainerEnded, Stopping},
	{Running, OnWatchdog, Stopping},
	{Running, OnOverspent, Stopping},
	{Running, OnWithdrawn, Stopping},
	{Suspect, OnHeard, Running},
	{Suspect, OnIncompatible, Stopping},
	{Suspect, OnReport, Stopping},
	{Suspect, OnContainerEnded, Stopping},
	{Suspect, OnStillSilent, Stopping},
	{Suspect, OnWatchdog, Stopping},
	{Suspect, OnOverspent, Stopping},
	{Suspect, OnWithdrawn, Stopping},
	{Stopping, OnGoneOK, Delivering},
	{Stopping, OnGoneWithdrawn, Released},
	{Stopping, OnRetry, Backoff},
	{Stopping, OnEscalate, Blocked},
	{Stopping, OnReclaim, Released},
	{Backoff, OnStillOurs, Starting},
	{Backoff, OnWithdrawn, Released},
	{Backoff, OnEscalate, Blocked},
	{Backoff, OnStale, Released},
	{Delivering, OnDelivered, Done},
	{Delivering, OnRetry, Backoff},
	{Delivering, OnEscalate, Blocked},
	{Delivering, OnReclaim, Released},
	{Blocked, OnUnblocked, Backoff},
	{Blocked, OnHealed, Backoff},
	{Blocked, OnWithdrawn, Released},
}

// next looks up the table; ok is false where the trigger means nothing in that state.
func next(from State, on Trigger) (to State, ok bool) {
	for _, t := range Transitions {
		if t.From == from && t.On == on {
			return t.To, true
		}
	}
	return 0, false
}
