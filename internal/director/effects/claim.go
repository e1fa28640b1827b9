package effects

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"retake/internal/config"
	"retake/internal/director/failure"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/api"
	"retake/internal/github/claims"
)

// Claims takes claims on issues, and checks that they still hold.
type Claims struct {
	GitHub  *github.Client
	Labels  config.Labels
	RunID   string
	Refused func(key string) // postpones an issue that cannot be claimed now
}

// Claim claims an issue, or restores the labels of an earlier claim.
func (c *Claims) Claim(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	r, err := c.GitHub.Claims.Claim(ctx, claims.Request{
		Key: string(e.Task), Nonce: e.Nonce, RunID: c.RunID, Unblock: e.Attempt > 0, Answers: e.Answers,
	})
	if why, gone := failure.IssueGone(err); gone {
		return notOurs(why)
	}
	if errors.Is(err, api.ErrWritesDisabled) {
		c.Refused(string(e.Task))
		return notOurs("not claimed, because github.writes is false")
	}
	if err != nil {
		out := failure.Ended(err)
		if !out.Failure.Transient { // waiting would not help
			c.Refused(string(e.Task))
		}
		return out
	}
	end := &fsm.ClaimResult{Ours: r.Outcome == claims.Won, Why: r.Why}
	if r.Outcome == claims.Lost {
		end.Why = fmt.Sprintf("another director has claimed it (fleet %s, %s)", r.Winner.Fleet, r.Winner.Login)
	}
	if !end.Ours && r.Offered {
		c.Refused(string(e.Task))
	}
	return fsm.EffectEnded{Claim: end}
}

// Recheck rereads the issue. The claim is lost if the issue is closed or no longer has the claimed label.
func (c *Claims) Recheck(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	i, err := c.GitHub.Issues.Issue(ctx, string(e.Task))
	if why, gone := failure.IssueGone(err); gone {
		return notOurs(why)
	}
	switch {
	case err != nil:
		return failure.Ended(err)
	case i.State != "open":
		return notOurs("the issue was closed")
	case !i.Has(c.Labels.Claimed):
		return notOurs("the label " + c.Labels.Claimed + " was removed")
	}
	return fsm.EffectEnded{Claim: &fsm.ClaimResult{Ours: true}}
}

// notOurs returns the outcome for a claim that we have lost or given up.
func notOurs(why string) fsm.EffectEnded { return fsm.EffectEnded{Claim: &fsm.ClaimResult{Why: why}} }

// Warmed returns an executor that calls warm and run at the same time, and returns when both have returned. warm
// prepares the runtime for the attempt that usually follows the effect.
func Warmed(warm func(context.Context), run loop.Executor) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		var beside sync.WaitGroup
		defer beside.Wait()
		beside.Go(func() { warm(ctx) })
		return run(ctx, e)
	}
}
