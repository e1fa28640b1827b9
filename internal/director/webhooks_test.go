package director

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/github"
	"retake/internal/testfiles"
)

const webhookSecret = "it-is-a-secret"

func ourSecret() (string, error) { return webhookSecret, nil }

// hookOf is what GitHub posts.
func hookOf(event, delivery, body, secret string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, webhookPath, strings.NewReader(body))
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(mac, body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-GitHub-Delivery", delivery)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return r
}

func answerTo(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

const labelled = `{"action":"labeled","repository":{"full_name":"acme/widgets"},"issue":{"number":1,"title":"nobody shall read this"}}`

func TestWebhookAnswers(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	h := newWebhooks(ourSecret, zap.New(core))
	looked := 0
	look := func(n github.Notice) bool {
		looked++
		return n.Repo == "acme/widgets"
	}
	h.lookWith(look)
	without := func(header string) *http.Request {
		r := hookOf("issues", "x", labelled, webhookSecret)
		r.Header.Del(header)
		return r
	}
	older := without("X-Hub-Signature-256")
	older.Header.Set("X-Hub-Signature", "sha1=757107ea0eb2509fc211221cce984b8a37570b6d")
	large := hookOf("issues", "x", "", webhookSecret)
	large.ContentLength = webhookBytes + 1
	endless := hookOf("issues", "x", "", webhookSecret)
	endless.Body, endless.ContentLength = io.NopCloser(io.LimitReader(zeros{}, webhookBytes+1)), -1
	cut := hookOf("issues", "x", labelled, webhookSecret)
	cut.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), errReader{}))
	form := hookOf("issues", "x", labelled, webhookSecret)
	form.Header.Set("Content-Type", "text/plain")
	for _, row := range []struct {
		name  string
		r     *http.Request
		want  int
		meter string
	}{
		{"what GitHub sends", hookOf("issues", "1", labelled, webhookSecret), 202, webhookTaken},
		{"the same once more", hookOf("issues", "1", labelled, webhookSecret), 200, webhookRepeated},
		{"the same as another delivery", hookOf("issues", "2", labelled, webhookSecret), 202, webhookTaken},
		{"another secret", hookOf("issues", "3", labelled, "guessed"), 401, webhookForged},
		{"no signature", without("X-Hub-Signature-256"), 401, webhookForged},
		{"SHA-1 only", older, 401, webhookForged},
		{
			"another repository", hookOf("issues", "4", strings.ReplaceAll(labelled, "widgets", "gadgets"), webhookSecret),
			204, webhookIdle,
		},
		{"an event of tomorrow", hookOf("of_tomorrow", "5", labelled, webhookSecret), 204, webhookIdle},
		{"ping", hookOf("ping", "6", `{"zen":"Design for failure."}`, webhookSecret), 204, webhookIdle},
		{"no JSON", hookOf("issues", "7", `{"action":`, webhookSecret), 400, webhookBad},
		{"no event", without("X-GitHub-Event"), 204, webhookIdle},
		{"text", form, 400, webhookBad},
		{"it says that it is too large", large, 413, webhookTooLarge},
		{"it is too large", endless, 413, webhookTooLarge},
		{"it is cut off", cut, 400, webhookBroken},
	} {
		before := h.counts[row.meter]
		if got := answerTo(h, row.r); got != row.want || h.counts[row.meter] != before+1 {
			t.Errorf("%s: %d, %v; want %d, and one more %s", row.name, got, h.counts, row.want, row.meter)
		}
	}
	if looked != 3 {
		t.Errorf("looked %d times, want 3: at both deliveries, and for the other repository", looked)
	}
	h.lookWith(nil)
	if got := answerTo(h, hookOf("issues", "8", labelled, webhookSecret)); got != http.StatusServiceUnavailable {
		t.Errorf("%d while nobody leads, want 503", got)
	}
	if h.lookWith(look); answerTo(h, hookOf("issues", "8", labelled, webhookSecret)) != http.StatusAccepted {
		t.Error("what was refused while nobody led is refused when it comes again")
	}
	h.secret = func() (string, error) { return "", errors.New("no file") }
	if got := answerTo(h, hookOf("issues", "9", labelled, "")); got != http.StatusServiceUnavailable {
		t.Errorf("%d without a secret, want 503", got)
	}
	for _, e := range logs.All() {
		if line := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(line, "nobody shall read this") ||
			strings.Contains(line, webhookSecret) {
			t.Errorf("logged: %s", line)
		}
	}
	if n := len(logs.All()); n != 1 {
		t.Errorf("%d lines, want one for all that was refused within a moment", n)
	}
}

// Without a secret no webhook is taken, and what else there is at the address is served.
func TestNoSecretNoWebhooks(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.Director.HTTPListen = "127.0.0.1:0"
	s.noWebhooks = true
	s.start()
	hook, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.address(webhookPath),
		strings.NewReader(labelled))
	must(t, err)
	hook.Header = hookOf("issues", "1", labelled, "").Header
	answer, err := http.DefaultClient.Do(hook)
	must(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("a webhook signed with no secret is answered with %d, want 404", answer.StatusCode)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A hundred thousand webhooks, forged, doubled or true, cause a look or two, a line of the log, and leave
// nothing behind.
func TestFloodOfWebhooks(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	h := newWebhooks(ourSecret, zap.New(core))
	poll := newBell()
	h.lookWith(func(github.Notice) bool { poll.ring(); return true })
	const flood = 100_000
	for i := range flood {
		switch i % 3 {
		case 0:
			answerTo(h, hookOf("issues", "again", labelled, webhookSecret))
		case 1:
			r := hookOf("issues", "forged", labelled, "")
			r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
			answerTo(h, r)
		case 2:
			answerTo(h, hookOf("issues", fmt.Sprint(i), labelled, webhookSecret))
		}
	}
	if len(poll) != 1 || len(logs.All()) > 2 {
		t.Errorf("%d looks are due, %d lines logged", len(poll), len(logs.All()))
	}
	if len(h.known) > webhooksKnown || len(h.order) != len(h.known) {
		t.Errorf("%d deliveries are known, in a list of %d; want at most %d", len(h.known), len(h.order), webhooksKnown)
	}
	if n := h.counts[webhookTaken] + h.counts[webhookRepeated] + h.counts[webhookForged]; n != flood {
		t.Errorf("%v are %d, want %d", h.counts, n, flood)
	}
}

// Every example that GitHub gives is answered with 202 or 204.
func TestWebhookExamplesAreTaken(t *testing.T) {
	t.Parallel()
	h := newWebhooks(ourSecret, zap.NewNop())
	h.lookWith(func(github.Notice) bool { return true })
	all := testfiles.Webhooks(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		testfiles.Try(t, name, func(t *testing.T) {
			event, _, _ := strings.Cut(name, "__")
			want := http.StatusAccepted
			if event == "ping" || event == "label" {
				want = http.StatusNoContent
			}
			if got := answerTo(h, hookOf(event, name, string(all[name]), webhookSecret)); got != want {
				t.Errorf("%d, want %d", got, want)
			}
		})
	}
}

// An issue is claimed when its webhook comes, however long the next poll is away. One whose webhook was lost
// waits for the next look.
func TestWebhookWakesThePoll(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.config.GitHub.Poll, s.config.Director.HTTPListen = time.Hour, "127.0.0.1:0"
	first := s.github.CreateIssue(repo, "octocat", "It is there at the start", "please", "agent-task")
	s.start()
	s.until("the first poll is over, and what came of it", s.labelled(first, "agent-review"))
	lost := s.github.CreateIssue(repo, "octocat", "Its webhook is lost", "please", "agent-task")
	told := s.github.CreateIssue(repo, "octocat", "Its webhook comes", "please", "agent-task")
	number := told[strings.Index(told, "#")+1:]
	post := func(delivery string) int {
		body := `{"action":"labeled","repository":{"full_name":"Acme/Widgets"},"issue":{"number":` + number + `}}`
		r := hookOf("issues", delivery, body, webhookSecret)
		out, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.address(webhookPath),
			bytes.NewReader([]byte(body)))
		must(t, err)
		out.Header = r.Header
		answer, err := http.DefaultClient.Do(out)
		must(t, err)
		defer answer.Body.Close()
		return answer.StatusCode
	}
	s.until("taken", func() bool { return post("d-1") == http.StatusAccepted })
	if got := post("d-1"); got != http.StatusOK {
		t.Errorf("the second time: %d, want 200", got)
	}
	s.until("both are delivered", func() bool {
		return s.labelled(told, "agent-review")() &&
			s.labelled(lost, "agent-review")()
	})
}
