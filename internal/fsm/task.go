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

// Number returns n, or 0 if the key lacks a number.
func (k IssueKey) Number() int {
	_, n, _ := strings.Cut(string(k), "#")
	i, _ := strconv.Atoi(n)
	return i
}

// fold returns the canonical spelling of an issue.
func (k IssueKey) fold() IssueKey { return IssueKey(strings.ToLower(string(k))) }

// Fold returns the canonical spelling of the key, for use as a map key.
func (k IssueKey) Fold() IssueKey { return k.fold() }

// Same reports whether two keys name one issue, however they are spelled.
func (k IssueKey) Same(as IssueKey) bool { return k.fold() == as.fold() }

// valid reports whether the key has an owner, a repository and a positive number.
func (k IssueKey) valid() bool {
	owner, name, ok := strings.Cut(k.Repo(), "/")
	return ok && owner != "" && name != "" && k.Number() > 0
}

// BranchName returns the name of the branch for the work of an attempt: retake/<issue>-a<attempt>. A founding decision
// prescribes it.
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

// Task is the director's record of one issue, from the queue to the end of its claim. All of it is hard state, except
// soft.
type Task struct {
	Key   IssueKey  `json:"key"`
	Nonce string    `json:"nonce"` // of the claim; unique across all claims
	Seq   uint64    `json:"seq"`   // order of arrival
	Title string    `json:"title"`
	URL   string    `json:"url"`
	State State     `json:"state"`
	Since time.Time `json:"since"` // when State was entered

	// Attempt is the number of the current or last attempt; 0 before the first.
	Attempt int `json:"attempt"`
	// Until is the state's deadline, if it has one: for the hello (Starting), for a sign of life (Suspect), for
	// the next attempt (Backoff).
	Until time.Time `json:"until,omitzero"`
	// WatchdogAt bounds the life of the current attempt.
	WatchdogAt time.Time `json:"watchdog_at,omitzero"`
	// UpAt is when the start of the current attempt's container was confirmed. It is zero before that.
	UpAt time.Time `json:"up_at,omitzero"`
	// Validates means that the current or last attempt validates the work in a clean container, without an agent.
	Validates bool `json:"validates,omitempty"`
	// LeavesValidation means that its plan ends before VALIDATE. Another attempt runs that stage.
	LeavesValidation bool `json:"leaves_validation,omitempty"`
	// Travels means that the current or last attempt works on a fetched copy of the director's checkout.
	Travels bool `json:"travels,omitempty"`
	// Waits describes the wait of the current attempt's container before it runs. It is nil if the container runs or
	// was not started.
	Waits *Placement `json:"waits,omitempty"`
	// Alternative means that a verdict has asked for the other model since a human last answered.
	Alternative bool `json:"alternative,omitempty"`
	// LabelsAt is when our last change to the labels was confirmed. Earlier views of the issue are stale.
	LabelsAt time.Time `json:"labels_at,omitzero"`
	// Answers counts the changes to the task's course by a human, the end of an incident, or a repeated delivery.
	Answers int `json:"answers,omitempty"`
	// Resumed means that the task was blocked or in review, so the claim's labels must be restored before the next
	// attempt.
	Resumed bool `json:"resumed,omitempty"`

	// Commanded names the operator and their last command. The task's comment shows it, because an operator's
	// command is not visible elsewhere on GitHub.
	Commanded string `json:"commanded,omitempty"`

	Standing Standing `json:"standing,omitzero"`

	// Work describes the claim's last push, for a delivery or with a question.
	Work DeliverResult `json:"work,omitzero"`
	// Reviewed is the part of the pull request's review that was acted upon.
	Reviewed Reviewed `json:"reviewed,omitzero"`
	// Spent is the usage of all attempts of the claim. A human's answer does not reset it.
	Spent recovery.Usage `json:"spent,omitzero"`

	// Incident is the key under which the last failure counts together with failures of other tasks. IncidentWaits
	// counts, since a human's last answer, how often an incident was blamed for the task's failure or unblocked it.
	Incident      string `json:"incident,omitempty"`
	IncidentWaits int    `json:"spared,omitempty"`

	// Hints are people's comments for the next attempts, oldest first, at most maxHints.
	Hints []Hint `json:"hints,omitempty"`

	// Open is the question that waits for an answer, and Heard the last comment since then without a command. Both
	// are nil unless the task is blocked.
	Open  *OpenQuestion `json:"open_question,omitempty"`
	Heard *Remark       `json:"heard,omitempty"`

	Next    Next           `json:"next"`
	Tally   recovery.Tally `json:"tally"`
	Used    recovery.Usage `json:"used,omitzero"` // by the current attempt at its last payment; not in Tally yet
	Ending  Ending         `json:"ending"`
	Reports []string       `json:"reports,omitempty"` // "<attempt>/<report id>", newest last, at most maxReports
	History []Failure      `json:"history,omitempty"` // newest last, at most maxHistory
	Outbox  []Planned      `json:"outbox,omitempty"`  // durable effects, carried out in this order

	soft soft

	// The task's places in the machine's queues.
	timer place
	ready turn
	slot  bool

	finished, owes bool // counted in the machine's fields of the same names
}

// Bounds on a task's memory. Agents and humans see five failures. A worker sends one final report and a few notices.
const (
	maxReports   = 16
	maxHistory   = 5
	maxHints     = 10
	maxHintBytes = 2 << 10
)

// Hint is a person's comment on the task. It reaches the agent as quoted data.
type Hint struct {
	From string    `json:"from"`
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// OpenQuestion is a question on the issue.
type OpenQuestion struct {
	Comment    int64 `json:"comment,omitempty"`     // its id, or 0 if unknown
	AgentAsked bool  `json:"agent_asked,omitempty"` // the agent wrote the question
}

// Remark is a person's comment without a command.
type Remark struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Next describes how to run the next attempt and which meter pays for it.
type Next struct {
	Action  recovery.Action `json:"action,omitempty"`
	Charges recovery.Cause  `json:"charges,omitempty"`
	Reason  recovery.Reason `json:"reason,omitempty"`
	Fresh   bool            `json:"fresh,omitempty"` // on a checkout that begins at the base branch
	// Validate means that the attempt only validates the work, in a clean container.
	Validate bool `json:"validate,omitempty"`
	// Deliver means that the finished work is delivered again, without an attempt.
	Deliver bool `json:"deliver,omitempty"`
}

// usesModel reports whether the next step uses a model. Validations and deliveries do not.
func (n Next) usesModel() bool { return !n.Validate && !n.Deliver }

// Outcome is the result of an attempt.
type Outcome string

// The outcomes. A success that was accepted in time beats a later failure, and a withdrawal beats both.
const (
	OutcomeOK        Outcome = "ok"
	OutcomeFailed    Outcome = "failed"
	OutcomeWithdrawn Outcome = "withdrawn"
)

// Ending collects what ends the current attempt, until its container is confirmed gone.
type Ending struct {
	Outcome Outcome `json:"outcome,omitempty"`
	// Known is a failure that the director observed itself (watchdog, silence, failed start). KnownCause describes it
	// to people.
	Known      recovery.Reason `json:"known,omitempty"`
	KnownCause string          `json:"known_cause,omitempty"`
	Resource   string          `json:"resource,omitempty"`  // the resource that it used then
	Withdrawn  string          `json:"withdrawn,omitempty"` // the reason, if the task was withdrawn
	Taken      string          `json:"taken,omitempty"`     // by whom, if a person takes over
	// Fenced explains why the end could not be confirmed. It is empty if the container is gone or still being stopped.
	Fenced string `json:"fenced,omitempty"`
	// Provider is the provider of the model that failed, if the report names it.
	Provider string `json:"provider,omitempty"`
	// Finding classifies the first final report of a failure. Stage is the stage that failed, and Report refers to the
	// stored report.
	Finding *recovery.Finding `json:"finding,omitempty"`
	Stage   string            `json:"stage,omitempty"`
	Report  *ReportRef        `json:"report,omitempty"`
	// Word is the reporter's explicit word on a retry or a person, or nil.
	Word *recovery.Assertion `json:"word,omitempty"`
}

// ReportRef refers to stored evidence.
type ReportRef struct {
	ID     string `json:"id"`
	Seq    uint64 `json:"seq"`
	SHA256 string `json:"sha256"`
}

// Failure is one line of a task's history.
type Failure struct {
	Attempt int             `json:"attempt"`
	Stage   string          `json:"stage,omitempty"`
	Reason  recovery.Reason `json:"reason"`
	Cause   string          `json:"cause"`
	Action  recovery.Action `json:"action"` // the action that followed
	At      time.Time       `json:"at"`
	// Signature is equal for the same logical failure.
	Signature string `json:"signature,omitempty"`
}

// Planned is one durable effect that is not done yet.
type Planned struct {
	Effect    Effect    `json:"effect"`
	Tries     int       `json:"tries,omitempty"`     // failed so far
	NotBefore time.Time `json:"not_before,omitzero"` // after a failure
	Since     time.Time `json:"since,omitzero"`      // when it failed first
	Refused   int       `json:"refused,omitempty"`   // tries that were refused permanently
	Failing   Failing   `json:"failing,omitzero"`
}

// Failing counts an effect's failures of one kind since a time. All failures since then match the same row of patience.
type Failing struct {
	Row   string    `json:"row"`
	Times int       `json:"times"`
	Since time.Time `json:"since,omitzero"` // zero after a wait for a stated reset
}

// soft is the state that a restart may lose.
type soft struct {
	seenAt       time.Time     // last sign of life; zero if this process has not seen one
	upAt         time.Time     // when this process learnt that the container runs; zero if an earlier one did
	listedAt     time.Time     // when the runtime last listed the container as running
	unansweredAt time.Time     // when the last probe without an answer was sent
	awaitsUntil  time.Time     // Suspect: until then the runtime's list and the end of a probe are awaited
	slack        time.Duration // time for which the director was suspended during this attempt
	inFlight     string        // id of the durable effect that this process has emitted
	askedForView time.Time     // the value of LabelsAt when the issue was last asked for
	answersRead  time.Time     // Blocked: the issue's UpdatedAt when its comments were last read
	commentDue   bool          // the comment is to be edited
	commentWhy   string        // for the comment
	kept         keptEdit
	// topic of the question that the last verdict asks; a replay derives it for old journals
	topic recovery.Topic
	Activity
}

// keptEdit is the edit of the comment which says that finished work is kept although its delivery fails. The next try
// of the delivery cancels a waiting edit, so each failure plans the edit again until it has been made.
type keptEdit struct {
	delivery string // id of the failing effect
	edit     string // id of the edit that was planned last
	made     bool   // or permanently refused
}

// Activity is a worker's last report about itself.
type Activity struct {
	Stage   string   `json:"stage,omitempty"`
	Step    string   `json:"step,omitempty"`
	Percent *float64 `json:"percent,omitempty"`
	Paused  bool     `json:"paused,omitempty"`
	// Usage is the attempt's usage so far, or nil if this heartbeat does not contain it.
	Usage *recovery.Usage `json:"usage,omitempty"`
	// ErrorID identifies the worker's last failure. It is empty if this heartbeat does not name a failure.
	ErrorID string `json:"error_id,omitempty"`
}

// withTopic adds the topic to a question that an earlier version planned.
func (t *Task) withTopic(e Effect) Effect {
	if q := e.Escalation; q != nil && q.Topic == "" && t.soft.topic != "" {
		e.Escalation = new(*q)
		e.Escalation.Topic = t.soft.topic
	}
	return e
}

// AttemptID returns the id of the current attempt.
func (t *Task) AttemptID() string { return AttemptID(t.Nonce, t.Attempt) }

// Activity returns the worker's last report about itself and its time, which is zero if this process has not received
// one.
func (t *Task) Activity() (Activity, time.Time) { return t.soft.Activity, t.soft.seenAt }

// validates reports whether the attempt under way, or else the next one, only validates the work.
func (t *Task) validates() bool {
	return t.State.Info().Live && t.Validates || !t.State.Info().Live && t.Next.Validate
}

// readEffects completes the outbox of a task that was read from the journal.
func (t *Task) readEffects() {
	for i := range t.Outbox {
		t.Outbox[i].Effect.readAnswers()
	}
}

// shown returns the state that people see. Work that waits for another delivery counts as Delivering.
func (t *Task) shown() State {
	if t.State == Backoff && t.Next.Deliver {
		return Delivering
	}
	return t.State
}

// holdsSlot reports whether the task counts against director.max_workers, because of its state or because its issue is
// being re-read before a start.
func (t *Task) holdsSlot() bool {
	return t.State.Info().Slot || t.State == Backoff && (t.plans(DoClaim) || t.plans(DoRecheck))
}

// plans reports whether an effect of that kind is not done yet.
func (t *Task) plans(k EffectKind) bool {
	return slices.ContainsFunc(t.Outbox, func(p Planned) bool { return p.Effect.Kind == k })
}

// remembers reports whether a report of the current or an earlier attempt was accepted.
func (t *Task) remembers(worker, report string) bool {
	return slices.Contains(t.Reports, worker+"/"+report)
}

// hasRoomFor reports whether one more report of the current attempt can be remembered. The last place is
// reserved for the first final report. Reports of the current attempt are therefore never forgotten and never
// decided twice.
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
