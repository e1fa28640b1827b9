package github

import (
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/githubtest"
)

// TestRefusedAccountOrResource checks which refusals close the API, and that the first success opens it.
func TestRefusedAccountOrResource(t *testing.T) {
	all, alone := "", "^/repos/acme/widgets"
	for name, c := range map[string]struct {
		status  int
		message string
		path    string
		other   string // another repository that GitHub has served before
		want    api.Kind
	}{
		"suspended":           {403, "This installation has been suspended", all, "", api.KindRateLimited},
		"account suspended":   {403, "Sorry. Your account was suspended", all, "", api.KindRateLimited},
		"token expired":       {401, "The token has expired", all, "", api.KindRateLimited},
		"unknown 401":         {401, "Requires authentication", all, "", api.KindRateLimited},
		"unknown 403":         {403, "No", all, "", api.KindRateLimited},
		"the only repository": {403, "No", alone, "", api.KindRateLimited},
		"one of two":          {403, "No", alone, "acme/gears", api.KindPermanent},
		"policy of the owner": {403, "organization SAML enforcement", alone, "acme/gears", api.KindRateLimited},
		"policy of one owner": {403, "IP allow list enabled", alone, "other/gears", api.KindPermanent},
		"one permission":      {403, "Resource not accessible by integration", "/issues/1$", "", api.KindPermanent},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				bot := w.client("retake-bot")
				w.must(bot.API.Check(w.Context(), testRepo))
				if c.other != "" {
					w.must(w.sim.AddRepo(c.other, "", map[string]string{"retake-bot": "write"}))
					w.must(bot.API.Check(w.Context(), c.other))
				}
				w.inject(githubtest.Fault{
					Status: c.status, Body: `{"message":"` + c.message + `"}`, Path: c.path, Times: 1000,
				})
				_, err := bot.Issues.Issue(w.Context(), w.key)
				since, _ := bot.API.Gate.Refused()
				closed := c.want == api.KindRateLimited
				if e := asError(w.T, err); e.Kind != c.want || closed != (e.Resource == gate.API) ||
					closed == since.IsZero() {
					t.Errorf("got %v, refused since %s; want %s", e, since, c.want)
				}
				w.sim.Repair()
				time.Sleep(time.Minute)
				w.must(bot.API.Check(w.Context(), testRepo))
				if since, _ := bot.API.Gate.Refused(); !since.IsZero() {
					t.Error("it is still closed")
				}
			})
		})
	}
}
