package intake

import (
	"context"

	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
)

// Issues reads single issues, for effects that need an issue's current state.
type Issues struct {
	Owner    *loop.Owner
	GitHub   issueReader
	Offers   *Offers
	Refusals *Postponed
	Config   *inforce.Current
}

// Read rereads the issue of an effect.
func (s *Issues) Read(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	return failure.RetryTransient(ctx, s.Config.PollPause, func() error {
		asked := s.Owner.Clock.Now()
		i, err := s.GitHub.Issue(ctx, string(e.Task))
		switch _, gone := failure.IssueGone(err); {
		case gone:
			s.Gone(ctx, e.Task)
			return nil
		case err == nil && s.Refusals.Hold(i):
			return nil
		case err == nil:
			left := LookupsPerPoll
			var v fsm.IssueView
			if v, err = s.Offers.View(ctx, i, &left); err == nil {
				s.Owner.Send(ctx, fsm.IssuesSeen{Repo: e.Task.Repo(), AskedAt: asked, Issues: []fsm.IssueView{v}}, nil)
			}
		}
		return err
	})
}

// Gone tells the machine that an issue no longer exists. The machine treats it like a closed issue.
func (s *Issues) Gone(ctx context.Context, k fsm.IssueKey) {
	s.Owner.Send(ctx, fsm.IssuesSeen{
		Repo: k.Repo(), AskedAt: s.Owner.Clock.Now(), Issues: []fsm.IssueView{{Key: k}},
	}, nil)
}
