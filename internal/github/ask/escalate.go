package ask

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/command"
	"retake/internal/github/gate"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
	"retake/internal/recovery/plaintext"
)

// Asker writes questions, replies and incidents for people.
type Asker struct {
	conn  *api.Conn
	read  *tracker.Reader
	write *tracker.Writer
	text  *pages.Text
}

// New returns an Asker.
func New(conn *api.Conn, read *tracker.Reader, write *tracker.Writer, text *pages.Text) *Asker {
	return &Asker{conn, read, write, text}
}

// Escalation is a question about a blocked task. Each pair of Nonce and Block gets at most one comment.
type Escalation struct {
	Key       string
	Nonce     string
	AttemptID string // the attempt after which Retake stopped
	Block     string // identifies the question; default AttemptID, which permits one question per attempt

	Title    string // the problem as text; defaults to the reason
	Ask      string // instructions, in sentences
	Alone    string // Ask as shown outside this comment
	Invite   string // introduces Reply, and ends with a colon; default "Comment:"
	Reply    string // the recommended comment; a person replaces <…> in it
	Stage    string
	Reason   string   // one of the fixed list of reasons
	Cause    string   // one line: the root cause as observed
	Question string   // the agent's question, quoted as the cause
	Reclaim  string   // observation about a stale claim, one line
	Command  []string // argument vector of the failed stage, if any
	ExitCode *int     // exit code of Command, if known
	Facts    []string // further observations, one line each: "signal: SIGKILL"
	// Alike lists the keys of all issues that failed in the same way, including this one. The comment shows the list if
	// it has at least two keys.
	Alike       []string
	Tail        string              // the tail of the output
	PullRequest int                 // existing pull request with the work, or 0
	Branch      string              // branch with the work so far, if any
	BranchURL   string              // URL of the branch's page
	Unsafe      string              // why the work was not pushed, one line
	Attempts    []pages.AttemptLine // earlier attempts, oldest first
	Answers     []pages.AnswerLine  // answers from people, oldest first
	Tried       []string            // other remedies tried, one line each
	WhyStopped  string

	// TakesReply means that a comment without a command answers the question. The comment then does not show Reply.
	TakesReply bool
}

// Escalate asks a person for help. It writes a comment, adds the blocked label and removes the director's other labels.
// A repeated call completes missing steps, but does not restore a blocked label that a person has removed.
func (c *Asker) Escalate(ctx context.Context, e Escalation) error {
	_, err := c.Ask(ctx, e)
	return err
}

// Ask is like Escalate, but also returns the id of the comment with the question, or 0 if Ask could not write it.
func (c *Asker) Ask(ctx context.Context, e Escalation) (comment int64, err error) {
	if err := c.conn.CheckWrites("escalate", e.Key, zap.String("attempt", e.AttemptID),
		zap.String("reason", e.Reason)); err != nil {
		return 0, err
	}
	t, err := c.read.Thread(ctx, gate.Escalation, e.Key)
	if err != nil {
		return 0, err
	}
	m := tracker.Marker{
		Kind: tracker.MarkBlocked, Fleet: c.read.Fleet, Nonce: e.Nonce,
		Attempt: cmp.Or(e.Block, e.AttemptID),
	}
	created, err := c.write.Post(ctx, gate.Escalation, t, m, c.escalationText(e))
	if err != nil {
		return 0, err
	}
	comment = created
	if created == 0 {
		// If the blocked label is missing, a person may have removed it as an answer. The director removes it only
		// after an answer.
		question := t.OwnComments(m)[0]
		comment = question.ID
		unfinished, err := c.write.ReviewedBefore(ctx, gate.Escalation, t, question)
		if err == nil && !unfinished {
			answered, err := c.write.LeftAlone(ctx, gate.Escalation, t, c.read.Labels.Blocked, question.At)
			if err != nil || answered {
				return comment, err
			}
		}
		if err != nil {
			return comment, err
		}
	}
	if err := c.write.MoveLabels(ctx, gate.Escalation, t, c.read.Labels.Blocked); err != nil || created == 0 {
		return comment, err
	}
	return comment, c.write.ReadBack(ctx, gate.Escalation, t, created)
}

// Preview returns the comment that Escalate would write, without its marker.
func (c *Asker) Preview(e Escalation) string { return c.escalationText(e) }

func (c *Asker) escalationText(e Escalation) string {
	const excerptLines = 12
	p := escalationPage{Escalation: e}
	if e.TakesReply {
		p.Reply = ""
	}
	if p.Question = ""; e.Reason == needsHuman {
		p.Question = strings.TrimSpace(e.Question)
	}
	if e.Reclaim != "" && strings.Contains(e.Cause, e.Reclaim) {
		p.Cause = "" // the comment shows Reclaim instead
	}
	if strings.HasPrefix(e.Cause, "nothing was pushed") {
		p.Unsafe = ""
	}
	clean := c.text.Cleaner().Clean // before truncating, because the redactor cannot recognize half a secret
	output, cause := clean(e.Tail), clean(e.Cause)
	p.Excerpt = plaintext.Excerpt(output, cause, excerptLines)
	p.Folded = len(strings.Fields(p.Excerpt)) < len(strings.Fields(output))
	if strings.Contains(clean(p.Question)+cause, strings.TrimSpace(p.Excerpt)) {
		p.Excerpt = "" // the comment already shows the text
	}
	return ownReference(c.text.Page("escalation", p), e.PullRequest)
}

// needsHuman is the reason for a question that an agent asks.
const needsHuman = "needs_human"

// escalationPage is the data for pages/escalation.md.
type escalationPage struct {
	Escalation
	Excerpt string // the part of Tail that is not folded
	Folded  bool   // Tail is longer than the excerpt
}

// Introduction returns the sentence that introduces the recommended comment.
func (p escalationPage) Introduction() string {
	if strings.Contains(p.Reply, "<") {
		return "Replace `<…>` with your own text, then comment:"
	}
	return cmp.Or(p.Invite, "Comment:")
}

// Others returns the commands other than the recommended one. If the question needs an answer in words, Others omits
// resume, because the agent would only ask again.
func (p escalationPage) Others() []command.Row {
	return slices.DeleteFunc(command.For(command.OnIdle, command.OnWaiting, command.OnTask), func(c command.Row) bool {
		return c.Name == command.Resume && (p.TakesReply || strings.Contains(p.Reply, "<")) ||
			strings.HasPrefix(p.Reply+" ", command.Start+" "+string(c.Name)+" ")
	})
}

// SameFailure returns a sentence that lists the issues in Alike, or "" for fewer than two issues. Issues of the same
// repository are shown by number. Some of them may already be waiting for the end of an outage.
func (p escalationPage) SameFailure() string {
	if len(p.Alike) < 2 {
		return ""
	}
	own, err := api.ParseKey(p.Key)
	var names []string
	for _, key := range p.Alike[:min(len(p.Alike), pages.RowLimit)] {
		name := pages.IssueRef(key)
		if err == nil && strings.HasPrefix(name, own.FullName()+"#") {
			name = strings.TrimPrefix(name, own.FullName())
		}
		names = append(names, name)
	}
	if more := len(p.Alike) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d issues failed in this way: %s", len(p.Alike), strings.Join(names, ", "))
}

// Link returns the URL of the branch's page, or "" if a link would not be safe.
func (p escalationPage) Link() string { return pages.PageLink(p.BranchURL) }

// triedLine is one row of the history: an attempt or an answer.
type triedLine struct {
	pages.AttemptLine
	Said *pages.AnswerLine
}

// shownAnswers is the maximum number of answers in a table. The table omits older answers.
const shownAnswers = 10

// History returns the attempts and answers, oldest first.
func (p escalationPage) History() (rows []triedLine) {
	answers := p.Answers[max(0, len(p.Answers)-shownAnswers):]
	for _, a := range p.Attempts[max(0, len(p.Attempts)-pages.AttemptLimit):] {
		for len(answers) > 0 && answers[0].At.Before(a.At) {
			rows, answers = append(rows, triedLine{Said: &answers[0]}), answers[1:]
		}
		rows = append(rows, triedLine{AttemptLine: a})
	}
	for i := range answers {
		rows = append(rows, triedLine{Said: &answers[i]})
	}
	return rows
}

// Earlier returns the number of attempts that the table omits.
func (p escalationPage) Earlier() int {
	if len(p.Attempts) == 0 {
		return 0
	}
	return p.Attempts[max(0, len(p.Attempts)-pages.AttemptLimit)].Earlier()
}
