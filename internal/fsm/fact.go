package fsm

import (
	"encoding/json"
	"fmt"
	"time"

	"retake/internal/recovery"
)

// Fact is one decided change of hard state. It carries every value that Apply needs.
type Fact interface{ factKind() string }

// RunBegan marks the start of a process in the journal.
type RunBegan struct {
	RunID string `json:"run_id"`
}

// PhaseChanged is a change of the director's own phase.
type PhaseChanged struct {
	From Phase  `json:"from"`
	To   Phase  `json:"to"`
	Why  string `json:"why"`
}

// CursorAdvanced says how far a repository was read.
type CursorAdvanced struct {
	Repo   string `json:"repo"`
	Cursor string `json:"cursor"`
}

// CooldownSet closes a resource.
type CooldownSet struct {
	Resource string    `json:"resource"`
	Until    time.Time `json:"until"`
	Why      string    `json:"why"`
}

// IncidentChanged is what is known of an incident now.
type IncidentChanged struct {
	Incident Incident `json:"incident"`
}

// IncidentOver is that nothing of an incident matters any more.
type IncidentOver struct {
	Key string `json:"key"`
}

// TaskQueued is a new task.
type TaskQueued struct {
	Task  IssueKey `json:"task"`
	Nonce string   `json:"nonce"`
	Title string   `json:"title"`
	URL   string   `json:"url"`
}

// TaskRenamed: the issue's title or address is another one now.
type TaskRenamed struct {
	Task  IssueKey `json:"task"`
	Title string   `json:"title"`
	URL   string   `json:"url"`
}

// Moved is a transition of the table.
type Moved struct {
	Task    IssueKey  `json:"task"`
	Attempt int       `json:"attempt,omitempty"`
	From    State     `json:"from"`
	To      State     `json:"to"`
	On      Trigger   `json:"on"`
	Why     string    `json:"why,omitempty"`
	Until   time.Time `json:"until,omitzero"` // To's own deadline
}

// AttemptBegan charges the tally and numbers the attempt. The move to Starting follows.
type AttemptBegan struct {
	Task       IssueKey  `json:"task"`
	N          int       `json:"n"`
	Next       Next      `json:"next"`
	WatchdogAt time.Time `json:"watchdog_at"`
}

// ContainerStarted: the start was confirmed; from HelloBy on a missing hello counts. The attempt's life is bounded from
// here: a start that waits for a limit or an outage is not the worker's time.
type ContainerStarted struct {
	Task       IssueKey  `json:"task"`
	HelloBy    time.Time `json:"hello_by"`
	WatchdogAt time.Time `json:"watchdog_at"`
}

// LabelsConfirmed: our labels are on the issue; older views of it don't count.
type LabelsConfirmed struct {
	Task IssueKey `json:"task"`
}

// ReportAccepted is a report that counts. Of a failure it holds what was found in the evidence, which stays where Ref says.
type ReportAccepted struct {
	Task   IssueKey  `json:"task"`
	Worker string    `json:"worker"`
	Ref    ReportRef `json:"ref"`
	OK     bool      `json:"ok"`
	Final  bool      `json:"final"`
	Exit   bool      `json:"exit,omitempty"`
	Stage  string    `json:"stage,omitempty"`
	// Provider is whose model a failure was about, if the report says.
	Provider string            `json:"provider,omitempty"`
	Finding  *recovery.Finding `json:"finding,omitempty"`
	// Claim is what the worker says it means; kept, so that disagreement can be counted.
	Claim *recovery.Claim `json:"claim,omitempty"`
}

// WorkerGreeted and StrangerMet change nothing: they are there so that an answer to a worker waits until the journal has
// shown that this director is still the one that writes it.
type WorkerGreeted struct {
	Task   IssueKey `json:"task"`
	Worker string   `json:"worker"`
}

// StrangerMet: a worker that has no attempt (any more) said something, or its container is there.
type StrangerMet struct {
	Worker string `json:"worker"`
}

// WatchdogMoved: the time in which the director was paused does not count.
type WatchdogMoved struct {
	Task IssueKey  `json:"task"`
	At   time.Time `json:"at"`
}

// HintsGiven replaces what people have said to the next attempts.
type HintsGiven struct {
	Task  IssueKey `json:"task"`
	Hints []Hint   `json:"hints"`
}

// ClaimWentStale counts how often a claim of an issue was given back because nothing happened in it.
type ClaimWentStale struct {
	Task IssueKey `json:"task"`
}

// EndingSet is what the director itself knows about the attempt's end.
type EndingSet struct {
	Task    IssueKey        `json:"task"`
	Outcome Outcome         `json:"outcome"`
	Known   recovery.Reason `json:"known,omitempty"`
	Cause   string          `json:"cause,omitempty"`
}

// VerdictMade is what was decided about a failed attempt.
type VerdictMade struct {
	Task    IssueKey         `json:"task"`
	Attempt int              `json:"attempt"`
	Stage   string           `json:"stage,omitempty"`
	Finding recovery.Finding `json:"finding"`
	Verdict recovery.Verdict `json:"verdict"`
	// Incident is the key under which the failure counts with those of other tasks; empty: it is the task's own.
	Incident string `json:"incident,omitempty"`
}

// AttemptUsed is what the attempt that ended has used; it comes before the verdict.
type AttemptUsed struct {
	Task  IssueKey       `json:"task"`
	Usage recovery.Usage `json:"usage"`
}

// UsageSeen is what the current attempt has used so far, told when it has paid for another call.
type UsageSeen struct {
	Task  IssueKey       `json:"task"`
	Usage recovery.Usage `json:"usage"`
}

// PaidCallsSet: an operator set what the task has used up.
type PaidCallsSet struct {
	Task      IssueKey `json:"task"`
	PaidCalls int64    `json:"paid_calls"`
}

// TallyReset: a human answered, so the task gets its chances back.
type TallyReset struct {
	Task IssueKey `json:"task"`
	By   string   `json:"by"`
}

// WorkDelivered says what was delivered.
type WorkDelivered struct {
	Task   IssueKey `json:"task"`
	Pushed Pushed   `json:"pushed"`
}

// EffectPlanned, EffectDone and EffectDeferred are the life of a durable effect.
type EffectPlanned struct {
	Effect Effect `json:"effect"`
}

// EffectDone ends it, with the reason if it ended without having been carried out: a permanent failure, or something
// else that made it pointless.
type EffectDone struct {
	Task   IssueKey `json:"task"`
	Effect string   `json:"effect"`
	Failed string   `json:"failed,omitempty"`
}

// EffectDeferred: it failed and is tried again.
type EffectDeferred struct {
	Task   IssueKey  `json:"task"`
	Effect string    `json:"effect"`
	Tries  int       `json:"tries"`
	Until  time.Time `json:"until"`
	Why    string    `json:"why"`
}

func (RunBegan) factKind() string         { return "run_began" }
func (PhaseChanged) factKind() string     { return "phase_changed" }
func (CursorAdvanced) factKind() string   { return "cursor_advanced" }
func (CooldownSet) factKind() string      { return "cooldown_set" }
func (IncidentChanged) factKind() string  { return "incident_changed" }
func (IncidentOver) factKind() string     { return "incident_over" }
func (TaskQueued) factKind() string       { return "task_queued" }
func (TaskRenamed) factKind() string      { return "task_renamed" }
func (Moved) factKind() string            { return "moved" }
func (AttemptBegan) factKind() string     { return "attempt_began" }
func (ContainerStarted) factKind() string { return "container_started" }
func (LabelsConfirmed) factKind() string  { return "labels_confirmed" }
func (ReportAccepted) factKind() string   { return "report_accepted" }
func (WorkerGreeted) factKind() string    { return "worker_greeted" }
func (StrangerMet) factKind() string      { return "stranger_met" }
func (WatchdogMoved) factKind() string    { return "watchdog_moved" }
func (HintsGiven) factKind() string       { return "hints_given" }
func (ClaimWentStale) factKind() string   { return "claim_went_stale" }
func (EndingSet) factKind() string        { return "ending_set" }
func (VerdictMade) factKind() string      { return "verdict_made" }
func (AttemptUsed) factKind() string      { return "attempt_used" }
func (UsageSeen) factKind() string        { return "usage_seen" }
func (PaidCallsSet) factKind() string     { return "paid_calls_set" }
func (TallyReset) factKind() string       { return "tally_reset" }
func (WorkDelivered) factKind() string    { return "work_delivered" }
func (EffectPlanned) factKind() string    { return "effect_planned" }
func (EffectDone) factKind() string       { return "effect_done" }
func (EffectDeferred) factKind() string   { return "effect_deferred" }

// taskFact is a fact that changes one task and nothing else.
type taskFact interface {
	Fact
	task() IssueKey
}

func (f TaskRenamed) task() IssueKey      { return f.Task }
func (f Moved) task() IssueKey            { return f.Task }
func (f AttemptBegan) task() IssueKey     { return f.Task }
func (f ContainerStarted) task() IssueKey { return f.Task }
func (f LabelsConfirmed) task() IssueKey  { return f.Task }
func (f ReportAccepted) task() IssueKey   { return f.Task }
func (f EndingSet) task() IssueKey        { return f.Task }
func (f VerdictMade) task() IssueKey      { return f.Task }
func (f AttemptUsed) task() IssueKey      { return f.Task }
func (f UsageSeen) task() IssueKey        { return f.Task }
func (f PaidCallsSet) task() IssueKey     { return f.Task }
func (f TallyReset) task() IssueKey       { return f.Task }
func (f EffectDone) task() IssueKey       { return f.Task }
func (f EffectDeferred) task() IssueKey   { return f.Task }
func (f WatchdogMoved) task() IssueKey    { return f.Task }
func (f HintsGiven) task() IssueKey       { return f.Task }
func (f EffectPlanned) task() IssueKey    { return f.Effect.Task }

// factKinds names every kind of fact once, and how it is read back.
var factKinds = map[string]func([]byte) (Fact, error){
	RunBegan{}.factKind():         readFact[RunBegan],
	PhaseChanged{}.factKind():     readFact[PhaseChanged],
	CursorAdvanced{}.factKind():   readFact[CursorAdvanced],
	CooldownSet{}.factKind():      readFact[CooldownSet],
	IncidentChanged{}.factKind():  readFact[IncidentChanged],
	IncidentOver{}.factKind():     readFact[IncidentOver],
	TaskQueued{}.factKind():       readFact[TaskQueued],
	TaskRenamed{}.factKind():      readFact[TaskRenamed],
	Moved{}.factKind():            readFact[Moved],
	AttemptBegan{}.factKind():     readFact[AttemptBegan],
	ContainerStarted{}.factKind(): readFact[ContainerStarted],
	LabelsConfirmed{}.factKind():  readFact[LabelsConfirmed],
	ReportAccepted{}.factKind():   readFact[ReportAccepted],
	WorkerGreeted{}.factKind():    readFact[WorkerGreeted],
	StrangerMet{}.factKind():      readFact[StrangerMet],
	WatchdogMoved{}.factKind():    readFact[WatchdogMoved],
	HintsGiven{}.factKind():       readFact[HintsGiven],
	ClaimWentStale{}.factKind():   readFact[ClaimWentStale],
	EndingSet{}.factKind():        readFact[EndingSet],
	VerdictMade{}.factKind():      readFact[VerdictMade],
	AttemptUsed{}.factKind():      readFact[AttemptUsed],
	UsageSeen{}.factKind():        readFact[UsageSeen],
	PaidCallsSet{}.factKind():     readFact[PaidCallsSet],
	TallyReset{}.factKind():       readFact[TallyReset],
	WorkDelivered{}.factKind():    readFact[WorkDelivered],
	EffectPlanned{}.factKind():    readFact[EffectPlanned],
	EffectDone{}.factKind():       readFact[EffectDone],
	EffectDeferred{}.factKind():   readFact[EffectDeferred],
}

func readFact[T Fact](b []byte) (Fact, error) {
	var f T
	err := json.Unmarshal(b, &f)
	return f, err
}

// Record is one line of the journal: what happened, and what was decided about it.
type Record struct {
	At    time.Time `json:"at"`
	Cause Cause     `json:"cause"`
	Facts FactList  `json:"facts"`
}

// FactList writes each fact as {"kind": "…", "body": {…}}.
type FactList []Fact

type factJSON struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body"`
}

// MarshalJSON writes the list.
func (l FactList) MarshalJSON() ([]byte, error) {
	out := make([]factJSON, len(l))
	for i, f := range l {
		body, err := json.Marshal(f)
		if err != nil {
			return nil, fmt.Errorf("fsm: fact %s: %w", f.factKind(), err)
		}
		out[i] = factJSON{f.factKind(), body}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the list; a kind that this version does not know is an error, since skipping it would lose state.
func (l *FactList) UnmarshalJSON(b []byte) error {
	var raw []factJSON
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*l = make(FactList, len(raw))
	for i, one := range raw {
		read, ok := factKinds[one.Kind]
		if !ok {
			return fmt.Errorf("fsm: unknown kind of fact %q: the journal was written by a newer version", one.Kind)
		}
		f, err := read(one.Body)
		if err != nil {
			return fmt.Errorf("fsm: fact %d (%s): %w", i, one.Kind, err)
		}
		(*l)[i] = f
	}
	return nil
}
