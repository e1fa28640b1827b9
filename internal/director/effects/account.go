package effects

import (
	"context"
	"errors"

	"retake/internal/director/failure"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/recovery"
)

// OfAccount returns an executor that asks GitHub's API about the account after git's server has refused the
// credentials. If GitHub refuses the account as a whole, the effect waits until the API opens, and the task is not to
// blame.
func OfAccount(check func(ctx context.Context, repo string) error, run loop.Executor) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		out := run(ctx, e)
		f := out.Failure
		if f == nil || f.Resource != recovery.GitHubGit || f.Reason != recovery.AuthError {
			return out
		}
		refused, ok := errors.AsType[*api.Error](check(ctx, e.Task.Repo()))
		if ok && refused.Kind == api.KindRateLimited && refused.Resource == gate.API {
			out.Failure = failure.Of(refused)
		}
		return out
	}
}
