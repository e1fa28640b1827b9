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

// OfAccount returns an executor that runs run. If the git server refuses the credentials, the executor calls check to
// find out whether GitHub's API refuses the whole account. In that case the effect waits until the API accepts
// requests again, and the failure does not count against the task.
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
