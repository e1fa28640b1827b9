package githubtest

import (
	"context"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

// App is an installation of a GitHub App. It writes as "<Slug>[bot]", like all installations of the App. Each
// installation has its own limits.
type App struct {
	ID, InstallationID int64
	Slug               string
	Key                *rsa.PublicKey
}

// tokenLife is the lifetime of a minted token.
const tokenLife = time.Hour

// app is an App with the tokens that its installation has requested.
type app struct {
	App
	made   int                  // number of requested tokens
	tokens map[string]time.Time // token → expiry
}

// apps holds the Apps and their tokens. They are not in the state file.
type apps struct {
	*store
	apps []*app
}

// AddApp installs an App, which may already have other installations. Like a user, the App's account gets its rights in
// a repository from AddRepo.
func (s *apps) AddApp(a App) {
	s.mu.Lock()
	defer s.unlock()
	s.user(a.Slug + "[bot]")
	s.apps = append(s.apps, &app{App: a, tokens: map[string]time.Time{}})
}

// Minted counts the tokens that the App's installations have requested.
func (s *apps) Minted(slug string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.apps {
		if a.Slug == slug {
			n += a.made
		}
	}
	return n
}

// installationOf finds the installation that a valid minted token belongs to, or nil. s.mu is held.
func (s *apps) installationOf(token string) *app {
	at := slices.IndexFunc(s.apps, func(a *app) bool {
		end, ok := a.tokens[token]
		return ok && s.opts.Now().Before(end)
	})
	if at < 0 {
		return nil
	}
	return s.apps[at]
}

// isApps reports whether requests for a path are signed with an App's key.
func isApps(path string) bool {
	return path == APIPath+"app" || strings.HasPrefix(path, APIPath+"app/")
}

// answerApp answers requests that are signed with an App's key. s.mu is held.
func (s *apps) answerApp(w http.ResponseWriter, r *http.Request) {
	installed := s.installed(r)
	if len(installed) == 0 {
		fail(w, http.StatusUnauthorized, "A JSON web token could not be decoded")
		return
	}
	to, path := linksOf(r), strings.TrimPrefix(r.URL.Path, APIPath+"app")
	at := slices.IndexFunc(installed, func(a *app) bool {
		return path == "/installations/"+itoa(a.InstallationID)+"/access_tokens"
	})
	switch {
	case r.Method == http.MethodGet && path == "":
		a := installed[0]
		writeJSON(w, http.StatusOK, object{
			"id": a.ID, "slug": a.Slug, "node_id": nodeID("App", a.ID), "owner": to.user(s.user(s.opts.Person)),
			"name": a.Slug, "description": nil,
			"external_url": to.web, "html_url": to.web + "/apps/" + a.Slug, "created_at": "2020-01-01T00:00:00Z",
			"updated_at":  "2020-01-01T00:00:00Z",
			"permissions": object{"issues": "write", "contents": "write"}, "events": []string{},
		})
	case r.Method == http.MethodPost && at >= 0:
		a := installed[at]
		a.made++
		token, end := "ghs_"+a.Slug+"_"+itoa(a.InstallationID)+"_"+itoa(a.made), s.now().Add(tokenLife)
		a.tokens[token] = end
		writeJSON(w, http.StatusCreated, object{
			"token": token, "expires_at": end.Format(time.RFC3339),
			"permissions": object{"issues": "write"}, "repository_selection": "all",
		})
	default:
		fail(w, http.StatusNotFound, "Not Found")
	}
}

// installed returns the installations of the App that signed a request. As on GitHub, the signed token must expire
// within ten minutes.
func (s *apps) installed(r *http.Request) []*app {
	_, raw, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return slices.DeleteFunc(slices.Clone(s.apps), func(a *app) bool {
		claims := &jwt.RegisteredClaims{}
		_, err := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithoutClaimsValidation()).
			ParseWithClaims(raw, claims, func(*jwt.Token) (any, error) { return a.Key, nil })
		now := s.opts.Now()
		return err != nil || claims.Issuer != itoa(a.ID) || claims.ExpiresAt == nil ||
			!now.Before(claims.ExpiresAt.Time) ||
			!claims.ExpiresAt.Before(now.Add(10*time.Minute+time.Second))
	})
}

// Webhook returns the request that GitHub would post to a webhook URL, signed with a secret.
func Webhook(ctx context.Context, url, event, delivery, body, secret string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-GitHub-Delivery", delivery)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return r, nil
}

// caller is the sender of a request.
type caller struct {
	user   *user  // nil if the credential is unknown
	budget string // the limits that the request uses: one per user, and per installation of an App
	text   string // the budget's owner, in GitHub's error messages
}

// caller finds the sender of a request by its Authorization header (Bearer, token or Basic). s.mu is held.
func (s *apps) caller(r *http.Request) caller {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if _, password, ok := r.BasicAuth(); ok {
		token = password
	}
	for _, u := range s.users {
		if u.token != "" && u.token == token {
			return caller{u, u.login, "user ID " + itoa(u.id)}
		}
	}
	if a := s.installationOf(token); a != nil {
		id := itoa(a.InstallationID)
		return caller{s.users[a.Slug+"[bot]"], "installation " + id, "installation ID " + id}
	}
	return caller{}
}
