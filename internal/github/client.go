package github

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"

	"retake/internal/github/gate"
	"retake/internal/secrets/leak"
	"retake/internal/secrets/redact"
)

// Labels are the four labels that show the state of an issue. Their names are compared without case, as on GitHub.
type Labels struct{ Task, Claimed, Blocked, Review string }

// Options configure a Client. Only Secrets, Transport, OnAnswer and Log may be left out.
type Options struct {
	BaseURL string                                // API root
	Token   func(context.Context) (string, error) // asked before every request; may cache
	// account of the token; nil: GitHub is asked, who does not tell an App
	Login  func(context.Context) (string, error)
	Fleet  string // [A-Za-z0-9._-]{1,64}; part of every marker
	Labels Labels
	// TrustedAuthors are the author associations whose markers count, beside our own.
	TrustedAuthors []string

	MinBetweenWrites time.Duration // at least 1 s
	// for a stand-in that has no such limit: MinBetweenWrites may be as short as this; zero: 1 s
	LeastBetween time.Duration
	// for tests: pause before the first look whether GitHub that was away answers; zero: 4 s
	FirstProbe      time.Duration
	MaxConcurrent   int           // requests under way
	CooldownDefault time.Duration // first wait after a limit that states none
	Writes          bool          // false: nothing on GitHub is ever changed

	Secrets   []string     // values that are never posted, beside those that look like secrets
	Known     []leak.Value // those among them that are never posted in any encoding
	Transport http.RoundTripper
	// OnCooldown is called after the gate has closed, on the request's goroutine. It must not block.
	OnCooldown func(gate.Cooldown)
	// called with each answer, on the goroutine of the request; must not block; nil: nobody counts
	OnAnswer func(Answered)
	Log      *zap.Logger
}

// Client is one credential's access to GitHub. It is safe for concurrent use and starts no goroutine.
type Client struct {
	Gate      *gate.Gate
	opts      Options
	labels    Labels
	transport *transport
	lanes     [gate.Lanes]*gh.Client
	log       *zap.Logger
	graphql   string               // address of GitHub's other API
	rights    memory[right]        // by repository and login
	claims    memory[claimComment] // by issue and nonce
	lost      memory[doubt]        // issues that GitHub says are not there
	unsettled memory[unsettled]    // issues whose labels were changed while they were claimed
	looked    memory[looked]       // what issues depend on, by key or list, in lower case
	redacts   atomic.Pointer[redactorOf]
	login     atomic.Pointer[string] // that the token belongs to; nil: not asked yet
	former    atomic.Pointer[formerLabels]
	offers    atomic.Pointer[map[string]bool] // labels that offered work earlier
	restUntil atomic.Pointer[time.Time]       // GraphQL has failed: not used before; nil: it has not
}

// leastBetween is the shortest pause between two writes to GitHub.
const leastBetween = time.Second

// remembered bounds how many people's rights and claims' comments are kept in memory.
const remembered = 1024

// New checks the options. It makes no request.
func New(o Options) (*Client, error) {
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
	o.Log = cmp.Or(o.Log, zap.NewNop())
	c := &Client{
		Gate: gate.New(gate.Options{
			Between:    max(o.MinBetweenWrites, cmp.Or(o.LeastBetween, leastBetween)),
			Concurrent: o.MaxConcurrent, Fallback: o.CooldownDefault,
			FirstProbe: o.FirstProbe, OnCooldown: o.OnCooldown,
		}),
		opts: o, labels: o.Labels, log: o.Log, rights: memory[right]{entries: remembered},
		claims: memory[claimComment]{entries: remembered},
		lost:   memory[doubt]{entries: remembered}, unsettled: memory[unsettled]{entries: remembered},
		looked: memory[looked]{entries: mostLooked},
	}
	// https://api.github.com/ has it beside its REST calls, a server of one's own beside /api/v3/.
	c.graphql = base.ResolveReference(&url.URL{Path: strings.TrimSuffix(base.Path, "v3/") + "graphql"}).String()
	c.transport = &transport{
		base: base, next: o.Transport, token: o.Token, writes: o.Writes, onAnswer: o.OnAnswer,
		cache: memory[answer]{
			entries: keptAnswers, bytes: keptBytes,
			size: func(a answer) int { return headerBytes + len(a.body) },
		},
		gate: c.Gate,
	}
	for l := range c.lanes {
		api := gh.NewClient(&http.Client{Transport: laneTransport{c.transport, gate.Lane(l)}})
		api.BaseURL, api.UserAgent = base, "retake"
		c.lanes[l] = api
	}
	return c, nil
}

// self is the login that our token belongs to. It is asked for once.
func (c *Client) self(ctx context.Context, l gate.Lane) (string, error) {
	if login := c.login.Load(); login != nil {
		return *login, nil
	}
	if c.opts.Login != nil {
		login, err := c.opts.Login(ctx)
		if err == nil {
			c.login.Store(&login)
		}
		return login, normalize(err)
	}
	u, _, err := c.lanes[l].Users.Get(ctx, "")
	if err != nil {
		return "", normalize(err)
	}
	if u.GetLogin() == "" {
		return "", transient("GitHub did not return the login of the token", nil)
	}
	c.login.Store(u.Login)
	return u.GetLogin(), nil
}

// Account is the login that our token belongs to, and whether GitHub calls it a bot. With a personal token it
// is a person's.
func (c *Client) Account(ctx context.Context) (login string, bot bool, err error) {
	if c.opts.Login != nil {
		login, err = c.self(ctx, gate.Reads)
		return login, true, err
	}
	u, _, err := c.lanes[gate.Reads].Users.Get(ctx, "")
	if err != nil {
		return "", false, normalize(err)
	}
	return u.GetLogin(), !isPerson(u), nil
}

// checkWrites returns ErrWritesDisabled while writes are off, and logs what would have been done.
func (c *Client) checkWrites(effect, key string, fields ...zap.Field) error {
	if c.opts.Writes {
		return nil
	}
	fields = append([]zap.Field{
		zap.String("effect", effect), zap.String("issue", key),
		zap.String("reason", "github.writes is false"),
	}, fields...)
	c.log.Info("would change GitHub", fields...)
	return ErrWritesDisabled
}

// redactor masks what must not be posted: the configured secrets and the token in use. It is made anew when
// that has changed.
func (c *Client) redactor() redactor {
	token := ""
	if t := c.transport.last.Load(); t != nil {
		token = *t
	}
	if made := c.redacts.Load(); made != nil && made.token == token {
		return made.redactor
	}
	values := append(slices.Clone(c.opts.Secrets), token)
	for _, v := range c.opts.Known {
		values = append(values, v.Text)
	}
	made := &redactorOf{token, redactor{
		Redactor: leak.Redactor(values...),
		known:    leak.New(append(slices.Clone(c.opts.Known), leak.Value{Text: token})...),
	}}
	c.redacts.Store(made)
	return made.redactor
}

// redactorOf is the redactor while a token is in use.
type redactorOf struct {
	token string
	redactor
}

// Secrets hides what must not be shown, without a change of anything else. Nobody knows any values without a client.
func (c *Client) Secrets() *redact.Redactor {
	if c == nil {
		return nil
	}
	return c.redactor().Redactor
}

// Redact masks what must not be shown: the configured secrets, the token in use, and what looks like a secret.
func (c *Client) Redact(text string) string { return c.redactor().clean(text) }
