package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/github/prose"
	"retake/internal/sys/hidden"
	"retake/internal/trace"
)

// Exporter converts spans to OpenTelemetry and queues them for export. It outlives sessions. A nil Exporter is off,
// and its methods do nothing.
type Exporter struct {
	fleet   string
	sampler sdk.Sampler
	out     *sdk.TracerProvider
	queue   *spanQueue
	redact  func(string) string // set before the first span
	issues  sync.Map            // by issue key in lower case: the trace ID, for the log

	exported time.Time // time of the last record with queued spans; only the follower uses it
}

// textLimit is the maximum length of an exported text, in characters.
const textLimit = 16 << 10

// tracesPath is the path of the collector's trace endpoint.
const tracesPath = "/v1/traces"

// Open returns an Exporter, or nil if no endpoint is configured. It does not connect to the collector.
func Open(c config.Config, runID string, log *zap.Logger) (*Exporter, error) {
	if c.Telemetry.OTLPEndpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(c.Telemetry.OTLPEndpoint)
	if err != nil {
		return nil, fmt.Errorf("director: telemetry.otlp_endpoint: %w", err)
	}
	if !strings.HasSuffix(u.Path, tracesPath) {
		u.Path = strings.TrimSuffix(u.Path, "/") + tracesPath
	}
	options := []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(u.String()), otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}), // the queue retries
		otlptracehttp.WithProxy(stayAt(u)),
	}
	if name := c.Telemetry.OTLPHeadersEnv; name != "" {
		headers, err := otlpHeaders(hidden.Getenv(name))
		if err != nil {
			return nil, fmt.Errorf("director: telemetry.otlp_headers_env: environment variable %s: %w", name, err)
		}
		if len(headers) > 0 {
			options = append(options, otlptracehttp.WithHeaders(headers))
		}
	}
	exporter, err := otlptracehttp.New(context.Background(), options...)
	if err != nil {
		return nil, fmt.Errorf("director: telemetry: %w", err)
	}
	t := &Exporter{
		fleet: c.Director.Fleet, sampler: sdk.TraceIDRatioBased(c.Telemetry.SampleRatio),
		redact: func(s string) string { return s },
		queue:  newSpanQueue(exporter, u.Redacted(), log),
	}
	t.out = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), // spans have already been sampled
		sdk.WithIDGenerator(givenIDs{}), sdk.WithSpanProcessor(t.queue), sdk.WithResource(t.resource(runID)))
	go t.queue.run()
	return t, nil
}

// resource describes this process. The standard variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take
// precedence.
func (t *Exporter) resource(runID string) *resource.Resource {
	ours := resource.NewSchemaless(attribute.String("service.name", "retake"),
		attribute.String("service.namespace", t.fleet),
		attribute.String("service.instance.id", runID))
	all, err := resource.Merge(ours, resource.Environment())
	if err != nil { // the schemas conflict, so the result has no schema
		return ours
	}
	return all
}

// otlpHeaders parses name=value,name=value with percent-encoded values. Errors never contain a value.
func otlpHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		name = strings.TrimSpace(name)
		if !ok || err != nil || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, errors.New("want name=value,name=value with percent-encoded values")
		}
		headers[name] = value
	}
	return headers, nil
}

// stayAt returns a proxy function that refuses requests to other hosts. The client calls it for each redirect, which
// would otherwise send the headers, with their keys, elsewhere. A client with a redirect policy would lose the
// certificates in OpenTelemetry's standard variables.
func stayAt(u *url.URL) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if r.URL.Host != u.Host || r.URL.Scheme != u.Scheme {
			return nil, errors.New("director: the collector redirects to another host")
		}
		return http.ProxyFromEnvironment(r)
	}
}

// Hide sets the function that removes secrets from exported text. Call it before the first span.
func (t *Exporter) Hide(redact func(string) string) {
	if t != nil {
		t.redact = redact
	}
}

// Parent returns the traceparent of an attempt, or "" if tracing is off.
func (t *Exporter) Parent(worker string) string {
	if t == nil {
		return ""
	}
	p, ok := trace.OfAttempt(t.fleet, worker)
	if !ok {
		return ""
	}
	p.Sampled = t.samples(p)
	return p.String()
}

func (t *Exporter) samples(p wire.TraceParent) bool {
	return t.sampler.ShouldSample(sdk.SamplingParameters{ParentContext: context.Background(), TraceID: p.Trace}).
		Decision == sdk.RecordAndSample
}

// note records an issue's trace for the log. The owner calls it.
func (t *Exporter) note(k fsm.IssueKey, nonce string) {
	if t != nil {
		t.issues.Store(strings.ToLower(string(k)), trace.ID(trace.Of(t.fleet, nonce)))
	}
}

// forget removes the entry that note stored for the trace of an ended span. It keeps the entry of a newer trace.
func (t *Exporter) forget(s trace.Span) {
	for _, a := range s.Attributes {
		if key, ok := a.Value.(string); ok && a.Key == trace.KeyIssue {
			t.issues.CompareAndDelete(strings.ToLower(key), trace.ID(s.Context))
		}
	}
}

// export puts sampled spans in the queue.
func (t *Exporter) export(spans []trace.Span) {
	tracer := t.out.Tracer("retake")
	for _, s := range spans {
		if !t.samples(s.Context) {
			continue
		}
		id := oteltrace.SpanContextConfig{
			TraceID: s.Context.Trace, SpanID: s.Context.Span,
			TraceFlags: oteltrace.FlagsSampled,
		}
		ctx := context.WithValue(context.Background(), givenIDs{}, id)
		if s.Parent != [8]byte{} {
			parent := id
			parent.SpanID = s.Parent
			ctx = oteltrace.ContextWithSpanContext(ctx, oteltrace.NewSpanContext(parent))
		}
		_, span := tracer.Start(ctx, s.Name, oteltrace.WithTimestamp(s.Start),
			oteltrace.WithAttributes(t.attributes(s.Attributes)...))
		for _, e := range s.Events {
			span.AddEvent(e.Name, oteltrace.WithTimestamp(e.At),
				oteltrace.WithAttributes(t.attributes(e.Attributes)...))
		}
		if s.Failed != "" {
			span.SetStatus(codes.Error, t.text(s.Failed))
		}
		span.End(oteltrace.WithTimestamp(s.End))
	}
}

// text prepares text from workers for export. It removes secrets and control characters, and truncates the text to
// textLimit. Invalid UTF-8 would make the exporter drop the whole batch.
func (t *Exporter) text(s string) string {
	return prose.Clip(prose.Printable(t.redact(s)), textLimit)
}

// attributes converts attributes and cleans their text.
func (t *Exporter) attributes(list []trace.Attribute) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(list))
	for _, a := range list {
		switch v := a.Value.(type) {
		case string:
			out = append(out, attribute.String(a.Key, t.text(v)))
		case []string:
			all := make([]string, len(v))
			for i, one := range v {
				all[i] = t.text(one)
			}
			out = append(out, attribute.StringSlice(a.Key, all))
		case bool:
			out = append(out, attribute.Bool(a.Key, v))
		case int64:
			out = append(out, attribute.Int64(a.Key, v))
		case float64:
			out = append(out, attribute.Float64(a.Key, v))
		}
	}
	return out
}

// givenIDs is an ID generator that takes a span's IDs from the context. The type is also the context key.
type givenIDs struct{}

func (givenIDs) NewIDs(ctx context.Context) (oteltrace.TraceID, oteltrace.SpanID) {
	id, _ := ctx.Value(givenIDs{}).(oteltrace.SpanContextConfig)
	return id.TraceID, id.SpanID
}

func (g givenIDs) NewSpanID(ctx context.Context, _ oteltrace.TraceID) oteltrace.SpanID {
	_, span := g.NewIDs(ctx)
	return span
}

// Close exports the queued spans, within a short time limit.
func (t *Exporter) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.out.Shutdown(ctx)
}
