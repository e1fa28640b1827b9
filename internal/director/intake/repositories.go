package intake

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"retake/internal/github"
	"retake/internal/github/api"
)

// Repositories checks that repositories are usable. Its methods are safe for concurrent use.
type Repositories struct {
	GitHub     *github.Client
	Names      []string // in the order in which OpenAny tries them
	BaseBranch func(repo string) string
	Unusable   *sync.Map // repositories that cannot be used, with the reason
	Log        *zap.Logger

	opened sync.Map // repositories that answered and have our labels
}

// OpenAny opens repositories until one is usable. The polls open the rest later, because opening a thousand
// repositories in sequence would delay a new leader for minutes. The director continues without unusable repositories,
// and lists them in its health report. OpenAny returns an error only if GitHub refuses every repository, which means
// that the configuration is wrong. During a GitHub outage it returns nil.
func (r *Repositories) OpenAny(ctx context.Context) error {
	var refused []error
	for _, repo := range r.Names {
		err := r.Open(ctx, repo)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			return nil
		}
		r.Unusable.Store(repo, err.Error())
		r.Log.Error("cannot use repository; retrying at each poll", zap.String("repo", repo),
			zap.Error(err))
		if answer, ok := errors.AsType[*api.Error](err); !ok || answer.Kind != api.KindTransient {
			refused = append(refused, err)
		}
	}
	if len(refused) > 0 && len(refused) == len(r.Names) {
		return errors.Join(refused...)
	}
	return nil
}

// Open checks that the repository has the base branch, and creates missing labels. Once it has succeeded, further calls
// do nothing. During a rate limit, Open returns nil without checking, and the next poll calls it again.
func (r *Repositories) Open(ctx context.Context, repo string) error {
	if _, done := r.opened.Load(repo); done {
		return nil
	}
	err := r.GitHub.HasBranch(ctx, repo, r.BaseBranch(repo))
	if err == nil {
		err = r.GitHub.Labels.EnsureLabels(ctx, repo)
	}
	var limit *api.Error
	switch {
	case err == nil:
		r.opened.Store(repo, true)
		r.Unusable.Delete(repo)
		return nil
	case errors.Is(err, api.ErrWritesDisabled):
		r.opened.Store(repo, true)
		r.Unusable.Delete(repo)
		r.Log.Warn("claims are disabled by github.writes = false", zap.String("repo", repo))
		return nil
	case errors.As(err, &limit) && limit.Kind == api.KindRateLimited:
		r.Log.Warn("could not check labels; GitHub is refusing requests for now",
			zap.String("repo", repo), zap.Time("until", limit.Until))
		return nil
	}
	return fmt.Errorf("director: cannot use repository %s (check github.api_url, the network and the token's "+
		"access to it): %w", repo, err)
}
