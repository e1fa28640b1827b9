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

// helps lists the commands that help in a state, best first.
var helps = map[fsm.State][]github.Command{
	fsm.Blocked:  {github.CommandRetry, github.CommandSnooze, github.CommandTake, github.CommandStop},
	fsm.Backoff:  {github.CommandRetry, github.CommandSnooze, github.CommandTake},
	fsm.Parked:   {github.CommandRetry, github.CommandTake},
	fsm.InReview: {github.CommandFix, github.CommandTake},
}

// reply acknowledges a command that the machine has decided, and answers in words if necessary.
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
		// for an accepted command the reaction is the whole answer
		return s.github.React(ctx, on, r.Comment, reactionTo(r.Refused == ""))
	})
}

// isOutage reports whether Retake created the issue to report an outage.
func isOutage(m *fsm.Machine, issue string) bool {
	return slices.ContainsFunc(m.AllIncidents(), func(i fsm.Incident) bool {
		return i.Issue != "" &&
			string(i.Issue) == issue
	})
}

// isOthers reports whether a director of another fleet works on an issue and is therefore responsible for the
// answer.
func (s *session) isOthers(ctx context.Context, issue string) (bool, error) {
	holder, _, ok, err := s.github.Stale(ctx, issue)
	return ok && holder.Fleet != s.config.Director.Fleet, err
}

// remind repeats that a question is waiting.
func (s *session) remind(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	err := s.github.Remind(ctx, github.RemindRequest{Key: string(e.Task), Nonce: e.Nonce, Block: e.About()})
	if _, gone := failure.IssueGone(err); gone {
		return fsm.EffectEnded{}
	}
	return failure.Or(fsm.EffectEnded{}, err)
}

// readReview polls a pull request whose issue was closed.
func (s *session) readReview(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, s.pollPause, func() error {
		number, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) int {
			if t := d.Machine().Task(e.Task); t != nil {
				return t.Work.PullRequest
			}
			return 0
		})
		if err != nil || number == 0 { // the session or the task is over
			return err
		}
		return s.reviews.Look(ctx, e.Task, number, true)
	})
}
