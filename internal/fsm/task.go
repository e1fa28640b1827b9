package fsm

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
)

// IssueKey names an issue: "owner/repo#n".
type IssueKey string

// Repo returns "owner/repo".
func (k IssueKey) Repo() string {
	repo, _, _ := strings.Cut(string(k), "#")
	return repo
}

// Number returns n, or 0 if the key does not contain a number.
func (k IssueKey) Number() int {
	_, n, _ := strings.Cut(string(k), "#")
	i, _ := strconv.Atoi(n)
	return i
}

// fold returns the key's canonical spelling, in lower case.
func (k IssueKey) fold() IssueKey { return IssueKey(strings.ToLower(string(k))) }

// Fold returns the key in lower case, for use as a map key.
func (k IssueKey) Fold() IssueKey { return k.fold() }

// Same reports whether two keys name the same issue. It ignores case.
func (k IssueKey) Same(as IssueKey) bool { return k.fold() == as.fold() }

// valid reports whether the key has an owner, a repository and a positive number.
func (k IssueKey) valid() bool {
	owner, name, ok := strings.Cut(k.Repo(), "/")
	return ok && owner != "" && name != "" && k.Number() > 0
}

// BranchName returns the branch for an attempt's work: retake/<issue>-a<attempt>.
func BranchName(k IssueKey, attempt int) string {
	return "retake/" + strconv.Itoa(k.Number()) + "-a" + strconv.Itoa(attempt)
}

// AttemptID returns the id of attempt n of a claim. It is also the name of the container and the worker.
func AttemptID(nonce string, n int) string { return nonce + "-" + strconv.Itoa(n) }

// ParseAttemptID splits an attempt id. ok is false if AttemptID cannot return that id.
func ParseAttemptID(id string) (nonce string, n int, ok bool) {
	i := strings.LastIndexByte(id, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(id[i+1:])
	if err != nil || n < 1 || AttemptID(id[:i], n) != id {
		return "", 0, false
	}
	return id[:i], n, true
}

// Task is the director's record of one issue, from the queue to the end of its claim. All exported fields are hard
// state.
type Task struct {
	Key   IssueKey  `json:"key"`
	Nonce string    `json:"nonce"` // nonce of the claim, unique among all claims
	Seq   uint64    `json:"seq"`   // order of arrival
	Title string    `json:"title"`
	URL   string    `json:"url"`
	State State     `json:"state"`
	Since time.Time `json:"since"` // time of the transition to State

	// Attempt is the number of the current or last attempt; 0 before the first.
	Attempt int `json:"attempt"`
	// Until is the state's deadline, if any: for the hello (Starting), a sign of life (Suspect) or a reminder
	// (Blocked). In Backoff it is the earliest time for the next attempt, and in Parked it is the end of the snooze.
	Until time.Time `json:"until,omitzero"`
	// WatchdogAt is the end of the current attempt's time limit.
	WatchdogAt time.Time `json:"watchdog_at,omitzero"`
	// UpAt is the time at which the current attempt's container was confirmed to be running, or zero.
	UpAt time.Time `json:"up_at,omitzero"`
	// Validates means that the current or last attempt validates the work in a clean container, without an agent.
	Validates bool `json:"validates,omitempty"`
	// LeavesValidation means that the attempt's plan ends before VALIDATE, which another attempt runs.
	LeavesValidation bool `json:"leaves_validation,omitempty"`
	// Travels means that the current or last attempt works on a fetched copy of the director's checkout.
	Travels bool `json:"travels,omitempty"`
	// Contract is the contract that the current or last attempt began with. It is nil for a repository without one.
	Contract *Contract `json:"contract,omitempty"`
	// Waits describes why the current attempt's container is not running. It is nil if the container is running or has
	// not been started.
	Waits *Placement `json:"waits,omitempty"`
	// Alternative means that a verdict has asked for the other model since a human last answered.
	Alternative bool `json:"alternative,omitempty"`
	// LabelsAt is the time at which our last label change was confirmed. Earlier views are outdated.
	LabelsAt time.Time `json:"labels_at,omitzero"`
	// Answers counts human answers and snoozes, ends of incidents, and repeated deliveries. Effect ids contain this
	// number, because an attempt may have several effects of the same kind.
	Answers int `json:"answers,omitempty"`
	// Resumed means that the task was blocked or in review, so the claim's labels must be restored before the next
	// attempt.
	Resumed bool `json:"resumed,omitempty"`

	// Commanded is the operator's name and last command. The task's comment shows it, because people on GitHub cannot
	// see the command otherwise.
	Commanded string `json:"commanded,omitempty"`

	Standing Standing `json:"standing,omitzero"`

	// Work describes the claim's last push, which either delivered the work or accompanied a question.
	Work DeliverResult `json:"work,omitzero"`
	// Reviewed is the part of the pull request's review that has led to attempts.
	Reviewed Reviewed `json:"reviewed,omitzero"`
	// Spent is the usage of all attempts of the claim. A human's answer does not reset it.
	Spent recovery.Usage `json:"spent,omitzero"`

	// Incident is the key of the incident that counts the last failure. IncidentWaits counts how often incidents have
	// postponed or unblocked the task since a human last answered.
	Incident      string `json:"incident,omitempty"`
	IncidentWaits int    `json:"spared,omitempty"`

	// Hints are people's comments for the next attempts, oldest first, at most maxHints.
	Hints []Hint `json:"hints,omitempty"`

	// Open is the question awaiting an answer. Heard is the last comment without a command after that question. Both
	// are nil unless the task is blocked.
	Open  *OpenQuestion `json:"open_question,omitempty"`
	Heard *Remark       `json:"heard,omitempty"`

	Next    Next           `json:"next"`
	Tally   recovery.Tally `json:"tally"`
	Used    recovery.Usage `json:"used,omitzero"` // of the current attempt up to its last paid call; not yet in Tally
	Ending  Ending         `json:"ending"`
	Reports []string       `json:"reports,omitempty"` // "<attempt>/<report id>", newest last, at most maxReports
	History []Failure      `json:"history,omitempty"` // newest last, at most maxHistory
	Outbox  []Planned      `json:"outbox,omitempty"`  // durable effects, carried out in this order

	soft soft

	// The task's positions in the machine's queues.
	timer place
	ready turn
	slot  bool

	finished, owes bool // set while agenda.finished and agenda.owes count the task
}

// Limits on a task's lists. Prompts and comments quote at most five failures. A worker sends one final report and a few
// notices.
const (
	maxReports   = 16
	maxHistory   = 5
	maxHints     = 10
	maxHintBytes = 2 << 10
)

// Hint is a person's comment on the task. The agent receives it as quoted data.
type Hint struct {
	From string    `json:"from"`
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// OpenQuestion refers to a question on the issue.
type OpenQuestion struct {
	Comment    int64 `json:"comment,omitempty"`     // id of the comment, or 0 if unknown
	AgentAsked bool  `json:"agent_asked,omitempty"` // the agent wrote the question
}

// Remark is a person's comment without a command.
type Remark struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Next describes the next attempt.
type Next struct {
	Action  recovery.Action `json:"action,omitempty"`
	Charges recovery.Cause  `json:"charges,omitempty"`
	Reason  recovery.Reason `json:"reason,omitempty"`
	Fresh   bool            `json:"fresh,omitempty"` // on a new checkout of the base branch
	// Validate means that the attempt only validates the work, in a clean container.
	Validate bool `json:"validate,omitempty"`
	// Deliver means that the finished work is delivered again, without an attempt.
	Deliver bool `json:"deliver,omitempty"`
}

// usesModel reports whether the next step uses a model. Validations and deliveries do not.
func (n Next) usesModel() bool { return !n.Validate && !n.Deliver }

// Outcome is the result of an attempt.
type Outcome string

// The outcomes. A success that was accepted in time overrides a later failure. A withdrawal overrides both.
const (
	OutcomeOK        Outcome = "ok"
	OutcomeFailed    Outcome = "failed"
	OutcomeWithdrawn Outcome = "withdrawn"
)

// Ending collects the evidence about the current attempt's end until its container is confirmed gone.
type Ending struct {
	// Order is the order of an attempt that could not begin because of a contract. The next attempt gets it again.
	Order   *Next   `json:"order,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`
	// Known is a failure that the director itself observed (watchdog, silence, failed start). KnownCause describes it
	// in the question to a person.
	Known      recovery.Reason `json:"known,omitempty"`
	KnownCause string          `json:"known_cause,omitempty"`
	Resource   string          `json:"resource,omitempty"`  // the resource that the director was using at the failure
	Withdrawn  string          `json:"withdrawn,omitempty"` // the reason, if the task was withdrawn
	Taken      string          `json:"taken,omitempty"`     // the person who takes over, if any
	// Fenced explains why the end cannot be confirmed. It is empty if the container is gone or still being stopped.
	Fenced string `json:"fenced,omitempty"`
	// Provider is the provider of the model that failed, if the report names it.
	Provider string `json:"provider,omitempty"`
	// Finding classifies the first final report of a failure. Stage is the stage that failed, and Report refers to the
	// stored report.
	Finding *recovery.Finding `json:"finding,omitempty"`
	Stage   string            `json:"stage,omitempty"`
	Report  *ReportRef        `json:"report,omitempty"`
	// Word contains the reporter's explicit retry and escalation flags, or is nil.
	Word *recovery.Assertion `json:"word,omitempty"`
}

// ReportRef refers to a stored report.
type ReportRef struct {
	ID     string `json:"id"`
	Seq    uint64 `json:"seq"`
	SHA256 string `json:"sha256"`
}

// Failure is one entry of a task's history.
type Failure struct {
	Attempt int             `json:"attempt"`
	Stage   string          `json:"stage,omitempty"`
	Reason  recovery.Reason `json:"reason"`
	Cause   string          `json:"cause"`
	Action  recovery.Action `json:"action"` // the action that followed
	At      time.Time       `json:"at"`
	// Signature is equal for failures that presumably have the same cause.
	Signature string `json:"signature,omitempty"`
}

// Planned is one durable effect that is not done yet.
type Planned struct {
	Effect    Effect    `json:"effect"`
	Tries     int       `json:"tries,omitempty"`     // number of failures
	NotBefore time.Time `json:"not_before,omitzero"` // time of the next retry
	Since     time.Time `json:"since,omitzero"`      // time of the first failure
	Refused   int       `json:"refused,omitempty"`   // number of permanent refusals
	Failing   Failing   `json:"failing,omitzero"`
}

// Failing counts the consecutive failures of an effect that match the same row of the patience table.
type Failing struct {
	Row   string    `json:"row"`
	Times int       `json:"times"`
	Since time.Time `json:"since,omitzero"` // zero after waiting for a stated reset
}

// soft is the state that a restart may lose.
type soft struct {
	seenAt       time.Time     // time of the last sign of life; zero if this process has not seen one
	upAt         time.Time     // when this process learnt that the container is running, or zero
	listedAt     time.Time     // when the runtime last listed the container as running
	unansweredAt time.Time     // when the last unanswered probe was sent
	awaitsUntil  time.Time     // in Suspect, the deadline for the runtime's list and the answer to a probe
	slack        time.Duration // total time that the director was suspended during this attempt
	inFlight     string        // id of the durable effect that this process has emitted
	askedForView time.Time     // LabelsAt at the last request for the issue
	answersRead  time.Time     // in Blocked, the issue's UpdatedAt when its comments were last read
	commentDue   bool          // the comment must be edited
	commentWhy   string        // the explanation in the comment
	kept         keptEdit
	// topic is the topic of the last verdict's question. A replay derives it for old journals.
	topic recovery.Topic
	Activity
}

// keptEdit is the comment edit that tells people that finished work is kept even though its delivery is failing.
// Retrying the delivery cancels a pending edit, so each failure plans the edit again until it has been made.
type keptEdit struct {
	delivery string // id of the failing effect
	edit     string // id of the edit that was planned last
	made     bool   // set once the edit has been made or permanently refused
}

// Activity is the status that a worker last sent about itself.
type Activity struct {
	Stage   string   `json:"stage,omitempty"`
	Step    string   `json:"step,omitempty"`
	Percent *float64 `json:"percent,omitempty"`
	Paused  bool     `json:"paused,omitempty"`
	// Usage is the attempt's usage so far, or nil if this heartbeat does not contain it.
	Usage *recovery.Usage `json:"usage,omitempty"`
	// ErrorID identifies the worker's last failure, or is empty.
	ErrorID string `json:"error_id,omitempty"`
}

// withTopic adds the topic that an earlier version left out of a planned question.
func (t *Task) withTopic(e Effect) Effect {
	if q := e.Escalation; q != nil && q.Topic == "" && t.soft.topic != "" {
		e.Escalation = new(*q)
		e.Escalation.Topic = t.soft.topic
	}
	return e
}

// AttemptID returns the id of the current attempt.
func (t *Task) AttemptID() string { return AttemptID(t.Nonce, t.Attempt) }

// Activity returns the worker's last status and the time of its last sign of life, or zero values if this process has
// not seen one.
func (t *Task) Activity() (Activity, time.Time) { return t.soft.Activity, t.soft.seenAt }

// validates reports whether the attempt under way, or else the next one, only validates the work.
func (t *Task) validates() bool {
	return t.State.Info().Live && t.Validates || !t.State.Info().Live && t.Next.Validate
}

// readEffects sets Effect.Answers of the planned effects once the task has been read from the journal.
func (t *Task) readEffects() {
	for i := range t.Outbox {
		t.Outbox[i].Effect.readAnswers()
	}
}

// shown returns the state to show to people. It is Delivering if the task is only waiting to retry its delivery.
func (t *Task) shown() State {
	if t.State == Backoff && t.Next.Deliver {
		return Delivering
	}
	return t.State
}

// inReview returns the pull request in review, or 0.
func (t *Task) inReview() int {
	if t.State != InReview {
		return 0
	}
	return t.Work.PullRequest
}

// holdsSlot reports whether the task counts against director.max_workers, because of its state or because its issue is
// being read again before a start.
func (t *Task) holdsSlot() bool {
	return t.State.Info().Slot || t.State == Backoff && (t.plans(DoClaim) || t.plans(DoRecheck))
}

// plans reports whether the outbox has an effect of the given kind.
func (t *Task) plans(k EffectKind) bool {
	return slices.ContainsFunc(t.Outbox, func(p Planned) bool { return p.Effect.Kind == k })
}

// remembers reports whether a report has already been accepted.
func (t *Task) remembers(worker, report string) bool {
	return slices.Contains(t.Reports, worker+"/"+report)
}

// hasRoomFor reports whether one more report of the current attempt can be remembered. The last entry is reserved for
// the first final report, so a report of the current attempt is never forgotten or handled twice.
func (t *Task) hasRoomFor(final bool) bool {
	mine, prefix := 0, t.AttemptID()+"/"
	for _, r := range t.Reports {
		if strings.HasPrefix(r, prefix) {
			mine++
		}
	}
	first := t.Ending.Finding == nil && t.Ending.Outcome != OutcomeOK
	return mine < maxReports-1 || mine < maxReports && final && first
}
