package director

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/director/intake"
	"retake/internal/fsm"
	"retake/internal/github"
)

// readIssue reads one issue again.
func (s *session) readIssue(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, s.pollPause, func() error {
		asked := s.owner.Clock.Now()
		i, err := s.github.Issue(ctx, string(e.Task))
		switch _, gone := failure.IssueGone(err); {
		case gone:
			s.owner.Send(ctx, s.issueGone(e.Task), nil)
			return nil
		case err == nil:
			left := intake.LookupsPerPoll
			var v fsm.IssueView
			if v, err = s.offers.View(ctx, i, &left); err == nil {
				s.owner.Send(ctx, fsm.IssuesSeen{Repo: e.Task.Repo(), AskedAt: asked, Issues: []fsm.IssueView{v}}, nil)
			}
		}
		return err
	})
}

// issueGone returns the event for an issue that no longer exists. It equals that of a closed issue.
func (s *session) issueGone(k fsm.IssueKey) fsm.IssuesSeen {
	return fsm.IssuesSeen{Repo: k.Repo(), AskedAt: s.owner.Clock.Now(), Issues: []fsm.IssueView{{Key: k}}}
}

// reclaim checks a claim without a task. A claim of this fleet is left from a lost journal, and is released once it
// has been idle for long enough. Other claims are left to the directors of their fleets.
func (s *session) reclaim(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	if s.reclaims.Hold(github.Issue{Key: string(e.Task)}) { // every poll lists it, and each check costs requests
		return fsm.EffectEnded{}
	}
	s.reclaims.Note(string(e.Task))
	holder, seen, ok, err := s.github.Stale(ctx, string(e.Task))
	if err == nil && !ok {
		return failure.Or(fsm.EffectEnded{}, s.offerAgain(ctx, e.Task))
	}
	if err != nil || holder.Fleet != s.config.Director.Fleet {
		return failure.Or(fsm.EffectEnded{}, err)
	}
	if back := seen.Add(s.setup().Timeouts.IssueClaimStale); time.Now().Before(back) {
		s.log.Warn("a claim of this fleet that this director does not know: if its journal was lost, `director "+
			"journal rebuild` takes the claim up; otherwise it is given back",
			zap.String("issue", string(e.Task)), zap.String("task", holder.Nonce), zap.Time("until", back))
		return fsm.EffectEnded{}
	}
	err = s.github.Release(ctx, github.ReleaseRequest{
		Key: string(e.Task), Nonce: holder.Nonce, RestoreTask: true, Reclaim: true, LastSeen: seen,
		Why: "nothing happened in the claim of fleet " + holder.Fleet + " since " + seen.UTC().Format(time.RFC3339),
	})
	if errors.Is(err, github.ErrAlive) {
		err = nil
	}
	return failure.Or(fsm.EffectEnded{}, err)
}

// soon is the longest wait for a label to count as left behind. Beyond it, the next full list checks again.
const soon = 2 * time.Minute

// offerAgain offers an issue again that carries our label without a claim.
func (s *session) offerAgain(ctx context.Context, k fsm.IssueKey) error {
	for {
		freed, due, err := s.github.Free(ctx, string(k), s.setup().Timeouts.IssueClaimStale)
		switch wait := time.Until(due); {
		case errors.Is(err, github.ErrWritesDisabled):
			return nil
		case freed:
			s.log.Warn("a label without a claim was taken off", zap.String("issue", string(k)), zap.Error(err))
			return err
		case err != nil || due.IsZero() || wait > soon:
			return err
		default:
			select {
			case <-time.After(max(wait, time.Second)):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// tidy removes our labels that people have added beside the label of the task's state.
func (s *session) tidy(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	err := s.github.KeepLabel(ctx, string(e.Task), s.labelOf(fsm.Label(e.Why)), false)
	if _, gone := failure.IssueGone(err); gone {
		err = nil
	}
	return failure.Or(fsm.EffectEnded{}, err)
}

// labelOf returns the name of the label for a role.
func (s *session) labelOf(role fsm.Label) string {
	names := s.config.GitHub.Labels
	return map[fsm.Label]string{
		fsm.LabelTask: names.Task, fsm.LabelClaimed: names.Claimed, fsm.LabelBlocked: names.Blocked,
		fsm.LabelReview: names.Review,
	}[role]
}

// readAnswers checks whether people have removed the blocked label or commented since the question.
func (s *session) readAnswers(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, s.pollPause, func() error {
		u, removed, err := s.github.Unblocked(ctx, string(e.Task))
		if err != nil {
			return err
		}
		said, err := s.github.Answers(ctx, string(e.Task))
		if err != nil {
			return err
		}
		answer := fsm.QuestionAnswered{Task: e.Task, Hints: hints(said)}
		if removed && u.Person {
			answer.By, answer.Command = u.By, "removed the blocked label"
			s.owner.Decided(ctx, answer)
			return nil
		}
		if removed { // the question stands, so GitHub must show it
			s.log.Warn("a bot took the blocked label off, which is no answer; it is put back",
				zap.String("issue", string(e.Task)), zap.String("by", u.By))
			if err := s.github.KeepLabel(ctx, string(e.Task), s.config.GitHub.Labels.Blocked, true); err != nil {
				return err
			}
		}
		if answer.Hints != nil {
			s.owner.Decided(ctx, answer)
		}
		return nil
	})
}

// hints returns what people with write access said: the text after a command, and plain comments.
func hints(said []github.Answer) (out []fsm.Hint) {
	for _, a := range said {
		text := a.Text
		if a.Command != github.CommandNone {
			text = a.Rest
		}
		if a.MayWrite && text != "" {
			out = append(out, fsm.Hint{From: a.By, At: a.At, Text: text})
		}
	}
	return out
}
