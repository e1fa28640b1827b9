package github

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/githubtest"
)

// TestInspectReadsWhatGitHubTells checks the account of the token, and the properties that GitHub sends only in
// headers.
func TestInspectReadsWhatGitHubTells(t *testing.T) {
	inWorld(t, func(w *world) {
		ends := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		c := w.client("retake-bot")
		plain, err := c.Inspect(w.Context())
		if err != nil || plain.Login != "retake-bot" || plain.Told || !plain.Expires.IsZero() ||
			time.Since(plain.Date).Abs() > time.Second {
			w.Errorf("%+v, %v", plain, err)
		}
		next := w.sim.Transport()
		c = w.client("retake-bot", func(o *Options) {
			o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(r)
				if err == nil {
					answer.Header.Set("X-OAuth-Scopes", "repo, workflow")
					answer.Header.Set("GitHub-Authentication-Token-Expiration", ends.Format("2006-01-02 15:04:05 MST"))
				}
				return answer, err
			})
		})
		if told, err := c.Inspect(w.Context()); err != nil || !told.Told ||
			!slices.Equal(told.Scopes, []string{"repo", "workflow"}) || !told.Expires.Equal(ends) {
			w.Errorf("%+v, %v", told, err)
		}
	})
}

// TestPreflightOfARepository checks the repository's settings, missing labels, and missing permissions to read them.
func TestPreflightOfARepository(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		if a, err := c.About(w.Context(), testRepo); err != nil || !a.Push || !a.HasIssues || a.Archived ||
			a.DefaultBranch != "main" {
			w.Errorf("%+v, %v", a, err)
		}
		if a, err := w.client("mallory").About(w.Context(), testRepo); err != nil || a.Push {
			w.Errorf("%+v, %v", a, err)
		}
		if _, err := c.About(w.Context(), "acme/none"); api.KindOf(err) != api.KindNotFound {
			w.Error(err)
		}
		if lacks, err := c.MayRead(w.Context(), testRepo, "main"); err != nil || len(lacks) > 0 {
			w.Errorf("%q, %v", lacks, err)
		}
		for _, path := range []string{"/check-runs", "/pulls"} {
			w.inject(githubtest.Fault{
				Status: http.StatusForbidden,
				Body:   `{"message":"Resource not accessible by integration"}`,
			}.On("GET", path))
		}
		if lacks, err := c.MayRead(w.Context(), testRepo, "main"); err != nil ||
			!slices.Equal(lacks, []string{"pull_requests", "checks"}) {
			w.Errorf("%q, %v", lacks, err)
		}
		w.inject(githubtest.ServerError(http.StatusBadGateway).On("GET", "/issues"))
		if _, err := c.MayRead(w.Context(), testRepo, "main"); api.KindOf(err) != api.KindTransient {
			w.Error(err)
		}
	})
}

func TestAnAppKnowsItsRights(t *testing.T) {
	appKey()
	inWorld(t, func(w *world) {
		a := w.app()
		if rights, err := a.Rights(w.Context()); err != nil || rights["issues"] != "write" || rights["checks"] != "" {
			w.Errorf("%q, %v", rights, err)
		}
		c := w.client("retake[bot]", func(o *Options) { o.Token, o.Login = a.Token, a.Login })
		if seen, err := c.Inspect(w.Context()); err != nil || seen.Login != "retake[bot]" || !seen.Bot ||
			seen.Date.IsZero() {
			w.Errorf("%+v, %v", seen, err)
		}
	})
}
