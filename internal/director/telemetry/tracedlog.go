package telemetry

import (
	"strings"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// tracedLines adds trace_id to each log line about an issue with a trace. Other code must not add it again.
type tracedLines struct {
	zapcore.Core
	traces *sync.Map // by issue key in lower case: the trace ID
	issue  string    // the issue in the logger's fields, if any
}

// Log returns a logger that adds the trace ID to lines about a traced issue. Without an exporter it returns the
// logger unchanged.
func (t *Exporter) Log(to *zap.Logger) *zap.Logger {
	if t == nil {
		return to
	}
	return to.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return &tracedLines{
			Core:   c,
			traces: &t.issues,
		}
	}))
}

// With stores the issue instead of its trace ID, because the trace may begin later.
func (c *tracedLines) With(fields []zapcore.Field) zapcore.Core {
	return &tracedLines{Core: c.Core.With(fields), traces: c.traces, issue: issueIn(fields, c.issue)}
}

// Check routes the line to Write if the underlying core wants it.
func (c *tracedLines) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Core.Check(e, nil) == nil {
		return to
	}
	return to.AddCore(e, c)
}

// Write adds the trace ID.
func (c *tracedLines) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if issue := issueIn(fields, c.issue); issue != "" {
		if id, ok := c.traces.Load(strings.ToLower(issue)); ok {
			fields = append(fields[:len(fields):len(fields)], zap.String("trace_id", id.(string)))
		}
	}
	return c.Core.Write(e, fields)
}

func issueIn(fields []zapcore.Field, otherwise string) string {
	for _, f := range fields {
		if f.Key == "issue" && f.Type == zapcore.StringType {
			return f.String
		}
	}
	return otherwise
}
