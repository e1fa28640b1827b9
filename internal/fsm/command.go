package fsm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Command is a command to the director about one issue, from the operator or a person with write access.
type Command string

// The commands.
const (
	CommandRetry  Command = "retry"  // begin another attempt
	CommandResume Command = "resume" // retry without a new hint
	CommandFresh  Command = "fresh"  // begin another attempt on a new checkout
	CommandFix    Command = "fix"    // begin another attempt at the work in review
	CommandSnooze Command = "snooze" // postpone the task
	CommandBudget Command = "budget" // grant further attempts
	CommandStop   Command = "stop"   // give up the issue
	CommandTake   Command = "take"   // hand the issue to the person
	CommandAdd    Command = "add"    // offer the issue as work (operator only); the shell adds the label
	CommandWhy    Command = "why"    // explain the task's state
	CommandHelp   Command = "help"
)

// CommandRef identifies a command permanently. An edited comment keeps its id and gets a later time. The sender of an
// operator's request chooses the request's id.
type CommandRef struct {
	Comment int64     `json:"comment,omitempty"` // 0 for a command from the operator
	At      time.Time `json:"said_at,omitzero"`  // time of the comment's last edit
	Request string    `json:"request,omitempty"` // id of the operator's request
}

// operators reports whether the command came from the operator.
func (r CommandRef) operators() bool { return r.Comment == 0 && r.Request != "" }

// Typed returns the command's name as the person typed it: on the command line, budget is called grant.
func (f CommandTaken) Typed() string {
	if f.Command == CommandBudget && f.operators() {
		return "grant"
	}
	return string(f.Command)
}

// takenCommand records the decision about a command. Refused is empty if the command was carried out.
type takenCommand struct {
	CommandRef
	Refused string `json:"refused,omitempty"`
}

// heardComment is a comment without a command.
type heardComment struct {
	CommandRef
	Answers bool `json:"answers,omitempty"`
}

// taken returns the recorded decision about a command, or nil.
func (m *memory) taken(ref CommandRef) *takenCommand {
	all := m.hard.Commands
	if ref.operators() {
		all = m.hard.Requests
	}
	i := slices.IndexFunc(all, func(c takenCommand) bool { return c.CommandRef == ref })
	if ref == (CommandRef{}) || i < 0 {
		return nil
	}
	return &all[i]
}

// Requested returns why an operator's request was refused, or "" if it was carried out. decided is false for an unknown
// request.
func (m *memory) Requested(id string) (refused string, decided bool) {
	if c := m.taken(CommandRef{Request: id}); c != nil {
		return c.Refused, true
	}
	return "", false
}

// maxCommands limits how many commands are remembered. The limit can be low, because the director rereads only comments
// from shortly before the cursor.
const maxCommands = 500

// maxRequests limits how many operator requests are remembered. Senders repeat a request for at most a minute.
const maxRequests = 100

// commandRow describes a command: the states in which it takes effect, and the effect. does is nil for a command that
// only asks for information.
type commandRow struct {
	command Command
	from    []State
	does    func(m *Machine, t *Task, s CommentView, by string)
}

// ours are the states in which a person's command about a claim can take effect. In the other states, a claim or
// delivery is in progress and must finish first.
var ours = append([]State{Starting, Running, Suspect, Stopping}, idle...)

var commandRows = []commandRow{
	{CommandRetry, idle, func(m *Machine, t *Task, s CommentView, by string) {
		m.goOn(t, by, 0, t.retry(len(s.hints(m.now)) > 0))
	}},
	{
		CommandResume,
		[]State{Backoff, Parked, Blocked},
		func(m *Machine, t *Task, _ CommentView, by string) { m.goOn(t, by, 0, t.retry(false)) },
	},
	{CommandFresh, idle, func(m *Machine, t *Task, _ CommentView, by string) { m.goOn(t, by, 0, Next{Fresh: true}) }},
	{CommandFix, idle, func(m *Machine, t *Task, _ CommentView, by string) {
		m.goOn(t, by, 0, Next{Action: recovery.FixAttempt})
	}},
	{
		CommandSnooze,
		[]State{Backoff, Parked, Blocked},
		func(m *Machine, t *Task, s CommentView, by string) { m.snooze(t, by, m.now.Add(s.For)) },
	},
	{CommandBudget, ours, (*Machine).grant},
	{
		CommandStop, append([]State{Queued}, ours...),
		func(m *Machine, t *Task, _ CommentView, by string) { m.giveAway(t, by, "") },
	},
	{
		CommandTake, append([]State{Queued}, ours...),
		func(m *Machine, t *Task, s CommentView, by string) { m.giveAway(t, by, s.By) },
	},
	{command: CommandAdd},
	{command: CommandWhy},
	{command: CommandHelp},
}

// CommandsIn lists the commands that have an effect on a task in state s.
func CommandsIn(s State) (all []Command) {
	for _, row := range commandRows {
		if slices.Contains(row.from, s) {
			all = append(all, row.command)
		}
	}
	return all
}

// Comments are handled in order. The cursor advances only once all of them are decided and answered.
func (b CommentsSeen) step(m *Machine) {
	decided := true
	for _, s := range b.Comments {
		decided = m.commentSeen(s) && decided
	}
	if decided && b.Cursor != "" && b.Cursor != m.Cursor(CommentsOf(b.Repo)) {
		m.record(CursorAdvanced{Repo: CommentsOf(b.Repo), Cursor: b.Cursor})
	}
}

// CommentsOf returns the key of the cursor for a repository's comments.
func CommentsOf(repo string) string { return repo + " comments" }

// commentSeen handles one comment. It returns false while the decision or the reply is still pending, so the comment
// must be read again.
func (m *Machine) commentSeen(s CommentView) (decided bool) {
	s.At = s.At.Round(0).UTC() // as stored in the journal, so that a repeated comment is recognised
	if s.operators() {
		s.At = time.Time{} // the id alone identifies a request
	}
	t := m.Task(s.Task)
	if s.Command == "" {
		return m.plainSeen(t, s)
	}
	row := slices.IndexFunc(commandRows, func(r commandRow) bool { return r.command == s.Command })
	if row < 0 {
		return true
	}
	do, before := commandRows[row], m.taken(s.CommandRef)
	switch {
	case !s.operators() && m.githubBlocked(DoReply):
		return false
	case before != nil: // the process that made the decision may have ended before replying
		return m.answered(t, s, before.Refused)
	case do.does != nil && t.busy():
		return false
	}
	refused := do.refusal(t)
	m.record(CommandTaken{Task: s.Task, CommandRef: s.CommandRef, Command: s.Command, By: s.By, Refused: refused})
	if do.does != nil && refused == "" {
		m.recordHints(t, s.hints(m.now))
		do.does(m, t, s, s.words())
	}
	return m.answered(t, s, refused)
}

// words returns the command and its author as a clause of a sentence.
func (s CommentView) words() string { return commandWords(s.By, s.Command, s.CommandRef) }

func commandWords(by string, c Command, ref CommandRef) string {
	if ref.operators() {
		return by + ": " + string(c)
	}
	return by + ": /agent " + string(c)
}

// answer records that this process replies to a command.
type answer struct {
	CommandRef
	effect string
	over   bool
}

// answered plans the reply to a command once per process, and reports whether the reply is done. Until then, the cursor
// does not advance past the command, so after a crash the next process reads the command again and replies.
func (m *Machine) answered(t *Task, s CommentView, refused string) bool {
	if s.Comment == 0 { // an operator's command is answered directly, not on GitHub
		return true
	}
	if i := slices.IndexFunc(m.answers, func(a answer) bool { return a.CommandRef == s.CommandRef }); i >= 0 {
		return m.answers[i].over
	}
	if len(m.answers) >= maxCommands {
		m.answers = slices.DeleteFunc(m.answers, func(a answer) bool { return a.over })
	}
	m.reply(t, s, refused)
	m.answers = append(m.answers, answer{CommandRef: s.CommandRef, effect: m.effects[len(m.effects)-1].ID})
	return false
}

// replied records that the effect with this id is done, if it was a reply.
func (m *Machine) replied(effect string) {
	for i, a := range m.answers {
		m.answers[i].over = a.over || a.effect == effect
	}
}

// busy reports whether an effect on the task's issue is in progress. A command must wait for its outcome.
func (t *Task) busy() bool {
	switch {
	case t == nil:
		return false
	case t.State == Blocked:
		return t.plans(DoEscalate)
	case t.State == Parked:
		return len(t.Outbox) > 0
	}
	return t.State != Queued && !slices.Contains(ours, t.State)
}

// refusal explains why the command cannot take effect now. It returns "" if it can.
func (r commandRow) refusal(t *Task) string {
	switch {
	case r.does == nil:
		return ""
	case t == nil:
		return "Retake has no task on this issue"
	case !slices.Contains(r.from, t.State):
		return t.refusal()
	}
	return ""
}

// hints returns the comment's text as a list with one hint, or nil if the text is empty. An operator's request does not
// carry a time, so its hint gets the current time.
func (s CommentView) hints(now time.Time) []Hint {
	if strings.TrimSpace(s.Text) == "" {
		return nil
	}
	at := s.At
	if s.operators() {
		at = now
	}
	return []Hint{{From: s.By, At: at, Text: s.Text}}
}

// refusal explains why a command has no effect in the task's state, and may suggest another command.
func (t *Task) refusal() string {
	switch t.State {
	case Queued:
		return "the issue is queued, and no attempt has started"
	case InReview:
		return fmt.Sprintf("the work is in review as pull request #%d; `/agent fix <text>` starts another attempt on "+
			"it", t.Work.PullRequest)
	}
	return fmt.Sprintf("attempt %d is under way; `/agent stop` ends it", t.Attempt)
}

// retry returns the next step when a person asks for a retry. Work in a pull request is fixed instead of redone. After
// a failed delivery, the work is delivered again, unless the person left a hint for the agent.
func (t *Task) retry(withWords bool) Next {
	n := Next{Deliver: t.Next.Deliver && !withWords}
	if t.Work.PullRequest > 0 && !n.Deliver {
		n.Action = recovery.FixAttempt
	}
	return n
}

// reply emits the answer to a person's command.
func (m *Machine) reply(t *Task, s CommentView, refused string) {
	r := &Reply{CommandRef: s.CommandRef, On: s.On, Command: s.Command, Refused: refused, Known: t != nil}
	if h := m.hard.heard(s.Comment); h != nil && s.Command == "" {
		r.Answers = h.Answers
	}
	if t != nil {
		r.View = ProgressView{
			State: t.shown(), Attempt: t.Attempt, At: t.Since, History: t.History,
			Incident: m.incidentIssue(t), Validates: t.validates(), Review: t.inReview(),
		}
		r.Waits = m.WaitsFor(t)
	}
	m.emit(t, Effect{Kind: DoReply, Task: s.Task, Reply: r})
	m.effects[len(m.effects)-1].ID += fmt.Sprintf("/%d.%d", s.Comment, s.At.Unix())
}

// grant allows as many further attempts as a person asks for, up to the policy's maximum number of retries. The other
// meters restart at zero.
func (m *Machine) grant(t *Task, s CommentView, by string) {
	used := func(left int) int { return max(0, m.cfg.of(t).Policy.Guards().MaxRetries-left) }
	if t.State == Blocked {
		m.goOn(t, by, used(s.Amount-1), t.retry(false)) // the attempt that begins now uses one up
		return
	}
	m.record(TallyReset{
		OfTask: OfTask{t.Key}, By: by, Redispatches: min(t.Tally.Redispatches, used(s.Amount)),
		Next: t.Next,
	})
	// People on GitHub cannot see an operator's command, and the task keeps its state, so the task's comment must show
	// the command.
	if s.operators() && t.State != InReview && t.State != Stopping {
		t.soft.commentDue = true
		m.revisit(t)
	}
}

// giveAway ends the claim at a person's request.
func (m *Machine) giveAway(t *Task, by, taken string) {
	if t.State == Queued {
		m.release(t, OnWithdrawn, ReleaseNote{Why: by, Taken: taken})
		return
	}
	m.withdraw(t, by, taken)
}

func (Tick) step(*Machine) {}

func (s SignalReceived) step(m *Machine) { m.setPhase(PhaseShutdown, "signal: "+s.Signal) }

// Commands never discard running work.
func (c OperatorCommanded) step(m *Machine) {
	switch c.Command {
	case Pause:
		m.setPhase(PhasePaused, "the operator paused")
		for _, t := range m.hard.Tasks {
			if t.watched() {
				m.emit(t, Effect{Kind: DoPause})
			}
		}
	case Drain:
		m.unpause(PhaseDraining, "the operator started draining")
	case Resume:
		if m.hard.Intent != "" {
			m.unpause(m.defaultPhase(), "the operator resumed")
		}
	}
}

// unpause replaces the operator's phase with another one. Time spent paused does not count against the watchdog.
func (m *recorder) unpause(to Phase, why string) {
	paused, gap := m.hard.Intent == PhasePaused, m.now.Sub(m.hard.PausedAt)
	m.setPhase(to, why)
	if !paused {
		return
	}
	for _, t := range m.hard.Tasks {
		if t.watched() {
			m.record(WatchdogMoved{OfTask: OfTask{t.Key}, At: t.WatchdogAt.Add(gap)})
			m.emit(t, Effect{Kind: DoResume})
		}
	}
}

// defaultPhase returns the phase that applies without an operator's command.
func (m *memory) defaultPhase() Phase {
	if m.githubOpensAt().After(m.now) {
		return PhaseCooldown
	}
	return PhaseMonitor
}

// syncPause resends a pause or resume that the worker may have missed.
func (m *recorder) syncPause(t *Task) {
	switch pausing := m.hard.Phase == PhasePaused; {
	case pausing && !t.soft.Paused:
		m.emit(t, Effect{Kind: DoPause})
	case !pausing && t.soft.Paused:
		m.emit(t, Effect{Kind: DoResume})
	}
}
