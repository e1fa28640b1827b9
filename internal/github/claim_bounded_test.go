package github

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/claims"
	"retake/internal/github/tracker"
)

// TestClaimWhoseLabelsKeepChanging lets a bot remove the claimed label after every claim and keep or restore the task
// label. After a few tries the issue stays unchanged and unclaimed until the task label is added again.
func TestClaimWhoseLabelsKeepChanging(t *testing.T) {
	for name, hits := range map[string]func(r *http.Request) bool{
		"at once": func(r *http.Request) bool { return r.Method == http.MethodGet },
		"before the last request": func(r *http.Request) bool {
			return r.Method == http.MethodDelete || strings.HasSuffix(r.URL.Path, "/graphql")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				rule := true
				c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						if rule && hits(r) {
							w.sim.RemoveLabel(w.key, "acme", "agent-claimed")
						}
						return next.RoundTrip(r)
					})
				}))
				claim := func(nonce string) (got claims.Result, tries int) {
					var err error
					for tries = 1; tries <= 10; tries++ {
						if got, err = c.Claims.Claim(w.Context(),
							claimRequest(w, nonce)); api.KindOf(err) != api.KindTransient {
							break
						}
						time.Sleep(10 * time.Second)
					}
					w.must(err)
					return got, tries
				}
				got, tries := claim(testNonce)
				if got.Outcome != claims.NotEligible || !got.Offered || tries > 3 ||
					!strings.Contains(got.Why, "agent-task") {
					t.Errorf("claim = %+v after %d tries", got, tries)
				}
				if n := len(w.marked(tracker.MarkClaim)); n != 0 {
					t.Errorf("%d claim comments stay", n)
				}
				w.wantLabels("agent-task")
				before := len(w.changes())
				if got, tries = claim("aaaabbbb"); got.Outcome != claims.NotEligible || !got.Offered || tries > 1 ||
					len(w.changes()) > before {
					t.Errorf("the next claim = %+v after %d tries, with %d writes", got, tries, len(w.changes())-before)
				}
				rule = false
				w.sim.RemoveLabel(w.key, "acme", "agent-task")
				w.sim.AddLabel(w.key, "acme", "agent-task")
				if got, _ = claim("ccccdddd"); got.Outcome != claims.Won {
					t.Errorf("claim of an issue that is offered again = %+v", got)
				}
				w.wantLabels("agent-claimed")
			})
		})
	}
}
