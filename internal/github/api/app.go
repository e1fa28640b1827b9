package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	tokens "github.com/google/go-github/v60/github"
)

// AppOptions identify a GitHub App and its installation.
type AppOptions struct {
	BaseURL        string // see Options.BaseURL
	ID             int64  // the App's ID
	InstallationID int64
	PrivateKey     []byte // PEM, RSA
	Transport      http.RoundTripper
}

// App is the credential of a GitHub App's installation. A token is valid for an hour, and App replaces it in its last
// minute. Requests for tokens bypass the gate, because GitHub counts them separately and one per hour suffices.
type App struct {
	api   string // API root, without a trailing slash
	app   *ghinstallation.AppsTransport
	in    *ghinstallation.Transport
	login atomic.Pointer[string]
}

// NewApp parses the private key. It does not send requests.
func NewApp(o AppOptions) (*App, error) {
	next := cmp.Or(o.Transport, http.DefaultTransport)
	app, err := ghinstallation.NewAppsTransport(next, o.ID, o.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("github: read the App's private key: want the PEM file that GitHub created for it: %w",
			err)
	}
	in := ghinstallation.NewFromAppsTransport(app, o.InstallationID)
	in.BaseURL = strings.TrimRight(o.BaseURL, "/")
	// An empty object selects all repositories and permissions. nil would be sent as null.
	in.InstallationTokenOptions = &tokens.InstallationTokenOptions{}
	in.Client = &http.Client{Transport: next, Timeout: exchangeTimeout}
	return &App{api: in.BaseURL, app: app, in: in}, nil
}

// Token returns the installation's token, for Options.Token. Its *Error is unauthorized if the key is wrong, GitHub
// does not know the App, or the installation was removed. It is transient if the App is suspended or rate-limited, or
// GitHub does not answer.
func (a *App) Token(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	token, err := a.in.Token(ctx)
	if err == nil {
		return token, nil
	}
	e := &Error{Kind: KindTransient, Op: "create a token for the App", Message: "no response", Err: err}
	if refused, ok := errors.AsType[*ghinstallation.HTTPError](err); ok && refused.RootCause == nil &&
		refused.Response != nil {
		defer refused.Response.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(refused.Response.Body, bodyPrefix))
		e = appRefusal(e.Op, refused.Response, body)
		if e.Kind == KindNotFound {
			e.Kind, e.Message = KindUnauthorized, e.Message+": check that the App is installed, and that "+
				"github.app_id and github.installation_id are right"
		}
	}
	return "", e
}

// appRefusal returns the *Error for a refused request from the App. If the App is suspended or rate-limited, the error
// is transient.
func appRefusal(op string, answer *http.Response, body []byte) *Error {
	e := &Error{
		Kind: kindOfStatus(answer.StatusCode), Status: answer.StatusCode, Op: op,
		Message: cmp.Or(complaintText(readComplaint(body), MessageLimit), answer.Status),
	}
	_, limited := readLimit(answer.StatusCode, answer.Header, body, time.Now())
	e.account = !limited && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden ||
		e.Status == http.StatusNotFound)
	if e.Status == http.StatusForbidden || e.Status == http.StatusTooManyRequests {
		e.Kind = KindTransient
	}
	return e
}

// Login returns the login under which the App writes, "<slug>[bot]". It caches the login.
func (a *App) Login(ctx context.Context) (string, error) {
	if login := a.login.Load(); login != nil {
		return *login, nil
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, a.api+"/app", http.NoBody)
	if err != nil {
		return "", Permanent("api_url: %v", err)
	}
	answer, err := a.app.RoundTrip(ask)
	if err != nil {
		return "", &Error{Kind: KindTransient, Op: "GET /app", Message: "no response", Err: err}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerBytes))
	if err != nil {
		return "", &Error{Kind: KindTransient, Op: "GET /app", Message: "response was cut off", Err: err}
	}
	var app struct{ Slug string }
	if answer.StatusCode != http.StatusOK {
		return "", appRefusal("GET /app", answer, body)
	}
	if err := json.Unmarshal(body, &app); err != nil || app.Slug == "" {
		return "", Transient("GitHub did not return the App's name", err)
	}
	login := app.Slug + "[bot]"
	a.login.Store(&login)
	return login, nil
}

// Rights returns the installation's permissions: GitHub's name of each permission with its value read, write or admin.
// It requests a token if necessary.
func (a *App) Rights(ctx context.Context) (map[string]string, error) {
	if _, err := a.Token(ctx); err != nil {
		return nil, err
	}
	p, err := a.in.Permissions()
	if err != nil {
		return nil, Normalize(err)
	}
	rights := map[string]string{}
	for name, level := range map[string]*string{
		"metadata": p.Metadata, "issues": p.Issues, "contents": p.Contents, "pull_requests": p.PullRequests,
		"statuses": p.Statuses, "checks": p.Checks,
	} {
		if level != nil {
			rights[name] = *level
		}
	}
	return rights, nil
}
