package github

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/claims"
	"retake/internal/github/githubtest"
)

// appKey is generated once, because 2048 bits take a moment.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func pemOf(key *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

// app installs a GitHub App and returns its credential.
func (w *world) app(change ...func(*api.AppOptions)) *api.App {
	w.Helper()
	w.sim.AddApp(githubtest.App{ID: 7, InstallationID: 70, Slug: "retake", Key: &appKey().PublicKey})
	if err := w.sim.AddRepo(testRepo, "", map[string]string{"retake[bot]": "write"}); err != nil {
		w.Fatal(err)
	}
	o := api.AppOptions{
		BaseURL: testAPI, ID: 7, InstallationID: 70, PrivateKey: pemOf(appKey()),
		Transport: checked(w.T, w.sim.Transport()),
	}
	for _, f := range change {
		f(&o)
	}
	a, err := api.NewApp(o)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// TestAppMintsAndRenews checks that an App can claim and recognizes its comments. A token is used for an hour minus
// a minute, and every request has a valid token.
func TestAppMintsAndRenews(t *testing.T) {
	appKey()
	inWorld(t, func(w *world) {
		a := w.app()
		c := w.client("retake[bot]", func(o *Options) { o.Token, o.Login = a.Token, a.Login })
		for range 2 {
			if r, err := c.Claims.Claim(w.Context(),
				claims.Request{Key: w.key, Nonce: testNonce, RunID: "run"}); err != nil ||
				r.Outcome != claims.Won {
				w.Fatalf("%+v, %v", r, err)
			}
		}
		if got := w.sim.Issue(w.key).Comments; len(got) != 1 || got[0].Author != "retake[bot]" {
			w.Errorf("comments %+v", got)
		}
		if login, bot, err := c.Account(w.Context()); login != "retake[bot]" || !bot || err != nil {
			w.Errorf("%q, %v, %v", login, bot, err)
		}
		if n := w.sim.Minted("retake"); n != 1 {
			w.Errorf("%d tokens minted for a few requests, want 1", n)
		}
		for range 8 * 60 {
			time.Sleep(time.Minute)
			if _, err := c.Issues.Issue(w.Context(), w.key); err != nil {
				w.Fatal(err)
			}
		}
		if n := w.sim.Minted("retake"); n < 8 || n > 10 {
			w.Errorf("%d tokens minted in eight hours, want one an hour", n)
		}
	})
}

// TestAppIsRefused checks the kind and the advice of each refusal. The error does not contain the key.
func TestAppIsRefused(t *testing.T) {
	appKey()
	another, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		change func(*api.AppOptions)
		fault  githubtest.Fault
		want   api.Kind
		text   string
	}{
		"another key": {
			change: func(o *api.AppOptions) { o.PrivateKey = pemOf(another) }, want: api.KindUnauthorized,
			text: "could not be decoded",
		},
		"another App": {
			change: func(o *api.AppOptions) { o.ID = 8 }, want: api.KindUnauthorized,
			text: "could not be decoded",
		},
		"not installed there": {
			change: func(o *api.AppOptions) { o.InstallationID = 71 }, want: api.KindUnauthorized,
			text: "github.installation_id",
		},
		"GitHub is away": {
			fault: githubtest.Fault{Status: http.StatusBadGateway}, want: api.KindTransient,
			text: "502",
		},
		"GitHub says nothing": {fault: githubtest.Fault{CutBefore: true}, want: api.KindTransient, text: "no response"},
		"a limit for the App": {fault: githubtest.Fault{
			Status: http.StatusForbidden,
			Body:   `{"message":"You have exceeded a secondary rate limit"}`,
		}, want: api.KindTransient, text: "secondary"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if row.change == nil {
					row.change = func(*api.AppOptions) {}
					w.inject(row.fault.On("POST", "/app/installations/"))
				}
				a := w.app(row.change)
				c := w.client("x", func(o *Options) { o.Token, o.Login = a.Token, a.Login })
				_, err := c.Issues.Issue(w.Context(), w.key)
				if api.KindOf(err) != row.want || !strings.Contains(err.Error(), row.text) {
					w.Errorf("got %v, want %s with %q", err, row.want, row.text)
				}
			})
		})
	}
	if _, err := api.NewApp(api.AppOptions{
		BaseURL: testAPI, ID: 7, InstallationID: 70,
		PrivateKey: []byte("no key"),
	}); err == nil || !strings.Contains(err.Error(), "PEM file") {
		t.Errorf("got %v for an invalid key", err)
	}
}
