package director

import (
	"context"
	"slices"

	"retake/internal/director/effects"
	"retake/internal/director/failure"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github"
)

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
			view := effects.ProgressView(&r.View)
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

// readReview looks at a pull request whose issue was closed.
func (s *session) readReview(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, s.pollPause, func() error {
		number, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) int {
			if t := d.Machine().Task(e.Task); t != nil {
				return t.Work.PullRequest
			}
			return 0
		})
		if err != nil || number == 0 { // the session ends, or the task has
			return err
		}
		return s.reviews.Look(ctx, e.Task, number, true)
	})
}
