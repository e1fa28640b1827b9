// Package tracetest provides an OpenTelemetry trace collector for tests.
package tracetest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Path is the URL path of a collector.
const Path = "/v1/traces"

// maxBody limits the size of a request.
const maxBody = 64 << 20

// Span is a span as received.
type Span struct {
	Trace      string         `json:"trace"`
	ID         string         `json:"id"`
	Parent     string         `json:"parent,omitempty"` // empty for a root span
	Name       string         `json:"name"`
	Start      time.Time      `json:"start"`
	End        time.Time      `json:"end"`
	Attributes map[string]any `json:"attributes,omitempty"`
	Events     []Event        `json:"events,omitempty"`
	Failed     string         `json:"failed,omitempty"`  // its error message; empty for a success
	Service    string         `json:"service,omitempty"` // service name of the resource
}

// Event is an event within a span.
type Event struct {
	At         time.Time      `json:"at"`
	Name       string         `json:"name"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

// Collector accepts traces as protobuf over HTTP. The zero value is ready to use.
type Collector struct {
	mu      sync.Mutex
	spans   []Span
	headers http.Header
	refuse  int
}

// ServeHTTP accepts one export request.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = r.Header.Clone()
	if c.refuse > 0 {
		http.Error(w, "configured to refuse", c.refuse)
		return
	}
	spans, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.spans = append(c.spans, spans...)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Refuse makes the collector reject later requests with this status. 0 makes it accept them again.
func (c *Collector) Refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = status
}

// Spans returns the received spans in order, with duplicates.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Header returns a header of the last request.
func (c *Collector) Header(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers.Get(name)
}

func read(r *http.Request) ([]Span, error) {
	if r.Method != http.MethodPost || r.URL.Path != Path {
		return nil, fmt.Errorf("tracetest: %s %s, want POST %s", r.Method, r.URL.Path, Path)
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		plain, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = plain
	}
	data, err := io.ReadAll(io.LimitReader(body, maxBody))
	if err != nil {
		return nil, err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &request); err != nil {
		return nil, err
	}
	var out []Span
	for _, resource := range request.GetResourceSpans() {
		service, _ := attributes(resource.GetResource().GetAttributes())["service.name"].(string)
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				one := Span{
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
					Parent: hex.EncodeToString(s.GetParentSpanId()),
					Name:   s.GetName(), Start: moment(s.GetStartTimeUnixNano()), End: moment(s.GetEndTimeUnixNano()),
					Attributes: attributes(s.GetAttributes()), Service: service,
				}
				if s.GetStatus().GetCode() == wire.Status_STATUS_CODE_ERROR {
					one.Failed = s.GetStatus().GetMessage()
				}
				for _, e := range s.GetEvents() {
					one.Events = append(one.Events, Event{
						moment(e.GetTimeUnixNano()), e.GetName(),
						attributes(e.GetAttributes()),
					})
				}
				out = append(out, one)
			}
		}
	}
	return out, nil
}

func moment(nanos uint64) time.Time { return time.Unix(0, int64(nanos)).UTC() } //nolint:gosec // of this century

func attributes(list []*common.KeyValue) map[string]any {
	out := map[string]any{}
	for _, a := range list {
		out[a.GetKey()] = value(a.GetValue())
	}
	return out
}

func value(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_DoubleValue:
		return v.DoubleValue
	case *common.AnyValue_ArrayValue:
		var all []any
		for _, one := range v.ArrayValue.GetValues() {
			all = append(all, value(one))
		}
		return all
	}
	return nil
}
