package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"
)

// DefaultBaseURL is GitHub's public API.
const DefaultBaseURL = "https://api.github.com/"

// Labels are the four labels that say where an issue stands. Names compare without case, as GitHub's do.
type Labels struct{ Task, Claimed, Blocked, Review string }

// DefaultLabels are the names that the configuration defaults to.
var DefaultLabels = Labels{Task: "agent-task", Claimed: "agent-claimed", Blocked: "agent-blocked", Review: "agent-review"}

// Options configure a Client. BaseURL, Token and Fleet are needed; everything else has a default.
type Options struct {
	BaseURL string                                // API root; default DefaultBaseURL
	Token   func(context.Context) (string, error) // asked before every request; may cache
	Login   string                                // our own login; default: asked for once (an App installation must set it)
	Fleet   string                                // [A-Za-z0-9._-]{1,64}; part of every marker
	Labels  Labels                                // empty names: the default
	// TrustedAuthors are the author associations whose markers count; default OWNER, MEMBER, COLLABORATOR.
	TrustedAuthors []string

	MinBetweenWrites time.Duration // default 2 s, at least 1 s
	MaxConcurrent    int           // requests under way; default 2
	CooldownDefault  time.Duration // first wait after a limit that states none; default 60 s
	Writes           bool          // false: nothing on GitHub is ever changed

	Secrets    []string // values that are never posted, beside those that look like secrets
	Transport  http.RoundTripper
	OnCooldown func(Cooldown) // called after the gate has shut, on the goroutine of the request; must not block
	Log        *zap.Logger
}

// Client is one credential's access to GitHub. It is safe for concurrent use and starts no goroutine.
type Client struct {
	opts   Options
	labels Labels
	wire   *transport
	lanes  [laneCount]*gh.Client
	log    *zap.Logger
	rights rights

	mu    sync.Mutex
	login string
	notes map[string]note // the progress comment of each claim nonce
}

// New checks the options. It makes no request.
func New(o Options) (*Client, error) {
	if o.BaseURL == "" {
		o.BaseURL = DefaultBaseURL
	}
	base, err := url.Parse(strings.TrimSuffix(o.BaseURL, "/") + "/")
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("github: api_url %q: want an absolute http or https address", o.BaseURL)
	}
	if !fleetName.MatchString(o.Fleet) {
		return nil, fmt.Errorf("github: fleet %q: want 1 to 64 letters, digits, dots, dashes or underscores", o.Fleet)
	}
	if o.Token == nil {
		return nil, fmt.Errorf("github: no token: set Options.Token")
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if len(o.TrustedAuthors) == 0 {
		o.TrustedAuthors = []string{"OWNER", "MEMBER", "COLLABORATOR"}
	}
	c := &Client{opts: o, labels: o.Labels.orDefault(), log: o.Log, login: o.Login, notes: map[string]note{}, rights: rights{by: map[string]right{}}}
	c.wire = &transport{
		base: base, next: o.Transport, token: o.Token, cache: newETags(), writes: o.Writes,
		gate: newGate(o.MinBetweenWrites, o.MaxConcurrent, o.CooldownDefault, o.OnCooldown).asIfJustWritten(),
	}
	for l := range c.lanes {
		api := gh.NewClient(&http.Client{Transport: laneTransport{c.wire, lane(l)}})
		api.BaseURL, api.UserAgent = base, "retake"
		c.lanes[l] = api
	}
	return c, nil
}

func (l Labels) orDefault() Labels {
	for _, f := range []struct{ name, def *string }{
		{&l.Task, &DefaultLabels.Task},
		{&l.Claimed, &DefaultLabels.Claimed},
		{&l.Blocked, &DefaultLabels.Blocked},
		{&l.Review, &DefaultLabels.Review},
	} {
		if *f.name == "" {
			*f.name = *f.def
		}
	}
	return l
}

// Prime shuts a resource as a journal remembers it. It does not call OnCooldown.
func (c *Client) Prime(cd Cooldown) { c.wire.gate.prime(cd) }

// Login is the login that our token belongs to. It is asked for once.
func (c *Client) Login(ctx context.Context) (string, error) { return c.self(ctx, laneReads) }

func (c *Client) self(ctx context.Context, l lane) (string, error) {
	c.mu.Lock()
	login := c.login
	c.mu.Unlock()
	if login != "" {
		return login, nil
	}
	u, _, err := c.lanes[l].Users.Get(ctx, "")
	if err != nil {
		return "", normal(err)
	}
	if u.GetLogin() == "" {
		return "", transient("GitHub did not say who we are", nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.login = u.GetLogin()
	return c.login, nil
}

// mute reports ErrWritesDisabled, and in the log what would have been done, unless writes are on.
func (c *Client) mute(effect, key string, fields ...zap.Field) error {
	if c.opts.Writes {
		return nil
	}
	fields = append([]zap.Field{zap.String("effect", effect), zap.String("issue", key), zap.String("reason", "github.writes is false")}, fields...)
	c.log.Info("would change GitHub", fields...)
	return ErrWritesDisabled
}

// redactor masks what must not be posted: the configured secrets and the token in use.
func (c *Client) redactor() redactor {
	secrets := c.opts.Secrets
	if t := c.wire.last.Load(); t != nil {
		secrets = append(slices.Clone(secrets), *t)
	}
	return newRedactor(secrets)
}

// Redact masks what must not be shown: the configured secrets, the token in use, and what looks like a secret.
func (c *Client) Redact(text string) string { return c.redactor().clean(text) }

// call sends a request that go-github has no fitting method for; path segments must be escaped already.
func (c *Client) call(ctx context.Context, l lane, method, path string, in any) error {
	req, err := c.lanes[l].NewRequest(method, path, in)
	if err != nil {
		return permanent("cannot make a request for %s: %v", path, err)
	}
	_, err = c.lanes[l].Do(ctx, req, nil)
	return normal(err)
}
