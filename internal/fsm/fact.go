package fsm

import (
	"time"

	"retake/internal/recovery"
)

// Fact is one decided change of the hard state. It contains every value that Apply needs.
type Fact interface {
	// apply changes the state. m.now is the time of the decision, and t is the task of a taskFact.
	apply(m *agenda, t *Task)
}

// taskFact changes one task. It has no effect if the task does not exist.
type taskFact interface{ task() IssueKey }

// OfTask is embedded in facts that change one task.
type OfTask struct {
	Task IssueKey `json:"task"`
}

func (f OfTask) task() IssueKey { return f.Task }

// RunBegan marks the start of a process in the journal.
type RunBegan struct {
	RunID    string    `json:"run_id"`
	Settings *Settings `json:"settings,omitempty"` // nil in old journals
}

// SettingsChanged means that a running director reread its configuration. Later decisions use the new configuration,
// but running attempts keep the plan that they began with.
type SettingsChanged struct {
	By     string `json:"by"`     // the trigger, such as a signal, a command or a changed file
	Digest string `json:"digest"` // digest of the new configuration and the files it refers to
	// Keys lists the changed keys that apply at once. Restart lists the changed keys that apply after a restart.
	Keys     []string  `json:"keys"`
	Restart  []string  `json:"restart,omitempty"`
	Settings *Settings `json:"settings,omitempty"`
}

// PhaseChanged is a change of the director's own phase.
type PhaseChanged struct {
	From Phase  `json:"from"`
	To   Phase  `json:"to"`
	Why  string `json:"why"`
}

// CursorAdvanced records how far the director has read a repository.
type CursorAdvanced RepoCursor

// CooldownSet closes a resource.
type CooldownSet Cooldown

// CooldownLifted opens a resource at an operator's command. Earlier statements about the resource no longer count.
type CooldownLifted struct {
	Resource string     `json:"resource"`
	Tasks    []IssueKey `json:"tasks,omitempty"` // tasks that waited for the resource and continue now
}

// LimitStated records a worker's statement about a limit. It replaces the task's last statement about the same
// resource.
type LimitStated Statement

// IncidentChanged records an incident's new state.
type IncidentChanged struct {
	Incident Incident `json:"incident"`
	Over     bool     `json:"over,omitempty"` // set if the machine forgets the incident
}

// TaskQueued records a new task.
type TaskQueued struct {
	Task  IssueKey `json:"task"`
	Nonce string   `json:"nonce"`
	Title string   `json:"title"`
	URL   string   `json:"url"`

	Standing Standing `json:"standing,omitzero"`
}

// StateKept contains the state, without tasks, from the undamaged part of a journal. It is the first fact of the
// replacement journal.
type StateKept struct {
	State hardState `json:"state"`
}

// TaskRebuilt contains a task that the director reconstructed because the journal was lost or damaged.
type TaskRebuilt struct {
	Row     string `json:"row"` // name of a row in RebuildRows
	Rebuilt Task   `json:"rebuilt"`
}

// RebuildWritten marks the end of one part of a rebuild, and does not change state. The parts of a rebuild come first
// in the journal.
type RebuildWritten struct {
	ID   string `json:"id"`
	Part int    `json:"part"` // from 1 to Of
	Of   int    `json:"of"`
}

// TaskRenamed records that the issue's title or address has changed.
type TaskRenamed struct {
	OfTask
	Title string `json:"title"`
	URL   string `json:"url"`
}

// StandingChanged records a change of the priority, dependencies or caps of a queued task.
type StandingChanged struct {
	OfTask
	Standing Standing `json:"standing"`
}

// Moved records a transition in the table.
type Moved struct {
	OfTask
	Attempt int       `json:"attempt,omitempty"`
	From    State     `json:"from"`
	To      State     `json:"to"`
	On      Trigger   `json:"on"`
	Why     string    `json:"why,omitempty"`
	Until   time.Time `json:"until,omitzero"` // the deadline of the new state
	// Turn means that a queued issue was claimed, so its repository begins to wait for its next turn. Older versions
	// did not record it.
	Turn bool `json:"turn,omitempty"`
}

// AttemptBegan begins an attempt with a new number. The preceding verdict has already charged the tally. The move to
// Starting follows as a separate fact.
type AttemptBegan struct {
	OfTask
	N          int       `json:"n"`
	Next       Next      `json:"next"`
	WatchdogAt time.Time `json:"watchdog_at"`
	// LeavesValidation means that the attempt's plan ends before VALIDATE. Another attempt runs that stage, even if the
	// configuration changes in between.
	LeavesValidation bool `json:"leaves_validation,omitempty"`
	// Travels means that the attempt's worker fetches its checkout. It is absent in old journals, in which every worker
	// used the director's checkout.
	Travels bool `json:"travels,omitempty"`
}

// ContainerStarted confirms that the container is running. The worker must say hello before HelloBy. The attempt's time
// limit starts here, so it excludes time spent waiting for a limit, an outage or capacity (ContainerWaits).
type ContainerStarted struct {
	OfTask
	HelloBy    time.Time `json:"hello_by"`
	WatchdogAt time.Time `json:"watchdog_at"`
}

// LabelsConfirmed records that our labels are on the issue. Older views of the issue no longer count.
type LabelsConfirmed struct {
	OfTask
}

// ReportAccepted records a report that counts, and the finding for a failure. The evidence stays in the stream at Ref.
type ReportAccepted struct {
	OfTask
	Worker string    `json:"worker"`
	Ref    ReportRef `json:"ref"`
	OK     bool      `json:"ok"`
	Final  bool      `json:"final"`
	Exit   bool      `json:"exit,omitempty"`
	Stage  string    `json:"stage,omitempty"`
	// Provider is the provider of the model that failed, if the report names it.
	Provider string            `json:"provider,omitempty"`
	Finding  *recovery.Finding `json:"finding,omitempty"`
	// Assertion is the worker's claim about its failure.
	Assertion *recovery.Assertion `json:"claim,omitempty"`
	// Note is a warning that the report names another issue or attempt.
	Note string `json:"note,omitempty"`
}

// WorkerAnswered does not change state. It delays an answer to a worker, or the removal of an unknown container, until
// the journal has accepted a record from this director. A director that was replaced therefore cannot answer.
type WorkerAnswered struct {
	Worker  string `json:"worker"`
	Welcome bool   `json:"welcome,omitempty"` // false if the worker's attempt is over or unknown
}

// WatchdogMoved extends the attempt's time limit by the length of a pause.
type WatchdogMoved struct {
	OfTask
	At time.Time `json:"at"`
}

// HintsGiven replaces the list of people's comments for the next attempts.
type HintsGiven struct {
	OfTask
	Hints []Hint `json:"hints"`
}

// ClaimWentStale records that the director released a stale claim. The next time, the director asks a human.
type ClaimWentStale struct {
	Task IssueKey `json:"task"`
}

// EndingSet records the director's own evidence about the attempt's end.
type EndingSet struct {
	OfTask
	Outcome Outcome         `json:"outcome"`
	Known   recovery.Reason `json:"known,omitempty"`
	Cause   string          `json:"cause,omitempty"`
	// Resource is the resource that the director was using when the failure Known occurred, if any.
	Resource string `json:"resource,omitempty"`
	Taken    string `json:"taken,omitempty"` // the person who takes the issue over, after a withdrawal
	Order    *Next  `json:"order,omitempty"` // see Ending.Order
}

// ValidationDue records that the attempt succeeded, and that the next one validates its work in a clean container. The
// tally is not charged.
type ValidationDue struct {
	OfTask
	Attempt int `json:"attempt"`
}

// VerdictMade records the verdict on a failed attempt.
type VerdictMade struct {
	OfTask
	Attempt int              `json:"attempt"`
	Stage   string           `json:"stage,omitempty"`
	Finding recovery.Finding `json:"finding"`
	Verdict recovery.Verdict `json:"verdict"`
	// Incident is the key of the incident that counts the failure, or empty if the failure concerns only this task.
	Incident string `json:"incident,omitempty"`
	// Validate means that the next attempt only validates the work, in a clean container.
	Validate bool `json:"validate,omitempty"`
	// Deliver means that the work is finished. Once a person answers, it is delivered without another attempt.
	Deliver bool `json:"deliver,omitempty"`
	// Disagrees means that the policy's choice contradicts the worker's explicit request.
	Disagrees bool `json:"disagrees,omitempty"`
	// Caller is the configured caller of the stage. It is empty for the default, and in old journals.
	Caller string `json:"caller,omitempty"`
}

// UsageCounted records the usage of the current attempt, or an operator's correction of the claim's usage.
type UsageCounted struct {
	OfTask
	Usage recovery.Usage `json:"usage"`
	// Ended means that the attempt is over and its usage is part of the claim's usage. The verdict follows.
	Ended bool `json:"ended,omitempty"`
	// Spent is the usage of all attempts of the claim so far. It is absent in old journals.
	Spent recovery.Usage `json:"spent,omitzero"`
	// PaidCalls is the number of calls before this attempt, if an operator set it. Usage is then ignored.
	PaidCalls *int64 `json:"paid_calls,omitempty"`
}

// TallyReset records a human's answer, which resets all meters.
type TallyReset struct {
	OfTask
	By string `json:"by"`
	// Redispatches is the number of redispatches that count as used. It is above 0 if the human granted fewer attempts
	// than the configuration allows.
	Redispatches int `json:"redispatches,omitempty"`
	// Next is the kind of attempt that the human wants next.
	Next Next `json:"next,omitzero"`
}

// CommandTaken records a command from a person or the operator, so that it is never carried out again.
type CommandTaken struct {
	Task IssueKey `json:"task"`
	CommandRef
	Command Command `json:"command"`
	By      string  `json:"by"`
	Refused string  `json:"refused,omitempty"` // why it was not carried out
}

// CommentHeard records a person's comment without a command on a blocked task. The director acknowledges the comment
// once.
type CommentHeard struct {
	OfTask
	CommandRef
	By string `json:"by"`
	// Answers means that the comment answers the agent's question, so the task continues.
	Answers bool `json:"answers,omitempty"`
}

// ReviewNoted records how much of the pull request's review has been handled.
type ReviewNoted struct {
	OfTask
	Reviewed Reviewed `json:"reviewed"`
}

// WorkDelivered records a delivery.
type WorkDelivered struct {
	Task     IssueKey      `json:"task"`
	Delivery DeliverResult `json:"pushed"`
}

// WorkPushed records that unfinished work was pushed for people to see.
type WorkPushed struct {
	OfTask
	Work DeliverResult `json:"work"`
}

// EffectPlanned puts a durable effect into its task's outbox. Each failed try adds an EffectDeferred, and EffectDone
// removes the effect.
type EffectPlanned struct {
	Effect Effect `json:"effect"`
}

func (f EffectPlanned) task() IssueKey { return f.Effect.Task }

// EffectDone removes an effect from its task's outbox. Failed is empty after a success. Otherwise it explains the
// permanent failure, or why the effect has become pointless.
type EffectDone struct {
	OfTask
	Effect string `json:"effect"`
	Failed string `json:"failed,omitempty"`
	// Asked is the question of an escalation, as posted in the comment. It is absent in old journals.
	Asked *Asked `json:"asked,omitempty"`
	// Reason is the reason for the failure. It is empty in old journals, and for effects that became pointless.
	Reason recovery.Reason `json:"reason,omitempty"`
}

// EffectDeferred records that an effect failed and will be retried.
type EffectDeferred struct {
	OfTask
	Effect string    `json:"effect"`
	Tries  int       `json:"tries"`
	Until  time.Time `json:"until"`
	Why    string    `json:"why"`
	// Since is the time of the first failure. It is zero in old journals, and while the effect only waits for a stated
	// reset.
	Since time.Time `json:"since,omitzero"`
	// Refused is the number of permanent refusals. It is absent in old journals.
	Refused int `json:"refused,omitempty"`
	// Failing counts the failures of the current kind. It is absent in old journals.
	Failing Failing `json:"failing,omitzero"`
	// Reason is the reason for the failure. It is empty in old journals, and if only the wait has changed.
	Reason recovery.Reason `json:"reason,omitempty"`
}

// About returns the issue that a fact concerns, or "" for a fact about the director.
func About(f Fact) IssueKey {
	switch f := f.(type) {
	case taskFact:
		return f.task()
	case TaskQueued:
		return f.Task
	case TaskRebuilt:
		return f.Rebuilt.Key
	case ClaimWentStale:
		return f.Task
	case CommandTaken:
		return f.Task
	case WorkDelivered:
		return f.Task
	}
	return ""
}
