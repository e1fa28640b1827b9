package link

import (
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// Writer numbers and encodes the messages of one sender. Its methods are safe for concurrent use.
type Writer struct {
	From wire.Sender
	Log  *zap.Logger // used by Respond
	// TraceParent returns the traceparent header for messages to a worker and for its stored reports. It must not
	// block. If it is nil or returns "", the header is omitted.
	TraceParent func(worker string) string

	seq atomic.Uint64
}

// Next returns the number of a message.
func (w *Writer) Next() uint64 { return w.seq.Add(1) }

// Encode wraps a payload.
func (w *Writer) Encode(p wire.Payload) ([]byte, error) {
	return wire.Encode(w.From, w.Next(), time.Now(), p)
}

// Respond answers a request on a subject. It does not answer if p is nil.
func (w *Writer) Respond(subject string, send func([]byte) error, p wire.Payload) {
	if p == nil {
		return
	}
	data, err := w.Encode(p)
	if err == nil {
		err = send(data)
	}
	if err != nil {
		w.Log.Warn("answer not sent", zap.String("subject", subject), zap.Error(err))
	}
}

// To returns a message about a worker, with the header of its span.
func (w *Writer) To(worker, subject string, data []byte) *nats.Msg {
	parent := ""
	if w.TraceParent != nil {
		parent = w.TraceParent(worker)
	}
	return Traced(subject, data, parent)
}

// Traced returns a message with the header of its span. parent is empty if tracing is off.
func Traced(subject string, data []byte, parent string) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: data}
	if parent != "" {
		// the name is in lower case, as the W3C specifies
		m.Header = nats.Header{wire.TraceHeader: {parent}}
	}
	return m
}
