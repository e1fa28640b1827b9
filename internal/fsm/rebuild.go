package fsm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Rebuilt is offered to an empty machine before Booted, if the journal was lost or damaged. It contains evidence from
// outside the journal, and the state from the undamaged part of the journal. Rebuild returns these events.
type Rebuilt struct {
	Why string `json:"why"`
	// ID identifies the rebuild. Part is the number of this event, from 1 to Of. All are absent in old journals.
	ID   string `json:"id,omitempty"`
	Part int    `json:"part,omitempty"`
	Of   int    `json:"of,omitempty"`
	// Kept is the state, without tasks, from the undamaged part of the journal, or nil.
	Kept *hardState `json:"-"`
	// Cursors are the positions from which to read the repositories that the journal does not cover.
	Cursors []RepoCursor `json:"cursors,omitempty"`
	Found   []FoundTask  `json:"found,omitempty"`
}

// FoundTask contains all evidence about one issue from outside the journal.
type FoundTask struct {
	Key    IssueKey `json:"key"`
	Title  string   `json:"title,omitempty"`
	URL    string   `json:"url,omitempty"`
	Labels []Label  `json:"labels,omitempty"` // our labels on the issue
	// Nonce identifies our claim, or is empty if we have no claim or the evidence shows that it ended.
	Nonce string `json:"nonce,omitempty"`
	// Attempt is the highest attempt number in comments, containers, reports and checkouts, or 0. It belongs to the
	// claim Nonce, or to the claim in the journal if Nonce is empty.
	Attempt int `json:"attempt,omitempty"`
	// Live is the number of the attempt with a live container, or 0. Reported means that attempt number Attempt sent
	// its final report.
	Live     int  `json:"live,omitempty"`
	Reported bool `json:"reported,omitempty"`
	// Branch is the highest attempt number in any branch name, across all of the issue's claims, or 0.
	Branch int `json:"branch,omitempty"`
	// Checkout means that the claim's work tree exists.
	Checkout bool `json:"checkout,omitempty"`
	// Question is the name of the claim's latest question (see Effect.About), or empty. Landed means that the
	// question's label was set.
	Question string `json:"question,omitempty"`
	Landed   bool   `json:"landed,omitempty"`
	// Answered means that after the question, the blocked label was removed and our claim was restored. Later events do
	// not change this.
	Answered bool `json:"answered,omitempty"`
	// Contract is the contract of attempt number Attempt, or nil.
	Contract *Contract `json:"contract,omitempty"`
	// Work is the pull request with our marker; its number is 0 if there is no pull request. Reviewed is the part of
	// its review that the work already addresses.
	Work     DeliverResult `json:"work,omitzero"`
	Reviewed Reviewed      `json:"reviewed,omitzero"`
	// Spent is the usage of all attempts according to the reports. Used is the part since the latest question.
	Spent recovery.Usage `json:"spent,omitzero"`
	Used  recovery.Usage `json:"used,omitzero"`
	// Known is the task in the undamaged part of the journal, or nil.
	Known *Task `json:"-"`
}

// rebuiltPerEvent limits the tasks in one event, and thus the size of a journal record.
const rebuiltPerEvent = 20

// Rebuild returns the events that rebuild the state. id identifies the rebuild. known is the state from the undamaged
// part of the journal, or nil. found must include the tasks known only from the journal.
func Rebuild(id string, known *Machine, found []FoundTask, cursors []RepoCursor, why string) []Rebuilt {
	first := Rebuilt{Why: why, Cursors: cursors}
	if known != nil {
		kept := known.hard
		kept.Tasks = []*Task{}
		first.Kept = &kept
		for i := range found {
			found[i].Known = known.Task(found[i].Key)
		}
	}
	events := []Rebuilt{first}
	for some := range slices.Chunk(found, rebuiltPerEvent) {
		events = append(events, Rebuilt{Why: why, Found: some})
	}
	for i := range events {
		events[i].ID, events[i].Part, events[i].Of = id, i+1, len(events)
	}
	return events
}

// LastRebuild returns the progress of the rebuild at the beginning of a journal, as of the last given record. was is
// the result for the preceding records.
func LastRebuild(was RebuildWritten, records []Record) RebuildWritten {
	for _, r := range records {
		for _, f := range r.Facts {
			if w, ok := f.(RebuildWritten); ok {
				was = w
			}
		}
	}
	return was
}

// Unfinished reports whether the rebuild stopped before its last part. Tasks are missing from such a journal, so the
// director must not resume from it.
func (w RebuildWritten) Unfinished() bool { return w.Part < w.Of }

// RebuildRow is one row of the table that determines the state of a task after the journal was lost. The first matching
// row applies.
type RebuildRow struct {
	Name    string // name in journal and log; never changes
	If      string
	Becomes string
	when    func(f *FoundTask) bool
	does    func(m *Machine, f *FoundTask, t *Task) // nil if the row does not build a task
}

// RebuildRows is the table of all rows.
var RebuildRows = []RebuildRow{
	{
		"known", "the undamaged part of the journal contains the claim, and the other evidence is not newer",
		"the task as recorded in the journal",
		(*FoundTask).agrees, func(_ *Machine, f *FoundTask, t *Task) { *t = *f.Known },
	},
	{
		"over", "the claim has ended, or does not belong to this fleet",
		"no task; remaining containers are removed",
		func(f *FoundTask) bool { return f.Nonce == "" }, nil,
	},
	{
		"in_review", "the review label, a pull request with the claim's marker, and no question in progress",
		"InReview; the next poll notices a merge or closure",
		func(f *FoundTask) bool {
			asking := f.isAsked() && (!f.Landed || f.has(LabelBlocked))
			return f.inReview() && !asking
		},
		func(_ *Machine, _ *FoundTask, t *Task) { t.State = InReview },
	},
	{
		"asked", "a question about the last attempt that got its label, and the issue has not been claimed since",
		"Blocked on that question, waiting for an answer",
		func(f *FoundTask) bool { return f.asksLast() && f.Landed && !f.has(LabelClaimed) },
		func(m *Machine, f *FoundTask, t *Task) { t.blockedAgain(m, f) },
	},
	{
		"half_asked", "a question about the last attempt that never got its label",
		"Blocked on that question; its label is added",
		func(f *FoundTask) bool { return f.asksLast() && !f.Landed },
		func(m *Machine, f *FoundTask, t *Task) { t.blockedAgain(m, f) },
	},
	{
		"running", "a running container of the last attempt, without a final report", "Running: adopted",
		func(f *FoundTask) bool { return f.Live > 0 && f.Live == f.Attempt && !f.Reported },
		func(m *Machine, _ *FoundTask, t *Task) {
			t.State, t.UpAt, t.WatchdogAt = Running, m.now, m.now.Add(m.cfg.Watchdog)
		},
	},
	{
		"question_gone", "the blocked label, and no question about the last attempt", "Blocked on a new question",
		func(f *FoundTask) bool { return f.has(LabelBlocked) && !f.has(LabelClaimed) },
		func(_ *Machine, _ *FoundTask, t *Task) { t.State = Backoff },
	},
	{
		"attempt_over", "an attempt not followed by a question, and its checkout or a running container",
		"Stopping: its reports are processed, and a success is delivered",
		func(f *FoundTask) bool { return f.Attempt > 0 && !f.isAsked() && (f.Checkout || f.Live > 0) },
		func(_ *Machine, _ *FoundTask, t *Task) { t.State = Stopping },
	},
	{
		"delivery_gone", "the review label, without a pull request or a checkout", "Blocked on a new question",
		func(f *FoundTask) bool { return f.has(LabelReview) && !f.has(LabelClaimed) },
		func(_ *Machine, _ *FoundTask, t *Task) { t.State = Backoff },
	},
	{
		"claimed", "only the claim, an answered question, or an attempt that left nothing behind",
		"Backoff; the next attempt gets a number above all known ones",
		func(*FoundTask) bool { return true },
		func(m *Machine, _ *FoundTask, t *Task) {
			t.State, t.Until = Backoff, m.now
			t.Next = t.retry(false)
		},
	},
}

// rebuildAsks maps a row's name to the explanation in the question to a person.
var rebuildAsks = map[string]string{
	"question_gone": "the director's journal was lost, and the issue is blocked, but this claim's question was not " +
		"found",
	"delivery_gone": "the director's journal was lost, and the issue is in review, but this claim's pull request and " +
		"checkout were not found",
}

// rowRebuilt is the row of a verdict that asks a question from rebuildAsks.
const rowRebuilt = "director.rebuilt"

// The machine builds the state from the evidence, and does not dispatch tasks before Booted.
func (b Rebuilt) step(m *Machine) {
	if b.Kept != nil {
		m.record(StateKept{State: *b.Kept})
	}
	for _, c := range b.Cursors {
		if m.Cursor(c.Repo) == "" {
			m.record(CursorAdvanced(c))
		}
	}
	for _, f := range b.Found {
		if row, t := m.rebuilt(&f); row.does != nil && m.Task(f.Key) == nil && m.nonces[t.Nonce] == nil {
			m.record(TaskRebuilt{Row: row.Name, Rebuilt: *t})
			m.resumeRebuilt(m.Task(f.Key), row.Name, f.Question)
		}
	}
	m.record(RebuildWritten{ID: b.ID, Part: b.Part, Of: b.Of})
}

// rebuilt finds the matching row and builds the task.
func (m *Machine) rebuilt(f *FoundTask) (RebuildRow, *Task) {
	row := RebuildRows[slices.IndexFunc(RebuildRows, func(r RebuildRow) bool { return r.when(f) })]
	t := f.base(m)
	if row.does != nil {
		row.does(m, f, t)
	}
	// In the other states, the task waits for an event that carries the last attempt's number, so Attempt must not
	// change.
	if row.does != nil && slices.Contains([]State{Backoff, Parked, InReview}, t.State) {
		t.Attempt = max(t.Attempt, f.Branch)
	}
	t.soft, t.timer, t.ready, t.slot = soft{}, place{}, turn{}, false
	return row, t
}

// resumeRebuilt plans the effects that a rebuilt task's state requires.
func (m *Machine) resumeRebuilt(t *Task, row, question string) {
	switch {
	case t == nil: // the task has ended, and the machine has dropped it
	case rebuildAsks[row] != "":
		why := rebuildAsks[row]
		m.giveUp(t, recovery.Finding{Reason: recovery.Unknown, Cause: why, Rule: rowRebuilt, Confidence: 1},
			"RETRY_WAIT", rowRebuilt, why)
	case row == "half_asked": // the executor finds the existing comment by its name
		about, _ := recovery.Describe(recovery.Unknown)
		m.plan(t, Effect{Kind: DoEscalate, Escalation: &Escalation{
			Reason: recovery.Unknown, Cause: "asked in " + question,
			Why: "the question was asked before the journal was lost", Ask: about.Ask(),
		}})
	case row == "attempt_over":
		m.plan(t, Effect{Kind: DoStop, Stop: m.stopOrder(t, 0, StopEnded)})
	}
}

// base returns the task without its state. If the task in the journal has the same claim, base merges the evidence into
// it.
func (f *FoundTask) base(m *Machine) *Task {
	t := &Task{}
	anew := f.Known == nil || f.Known.Nonce != f.Nonce // earlier use of the budget is unknown
	if !anew {
		*t = *f.Known
	}
	t.Key, t.Nonce, t.Since, t.Until = f.Key, f.Nonce, m.now, time.Time{}
	if f.Title != "" {
		t.Title, t.URL = f.Title, f.URL
	}
	asked, answers := f.asked()
	began := max(f.Attempt, asked, t.Attempt) - t.Attempt // attempts missing from the journal
	t.Attempt += began
	t.Next, t.Ending, t.Outbox, t.Used, t.LabelsAt, t.Resumed, t.Validates, t.LeavesValidation = Next{}, Ending{}, nil,
		recovery.Usage{}, time.Time{}, false, false, false
	// A listed container has started, so clear Waits. For attempts missing from the journal, assume the current
	// configuration.
	if t.Waits = nil; began > 0 {
		t.Travels = m.cfg.CheckoutTravels
		t.Contract = f.Contract
	}
	if f.Work.PullRequest > 0 {
		t.Work = f.Work
		t.Reviewed.Change = max(t.Reviewed.Change, f.Reviewed.Change)
	}
	t.Spent = *t.Spent.Max(&f.Spent)
	if f.Question != "" && answers >= t.Answers { // each answer resets the meters
		began, anew = t.Attempt-asked, true
		t.Tally, t.Answers = t.Tally.Answered(), answers
		if f.Landed { // count the question as answered, unless the row overrides this
			t.Answers++
		}
	}
	if t.Tally.PaidCalls == 0 && t.Tally.Tokens == 0 {
		t.Tally = t.Tally.Use(f.Used)
	}
	if anew {
		began-- // the first attempt does not need a verdict
	}
	began = max(0, min(began, m.cfg.of(t).Policy.Guards().MaxRetries-t.Tally.Redispatches))
	t.Tally.Redispatches, t.Tally.Granted, t.Tally.Iterations = t.Tally.Redispatches+began, t.Tally.Granted+
		began, t.Tally.Iterations+began
	return t
}

func (f *FoundTask) has(l Label) bool { return slices.Contains(f.Labels, l) }

// asked parses the question's name, "<nonce>-<attempt>" or "<nonce>-<attempt>.<answers before it>".
func (f *FoundTask) asked() (attempt, answers int) {
	first, after, _ := strings.Cut(strings.TrimPrefix(f.Question, f.Nonce+"-"), ".")
	attempt, _ = strconv.Atoi(first)
	answers, _ = strconv.Atoi(after)
	return attempt, answers
}

// AskedAfter returns the last attempt before our latest question, or 0 if there is no question.
func (f *FoundTask) AskedAfter() int {
	attempt, _ := f.asked()
	return attempt
}

// isAsked reports whether a question follows the last attempt.
func (f *FoundTask) isAsked() bool {
	attempt, _ := f.asked()
	return f.Question != "" && attempt >= f.Attempt
}

// asksLast reports whether the question is still open and concerns the last attempt. The last attempt has the highest
// number in any evidence or in the undamaged part of the journal, so that numbers are never reused.
func (f *FoundTask) asksLast() bool {
	attempt, _ := f.asked()
	return f.isAsked() && !f.Answered && (f.Known == nil || f.Known.Nonce != f.Nonce || attempt >= f.Known.Attempt)
}

// blockedAgain makes the task wait for an answer to its question.
func (t *Task) blockedAgain(m *Machine, f *FoundTask) {
	t.State = Blocked
	t.Attempt, t.Answers = f.asked()
	if m.cfg.RemindAfter > 0 {
		t.Until = m.now.Add(m.cfg.RemindAfter)
	}
}

// Question returns the name of the task's question about its last attempt (see FoundTask.Question).
func (t *Task) Question() string {
	return t.AttemptID() + afterAnswers(t.Answers)
}

// agrees reports whether the evidence is consistent with the journal's task and does not show a later state.
func (f *FoundTask) agrees() bool {
	t := f.Known
	if t == nil {
		return false
	}
	if f.Nonce != t.Nonce { // the claim has not been won yet, or is being given back
		return f.Nonce == "" && ((t.State == Queued && !f.has(LabelClaimed) || t.State == Claiming) && f.Attempt == 0 ||
			t.State == Forgotten || t.State.Info().Final)
	}
	if about, answers := f.asked(); f.Attempt > t.Attempt || about > t.Attempt || about == t.Attempt &&
		answers > t.Answers {
		return false
	}
	asked := f.Question != "" && f.Question == t.Question()
	if t.State.Info().Final || t.State == Forgotten { // it is safe to repeat its remaining effects
		return true
	}
	if t.plans(DoStart) && max(f.Attempt, f.Branch) >= t.Attempt && f.Live != t.Attempt {
		return false // the start was carried out, and its container has disappeared
	}
	if f.Branch > t.Attempt && f.Live == 0 && !f.Checkout && !slices.Contains(idle, t.State) {
		return false // the attempt left no trace, and another may have followed
	}
	switch t.State {
	case Queued:
		return false // the issue is claimed
	case Delivering:
		// It is safe to repeat the remaining effects, except in review, where people may have pushed in the meantime.
		return !asked && !f.inReview()
	case Blocked:
		answered := f.Answered || f.has(LabelClaimed) || f.has(LabelReview) && !f.has(LabelBlocked)
		return asked && !answered || t.plans(DoEscalate) && (!asked || !f.Landed)
	case InReview:
		return !asked && f.has(LabelReview) && f.Work.PullRequest == t.Work.PullRequest
	}
	return !asked && f.delivers() == t.Work.PullRequest && !f.has(LabelReview)
}

// inReview reports whether the issue shows a completed delivery.
func (f *FoundTask) inReview() bool {
	return f.Work.PullRequest > 0 && f.has(LabelReview) && !f.has(LabelClaimed)
}

// delivers returns the pull request's number, or 0.
func (f *FoundTask) delivers() int { return f.Work.PullRequest }

// Story describes a rebuilt task in one line of the history.
func (f TaskRebuilt) Story() string {
	i := slices.IndexFunc(RebuildRows, func(r RebuildRow) bool { return r.Name == f.Row })
	if i < 0 {
		return f.Row
	}
	return fmt.Sprintf("%s (attempt %d): %s", RebuildRows[i].If, f.Rebuilt.Attempt, RebuildRows[i].Becomes)
}
