package ask

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/command"
	"retake/internal/github/gate"
	"retake/internal/github/pages"
	"retake/internal/github/prose"
	"retake/internal/github/tracker"
)

// ReplyKind selects the text of a reply.
type ReplyKind string

// All kinds of replies.
const (
	ReplyWhy      ReplyKind = "why"      // explains the task's state and the person's options
	ReplyHelp     ReplyKind = "help"     // all commands
	ReplyRefused  ReplyKind = "refused"  // a command that was not carried out
	ReplyMisspelt ReplyKind = "misspelt" // the command does not exist
)

// ReplyRequest answers a comment. Each pair of Comment and Edit gets at most one reply.
type ReplyRequest struct {
	Key     string    // issue or pull request
	Comment int64     // Answer.CommentID
	Edit    time.Time // Answer.At
	Kind    ReplyKind

	Task  pages.ProgressView // for why: the content of the progress comment, with the cause of the wait as its note
	Until time.Time          // for why: the end of the wait, or zero if it is unknown
	Can   []command.Name     // for why: commands that help now

	Why     string // refused: a sentence, e.g. Answer.Problem; its reference to Task.Review becomes a link
	Instead string // for refused: a sentence with an alternative; may be empty

	Word  string       // misspelt: Answer.Word
	Meant command.Name // misspelt: Answer.Meant
}

// repliedAttempts is the maximum number of attempts listed in a reply. For earlier attempts, the reply only gives their
// number.
const repliedAttempts = 3

// replyPage is the data for pages/reply.md.
type replyPage struct {
	ReplyRequest
	pages.ProgressView
	By      string      // Until as text for people
	Earlier int         // number of attempts that are not listed
	Ways    string      // the commands in Can, as the end of a sentence
	Typed   string      // the misspelt command as code
	Asked   pages.Asked // for why in state Blocked: the open question
	Author  string      // author of the answered comment; empty if it was deleted
	Said    string      // URL of the answered comment
}

// Reply answers a comment with a comment of at most 10 lines. It ignores a deleted comment or issue.
func (c *Asker) Reply(ctx context.Context, req ReplyRequest) error {
	if err := c.conn.CheckWrites("reply", req.Key, zap.Int64("comment", req.Comment),
		zap.String("to", string(req.Kind))); err != nil {
		return err
	}
	t, err := c.read.ThreadComments(ctx, gate.Completion, req.Key)
	if err == nil {
		m := tracker.Marker{Kind: tracker.MarkReply, Fleet: c.read.Fleet, Comment: req.Comment, Edit: req.Edit.Unix()}
		_, err = c.write.Post(ctx, gate.Completion, t, m, c.ReplyText(req, t))
	}
	return api.UnlessGone(err)
}

// ReplyText returns the text of a reply to a command, without its marker.
func (c *Asker) ReplyText(req ReplyRequest, t tracker.Thread) string {
	p := replyPage{ReplyRequest: req, ProgressView: req.Task}
	if req.Task.State == pages.StateBlocked {
		question := tracker.LatestOf(t.Questions(c.read.Fleet))
		p.Asked = pages.AskedIn(question.Body, question.URL)
	}
	p.Earlier = max(0, len(p.Attempts)-repliedAttempts)
	p.Attempts = p.Attempts[p.Earlier:]
	if !req.Until.IsZero() {
		p.By = req.Until.UTC().Format("2 January 2006, 15:04 UTC")
	}
	for _, said := range t.Comments {
		if said.ID == req.Comment {
			p.Author, p.Said = said.Author, pages.PageLink(said.URL)
		}
	}
	p.Typed = c.text.Cleaner().Code(command.Start+" "+req.Word, command.WordLimit+len(command.Start)+1)
	p.Ways = ways(req.Can)
	return ownReference(c.text.Page("reply", p), req.Task.Review)
}

// ownReference turns references to the task's pull request back into links. Rendering disables all references.
func ownReference(text string, pullRequest int) string {
	if pullRequest == 0 {
		return text
	}
	own := fmt.Sprintf("pull request #%d", pullRequest)
	return regexp.MustCompile(strings.Replace(own, "#", "#"+prose.Gap, 1)+`\b`).ReplaceAllLiteralString(text, own)
}

// ways joins commands for the end of a sentence.
func ways(can []command.Name) string {
	var all []string
	for _, name := range append(can[:len(can):len(can)], command.Help) {
		if c, known := command.RowOf(string(name)); known {
			all = append(all, "`"+c.Usage+"`")
		}
	}
	last := len(all) - 1
	if last == 0 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " or " + all[last]
}
