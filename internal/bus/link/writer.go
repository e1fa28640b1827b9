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
	// block. If it is nil or returns "", messages do not get the header.
	TraceParent func(worker string) string

	seq atomic.Uint64
}

// Next returns the number of the next message.
func (w *Writer) Next() uint64 { return w.seq.Add(1) }

// Encode encodes a payload in an envelope with the next message number.
func (w *Writer) Encode(p wire.Payload) ([]byte, error) {
	return wire.Encode(w.From, w.Next(), time.Now(), p)
}

// Respond encodes p and calls send with the result. It logs errors with the request's subject. It does nothing if p is
// nil.
func (w *Writer) Respond(subject string, send func([]byte) error, p wire.Payload) {
	if p == nil {
		return
	}
	data, err := w.Encode(p)
	if err == nil {
		err = send(data)
	}
	if err != nil {
		w.Log.Warn("could not send an answer", zap.String("subject", subject), zap.Error(err))
	}
}

// To returns a message about a worker, with the traceparent header of its attempt.
func (w *Writer) To(worker, subject string, data []byte) *nats.Msg {
	parent := ""
	if w.TraceParent != nil {
		parent = w.TraceParent(worker)
	}
	return Traced(subject, data, parent)
}

// Traced returns a message with a traceparent header. parent is empty if tracing is off.
func Traced(subject string, data []byte, parent string) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: data}
	if parent != "" {
		// Header.Set would capitalize the name, but W3C Trace Context spells it in lower case.
		m.Header = nats.Header{wire.TraceHeader: {parent}}
	}
	return m
}
