package intake

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/director/loop"
	"retake/internal/github/githubtest"
	"retake/internal/github/inbox"
	"retake/internal/testfiles"
)

const webhookSecret = "it-is-a-secret"

func ourSecret() (string, error) { return webhookSecret, nil }

func hookOf(t *testing.T, event, delivery, body, secret string) *http.Request {
	t.Helper()
	r, err := githubtest.Webhook(t.Context(), WebhookPath, event, delivery, body, secret)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func answerTo(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

const labelled = `{"action":"labeled","repository":{"full_name":"acme/widgets"},"issue":{"number":1,"title":"nobody shall read this"}}`

// hook is a delivery with the status of its answer, and the meter that counts it.
type hook struct {
	name  string
	r     *http.Request
	want  int
	meter string
}

// hooks returns deliveries of every kind, in order. One of them repeats another.
func hooks(t *testing.T) []hook {
	without := func(header string) *http.Request {
		r := hookOf(t, "issues", "x", labelled, webhookSecret)
		r.Header.Del(header)
		return r
	}
	older := without("X-Hub-Signature-256")
	older.Header.Set("X-Hub-Signature", "sha1=757107ea0eb2509fc211221cce984b8a37570b6d")
	large := hookOf(t, "issues", "x", "", webhookSecret)
	large.ContentLength = webhookBytes + 1
	endless := hookOf(t, "issues", "x", "", webhookSecret)
	endless.Body, endless.ContentLength = io.NopCloser(io.LimitReader(zeros{}, webhookBytes+1)), -1
	cut := hookOf(t, "issues", "x", labelled, webhookSecret)
	cut.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), errReader{}))
	form := hookOf(t, "issues", "x", labelled, webhookSecret)
	form.Header.Set("Content-Type", "text/plain")
	return []hook{
		{"what GitHub sends", hookOf(t, "issues", "1", labelled, webhookSecret), 202, webhookTaken},
		{"the same once more", hookOf(t, "issues", "1", labelled, webhookSecret), 200, webhookRepeated},
		{"the same as another delivery", hookOf(t, "issues", "2", labelled, webhookSecret), 202, webhookTaken},
		{"another secret", hookOf(t, "issues", "3", labelled, "guessed"), 401, webhookForged},
		{"no signature", without("X-Hub-Signature-256"), 401, webhookForged},
		{"SHA-1 only", older, 401, webhookForged},
		{
			"another repository", hookOf(t, "issues", "4", strings.ReplaceAll(labelled, "widgets", "gadgets"),
				webhookSecret),
			204, webhookIdle,
		},
		{"an event of tomorrow", hookOf(t, "of_tomorrow", "5", labelled, webhookSecret), 204, webhookIdle},
		{"ping", hookOf(t, "ping", "6", `{"zen":"Design for failure."}`, webhookSecret), 204, webhookIdle},
		{"no JSON", hookOf(t, "issues", "7", `{"action":`, webhookSecret), 400, webhookBad},
		{"no event", without("X-GitHub-Event"), 204, webhookIdle},
		{"text", form, 400, webhookBad},
		{"it says that it is too large", large, 413, webhookTooLarge},
		{"it is too large", endless, 413, webhookTooLarge},
		{"it is cut off", cut, 400, webhookBroken},
	}
}

func TestWebhookAnswers(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	h := NewWebhooks(ourSecret, zap.New(core))
	looked := 0
	look := func(n inbox.Notice) bool {
		looked++
		return n.Repo == "acme/widgets"
	}
	h.lookWith(look)
	for _, row := range hooks(t) {
		before := h.counts[row.meter]
		if got := answerTo(h, row.r); got != row.want || h.counts[row.meter] != before+1 {
			t.Errorf("%s: %d, %v; want %d, and one more %s", row.name, got, h.counts, row.want, row.meter)
		}
	}
	if looked != 3 {
		t.Errorf("polled %d times, want 3: at both deliveries, and for the other repository", looked)
	}
	h.lookWith(nil)
	if got := answerTo(h, hookOf(t, "issues", "8", labelled, webhookSecret)); got != http.StatusServiceUnavailable {
		t.Errorf("%d without a leader, want 503", got)
	}
	if h.lookWith(look); answerTo(h, hookOf(t, "issues", "8", labelled, webhookSecret)) != http.StatusAccepted {
		t.Error("a delivery refused without a leader is refused again after a redelivery")
	}
	h.secret = func() (string, error) { return "", errors.New("no file") }
	if got := answerTo(h, hookOf(t, "issues", "9", labelled, "")); got != http.StatusServiceUnavailable {
		t.Errorf("%d without a secret, want 503", got)
	}
	for _, e := range logs.All() {
		if line := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(line, "nobody shall read this") ||
			strings.Contains(line, webhookSecret) {
			t.Errorf("logged: %s", line)
		}
	}
	if n := len(logs.All()); n != 1 {
		t.Errorf("%d lines, want one for all refusals together", n)
	}
}

// TestSlowWebhooks shows that slow bodies without a valid signature do not keep out genuine webhooks.
func TestSlowWebhooks(t *testing.T) {
	t.Parallel()
	h := NewWebhooks(ourSecret, zap.NewNop())
	h.lookWith(func(inbox.Notice) bool { return true })
	server := httptest.NewServer(h)
	t.Cleanup(server.Close) // after the slow connections
	at := server.Listener.Addr().String()
	slow := func(length int) {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256=00\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n{", WebhookPath, length)
	}
	for range webhooksSmall {
		slow(len(labelled))
	}
	for range webhooksLarge {
		slow(webhookSmall + 1)
	}
	for h.small.waiting()+h.large.waiting() < webhooksSmall+webhooksLarge {
		time.Sleep(time.Millisecond)
	}
	large := labelled + strings.Repeat(" ", webhookSmall)
	for i, body := range []string{labelled, large, labelled, large} {
		r := hookOf(t, "issues", fmt.Sprint("slow-", i), body, webhookSecret)
		r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", at
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusAccepted {
			t.Errorf("webhook %d: %s", i, answer.Status)
		}
	}
}

// waiting returns the number of bodies that wait or are read.
func (b *bodies) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inside
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Twenty thousand webhooks, whether forged, repeated or genuine, cause one or two polls and one log line, and leave
// no state behind.
func TestFloodOfWebhooks(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	h := NewWebhooks(ourSecret, zap.New(core))
	poll := loop.NewWake()
	h.lookWith(func(inbox.Notice) bool { poll.Signal(); return true })
	const flood = 20_000
	for i := range flood {
		switch i % 3 {
		case 0:
			answerTo(h, hookOf(t, "issues", "again", labelled, webhookSecret))
		case 1:
			r := hookOf(t, "issues", "forged", labelled, "")
			r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
			answerTo(h, r)
		case 2:
			answerTo(h, hookOf(t, "issues", fmt.Sprint(i), labelled, webhookSecret))
		}
	}
	if len(poll) != 1 || len(logs.All()) > 2 {
		t.Errorf("%d polls are due, %d lines logged", len(poll), len(logs.All()))
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
	h := NewWebhooks(ourSecret, zap.NewNop())
	h.lookWith(func(inbox.Notice) bool { return true })
	all := testfiles.Webhooks(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		testfiles.Try(t, name, func(t *testing.T) {
			event, _, _ := strings.Cut(name, "__")
			want := http.StatusAccepted
			if event == "ping" || event == "label" {
				want = http.StatusNoContent
			}
			if got := answerTo(h, hookOf(t, event, name, string(all[name]), webhookSecret)); got != want {
				t.Errorf("%d, want %d", got, want)
			}
		})
	}
}
