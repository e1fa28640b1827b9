package fsm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Command is what a person with write access, or the operator, asks for.
type Command string

// The commands.
const (
	CommandRetry  Command = "retry"  // another attempt
	CommandResume Command = "resume" // the same; nothing new was said
	CommandFresh  Command = "fresh"  // another attempt, on a new checkout
	CommandFix    Command = "fix"    // another attempt at what is in review
	CommandSnooze Command = "snooze" // put off
	CommandBudget Command = "budget" // so many more attempts
	CommandStop   Command = "stop"   // give the issue up
	CommandTake   Command = "take"   // a person takes over
	CommandWhy    Command = "why"    // explain
	CommandHelp   Command = "help"
)

// CommandRef names what was said for ever: an edit keeps the comment's id and has a later time.
type CommandRef struct {
	Comment int64     `json:"comment,omitempty"` // 0: the operator's
	At      time.Time `json:"said_at,omitzero"`
}

// maxCommands bounds how many commands are remembered. What is read again was said in the last moments before the cursor.
const maxCommands = 500

// commandRow is one command: from which states it does something.
type commandRow struct {
	command Command
	from    []State
	does    func(m *Machine, t *Task, s Said, by string)
}

// ours are the states of a claim in which a person can decide about it; while a claim or a delivery is under way, its outcome comes first.
var ours = append([]State{Starting, Running, Suspect, Stopping}, idle...)

var commandRows = []commandRow{
	{CommandRetry, idle, func(m *Machine, t *Task, _ Said, by string) { m.goOn(t, by, 0, Next{Action: t.retryAction()}) }},
	{CommandResume, []State{Backoff, Parked, Blocked}, func(m *Machine, t *Task, _ Said, by string) { m.goOn(t, by, 0, Next{}) }},
	{CommandFresh, idle, func(m *Machine, t *Task, _ Said, by string) { m.goOn(t, by, 0, Next{Fresh: true}) }},
	{CommandFix, []State{InReview, Blocked, Parked}, func(m *Machine, t *Task, _ Said, by string) { m.goOn(t, by, 0, Next{Action: recovery.FixAttempt}) }},
	{CommandSnooze, []State{Backoff, Parked, Blocked}, func(m *Machine, t *Task, s Said, by string) { m.snooze(t, by, m.now.Add(s.For)) }},
	{CommandBudget, ours, (*Machine).grant},
	{CommandStop, append([]State{Queued}, ours...), func(m *Machine, t *Task, _ Said, by string) { m.giveAway(t, by, "") }},
	{CommandTake, append([]State{Queued}, ours...), func(m *Machine, t *Task, s Said, by string) { m.giveAway(t, by, s.By) }},
	{command: CommandWhy},
	{command: CommandHelp},
}

// answering are the commands that only want to know something.
var answering = []Command{CommandWhy, CommandHelp}

// What people said is decided in its order. The cursor is taken when all of it was.
func (b CommentsSeen) step(m *Machine) {
	decided := true
	for _, s := range b.Said {
		decided = m.heard(s) && decided
	}
	if decided && b.Cursor != "" && b.Cursor != m.Cursor(CommentsOf(b.Repo)) {
		m.record(CursorAdvanced{Repo: CommentsOf(b.Repo), Cursor: b.Cursor})
	}
}

// CommentsOf names the cursor of a repository's comments.
func CommentsOf(repo string) string { return repo + " comments" }

// heard takes one comment. If it returns false the comment cannot be judged yet, and must be read again.
func (m *Machine) heard(s Said) (decided bool) {
	t := m.Task(s.Task)
	asking := t != nil && t.State == Blocked && t.plans(DoEscalate)
	if s.Command == "" {
		if t != nil && t.State == Blocked && !asking {
			m.recordHints(t, s.hints())
		}
		return !asking
	}
	row := slices.IndexFunc(commandRows, func(r commandRow) bool { return r.command == s.Command })
	switch {
	case row < 0:
		return true
	case m.githubBlocked(DoReply):
		return false
	case s.Comment != 0 && slices.Contains(m.hard.Commands, s.CommandRef):
		m.reply(t, s, "") // this process, or one before, may not have come to it
		return true
	case t != nil && !slices.Contains(answering, s.Command) && (asking || !slices.Contains(ours, t.State) && t.State != Queued || t.State == Parked && len(t.Outbox) > 0):
		return false // an effect is at work on the issue
	}
	refused := ""
	switch do := commandRows[row]; {
	case slices.Contains(answering, s.Command):
	case t == nil:
		refused = "Retake has no task on this issue"
	case !slices.Contains(do.from, t.State):
		refused = t.refusal(s.Command)
	default:
		m.record(CommandTaken{Task: s.Task, CommandRef: s.CommandRef, Command: s.Command, By: s.By})
		m.recordHints(t, s.hints())
		do.does(m, t, s, s.By+": /agent "+string(s.Command))
		m.reply(t, s, "")
		return true
	}
	m.record(CommandTaken{Task: s.Task, CommandRef: s.CommandRef, Command: s.Command, By: s.By, Refused: refused})
	m.reply(t, s, refused)
	return true
}

func (s Said) hints() []Hint {
	if strings.TrimSpace(s.Text) == "" {
		return nil
	}
	return []Hint{{From: s.By, At: s.At, Text: s.Text}}
}

// refusal says why a command does nothing now, and what would.
func (t *Task) refusal(c Command) string {
	switch {
	case t.State == Queued:
		return "the issue is queued, and nothing was begun yet"
	case t.State == InReview:
		return fmt.Sprintf("the work is in review as pull request #%d; `/agent fix <text>` begins another attempt at it", t.Work.PullRequest)
	case c == CommandFix && slices.Contains(idle, t.State):
		return "no pull request of this task is in review; `/agent retry <text>` begins another attempt"
	}
	return fmt.Sprintf("attempt %d is under way; `/agent stop` ends it", t.Attempt)
}

// retryAction is how a retry goes on: what is in review is mended, not begun again.
func (t *Task) retryAction() recovery.Action {
	if t.State == InReview {
		return recovery.FixAttempt
	}
	return ""
}

// reply answers a person's command.
func (m *Machine) reply(t *Task, s Said, refused string) {
	r := &Reply{CommandRef: s.CommandRef, Command: s.Command, Refused: refused, Known: t != nil}
	e := Effect{Kind: DoReply, Task: s.Task, Reply: r}
	if t != nil {
		r.View = ProgressView{State: t.State, Attempt: t.Attempt, At: t.Since, History: t.History, Incident: m.incidentIssue(t)}
		r.Waits = m.waitsFor(t)
	}
	if s.Comment == 0 {
		return // the operator is told by who asked for it
	}
	m.emit(t, e)
	m.effects[len(m.effects)-1].ID += fmt.Sprintf("/%d.%d", s.Comment, s.At.Unix())
}

// grant gives the task as many more attempts as a person says, at most as many as after any other answer. What was used otherwise counts anew.
func (m *Machine) grant(t *Task, s Said, by string) {
	used := func(left int) int { return max(0, m.cfg.Policy.Guards().MaxRetries-left) }
	if t.State == Blocked {
		m.goOn(t, by, used(s.Amount-1), Next{}) // the attempt that begins now is the first of them
		return
	}
	m.record(TallyReset{OfTask: OfTask{t.Key}, By: by, Redispatches: min(t.Tally.Redispatches, used(s.Amount)), Next: t.Next})
}

// giveAway ends the claim because a person says so.
func (m *Machine) giveAway(t *Task, by, taken string) {
	if t.State == Queued {
		m.release(t, OnWithdrawn, ReleaseNote{Why: by, Taken: taken})
		return
	}
	m.withdraw(t, by, taken)
}
