package director

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github"
)

// untrustedPerPoll bounds how many people without write access learn in one poll that their commands do not
// count: a flood of them must not become a flood of ours.
const untrustedPerPoll = 3

// pollComments reads what people said on a repository's issues and pull requests since the last time, and tells
// the machine. What is wrong with a command as such is answered here. It is over if there is nothing that has
// not been decided about, and answered, before.
func (s *session) pollComments(ctx context.Context, repo string) (over bool, err error) {
	known, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) repoTasks { return tasksOf(d.Machine(), repo) })
	if err != nil {
		return false, err
	}
	heard, err := s.github.Comments(ctx, repo, known.cursor)
	if err != nil {
		return false, err
	}
	seen := fsm.CommentsSeen{Repo: repo, Cursor: heard.Cursor}
	untrusted := 0
	for _, a := range heard.Said {
		task, ours := known.task(a)
		switch {
		case !ours && (a.PullRequest || a.Command == github.CommandUnknown):
		case a.Acknowledged:
		case a.Command == github.CommandNone:
			if err := s.vetPlain(ctx, known, task, &a); err != nil && failure.Of(err).Transient {
				return false, err
			} else if err != nil { // it would not be known later either
				s.log.Warn("whether a comment counts is not known", zap.String("issue", a.Issue), zap.Error(err))
			}
			if a.MayWrite {
				seen.Comments = append(seen.Comments, commentView(task, a))
			}
		case !a.MayWrite:
			if untrusted++; ours && untrusted <= untrustedPerPoll {
				s.acknowledge(ctx, a.Issue, a.CommentID, false)
			}
		case a.Command == github.CommandUnknown || a.Problem != "":
			if err := s.correct(ctx, a, ours); err != nil {
				s.log.Warn("comment not answered", zap.String("issue", a.Issue), zap.Error(err))
				if failure.Of(err).Transient { // the comment is read again
					seen.Cursor = ""
				}
			}
		default:
			seen.Comments = append(seen.Comments, commentView(task, a))
		}
	}
	s.owner.Send(ctx, seen, nil)
	return heard.Cursor == known.cursor, nil
}

// repoTasks is what has to be known of the tasks of a repository to understand what people say there.
type repoTasks struct {
	cursor string
	tasks  map[fsm.IssueKey]fsm.State
	pulls  map[int]fsm.IssueKey // pull requests, by number
}

func tasksOf(m *fsm.Machine, repo string) repoTasks {
	h := repoTasks{
		cursor: m.Cursor(fsm.CommentsOf(repo)), tasks: map[fsm.IssueKey]fsm.State{},
		pulls: map[int]fsm.IssueKey{},
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

// task is the task that a comment is about, and whether it is one of ours.
func (h repoTasks) task(a github.Said) (fsm.IssueKey, bool) {
	key := fsm.IssueKey(a.Issue)
	if t, ok := h.pulls[key.Number()]; ok && a.PullRequest {
		return t, true
	}
	_, ok := h.tasks[key]
	return key, ok
}

// vetPlain looks up whether somebody who gave no command may write, where that matters: as an answer to a question.
func (s *session) vetPlain(ctx context.Context, known repoTasks, task fsm.IssueKey, a *github.Said) error {
	if known.tasks[task] != fsm.Blocked {
		return nil
	}
	return s.github.Vet(ctx, a.Issue, &a.Answer)
}

// commentView is a comment as the machine takes it.
func commentView(task fsm.IssueKey, a github.Said) fsm.CommentView {
	out := fsm.CommentView{
		Task: task, CommandRef: fsm.CommandRef{Comment: a.CommentID, At: a.At}, By: a.By, Text: a.Text, For: a.For,
		Amount:  a.Amount,
		Command: fsm.Command(a.Command),
	}
	if on := fsm.IssueKey(a.Issue); on != task {
		out.On = on
	}
	if a.Command != github.CommandNone {
		out.Text = a.Rest
	}
	return out
}

// correct answers a command that there is not, or whose argument is wrong. Nothing of it is used. On another
// fleet's issue it is that one's business.
func (s *session) correct(ctx context.Context, a github.Said, ours bool) error {
	if !ours {
		if others, err := s.isOthers(ctx, a.Issue); err != nil || others {
			return err
		}
	}
	reply := github.ReplyRequest{
		Key: a.Issue, Comment: a.CommentID, Edit: a.At, Kind: github.ReplyMisspelt,
		Word: a.Word, Meant: a.Meant,
	}
	if a.Command != github.CommandUnknown {
		reply.Kind, reply.Why = github.ReplyRefused, a.Problem
	}
	if err := s.github.Reply(ctx, reply); err != nil {
		return err
	}
	s.acknowledge(ctx, a.Issue, a.CommentID, false)
	return nil
}

// acknowledge puts our reaction on a comment.
func (s *session) acknowledge(ctx context.Context, on string, comment int64, accepted bool) {
	if err := s.github.React(ctx, on, comment, reactionTo(accepted)); err != nil {
		s.log.Warn("comment not acknowledged", zap.String("issue", on), zap.Error(err))
	}
}

func reactionTo(accepted bool) string {
	if accepted {
		return github.ReactionUnderstood
	}
	return github.ReactionConfused
}

// helps are the commands that help in a state, the best first.
var helps = map[fsm.State][]github.Command{
	fsm.Blocked:  {github.CommandRetry, github.CommandSnooze, github.CommandTake, github.CommandStop},
	fsm.Backoff:  {github.CommandRetry, github.CommandSnooze, github.CommandTake},
	fsm.Parked:   {github.CommandRetry, github.CommandTake},
	fsm.InReview: {github.CommandFix, github.CommandTake},
}

// reply acknowledges a command that the machine has decided about, and answers if that needs words.
func (s *session) reply(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	r := e.Reply
	on := string(e.Task)
	if r.On != "" {
		on = string(r.On)
	}
	begins := "The label `" + s.config.GitHub.Labels.Task + "` begins one."
	return failure.RetryTransient(ctx, s.pollPause, func() error {
		if !r.Known {
			if others, err := s.isOthers(ctx, on); others || err != nil {
				return err
			}
			outage, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) bool { return isOutage(d.Machine(), on) })
			if err != nil {
				return err
			}
			if outage {
				begins = "It is about an outage: Retake goes on by itself when that is over, and closes " +
					"this issue then."
			}
		}
		answer := github.ReplyRequest{Key: on, Comment: r.Comment, Edit: r.At}
		switch {
		case r.Refused != "":
			answer.Kind, answer.Why = github.ReplyRefused, r.Refused
			if !r.Known {
				answer.Instead = begins
			}
		case r.Command == fsm.CommandHelp:
			answer.Kind = github.ReplyHelp
		case r.Command == fsm.CommandWhy && r.Known:
			view := progressView(&r.View)
			view.Note = r.Waits.For
			answer.Kind, answer.Task, answer.Until, answer.Can = github.ReplyWhy, view, r.Waits.Until,
				helps[r.View.State]
		case r.Command == fsm.CommandWhy:
			answer.Kind, answer.Why, answer.Instead = github.ReplyRefused, "Retake has no task on this issue.", begins
		}
		if answer.Kind != "" {
			if err := s.github.Reply(ctx, answer); err != nil {
				return err
			}
		}
		// of an accepted command it is the whole answer
		return s.github.React(ctx, on, r.Comment, reactionTo(r.Refused == ""))
	})
}

// isOutage reports whether an issue is one of ours about an outage.
func isOutage(m *fsm.Machine, issue string) bool {
	return slices.ContainsFunc(m.AllIncidents(), func(i fsm.Incident) bool {
		return i.Issue != "" &&
			string(i.Issue) == issue
	})
}

// isOthers reports whether another fleet's director works on an issue: then the answer is its business.
func (s *session) isOthers(ctx context.Context, issue string) (bool, error) {
	holder, _, ok, err := s.github.Stale(ctx, issue)
	return ok && holder.Fleet != s.config.Director.Fleet, err
}

// remind says once more that a question waits.
func (s *session) remind(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	err := s.github.Remind(ctx, github.RemindRequest{Key: string(e.Task), Nonce: e.Nonce, Block: e.About()})
	if _, gone := failure.IssueGone(err); gone {
		return fsm.EffectEnded{}
	}
	return failure.Or(fsm.EffectEnded{}, err)
}
