package director

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/github"
)

// openRepositories opens repositories until it finds a usable one. The polls open the others before their first
// use: opening a thousand in sequence would keep a new leader from its workers for minutes. Unusable repositories
// appear in the health, and the director continues without them. openRepositories fails only if GitHub refuses all
// of them, which is a configuration error. An outage does not count.
func (s *session) openRepositories(ctx context.Context) error {
	var refused []error
	for _, repo := range s.config.GitHub.Repositories {
		err := s.openRepository(ctx, repo)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			return nil
		}
		s.unusable.Store(repo, err.Error())
		s.log.Error("a repository cannot be used; it is tried again with each poll", zap.String("repo", repo),
			zap.Error(err))
		if answer, ok := errors.AsType[*github.Error](err); !ok || answer.Kind != github.KindTransient {
			refused = append(refused, err)
		}
	}
	if len(refused) > 0 && len(refused) == len(s.config.GitHub.Repositories) {
		return errors.Join(refused...)
	}
	return nil
}

// degraded lists what is not usable, or returns "".
func (d *daemon) degraded() string {
	var all []string
	d.unusable.Range(func(_, why any) bool {
		all = append(all, why.(string)) //nolint:forcetypeassert // nothing else is stored
		return true
	})
	if why := d.configProblem(); why != "" {
		all = append(all, why)
	}
	slices.Sort(all)
	if since, why := d.github.Gate.Away(); !since.IsZero() {
		all = slices.Insert(all, 0, fmt.Sprintf("GitHub has not answered since %s (%s): it is tried again by itself",
			since.UTC().Format(time.RFC3339), why))
	}
	if until, why := d.github.Gate.Closed(); !until.IsZero() {
		all = slices.Insert(all, 0, fmt.Sprintf("GitHub is left alone until %s: %s", until.UTC().Format(time.RFC3339),
			why))
	}
	return strings.Join(all, "; ")
}

// openRepository ensures, once, that the repository answers and has our labels. A rate limit does not prevent a
// start: the first successful poll checks again.
func (d *daemon) openRepository(ctx context.Context, repo string) error {
	if _, done := d.labelled.Load(repo); done {
		return nil
	}
	err := d.github.HasBranch(ctx, repo, d.config.GitHub.BaseBranch)
	if err == nil {
		err = d.github.EnsureLabels(ctx, repo)
	}
	var limit *github.Error
	switch {
	case err == nil:
		d.labelled.Store(repo, true)
		d.unusable.Delete(repo)
		return nil
	case errors.Is(err, github.ErrWritesDisabled):
		d.labelled.Store(repo, true)
		d.unusable.Delete(repo)
		d.log.Warn("github.writes = false: nothing is claimed, only looked at", zap.String("repo", repo))
		return nil
	case errors.As(err, &limit) && limit.Kind == github.KindRateLimited:
		d.log.Warn("labels not checked: GitHub is closed", zap.String("repo", repo), zap.Time("until", limit.Until))
		return nil
	}
	return fmt.Errorf("director: repository %s cannot be used (check github.api_url, the network and the token's "+
		"access to it): %w", repo, err)
}
