package effects

import (
	"cmp"
	"context"
	"slices"

	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/ask"
	"retake/internal/github/command"
	"retake/internal/github/tracker"
)

func reactionTo(r *fsm.Reply) string {
	switch {
	case r.Refused != "":
		return tracker.ReactionConfused
	case r.Command == "" && !r.Answers:
		return tracker.ReactionSeen
	}
	return tracker.ReactionUnderstood
}

// helps lists the commands that help in each state, best first.
var helps = map[fsm.State][]command.Name{
	fsm.Blocked:  {command.Retry, command.Snooze, command.Take, command.Stop},
	fsm.Backoff:  {command.Retry, command.Snooze, command.Take},
	fsm.Parked:   {command.Retry, command.Take},
	fsm.InReview: {command.Fix, command.Take},
}

// Replies answers people on GitHub.
type Replies struct {
	Owner  *loop.Owner
	GitHub *github.Client
	Setup  func() *inforce.Setup
}

// Reply acknowledges a comment with a reaction after the machine has decided about the comment, and posts an answer if
// necessary.
func (s *Replies) Reply(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, pollPause(s.Setup), func() error {
		on := cmp.Or(string(e.Reply.On), string(e.Task))
		begins := "To start a task, add the label `" + s.Setup().GitHub.Labels.Task + "`."
		if !e.Reply.Known {
			if others, err := s.isOthers(ctx, on); others || err != nil {
				return err
			}
			outage, err := loop.Look(ctx, s.Owner, func(d *fsm.Driver) bool { return isOutage(d.Machine(), on) })
			if err != nil {
				return err
			}
			if outage {
				begins = "This issue is about an outage. Once the outage is over, Retake resumes the waiting tasks " +
					"and closes this issue."
			}
		}
		if answer := answerTo(e.Reply, on, begins); answer.Kind != "" {
			if err := s.GitHub.People.Reply(ctx, answer); err != nil {
				return err
			}
		}
		// the reaction alone acknowledges an accepted command
		return s.GitHub.People.React(ctx, on, e.Reply.Comment, reactionTo(e.Reply))
	})
}

// answerTo returns the reply to a comment. An empty Kind means that the comment needs only a reaction. begins is a
// sentence that explains how to start a task.
func answerTo(r *fsm.Reply, on, begins string) ask.ReplyRequest {
	answer := ask.ReplyRequest{Key: on, Comment: r.Comment, Edit: r.At}
	switch {
	case r.Refused != "":
		answer.Kind, answer.Why, answer.Task.Review = ask.ReplyRefused, r.Refused, r.View.Review
		if !r.Known {
			answer.Instead = begins
		}
	case r.Command == fsm.CommandHelp:
		answer.Kind = ask.ReplyHelp
	case r.Command == fsm.CommandWhy && r.Known:
		view := ProgressView(&r.View)
		if view.Review == 0 { // else the view already names the pull request
			view.Note = r.Waits.Words()
		}
		answer.Kind, answer.Task, answer.Until, answer.Can = ask.ReplyWhy, view, r.Waits.Until, helps[r.View.State]
	case r.Command == fsm.CommandWhy:
		answer.Kind, answer.Why, answer.Instead = ask.ReplyRefused, "Retake has no task for this issue.", begins
	}
	return answer
}

// isOutage reports whether Retake created the issue to report an outage.
func isOutage(m *fsm.Machine, issue string) bool {
	return slices.ContainsFunc(m.AllIncidents(), func(i fsm.Incident) bool {
		return i.Issue != "" &&
			string(i.Issue) == issue
	})
}

// isOthers reports whether the issue belongs to a director of another fleet, which is then responsible for the
// answer.
func (s *Replies) isOthers(ctx context.Context, issue string) (bool, error) {
	holder, _, ok, err := s.GitHub.Claims.Stale(ctx, issue)
	return ok && holder.Fleet != s.Setup().Director.Fleet, err
}

// Remind posts a reminder of an unanswered question.
func (s *Replies) Remind(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	takes, err := loop.Look(ctx, s.Owner, func(d *fsm.Driver) bool {
		return d.Machine().TakesReply(d.Machine().Task(e.Task))
	})
	if err != nil {
		return failure.Ended(err)
	}
	err = s.GitHub.People.Remind(ctx, ask.RemindRequest{
		Key: string(e.Task), Nonce: e.Nonce, Block: e.About(), TakesReply: takes,
	})
	if _, gone := failure.IssueGone(err); gone {
		return fsm.EffectEnded{}
	}
	return failure.Or(fsm.EffectEnded{}, err)
}

// Tidy removes the label given in the effect, because it contradicts the task's state.
func (s *Replies) Tidy(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	err := s.GitHub.Labels.KeepLabel(ctx, string(e.Task), s.labelOf(fsm.Label(e.Why)), false)
	if _, gone := failure.IssueGone(err); gone {
		err = nil
	}
	return failure.Or(fsm.EffectEnded{}, err)
}

// labelOf returns the name of the label for a role.
func (s *Replies) labelOf(role fsm.Label) string {
	names := s.Setup().GitHub.Labels
	return map[fsm.Label]string{
		fsm.LabelTask: names.Task, fsm.LabelClaimed: names.Claimed, fsm.LabelBlocked: names.Blocked,
		fsm.LabelReview: names.Review,
	}[role]
}
