package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"

	"retake/internal/github/gate"
)

// Options configure a Conn. Login, Transport, OnAnswer and Log are optional.
type Options struct {
	BaseURL string                                // API root
	Token   func(context.Context) (string, error) // called before every request; may return a cached token
	// Login returns the login of the token's account. Without it, Conn queries GitHub, which does not work for an App.
	Login func(context.Context) (string, error)

	MinBetweenWrites time.Duration // at least one second
	// LeastBetween replaces the minimum of MinBetweenWrites, for simulators of GitHub that do not limit writes.
	LeastBetween    time.Duration
	FirstProbe      time.Duration // first pause during an outage; default 4 seconds
	MaxConcurrent   int           // maximum number of concurrent requests
	CooldownDefault time.Duration // first wait after a rate limit if GitHub does not specify one
	Writes          bool          // allows requests that change data

	Transport http.RoundTripper
	// OnCooldown is called after the gate has closed, in the goroutine of a request or of a timer. It must not block.
	OnCooldown func(gate.Cooldown)
	// Owed returns the number of comments and pull requests that the claimed issues still need. Nil means 0.
	Owed     func() int
	OnAnswer func(Answered) // called after each request, in its goroutine; must not block
	Log      *zap.Logger
}

// leastBetween is the minimum pause between two writes to GitHub.
const leastBetween = time.Second

// Conn sends requests with one credential. It is safe for concurrent use. Only Change starts goroutines, which end with
// their request.
type Conn struct {
	Gate      *gate.Gate
	Log       *zap.Logger
	opts      Options
	transport *transport
	lanes     [gate.Lanes]*gh.Client
	graphql   string                 // URL of the GraphQL API
	login     atomic.Pointer[string] // login of the token's account; nil before the first request for it
}

// Open checks the options. It does not send requests.
func Open(o Options) (*Conn, error) {
	base, err := url.Parse(strings.TrimSuffix(o.BaseURL, "/") + "/")
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("github: api_url %q: want an absolute http or https address", o.BaseURL)
	}
	if o.Token == nil {
		return nil, fmt.Errorf("github: no token: set Options.Token")
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	c := &Conn{
		Gate: gate.New(gate.Options{
			Between:    max(o.MinBetweenWrites, cmp.Or(o.LeastBetween, leastBetween)),
			Concurrent: o.MaxConcurrent, Fallback: o.CooldownDefault,
			FirstProbe: o.FirstProbe, OnCooldown: o.OnCooldown, Owed: o.Owed,
		}),
		Log: cmp.Or(o.Log, zap.NewNop()), opts: o,
		// On api.github.com, /graphql is next to the REST paths. On a GitHub Enterprise Server, it is next to /api/v3/.
		graphql: base.ResolveReference(&url.URL{Path: strings.TrimSuffix(base.Path, "v3/") + "graphql"}).String(),
	}
	c.transport = &transport{
		base: base, next: o.Transport, token: o.Token, writes: o.Writes, onAnswer: o.OnAnswer, gate: c.Gate,
		cache: Memory[answer]{
			entries: keptAnswers, bytes: keptBytes,
			size: func(a answer) int { return headerBytes + len(a.body) },
		},
		served: served{NewMemory[struct{}](servedMost)},
	}
	for l := range c.lanes {
		api := gh.NewClient(&http.Client{Transport: laneTransport{c.transport, gate.Lane(l)}})
		api.BaseURL, api.UserAgent = base, "retake"
		c.lanes[l] = api
	}
	return c, nil
}

// Lane returns a client for requests in a lane of the gate.
func (c *Conn) Lane(l gate.Lane) *gh.Client { return c.lanes[l] }

// Do sends a request that go-github does not support, or supports incorrectly.
func (c *Conn) Do(ctx context.Context, l gate.Lane, method, path string, in, out any) (*gh.Response, error) {
	req, err := c.lanes[l].NewRequest(method, path, in)
	if err != nil {
		return nil, Permanent("create request for %s: %v", path, err)
	}
	resp, err := c.lanes[l].Do(ctx, req, out)
	return resp, Normalize(err)
}

// Check requests a repository. Its error shows whether GitHub refuses the account.
func (c *Conn) Check(ctx context.Context, repo string) error {
	_, err := c.Do(ctx, gate.Reads, http.MethodGet, "repos/"+repo, nil, nil)
	return err
}

// Query sends a GraphQL query and decodes the answer into out.
func (c *Conn) Query(ctx context.Context, l gate.Lane, query string, variables, out any) error {
	_, err := c.Do(ctx, l, http.MethodPost, c.graphql, map[string]any{"query": query, "variables": variables}, out)
	return err
}

// IsApp reports whether the credential belongs to a GitHub App, which has no user.
func (c *Conn) IsApp() bool { return c.opts.Login != nil }

// Token returns the token of the latest request, or "" before the first.
func (c *Conn) Token() string {
	if t := c.transport.last.Load(); t != nil {
		return *t
	}
	return ""
}

// Scarce reports whether at least half of the hour's requests are used.
func (c *Conn) Scarce() bool {
	until := c.transport.scarce.Load()
	return until != nil && time.Now().Before(*until)
}

// Self returns the login of the token's account. It caches the login after the first successful request.
func (c *Conn) Self(ctx context.Context, l gate.Lane) (string, error) {
	if login := c.login.Load(); login != nil {
		return *login, nil
	}
	if c.opts.Login != nil {
		login, err := c.opts.Login(ctx)
		if err == nil {
			c.login.Store(&login)
		}
		return login, Normalize(err)
	}
	u, _, err := c.lanes[l].Users.Get(ctx, "")
	if err != nil {
		return "", Normalize(err)
	}
	if u.GetLogin() == "" {
		return "", Transient("GitHub did not return the token's login", nil)
	}
	c.login.Store(u.Login)
	return u.GetLogin(), nil
}

// CheckWrites returns nil if writes are enabled. Otherwise it logs the omitted change and returns ErrWritesDisabled.
func (c *Conn) CheckWrites(effect, key string, fields ...zap.Field) error {
	if c.opts.Writes {
		return nil
	}
	fields = append([]zap.Field{
		zap.String("effect", effect), zap.String("issue", key),
		zap.String("reason", "github.writes is false"),
	}, fields...)
	c.Log.Info("would change GitHub", fields...)
	return ErrWritesDisabled
}

// WebHost returns the host of GitHub's pages.
func (c *Conn) WebHost() string {
	if c.transport.base.Host == "api.github.com" {
		return "github.com"
	}
	return c.transport.base.Host
}
