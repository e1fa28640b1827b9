package intake

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/github/api"
	"retake/internal/github/claims"
	"retake/internal/github/tracker"
)

// Strays releases claims of this fleet that were orphaned by a lost journal, each after timeouts.issue_claim_stale of
// inactivity. It leaves the claims of other fleets to their directors.
type Strays struct {
	GitHub  strayClient
	Config  *inforce.Current
	Checked *Postponed // issues that were checked recently
	Log     *zap.Logger
}

// strayClient is the part of the GitHub client that Strays needs.
type strayClient interface {
	Stale(ctx context.Context, key string) (h claims.Holder, last time.Time, ok bool, err error)
	Release(ctx context.Context, r claims.ReleaseRequest) error
	Free(ctx context.Context, key string, stale time.Duration) (freed bool, due time.Time, err error)
}

// Reclaim checks an orphan claim, and releases it if it is stale.
func (s *Strays) Reclaim(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	if s.Checked.Hold(tracker.Issue{Key: string(e.Task)}) { // every poll lists it, and each check costs requests
		return fsm.EffectEnded{}
	}
	s.Checked.Note(string(e.Task))
	holder, seen, ok, err := s.GitHub.Stale(ctx, string(e.Task))
	if err == nil && !ok {
		return failure.Or(fsm.EffectEnded{}, s.offerAgain(ctx, e.Task))
	}
	if err != nil || holder.Fleet != s.Config.Load().Director.Fleet {
		return failure.Or(fsm.EffectEnded{}, err)
	}
	if back := seen.Add(s.Config.Load().Timeouts.IssueClaimStale); time.Now().Before(back) {
		s.Log.Warn("found an orphan claim of this fleet: if the journal was lost, `director journal rebuild` resumes "+
			"it; otherwise Retake releases it",
			zap.String("issue", string(e.Task)), zap.String("task", holder.Nonce), zap.Time("until", back))
		return fsm.EffectEnded{}
	}
	err = s.GitHub.Release(ctx, claims.ReleaseRequest{
		Key: string(e.Task), Nonce: holder.Nonce, RestoreTask: true, Reclaim: true, LastSeen: seen,
		Why: "the claim of fleet " + holder.Fleet + " has shown no activity since " + seen.UTC().Format(time.RFC3339),
	})
	if errors.Is(err, claims.ErrAlive) {
		err = nil
	}
	return failure.Or(fsm.EffectEnded{}, err)
}

// soon is the maximum time that offerAgain waits before it removes a label. If the wait would be longer, the next full
// list finds the label again.
const soon = 2 * time.Minute

// offerAgain removes our claimed label from an issue without a claim, so that the issue is offered again.
func (s *Strays) offerAgain(ctx context.Context, k fsm.IssueKey) error {
	for {
		freed, due, err := s.GitHub.Free(ctx, string(k), s.Config.Load().Timeouts.IssueClaimStale)
		switch wait := time.Until(due); {
		case errors.Is(err, api.ErrWritesDisabled):
			return nil
		case freed:
			s.Log.Warn("removed the claimed label from an issue without a claim", zap.String("issue", string(k)),
				zap.Error(err))
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
