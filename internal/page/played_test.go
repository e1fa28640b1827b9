package page

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/recovery"
	"retake/internal/timeline"
)

const token = "a token of more than sixteen characters"

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// played is a source with one task and hostile texts.
type played struct {
	rows     []timeline.Task
	commands chan Command
	refuses  error
	next     chan struct{} // receives a value for each event
}

// turning contains invisible characters that reverse or hide their neighbours.
const turning = "\u202e\u2066\u200b\U000E0041\u2028"

func newPlayed() *played {
	attempt := timeline.Attempt{
		ID: "n-1", N: 1, Began: now, Ended: now.Add(time.Minute), Outcome: timeline.OutcomeFailed,
		Decided: []timeline.Decision{{
			At: now, Attempt: 1, Stage: "VALIDATE", Observed: "the worker's report", Reason: recovery.TestsFailed,
			Means: "the change breaks a test", Cause: hostile,
			Rule: "go.test", Certain: 0.95, Action: recovery.Escalate, Done: "asked a human",
			Row: "director.tests_failed",
			Why: hostile,
		}},
	}
	return &played{commands: make(chan Command, 1), next: make(chan struct{}, 1), rows: []timeline.Task{
		{
			Issue: "acme/widgets#21", Title: hostile, URL: "javascript:alert(1)", State: "Blocked", Since: now,
			Attempt: 1, Waits: "a person's answer",
			Asked: &timeline.Question{
				At: now, Reason: recovery.TestsFailed, Cause: hostile, Ask: hostile,
				Why: hostile,
			},
			Attempts: []timeline.Attempt{attempt},
			Can: []timeline.Remedy{{
				Do: "director retry acme/widgets#21", Means: "is the answer",
				Command: fsm.CommandRetry,
			}},
			Events: []timeline.Event{{At: now, Issue: "acme/widgets#21", Kind: "moved", Text: hostile}},
		},
		{Issue: "acme/widgets#22", Title: "Widths", State: "Running", Since: now, Attempt: 1},
	}}
}

func (p *played) Fleet(context.Context) wire.Snapshot {
	return wire.Snapshot{
		Director:  wire.SnapshotDirector{Phase: "COOLDOWN", Problem: hostile},
		Cooldowns: []wire.SnapshotCooldown{{Resource: "github.write", Until: wire.At(now), Why: hostile}},
		Queue:     wire.SnapshotQueue{WaitsFor: "GitHub's pace of writes", Until: new(wire.At(now))},
		Meters:    map[string]float64{"deliveries.last_hour": 31, "github.content_left": 212},
	}
}

func (p *played) Board(context.Context, int) ([]timeline.Task, map[string]int, error) {
	count := map[string]int{}
	for _, t := range p.rows {
		count[t.State]++
	}
	return p.rows, count, nil
}

func (p *played) Task(_ context.Context, k fsm.IssueKey, _ time.Time) (timeline.Task, bool, error) {
	for _, r := range p.rows {
		if r.Issue == k {
			return r, true, nil
		}
	}
	return timeline.Task{}, false, nil
}

func (p *played) Numbers(context.Context, time.Time) (timeline.Numbers, error) {
	at := time.Now().Add(-time.Hour)
	return timeline.Numbers{
		Failures: []timeline.Failed{{
			At: at, Issue: "acme/widgets#21", Reason: recovery.TestsFailed,
			Action: recovery.Escalate,
		}},
		Reasons: []timeline.ByReason{{Reason: recovery.TestsFailed, N: 1}},
		Retries: []timeline.Retried{{Action: recovery.Retry, OK: 3, Failed: 1}},
		Costs:   []timeline.Spent{{At: at, Usage: recovery.Usage{CostUSD: 1.5}}},
		Asked:   []timeline.Asked{{At: at, Answered: at.Add(90 * time.Second)}, {At: at, Again: true}},
	}, nil
}

func (p *played) Next(ctx context.Context, after timeline.Place) (timeline.Place, error) {
	select {
	case <-p.next:
		return timeline.Place{Seq: after.Seq + 1}, nil
	case <-ctx.Done():
		return after, context.Cause(ctx)
	}
}

func (p *played) Output(ctx context.Context, _ fsm.IssueKey, f output.Filter) iter.Seq2[output.Line, error] {
	return func(yield func(output.Line, error) bool) {
		if !yield(output.Line{At: wire.At(now), Attempt: 1, Stage: "CODE", Stream: "stderr", Text: hostile + "\x1b[2J"},
			nil) {
			return
		}
		f.Idle()
		<-ctx.Done()
	}
}

func (p *played) Command(_ context.Context, c Command) error {
	p.commands <- c
	return p.refuses
}

func (p *played) Tables() []Table {
	return []Table{{Name: "Policy", Head: []string{"failure"}, Rows: [][]string{{markup}}}}
}

// browser is a browser with cookies and the key of its session.
type browser struct {
	*testing.T
	*http.Client
	url, key string
	page     *Page
}

// Values of Options.Open.
func anyone(*http.Request) bool { return true }

func nobody(*http.Request) bool { return false }

func serve(t *testing.T, o Options) *browser {
	t.Helper()
	if o.Token == nil {
		o.Token = func() (string, error) { return token, nil }
	}
	if o.Open == nil {
		o.Open = nobody
	}
	o.Log = zap.NewNop()
	o.CheckName = func(name string) error {
		if strings.ContainsAny(name, "<\u202e") || name == "" || len(name) > 64 {
			return errors.New("want a name")
		}
		return nil
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	c := web.Client()
	c.Jar = &jar{}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{T: t, Client: c, url: web.URL, page: p}
}

// jar keeps the latest cookies.
type jar struct{ all []*http.Cookie }

func (j *jar) SetCookies(_ *url.URL, all []*http.Cookie) { j.all = all }

func (j *jar) Cookies(*url.URL) []*http.Cookie { return j.all }

func (b *browser) send(method, path string, form url.Values, change func(*http.Request)) (int, string, http.Header) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set(keyHeader, b.key)
	if change != nil {
		change(r)
	}
	resp, err := b.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

var drawnForm = regexp.MustCompile(`name="form" value="([^"]+)"`)

var drawnKey = regexp.MustCompile(`data-key="([^"]+)"`)

// signIn signs in a user.
func (b *browser) signIn(name string) (cookie string) {
	b.Helper()
	status, text, header := b.send(http.MethodPost, "/signin", url.Values{"token": {token}, "name": {name}}, nil)
	key := drawnKey.FindStringSubmatch(text)
	if status != http.StatusOK || key == nil {
		b.Fatalf("signing in: %d %s", status, text)
	}
	b.key = key[1]
	return header.Get("Set-Cookie")
}
