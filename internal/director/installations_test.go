package director

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"path/filepath"
	"testing"

	"retake/internal/github/api"
	"retake/internal/github/githubtest"
)

// TestInstallationsHaveTheirOwnBudgets runs two directors with two installations of one App. After another program has
// used up the hour's requests of the first installation, only the first director waits.
func TestInstallationsHaveTheirOwnBudgets(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	play := func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) }
	first, second := newHarness(t, play), newHarness(t, play)
	hub, other := first.github, "beta/gadgets"
	second.github, second.config.GitHub.APIURL = hub, first.config.GitHub.APIURL
	second.config.GitHub.Repositories = []string{other}
	rights := map[string]string{"retake[bot]": "write", "octocat": "write"}
	must(t, hub.AddRepo(repo, "", rights))
	must(t, hub.AddRepo(other, filepath.Join(filepath.Dir(first.config.Director.DataDir), "seed"), rights))
	for id, s := range map[int64]*harness{70: first, 71: second} {
		hub.AddApp(githubtest.App{ID: 7, InstallationID: id, Slug: "retake", Key: &key.PublicKey})
		s.app, err = api.NewApp(api.AppOptions{
			BaseURL: s.config.GitHub.APIURL, ID: 7, InstallationID: id,
			PrivateKey: pem.EncodeToMemory(&pem.Block{
				Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key),
			}),
		})
		must(t, err)
		s.start()
		s.until("it decides", func() bool { return s.closures() != nil })
	}
	first.useUp()
	waits := hub.CreateIssue(repo, "octocat", "Waits for the hour", "", "agent-task")
	goesOn := hub.CreateIssue(other, "octocat", "Goes on", "", "agent-task")
	first.until("it waits for the hour", func() bool { return len(first.closures()) > 0 })
	second.until("it delivers", second.labelled(goesOn, "agent-review"))
	if closed := second.closures(); len(closed) > 0 {
		t.Errorf("the second director closed %v", closed)
	}
	if !first.labelled(waits, "agent-task")() {
		t.Errorf("the first director changed its issue: %v", first.labels(waits))
	}
}

// useUp sends requests with the director's credential until the hour's requests are used up.
func (s *harness) useUp() {
	s.t.Helper()
	token, err := s.app.Token(s.t.Context())
	must(s.t, err)
	for status := http.StatusOK; status != http.StatusForbidden; {
		r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.config.GitHub.APIURL+"repos/"+repo, nil)
		must(s.t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := s.github.Transport().RoundTrip(r)
		must(s.t, err)
		must(s.t, resp.Body.Close())
		if status = resp.StatusCode; status != http.StatusOK && status != http.StatusForbidden {
			s.t.Fatal("status ", status)
		}
	}
}
