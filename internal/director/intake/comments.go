package intake

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/command"
	"retake/internal/github/inbox"
	"retake/internal/github/tracker"
)

// untrustedPerPoll is the maximum number of reactions that a poll adds to commands by people without write access. A
// reaction shows that the command was ignored. The limit keeps a flood of such comments from causing a flood of
// reactions.
const untrustedPerPoll = 3

// Comments reads comments on issues and pull requests.
type Comments struct {
	Owner  *loop.Owner
	GitHub commentClient
	Config *inforce.Current
	Log    *zap.Logger
}

// commentClient is the part of the GitHub client that Comments needs.
type commentClient interface {
	Comments(ctx context.Context, repo, cursor string) (inbox.Comments, error)
	Vet(ctx context.Context, key string, a *command.Answer) error
	Reply(ctx context.Context, r ask.ReplyRequest) error
	React(ctx context.Context, key string, comment int64, content string) error
	Stale(ctx context.Context, key string) (h claims.Holder, last time.Time, ok bool, err error)
}

// Read fetches the comments on a repository's issues and pull requests since the machine's cursor, and sends them to
// the machine. It answers malformed commands itself. over reports whether the cursor is unchanged, which means that the
// machine has already handled all of the comments.
func (c *Comments) Read(ctx context.Context, repo string) (over bool, err error) {
	known, err := loop.Look(ctx, c.Owner, func(d *fsm.Driver) repoTasks { return tasksOf(d.Machine(), repo) })
	if err != nil {
		return false, err
	}
	heard, err := c.GitHub.Comments(ctx, repo, known.cursor)
	if err != nil {
		return false, err
	}
	seen := fsm.CommentsSeen{Repo: repo, Cursor: heard.Cursor}
	untrusted := 0
	for _, a := range heard.Said {
		task, ours := known.task(a)
		switch {
		case !ours && (a.PullRequest || a.Command == command.Unknown):
		case a.Acknowledged:
		case a.Command == command.None:
			if err := c.vetPlain(ctx, known, task, &a); err != nil && failure.Of(err).Transient {
				return false, err
			} else if err != nil { // a retry would give the same result
				c.Log.Warn("could not check comment author", zap.String("issue", a.Issue), zap.Error(err))
			}
			if a.MayWrite {
				seen.Comments = append(seen.Comments, commentView(task, a))
			}
		case !a.MayWrite:
			if untrusted++; ours && untrusted <= untrustedPerPoll {
				c.acknowledge(ctx, a.Issue, a.CommentID)
			}
		case a.Command == command.Unknown || a.Problem != "":
			if err := c.correct(ctx, a, ours); err != nil {
				c.Log.Warn("could not reply to comment", zap.String("issue", a.Issue), zap.Error(err))
				if failure.Of(err).Transient { // the next poll reads the comment again
					seen.Cursor = ""
				}
			}
		default:
			seen.Comments = append(seen.Comments, commentView(task, a))
		}
	}
	c.Owner.Send(ctx, seen, nil)
	return heard.Cursor == known.cursor, nil
}

// repoTasks holds the task state needed to interpret a repository's comments.
type repoTasks struct {
	cursor string
	tasks  map[fsm.IssueKey]fsm.State
	pulls  map[int]fsm.IssueKey // tasks by pull request number
	heard  map[int64]bool       // recorded comments without a command
}

func tasksOf(m *fsm.Machine, repo string) repoTasks {
	h := repoTasks{
		cursor: m.Cursor(fsm.CommentsOf(repo)), tasks: map[fsm.IssueKey]fsm.State{},
		pulls: map[int]fsm.IssueKey{}, heard: m.Heard(),
	}
	for _, t := range m.Tasks() {
		if t.Key.Repo() != repo {
			continue
		}
		h.tasks[t.Key] = t.State
		if t.Work.PullRequest > 0 {
			h.pulls[t.Work.PullRequest] = t.Key
		}
	}
	return h
}

// task returns the issue that a comment is about, and whether the machine has a task for it. For a comment on a task's
// pull request, it returns the task's issue.
func (h repoTasks) task(a inbox.Said) (fsm.IssueKey, bool) {
	key := fsm.IssueKey(a.Issue)
	if t, ok := h.pulls[key.Number()]; ok && a.PullRequest {
		return t, true
	}
	_, ok := h.tasks[key]
	return key, ok
}

// vetPlain checks whether the author of a comment without a command has write access. It asks GitHub only if the
// comment could answer a question.
func (c *Comments) vetPlain(ctx context.Context, known repoTasks, task fsm.IssueKey, a *inbox.Said) error {
	if known.tasks[task] != fsm.Blocked && !known.heard[a.CommentID] {
		return nil
	}
	return c.GitHub.Vet(ctx, a.Issue, &a.Answer)
}

// commentView converts a comment for the machine.
func commentView(task fsm.IssueKey, a inbox.Said) fsm.CommentView {
	out := fsm.CommentView{
		Task: task, CommandRef: fsm.CommandRef{Comment: a.CommentID, At: a.At}, By: a.By, Text: a.Text, For: a.For,
		Amount:  a.Amount,
		Command: fsm.Command(a.Command),
	}
	if on := fsm.IssueKey(a.Issue); on != task {
		out.On = on
	}
	if a.Command != command.None {
		out.Text = a.Rest
	}
	return out
}

// correct replies to an unknown command, or to a command with an invalid argument. It does not reply if another fleet
// has claimed the issue, because that fleet's director replies.
func (c *Comments) correct(ctx context.Context, a inbox.Said, ours bool) error {
	if !ours {
		holder, _, held, err := c.GitHub.Stale(ctx, a.Issue)
		if err != nil || held && holder.Fleet != c.Config.Load().Director.Fleet {
			return err
		}
	}
	reply := ask.ReplyRequest{
		Key: a.Issue, Comment: a.CommentID, Edit: a.At, Kind: ask.ReplyMisspelt,
		Word: a.Word, Meant: a.Meant,
	}
	if a.Command != command.Unknown {
		reply.Kind, reply.Why = ask.ReplyRefused, a.Problem
	}
	if err := c.GitHub.Reply(ctx, reply); err != nil {
		return err
	}
	c.acknowledge(ctx, a.Issue, a.CommentID)
	return nil
}

// acknowledge adds a reaction to a comment with a rejected command.
func (c *Comments) acknowledge(ctx context.Context, on string, comment int64) {
	if err := c.GitHub.React(ctx, on, comment, tracker.ReactionConfused); err != nil {
		c.Log.Warn("could not acknowledge comment", zap.String("issue", on), zap.Error(err))
	}
}
