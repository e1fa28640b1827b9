package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a Reader, in bytes. A line of a stream holds at most one message of the model, or the output of one tool;
// what is longer is not kept whole, but its end is looked at, because the last word stands there.
const (
	maxLine     = 1 << 20
	maxLineTail = 64 << 10
	maxDocument = 256 << 10 // of one JSON document on several lines
)

// Reader turns one stream of an agent into events. It is not for concurrent use.
type Reader struct {
	format   *format
	state    state
	held     []byte // an unfinished line
	tail     []byte // the newest bytes of a line that is longer than maxLine
	overlong bool
	document []byte // an unfinished JSON document; nil: none
	closing  string // the line that ends it
	events   []Event
}

// state is what a format remembers between two lines.
type state struct {
	id     string // of the last message, to count it once
	text   string // the answer so far
	failed bool   // the last turn ended with an error
}

// NewReader reads a known format.
func NewReader(name string) (*Reader, error) {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
	if i < 0 {
		return nil, fmt.Errorf("agent: format %.40q: want one of %s", name, strings.Join(Formats(), ", "))
	}
	return &Reader{format: &formats[i]}, nil
}

// Write takes the next bytes and returns the events that they complete.
func (r *Reader) Write(p []byte) []Event {
	r.events = nil
	for len(p) > 0 {
		nl := bytes.IndexByte(p, '\n')
		if nl < 0 {
			r.hold(p)
			break
		}
		r.hold(p[:nl])
		r.endLine()
		p = p[nl+1:]
	}
	return r.events
}

// Close takes what has no line break behind it: the stream has ended.
func (r *Reader) Close() []Event {
	r.events = nil
	if len(r.held) > 0 || r.overlong {
		r.endLine()
	}
	r.endDocument()
	if r.format.end != nil {
		r.format.end(r)
	}
	return r.events
}

func (r *Reader) hold(p []byte) {
	if !r.overlong && len(r.held)+len(p) <= maxLine {
		r.held = append(r.held, p...)
		return
	}
	if !r.overlong {
		r.overlong = true
		r.tail = append(r.tail[:0], r.held[max(0, len(r.held)-maxLineTail):]...)
		r.held = nil
	}
	if len(p) >= maxLineTail {
		r.tail = append(r.tail[:0], p[len(p)-maxLineTail:]...)
		return
	}
	if over := len(r.tail) + len(p) - maxLineTail; over > 0 {
		r.tail = append(r.tail[:0], r.tail[over:]...)
	}
	r.tail = append(r.tail, p...)
}

func (r *Reader) endLine() {
	data, overlong := r.held, r.overlong
	if overlong {
		data = r.tail
	}
	if overlong {
		r.lastObject(data)
	} else {
		r.line(data)
	}
	r.overlong = false
	if cap(r.held) > maxLineTail {
		r.held = nil // one long line shall not be paid for until the end
	}
	r.held = r.held[:0]
}

// line reads one whole line: an object, a list of them, a line of a document on several lines, or words.
func (r *Reader) line(data []byte) {
	bare := bytes.TrimSpace(data)
	if r.document != nil {
		r.inDocument(data)
		return
	}
	switch {
	case len(bare) == 0:
	case len(bare) == 1 && bare[0] == '{' && data[0] == '{':
		r.document, r.closing = append([]byte(nil), data...), "}"
	case len(bare) == 1 && bare[0] == '[' && data[0] == '[':
		r.document, r.closing = append([]byte(nil), data...), "]"
	case bare[0] == '{':
		if o, ok := parse(bare); ok {
			r.format.object(r, o)
		} else {
			r.words(bare)
		}
	case bare[0] == '[' && r.objects(bare):
	default:
		r.words(bare)
	}
}

// inDocument takes a line of a document on several lines. It ends where a line says so that is not indented.
func (r *Reader) inDocument(data []byte) {
	if o, ok := parse(data); ok && data[0] == '{' && r.closing == "}" { // an event: what was taken for a document is none
		r.endDocument()
		r.format.object(r, o)
		return
	}
	if len(r.document)+len(data) > maxDocument {
		r.document = nil
		return
	}
	r.document = append(append(r.document, '\n'), data...)
	if string(bytes.TrimRight(data, " \t\r")) == r.closing {
		r.endDocument()
	}
}

func (r *Reader) endDocument() {
	data := r.document
	r.document = nil
	if data == nil {
		return
	}
	if o, ok := parse(data); ok {
		r.format.object(r, o)
	} else if !r.objects(data) {
		for l := range bytes.SplitSeq(data, []byte("\n")) {
			if l = bytes.TrimSpace(l); len(l) > 0 {
				r.words(l)
			}
		}
	}
}

// objects reads a list of objects.
func (r *Reader) objects(data []byte) bool {
	var list []object
	if json.Unmarshal(data, &list) != nil {
		return false
	}
	for _, o := range list {
		if o != nil {
			r.format.object(r, o)
		}
	}
	return true
}

// maxSalvage bounds how often the end of an overlong line is tried.
const maxSalvage = 16

// lastObject finds the last whole event at the end of a line that was too long to keep.
func (r *Reader) lastObject(tail []byte) {
	end := tail
	for range maxSalvage {
		at := bytes.LastIndex(end, []byte(`{"type":`))
		if at < 0 {
			return
		}
		var o object
		if json.NewDecoder(bytes.NewReader(tail[at:])).Decode(&o) == nil && o != nil {
			r.format.object(r, o)
			return
		}
		end = end[:at]
	}
}

// words reads a line that is no JSON.
func (r *Reader) words(data []byte) {
	if r.format.words != nil {
		r.format.words(r, plain(string(data[:min(len(data), 4*maxMessage)])))
	}
}

func (r *Reader) emit(es ...Event) { r.events = append(r.events, es...) }

// step tells a step; an empty one is none.
func (r *Reader) step(verb, what string) {
	if s := line(strings.TrimSpace(verb+" "+what), maxStep); s != "" {
		r.emit(Progress{s})
	}
}

// limited tells of a limit that the agent waits out. A status that says nothing of a limit is only a step.
func (r *Reader) limited(status int, wait string, l RateLimited) {
	l.Status = status
	if Limits(status) {
		r.emit(l)
	}
	r.step("trying again", wait)
}

// Limits says whether a status tells everybody to hold back: too many requests, or an overloaded service.
func Limits(status int) bool { return status == 429 || status == 503 || status == 529 }

// use tells of usage; none is not worth a word.
func (r *Reader) use(u Usage, total bool) {
	u.CostUSD = min(max(u.CostUSD, 0), maxCostUSD)
	if u != (Usage{}) {
		r.emit(Used{Usage: u, Total: total})
	}
}

// failed tells of an error, bounded.
func (r *Reader) failed(f Failed) {
	f.Message = line(f.Message, maxMessage)
	r.emit(f)
}

// final tells the last word.
func (r *Reader) final(ok bool, text string) { r.emit(Final{OK: ok, Text: answer(text)}) }

// plain takes the escape sequences of a terminal out of a text.
func plain(s string) string {
	if !strings.Contains(s, "\x1b") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\x1b' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '[' {
			for i += 2; i < len(s) && (s[i] < '@' || s[i] > '~'); i++ {
			}
		}
	}
	return b.String()
}
