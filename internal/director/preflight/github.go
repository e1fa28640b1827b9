package preflight

import (
	"context"
	"strings"
	"time"

	"retake/internal/config"
	"retake/internal/doctor"
)

// kindOfToken describes the type of a token. GitHub encodes the type in the token's prefix.
func kindOfToken(c config.Config, token string) string {
	switch {
	case c.IsApp():
		return "GitHub App"
	case strings.HasPrefix(token, "github_pat_"):
		return "fine-grained token"
	case strings.HasPrefix(token, "ghp_"):
		return "classic token"
	}
	return "token"
}

// Account returns the account that the credential belongs to.
func (g githubSeen) Account(ctx context.Context) (doctor.Account, error) {
	c, err := g.Inspect(ctx)
	if err != nil {
		return doctor.Account{}, err
	}
	a := doctor.Account{
		Login: c.Login, Person: !c.Bot, Kind: g.kind, Told: c.Told, Scopes: c.Scopes, Expires: c.Expires, Date: c.Date,
		At: time.Now(),
	}
	if g.o.Rights != nil {
		a.Rights, err = g.o.Rights(ctx)
	}
	return a, err
}

// Repository returns GitHub's information about a repository.
func (g githubSeen) Repository(ctx context.Context, name string) (doctor.Repository, error) {
	about, err := g.About(ctx, name)
	return doctor.Repository(about), err
}
