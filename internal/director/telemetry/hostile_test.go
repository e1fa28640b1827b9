package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/trace"
	"retake/internal/trace/tracetest"
)

// exported exports one span to a collector, and waits until it has been sent or refused.
func exported(t *testing.T, endpoint string, s trace.Span) {
	t.Helper()
	t.Setenv("OUR_HEADERS", "x-key=s3cret")
	c := config.Default()
	c.Telemetry.OTLPEndpoint, c.Telemetry.OTLPHeadersEnv, c.Telemetry.SampleRatio = endpoint, "OUR_HEADERS", 1
	out, err := Open(c, "run", zap.NewNop())
	must(t, err)
	out.Hide(func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") })
	s.Context, _ = trace.OfAttempt(c.Director.Fleet, "k3v9qx2m-1")
	s.Start = time.Unix(1_800_000_000, 0).UTC()
	s.End = s.Start
	out.export([]trace.Span{s})
	_ = out.Close(t.Context()) // an error if the collector refuses the span
}

// TestHeadersStayWithTheCollector checks that a redirect to another host does not get the headers, which may have a
// key. Go's client removes only Authorization and cookies.
func TestHeadersStayWithTheCollector(t *testing.T) {
	other := &tracetest.Collector{}
	elsewhere := httptest.NewServer(other)
	defer elsewhere.Close()
	to := strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)
	asked := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.Header.Get("X-Key") != "s3cret" {
			t.Error("the collector did not get the header")
		}
		http.Redirect(w, r, to+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer web.Close()
	exported(t, web.URL, trace.Span{Name: "attempt"})
	if asked == 0 {
		t.Error("no request reached the collector")
	}
	if got := other.Header("X-Key"); got != "" || len(other.Spans()) > 0 {
		t.Errorf("another host got header %q and %d spans", got, len(other.Spans()))
	}
}

// TestHostileSpans checks that text from workers cannot keep spans from the collector, reveal a secret there or fill
// its memory.
func TestHostileSpans(t *testing.T) {
	collector := &tracetest.Collector{}
	web := httptest.NewServer(collector)
	defer web.Close()
	const nasty = "\x1b]52;c;x\x07hunter2\xff\xfe\u202e\x00"
	long := strings.Repeat("long ", 1<<18)
	exported(t, web.URL, trace.Span{
		Name: "attempt", Failed: nasty + long,
		Attributes: []trace.Attribute{
			{Key: "text", Value: nasty + long}, {Key: "list", Value: []string{nasty, long}},
		},
		Events: []trace.Event{{
			Name: "report", At: time.Unix(1_800_000_000, 0), Attributes: []trace.Attribute{{Key: "x", Value: nasty}},
		}},
	})
	spans := collector.Spans()
	if len(spans) != 1 {
		t.Fatalf("%d spans arrived", len(spans))
	}
	for what, text := range map[string]string{
		"failure": spans[0].Failed, "attribute": fmt.Sprint(spans[0].Attributes["text"]),
	} {
		n := utf8.RuneCountInString(text)
		if n > textLimit || !utf8.ValidString(text) || strings.Contains(text, "hunter2") ||
			strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u202e' }) {
			t.Errorf("%s has %d characters: %.80q", what, n, text)
		}
	}
}

// TestInvalidHeaders checks that the director refuses headers that HTTP cannot carry when it starts.
func TestInvalidHeaders(t *testing.T) {
	for _, headers := range []string{
		"x-key=s3cret%0d%0aHost:%20evil", "x key=s3cret", "x-key:=s3cret", "x-key=s3cret%00",
	} {
		t.Setenv("OUR_HEADERS", headers)
		c := config.Default()
		c.Telemetry.OTLPEndpoint, c.Telemetry.OTLPHeadersEnv = "http://127.0.0.1:9", "OUR_HEADERS"
		out, err := Open(c, "run", zap.NewNop())
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want an error without the value", headers, err)
		}
		_ = out.Close(t.Context())
	}
}
