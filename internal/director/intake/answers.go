package intake

import (
	"context"

	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github/command"
	"retake/internal/github/inbox"
)

// Answers reads people's answers to questions.
type Answers struct {
	Owner  *loop.Owner
	GitHub answerClient
	Config *inforce.Current
	Log    *zap.Logger
}

// answerClient is the part of the GitHub client that Answers needs.
type answerClient interface {
	Unblocked(ctx context.Context, key string) (u inbox.Unblock, ok bool, err error)
	Answers(ctx context.Context, key string) ([]command.Answer, error)
	KeepLabel(ctx context.Context, key, label string, again bool) error
}

// Read checks whether people have answered a question, by a comment or by removing the blocked label.
func (s *Answers) Read(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, s.Config.PollPause, func() error {
		u, removed, err := s.GitHub.Unblocked(ctx, string(e.Task))
		if err != nil {
			return err
		}
		said, err := s.GitHub.Answers(ctx, string(e.Task))
		if err != nil {
			return err
		}
		answer := fsm.QuestionAnswered{Task: e.Task, Hints: hints(said)}
		if removed && u.Person {
			answer.By, answer.Command = u.By, "removed the blocked label"
			s.Owner.Decided(ctx, answer)
			return nil
		}
		if removed { // the question is still open, so restore its label
			s.Log.Warn("restored the blocked label that a bot had removed",
				zap.String("issue", string(e.Task)), zap.String("by", u.By))
			if err := s.GitHub.KeepLabel(ctx, string(e.Task), s.Config.Load().GitHub.Labels.Blocked, true); err != nil {
				return err
			}
		}
		if answer.Hints != nil {
			s.Owner.Decided(ctx, answer)
		}
		return nil
	})
}

// hints returns the text that people with write access wrote after a command or in a plain comment.
func hints(said []command.Answer) (out []fsm.Hint) {
	for _, a := range said {
		text := a.Text
		if a.Command != command.None {
			text = a.Rest
		}
		if a.MayWrite && text != "" {
			out = append(out, fsm.Hint{From: a.By, At: a.At, Text: text})
		}
	}
	return out
}
