package page

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/output"
	"retake/internal/recovery"
	"retake/internal/story"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a token of more than sixteen characters"

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// played is a source with one task, whose texts are as hostile as texts can be.
type played struct {
	rows     []story.Story
	commands chan Command
	refuses  string
	next     chan struct{} // something happens
}

const hostile = `</script><script>alert(1)</script>"onload="x`

func newPlayed() *played {
	attempt := story.Attempt{ID: "n-1", N: 1, Began: now, Ended: now.Add(time.Minute), Outcome: story.OutcomeFailed, Decided: []story.Decision{{
		At: now, Attempt: 1, Stage: "VALIDATE", Observed: "the worker's report", Reason: recovery.TestsFailed, Means: "the change breaks a test", Cause: hostile,
		Rule: "go.test", Certain: 0.95, Action: recovery.Escalate, Done: "asked a human", Row: "director.tests_failed", Why: hostile,
	}}}
	return &played{commands: make(chan Command, 1), next: make(chan struct{}, 1), rows: []story.Story{
		{
			Issue: "acme/widgets#21", Title: hostile, URL: "javascript:alert(1)", State: "Blocked", Since: now, Attempt: 1, Waits: "an answer of a person",
			Asked: &story.Question{At: now, Reason: recovery.TestsFailed, Cause: hostile, Ask: hostile, Why: hostile}, Attempts: []story.Attempt{attempt},
			Can:    []story.Remedy{{Do: "director retry acme/widgets#21", Means: "is the answer", Command: fsm.CommandRetry}},
			Events: []story.Event{{At: now, Issue: "acme/widgets#21", Kind: "moved", Text: hostile}},
		},
		{Issue: "acme/widgets#22", Title: "Widths", State: "Running", Since: now, Attempt: 1},
	}}
}

func (p *played) Fleet(context.Context) wire.Snapshot {
	return wire.Snapshot{Director: wire.SnapshotDirector{Phase: "COOLDOWN", Problem: hostile}, Cooldowns: []wire.SnapshotCooldown{{Resource: "github.write", Until: wire.At(now), Why: hostile}}}
}

func (p *played) Board(context.Context, int) ([]story.Story, map[string]int, error) {
	count := map[string]int{}
	for _, t := range p.rows {
		count[t.State]++
	}
	return p.rows, count, nil
}

func (p *played) Story(_ context.Context, k fsm.IssueKey, _ time.Time) (story.Story, bool, error) {
	for _, r := range p.rows {
		if r.Issue == k {
			return r, true, nil
		}
	}
	return story.Story{}, false, nil
}

func (p *played) Numbers(context.Context, time.Time) (story.Numbers, error) {
	at := time.Now().Add(-time.Hour)
	return story.Numbers{
		Failures: []story.Failed{{At: at, Issue: "acme/widgets#21", Reason: recovery.TestsFailed, Action: recovery.Escalate}},
		Reasons:  []story.ByReason{{Reason: recovery.TestsFailed, N: 1}}, Retries: []story.Retried{{Action: recovery.Retry, OK: 3, Failed: 1}},
		Costs: []story.Spent{{At: at, Usage: recovery.Usage{CostUSD: 1.5}}},
		Asked: []story.Asked{{At: at, Answered: at.Add(90 * time.Second)}, {At: at, Again: true}},
	}, nil
}

func (p *played) Next(ctx context.Context, after story.Place) (story.Place, error) {
	select {
	case <-p.next:
		return story.Place{Seq: after.Seq + 1}, nil
	case <-ctx.Done():
		return after, context.Cause(ctx)
	}
}

func (p *played) Output(ctx context.Context, _ fsm.IssueKey, f output.Filter) iter.Seq2[output.Line, error] {
	return func(yield func(output.Line, error) bool) {
		if !yield(output.Line{At: wire.At(now), Attempt: 1, Stage: "CODE", Stream: "stderr", Text: hostile + "\x1b[2J"}, nil) {
			return
		}
		f.Idle()
		<-ctx.Done()
	}
}

func (p *played) Command(_ context.Context, c Command) (string, error) {
	p.commands <- c
	return p.refuses, nil
}

func (p *played) Tables() []Table {
	return []Table{{Name: "Policy", Head: []string{"failure"}, Rows: [][]string{{hostile}}}}
}

// browser is a browser with cookies.
type browser struct {
	*testing.T
	*http.Client
	url string
}

func serve(t *testing.T, o Options) *browser {
	t.Helper()
	if o.Token == nil {
		o.Token = func() (string, error) { return token, nil }
	}
	o.Log = zap.NewNop()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	c := web.Client()
	c.Jar = &jar{}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{t, c, web.URL}
}

// jar keeps the last cookies.
type jar struct{ all []*http.Cookie }

func (j *jar) SetCookies(_ *url.URL, all []*http.Cookie) { j.all = all }
func (j *jar) Cookies(*url.URL) []*http.Cookie           { return j.all }

func (b *browser) send(method, path string, form url.Values, change func(*http.Request)) (int, string, http.Header) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
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

var everyPage = []string{"/", "/tasks/acme/widgets/21", "/numbers", "/numbers?span=month", "/machine", "/tables"}

// Whatever issues, workers and people write, no page has it as anything but text, and none loads anything from elsewhere.
func TestPagesShowTextAsText(t *testing.T) {
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: true})
	for _, path := range everyPage {
		status, text, header := b.send(http.MethodGet, path, nil, nil)
		if status != http.StatusOK || strings.Contains(text, "<script>alert") || strings.Contains(text, `"onload="x`) || strings.Contains(text, "javascript:") || !strings.Contains(text, "</html>") {
			t.Errorf("%s: %d\n%s", path, status, text)
		}
		if strings.Contains(text, "//cdn") || strings.Contains(text, `src="http`) || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s is not whole by itself: %v", path, header)
		}
	}
	if status, _, _ := b.send(http.MethodGet, "/tasks/acme/widgets/99", nil, nil); status != http.StatusNotFound {
		t.Errorf("an unknown task: %d", status)
	}
	for _, asset := range []string{"/assets/page.css", "/assets/page.js"} {
		if status, text, _ := b.send(http.MethodGet, asset, nil, nil); status != http.StatusOK || text == "" {
			t.Errorf("%s: %d", asset, status)
		}
	}
}

// Nobody sees or does what is not theirs: a stranger off this machine, a foreign site's name for it, an action without a session or from another site.
func TestWhoMayLookAndAct(t *testing.T) {
	source := newPlayed()
	closed := serve(t, Options{Source: func() Source { return source }})
	for _, path := range everyPage {
		if status, _, header := closed.send(http.MethodGet, path, nil, nil); status != http.StatusSeeOther || header.Get("Location") != "/signin" {
			t.Errorf("%s without a session: %d to %s", path, status, header.Get("Location"))
		}
	}
	open := serve(t, Options{Source: func() Source { return source }, Open: true})
	if status, _, _ := open.send(http.MethodGet, "/", nil, func(r *http.Request) { r.Host = "evil.example" }); status != http.StatusSeeOther {
		t.Errorf("another name for this machine: %d", status)
	}
	for _, name := range []string{"X-Forwarded-Proto", "X-Forwarded-For", "Forwarded", "X-Real-IP"} { // whoever asks a proxy chooses the name
		if status, _, _ := open.send(http.MethodGet, "/", nil, func(r *http.Request) { r.Header.Set(name, "https") }); status != http.StatusSeeOther {
			t.Errorf("by a proxy that says so in %s: %d", name, status)
		}
	}
	act := url.Values{"command": {"retry"}, "text": {"use B"}}
	if status, _, _ := open.send(http.MethodPost, "/tasks/acme/widgets/21/commands", act, nil); status != http.StatusForbidden {
		t.Errorf("an action without a session: %d", status)
	}
	if status, text, _ := open.send(http.MethodPost, "/signin", url.Values{"token": {"wrong"}, "name": {"alice"}}, nil); status != http.StatusForbidden || !strings.Contains(text, "not the token") {
		t.Errorf("a wrong token: %d %s", status, text)
	}
	if status, _, header := open.send(http.MethodPost, "/signin", url.Values{"token": {token}, "name": {" alice  a. "}}, nil); status != http.StatusSeeOther ||
		!strings.Contains(header.Get("Set-Cookie"), "HttpOnly; SameSite=Strict") {
		t.Fatalf("signing in: %d %v", status, header)
	}
	if status, _, _ := open.send(http.MethodPost, "/tasks/acme/widgets/21/commands", act, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); status != http.StatusForbidden {
		t.Errorf("an action from another site: %d", status)
	}
	status, _, header := open.send(http.MethodPost, "/tasks/acme/widgets/21/commands", act, nil)
	if status != http.StatusSeeOther || !strings.HasPrefix(header.Get("Location"), "/tasks/acme/widgets/21?said=retry") {
		t.Errorf("an action: %d to %s", status, header.Get("Location"))
	}
	if c := <-source.commands; c != (Command{"acme/widgets#21", fsm.CommandRetry, "use B", "alice a. (page)"}) {
		t.Errorf("what was done: %+v", c)
	}
	if status, text, _ := open.send(http.MethodGet, "/tasks/acme/widgets/21", nil, nil); status != http.StatusOK || !strings.Contains(text, `value="retry"`) {
		t.Errorf("who has signed in has no button: %d", status)
	}
	if status, _, _ := open.send(http.MethodPost, "/signout", nil, nil); status != http.StatusSeeOther {
		t.Errorf("signing out: %d", status)
	}
	if status, _, _ := open.send(http.MethodPost, "/tasks/acme/widgets/21/commands", act, nil); status != http.StatusForbidden {
		t.Errorf("an action after signing out: %d", status)
	}
	none := serve(t, Options{Source: func() Source { return source }, Token: func() (string, error) { return "", nil }})
	if status, text, _ := none.send(http.MethodPost, "/signin", url.Values{"token": {""}, "name": {"x"}}, nil); status != http.StatusForbidden || !strings.Contains(text, "Nobody can sign in") {
		t.Errorf("without a token: %d %s", status, text)
	}
}

// A token cannot be guessed for long.
func TestTokensAreNotGuessed(t *testing.T) {
	b := serve(t, Options{Source: func() Source { return newPlayed() }, Open: true})
	last := 0
	for range 2 * triesAtOnce {
		last, _, _ = b.send(http.MethodPost, "/signin", url.Values{"token": {"wrong"}}, nil)
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after %d tries: %d", 2*triesAtOnce, last)
	}
}

// A browser that looks is told of what happens, and of a director that leads no more; output comes as text.
func TestBrowsersAreKeptInformed(t *testing.T) {
	source := newPlayed()
	var leads Source = source
	b := serve(t, Options{Source: func() Source { return leads }, Open: true})
	follow := func(path, want string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := b.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text strings.Builder
		buffer := make([]byte, 4096)
		for !strings.Contains(text.String(), want) {
			n, err := resp.Body.Read(buffer)
			text.Write(buffer[:n])
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("%s: %v after %q", path, err, text.String())
			}
		}
		return text.String()
	}
	source.next <- struct{}{}
	if text := follow("/live", "event: board"); strings.Contains(text, "<script>alert") {
		t.Error(text)
	}
	source.next <- struct{}{}
	follow("/tasks/acme/widgets/21/live", "event: task")
	if text := follow("/tasks/acme/widgets/21/output", "event: output"); !strings.Contains(text, `"err":true`) || strings.Contains(text, "\\u001b") {
		t.Error(text)
	}
	leads = nil
	follow("/live", "event: problem")
	if status, text, _ := b.send(http.MethodGet, "/", nil, nil); status != http.StatusServiceUnavailable || !strings.Contains(text, "does not lead") {
		t.Errorf("a standby: %d %s", status, text)
	}
}

// A drawing that others have had made a moment ago may lack what has just happened; who is shown it is told where it is, and asks for the rest.
func TestADrawingSaysHowOldItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d drawing
		drawn := 0
		draw := func() ([]byte, error) { drawn++; return nil, nil }
		first, second := story.Place{Seq: 1}, story.Place{Seq: 2}
		if at, _, _ := d.get(first, draw); at != first || drawn != 1 {
			t.Errorf("the first one is at %v, drawn %d times", at, drawn)
		}
		if at, _, _ := d.get(second, draw); at != first || drawn != 1 {
			t.Errorf("at once it is at %v, drawn %d times", at, drawn)
		}
		time.Sleep(drawEvery)
		if at, _, _ := d.get(second, draw); at != second || drawn != 2 {
			t.Errorf("a second later it is at %v, drawn %d times", at, drawn)
		}
	})
}
