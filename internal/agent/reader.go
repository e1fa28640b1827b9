package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery/plaintext"
)

// Limits of a Reader, in bytes. A line holds at most one message from the model, or one tool's output. If a line
// exceeds maxLine, only its end is kept, because the result is there.
const (
	maxLine     = 1 << 20
	maxLineTail = 64 << 10
	maxDocument = 256 << 10 // maximum length of a multi-line JSON document
)

// Reader turns one stream of an agent into events. It is not safe for concurrent use.
type Reader struct {
	format   *format
	state    state
	pending  []byte // an incomplete line
	overlong bool   // set if pending exceeded maxLine and lost its beginning
	document []byte // an incomplete JSON document, or nil
	closing  string // the line that ends document
	atEnd    bool   // see AtEnd
	events   []Event
}

// AtEnd reports whether the stream may be complete: the agent has reported its result, no background task is running,
// and the agent has not resumed.
func (r *Reader) AtEnd() bool { return r.atEnd }

// Ended reports whether the agent has reported its result and has not resumed. The agent may still be waiting for
// background tasks.
func (r *Reader) Ended() bool { return r.state.ended }

// state carries a format's data from one line to the next.
type state struct {
	id     string // id of the last message, to count its usage only once
	text   string // the answer so far
	failed bool   // set if the last turn ended with an error
	roles  []role // roles of the objects in a line; only for unknown formats

	tasks map[string]bool // background tasks
	ended bool            // set if the agent has reported a result and has not resumed
}

// NewReader returns a reader for the named format.
func NewReader(name string) (*Reader, error) {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
	if i < 0 {
		return nil, fmt.Errorf("agent: format %.40q: want one of %s", name, strings.Join(Formats(), ", "))
	}
	return &Reader{format: &formats[i]}, nil
}

// Write reads the next bytes and returns the events that they complete.
func (r *Reader) Write(p []byte) []Event {
	r.events = nil
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		if r.pending = append(r.pending, line...); len(r.pending) > maxLine {
			r.overlong = true
			r.pending = append(r.pending[:0], r.pending[len(r.pending)-maxLineTail:]...)
		}
		if ended {
			r.endLine()
		}
		p = rest
	}
	return r.events
}

// Close ends the stream and returns the last events.
func (r *Reader) Close() []Event {
	r.events = nil
	if len(r.pending) > 0 {
		r.endLine()
	}
	r.endDocument()
	if r.format.end != nil {
		r.format.end(r)
	}
	return r.events
}

func (r *Reader) endLine() {
	if r.overlong {
		r.lastObject(r.pending[len(r.pending)-maxLineTail:])
	} else {
		r.line(r.pending)
	}
	r.overlong = false
	if cap(r.pending) > maxLineTail {
		r.pending = nil // free the memory of a long line
	}
	r.pending = r.pending[:0]
}

// line reads one complete line: an object, a list of objects, a line of a document, or text.
func (r *Reader) line(data []byte) {
	bare := bytes.TrimSpace(data)
	switch {
	case r.document != nil:
		r.documentLine(data)
	case len(bare) == 0:
	case len(bare) == 1 && (bare[0] == '{' || bare[0] == '['):
		r.document = slices.Clone(data)
		r.closing = string(data[:bytes.IndexByte(data, bare[0])]) + map[byte]string{'{': "}", '[': "]"}[bare[0]]
	case bare[0] == '{':
		if o, ok := parse(bare); ok {
			r.object(o)
		} else {
			r.words(bare)
		}
	case bare[0] == '[' && r.objects(bare):
	default:
		r.words(bare)
	}
}

// documentLine reads a line of a document that spans several lines. The document ends at a closing bracket with
// the indentation of its first line.
func (r *Reader) documentLine(data []byte) {
	if len(data) > 0 && data[0] == '{' && r.closing == "}" {
		if o, ok := parse(data); ok { // the line is an event, not part of a document
			r.endDocument()
			r.object(o)
			return
		}
	}
	if len(r.document)+len(data) > maxDocument {
		r.document = nil
		return
	}
	r.document = append(append(r.document, '\n'), data...)
	if string(bytes.TrimRight(data, " \t\r,")) == r.closing {
		r.endDocument()
	}
}

func (r *Reader) endDocument() {
	data := bytes.TrimRight(r.document, " \t\r,")
	r.document = nil
	if len(data) == 0 {
		return
	}
	if o, ok := parse(data); ok {
		r.object(o)
	} else if !r.objects(data) {
		for l := range bytes.SplitSeq(data, []byte("\n")) {
			if l = bytes.TrimSpace(l); len(l) > 0 {
				r.words(l)
			}
		}
	}
}

// object reads one event. After the result, an event that begins a turn means that the agent has resumed. Any other
// event shows that the stream continues, unless the format allows this event after the result.
func (r *Reader) object(o object) {
	kind := o.text("type")
	r.atEnd = r.atEnd && slices.Contains(r.format.trailing, kind)
	if r.state.ended && slices.Contains(r.format.begins, kind) {
		r.state.ended = false
		r.emit(Resumed{})
	}
	r.format.object(r, o)
}

// objects reads a list of objects.
func (r *Reader) objects(data []byte) bool {
	var list []object
	if json.Unmarshal(data, &list) != nil {
		return false
	}
	for _, o := range list {
		if o != nil {
			r.object(o)
		}
	}
	return true
}

// maxSalvage limits how often lastObject tries to parse an object.
const maxSalvage = 16

// lastObject reads the last complete event in the kept end of an overlong line.
func (r *Reader) lastObject(tail []byte) {
	end := tail
	for range maxSalvage {
		at := bytes.LastIndex(end, []byte(`{"type":`))
		if at < 0 {
			return
		}
		var o object
		if json.NewDecoder(bytes.NewReader(tail[at:])).Decode(&o) == nil && o != nil {
			r.object(o)
			return
		}
		end = end[:at]
	}
}

// words reads a line that is not JSON.
func (r *Reader) words(data []byte) {
	if r.format.words != nil {
		r.format.words(r, plaintext.Clean(string(data[:min(len(data), 4*maxMessage)])))
	}
}

func (r *Reader) emit(e Event) { r.events = append(r.events, e) }

// step reports a step, unless it is empty.
func (r *Reader) step(verb, what string) {
	if s := oneLine(strings.TrimSpace(verb+" "+what), maxStep); s != "" {
		r.emit(Progress{s})
	}
}

// usage reports usage, unless it is zero.
func (r *Reader) usage(u Usage, total bool) {
	u.CostUSD = min(max(u.CostUSD, 0), maxCostUSD)
	if u != (Usage{}) {
		r.emit(UsageReport{Usage: u, Total: total})
	}
}

func (r *Reader) denial(what string) { r.emit(Denial{oneLine(what, maxStep)}) }

// failure completes an error, reports it and returns it.
func (r *Reader) failure(f Failure) Failure {
	f = f.complete()
	r.emit(f)
	return f
}

// complete returns f with its fields cut to their limits. It takes a missing status or wait from the message.
func (f Failure) complete() Failure {
	f.Message = oneLine(cmp.Or(f.Message, f.Code), maxMessage)
	f.Status = cmp.Or(f.Status, statusIn(f.Message))
	// dates are ignored, since they would require a clock
	inHeader, _ := strconv.ParseFloat(f.Headers["retry-after"], 64)
	f.RetryAfter = cmp.Or(f.RetryAfter, waitOf(inHeader, 1), waitIn(f.Message+f.Details))
	return f
}

// retry reports an error after which the agent tries again. For a rate limit, it also reports a RateLimit.
func (r *Reader) retry(f Failure, note string, wait time.Duration) {
	f.Retryable = true
	if f = r.failure(f); IsLimitStatus(f.Status) {
		r.emit(RateLimit{Status: f.Status, RetryAfter: max(wait, f.RetryAfter)})
	}
	r.step("trying again", note)
}

// IsLimitStatus reports whether a status asks every client to slow down, because of too many requests or an
// overloaded service.
func IsLimitStatus(status int) bool { return status == 429 || status == 503 || status == 529 }

// result reports the end of the stream.
func (r *Reader) result(ok bool, text string) {
	r.state.ended = true
	r.atEnd = len(r.state.tasks) == 0
	r.answer(ok, text)
}

// answer reports a result, after which the stream may still continue.
func (r *Reader) answer(ok bool, text string) {
	text = strings.ToValidUTF8(strings.TrimSpace(text[:min(len(text), 2*maxAnswer)]), "\uFFFD")
	r.emit(Result{OK: ok, Text: Cut(text, maxAnswer)})
}
