package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/trace"
	"retake/internal/trace/tracetest"
)

func TestNoTelemetryUnlessConfigured(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
	log := zap.NewNop()
	off, err := Open(config.Default(), "run", log)
	if off != nil || err != nil {
		t.Fatalf("%v, %v without a configuration", off, err)
	}
	if off.Parent("k3v9qx2m-1") != "" || off.Log(log) != log || off.Close(t.Context()) != nil {
		t.Error("a disabled exporter has an effect")
	}
}

// TestTelemetryHeaders checks that the headers of the configured variable are sent. Only some tasks are sampled,
// and only their spans are sent.
func TestTelemetryHeaders(t *testing.T) {
	t.Setenv("OUR_HEADERS", "authorization=Bearer%20x, x-scope=team")
	collector := &tracetest.Collector{}
	web := httptest.NewServer(collector)
	defer web.Close()
	c := config.Default()
	c.Telemetry.OTLPEndpoint, c.Telemetry.OTLPHeadersEnv, c.Telemetry.SampleRatio = web.URL+
		tracetest.Path, "OUR_HEADERS", 0.5
	out, err := Open(c, "run", zap.NewNop())
	must(t, err)
	out.Hide(func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") })
	at, want := time.Unix(1_800_000_000, 0).UTC(), 0
	for i := range 200 {
		worker := string(rune('a'+i%26)) + strings.Repeat("x", i/26) + "-1"
		p, _ := trace.OfAttempt(c.Director.Fleet, worker)
		if parent, _ := wire.ParseTraceParent(out.Parent(worker)); parent.Sampled {
			want++
		}
		out.export([]trace.Span{{
			Context: p, Name: "attempt", Start: at, End: at,
			Attributes: []trace.Attribute{{Key: "k", Value: "is hunter2"}}, Failed: "no hunter2",
		}})
	}
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := collector.Spans()
	if len(spans) != want || want < 60 || want > 140 {
		t.Errorf("%d spans of 200, %d of them sampled, want about half", len(spans), want)
	}
	if x := spans[0]; x.Attributes["k"] != "is ***" || x.Failed != "no ***" || !x.Start.Equal(at) {
		t.Errorf("%+v", x)
	}
	if collector.Header("Authorization") != "Bearer x" || collector.Header("X-Scope") != "team" {
		t.Error("the headers were not sent")
	}
	t.Setenv("OUR_HEADERS", "s3cret")
	if _, err := Open(c, "run", zap.NewNop()); err == nil || strings.Contains(err.Error(), "s3cret") ||
		!strings.Contains(err.Error(), "OUR_HEADERS") {
		t.Errorf("%v, want an error that names the variable and not its value", err)
	}
}

func TestTracedLines(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	out := &Exporter{fleet: "default"}
	log := out.Log(zap.New(core))
	early := log.With(zap.String("issue", "acme/widgets#2"))
	out.note("Acme/Widgets#1", "aaaa")
	out.note("acme/widgets#2", "bbbb")
	id := func(nonce string) any { return trace.ID(trace.Of("default", nonce)) }
	for _, c := range []struct {
		log    *zap.Logger
		fields []zap.Field
		want   any
	}{
		{log, []zap.Field{zap.String("issue", "acme/widgets#1")}, id("aaaa")},
		{log, []zap.Field{zap.String("issue", "acme/widgets#3")}, nil},
		{log, nil, nil},
		{early, nil, id("bbbb")},
		{early, []zap.Field{zap.String("issue", "acme/widgets#1")}, id("aaaa")},
	} {
		c.log.Info("x", c.fields...)
		if got := logs.TakeAll()[0].ContextMap()["trace_id"]; got != c.want {
			t.Errorf("%v: trace_id %v, want %v", c.fields, got, c.want)
		}
	}
	log.Debug("not logged", zap.String("issue", "acme/widgets#1"))
	out.forget(trace.Span{
		Context:    trace.Of("default", "another"),
		Attributes: []trace.Attribute{{Key: trace.KeyIssue, Value: "acme/widgets#2"}},
	})
	out.forget(trace.Span{
		Context:    trace.Of("default", "aaaa"),
		Attributes: []trace.Attribute{{Key: trace.KeyIssue, Value: "acme/widgets#1"}},
	})
	log.Info("x", zap.String("issue", "acme/widgets#1"))
	early.Info("x")
	if all := logs.TakeAll(); len(all) != 2 || all[0].ContextMap()["trace_id"] != nil ||
		all[1].ContextMap()["trace_id"] != id("bbbb") {
		t.Errorf("%v", all)
	}
}

// TestTracesOfTheEnd checks that records that become durable while a session ends are also exported, and that the log
// reports missed ones.
func TestTracesOfTheEnd(t *testing.T) {
	t.Parallel()
	collector := &tracetest.Collector{}
	web := httptest.NewServer(collector)
	defer web.Close()
	core, logs := observer.New(zap.InfoLevel)
	c := config.Default()
	c.Telemetry.OTLPEndpoint = web.URL
	out, err := Open(c, "run", zap.NewNop())
	must(t, err)
	f := &Follower{Exporter: out, log: zap.New(core), some: make(chan struct{}, 1)}
	f.book = trace.NewBook(c.Director.Fleet, f.keep)
	at := time.Unix(1_800_000_000, 0).UTC()
	f.Apply(1, []fsm.Record{
		{At: at, Facts: fsm.FactList{fsm.TaskQueued{Task: "acme/widgets#1", Nonce: "aaaa"}}},
		{At: at.Add(time.Second), Facts: fsm.FactList{fsm.Moved{
			OfTask: fsm.OfTask{Task: "acme/widgets#1"},
			From:   fsm.Queued, To: fsm.Forgotten, On: fsm.OnWithdrawn,
		}}},
	})
	for range recordsMost {
		f.Apply(2, []fsm.Record{{At: at.Add(time.Minute)}})
	}
	f.Finish()
	must(t, out.Close(t.Context()))
	if spans := collector.Spans(); len(spans) != 2 || spans[1].Name != "task" || !spans[1].Start.Equal(at) ||
		spans[1].Trace != trace.ID(trace.Of(c.Director.Fleet, "aaaa")) {
		t.Errorf("%+v, want queued and the task", spans)
	}
	if lines := logs.FilterMessageSnippet("gaps").All(); len(lines) != 1 ||
		lines[0].ContextMap()["records"] != int64(2) {
		t.Errorf("%v, want one line about two records", lines)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
