package agenttest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// answer is what one request gets.
type answer struct {
	give    func(*exchange)
	refuses func(*run, conversation) bool // nil: it is given once; else as often as it says so
}

// works is the scripted model's answer.
var works = answer{give: func(x *exchange) { x.send(x.server.task.model(x.talk)) }}

// ends is an answer of the model's own.
func ends(text string, f finish) answer {
	return answer{give: func(x *exchange) {
		r := reply{text: text, finish: f}
		r.count(x.talk)
		x.send(r)
	}}
}

// callsUnknown lets the model call a tool that nobody has.
func callsUnknown() answer {
	return answer{give: func(x *exchange) {
		r := reply{
			text:  "Next: " + unknownTool + ".",
			calls: []call{{id: unknownCall, name: unknownTool, args: object{"path": "README.md"}}}, finish: finishTools,
		}
		r.count(x.talk)
		x.send(r)
	}}
}

// repeats lets the model call its first tool again and again.
func repeats() answer {
	return answer{give: func(x *exchange) {
		talk := x.talk
		talk.results = 0
		x.send(x.server.task.model(talk))
	}}
}

// fails answers with an error of the provider's.
func fails(p perProvider) answer {
	return answer{give: func(x *exchange) {
		e := x.failure(p)
		x.note(Served{Status: e.status})
		fail(x.w, e, nil)
	}}
}

// tooLong refuses a request, and every later one that is not shorter.
func tooLong(p perProvider) answer {
	a := fails(p)
	a.refuses = func(r *run, c conversation) bool {
		if r.refused == 0 {
			r.refused = c.bytes
		}
		return c.bytes >= r.refused
	}
	return a
}

// page answers with something that is not the provider's: of a proxy, a gateway, a portal.
func page(status int, contentType, body string, header ...string) answer {
	h := headers(append([]string{"Content-Type", contentType}, header...))
	return answer{give: func(x *exchange) { fail(x.w, wireError{status: status, body: body}, h) }}
}

// later waits before it answers.
func later(wait time.Duration, a answer) answer {
	return answer{give: func(x *exchange) {
		if x.wait(wait) {
			a.give(x)
		}
	}}
}

// never does not answer at all.
func never() answer {
	return answer{give: func(x *exchange) { x.wait(forever) }}
}

// forever is longer than anybody waits.
const forever = 24 * time.Hour

// begins streams the beginning of the model's answer, and then something else happens. Whoever asked for no
// stream gets the beginning of a document.
func begins(then func(*exchange)) answer {
	return answer{give: func(x *exchange) {
		r := reply{text: "I am going to look at the repository first, and then", finish: finishStop}
		r.count(x.talk)
		if !x.talk.stream {
			body := encode(x.document(r))
			x.w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(x.w, body[:len(body)/2])
			x.flush()
			then(x)
			return
		}
		all := x.frames(r)
		x.header()
		x.stream(all[:max(1, len(all)/2)], false)
		then(x)
	}}
}

// cut ends the connection in the middle.
func cut(*exchange) { panic(http.ErrAbortHandler) }

// stall leaves the connection open and silent.
func stall(x *exchange) { x.wait(forever) }

// garbage goes on with half a document.
func garbage(x *exchange) {
	_, _ = io.WriteString(x.w, "data: {\"id\":\"chatcmpl-standin\",\"choices\":[{\"delta\":{\"cont\n\n")
	x.flush()
}

// errs goes on with an error event. Without a stream it is an error from the start.
func errs(p perProvider) answer {
	inStream := begins(func(x *exchange) { x.stream(x.event(x.failure(p)), false) })
	return answer{give: func(x *exchange) {
		if x.talk.stream && !x.talk.bare {
			inStream.give(x)
		} else {
			fail(x.w, x.failure(p), nil)
		}
	}}
}

// hangsUp ends the connection before any answer.
func hangsUp(reset bool) answer {
	return answer{give: func(x *exchange) {
		c, _, err := http.NewResponseController(x.w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if tcp, ok := c.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}}
}

// redirects sends the request to another case.
func redirects(status int, name string) answer {
	return answer{give: func(x *exchange) {
		_, rest := caseOf(x.r.URL.Path)
		_, label, _ := strings.Cut(strings.Split(strings.TrimPrefix(x.r.URL.Path, "/case/"), "/")[0], "@")
		x.w.Header().Set("Location", "/case/"+name+"@"+label+rest)
		x.w.WriteHeader(status)
	}}
}

// mislabelled is the model's answer under a wrong content type.
func mislabelled(contentType string) answer {
	return answer{give: func(x *exchange) {
		x.w = &labelled{x.w, contentType}
		works.give(x)
	}}
}

// labelled replaces the content type at the last moment.
type labelled struct {
	http.ResponseWriter
	as string
}

func (l *labelled) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l *labelled) WriteHeader(status int) {
	l.Header().Set("Content-Type", l.as)
	l.ResponseWriter.WriteHeader(status)
}

// send sends what the model answers, as a stream or in one piece.
func (x *exchange) send(r reply) {
	x.note(Served{Status: http.StatusOK, In: r.in, Out: r.out})
	switch {
	case !x.talk.stream:
		writeJSON(x.w, x.document(r))
	default:
		x.header()
		x.stream(x.frames(r), true)
	}
}

func (x *exchange) header() {
	kind := "text/event-stream; charset=utf-8"
	if x.talk.bare {
		kind = "application/json"
	}
	x.w.Header().Set("Content-Type", kind)
	x.w.Header().Set("Cache-Control", "no-cache")
	x.w.WriteHeader(http.StatusOK)
}

// stream sends frames; Gemini without alt=sse gets them as the elements of one array.
func (x *exchange) stream(frames []frame, whole bool) {
	if x.talk.bare {
		var all []json.RawMessage
		for _, f := range frames {
			all = append(all, json.RawMessage(f.data))
		}
		text := encode(all)
		if !whole {
			text = strings.TrimSuffix(text, "]")
		}
		_, _ = io.WriteString(x.w, text)
		x.flush()
		return
	}
	for _, f := range frames {
		_, _ = io.WriteString(x.w, f.String())
		x.flush()
	}
}

func (x *exchange) flush() { _ = http.NewResponseController(x.w).Flush() }

// wait waits, and reports whether the client is still there.
func (x *exchange) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.r.Context().Done():
		return false
	}
}

// headers makes a header of names and values in turn.
func headers(list []string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(list); i += 2 {
		h.Set(list[i], list[i+1])
	}
	return h
}
