package agenttest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// answer describes the response to one request.
type answer struct {
	give func(*exchange)
	// If refuses is set, the answer is repeated as long as refuses returns true. Otherwise it is given once.
	refuses func(*run, conversation) bool
}

// works gives the scripted model's answer.
var works = answer{give: func(x *exchange) { x.send(x.server.task.model(x.talk)) }}

// ends gives a final answer from the model with the given text.
func ends(text string, f finish) answer {
	return answer{give: func(x *exchange) {
		r := reply{text: text, finish: f}
		r.count(x.talk)
		x.send(r)
	}}
}

// callsUnknown makes the model call a tool that does not exist.
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

// repeats makes the model call its first tool repeatedly.
func repeats() answer {
	return answer{give: func(x *exchange) {
		talk := x.talk
		talk.results = 0
		x.send(x.server.task.model(talk))
	}}
}

// fails answers with an error from the provider.
func fails(p perProvider) answer {
	return answer{give: func(x *exchange) {
		e := x.failure(p)
		x.note(Served{Status: e.status})
		fail(x.w, e, nil)
	}}
}

// tooLong refuses a request, and all later requests that are not shorter.
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

// page answers with a page from a proxy, gateway or portal in front of the provider.
func page(status int, contentType, body string, header ...string) answer {
	h := headers(append([]string{"Content-Type", contentType}, header...))
	return answer{give: func(x *exchange) { fail(x.w, wireError{status: status, body: body}, h) }}
}

// later delays an answer.
func later(wait time.Duration, a answer) answer {
	return answer{give: func(x *exchange) {
		if x.wait(wait) {
			a.give(x)
		}
	}}
}

// never is an answer that never comes; the request stays open.
func never() answer {
	return answer{give: func(x *exchange) { x.wait(forever) }}
}

// forever is longer than any client waits.
const forever = 24 * time.Hour

// begins sends the beginning of the model's answer and then calls then. If the client did not ask for a stream, it gets
// the beginning of a document.
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

// cut closes the connection in the middle of an answer.
func cut(*exchange) { panic(http.ErrAbortHandler) }

// stall keeps the connection open without sending anything.
func stall(x *exchange) { x.wait(forever) }

// garbage continues a stream with half a JSON document.
func garbage(x *exchange) {
	_, _ = io.WriteString(x.w, "data: {\"id\":\"chatcmpl-standin\",\"choices\":[{\"delta\":{\"cont\n\n")
	x.flush()
}

// errs begins a stream and continues with an error event. If the client did not ask for a stream, it answers with the
// error.
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

// hangsUp closes the connection before answering. If reset is set, the client gets a TCP reset.
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

// redirects sends the client to another case.
func redirects(status int, name string) answer {
	return answer{give: func(x *exchange) {
		_, rest := caseOf(x.r.URL.Path)
		_, label, _ := strings.Cut(strings.Split(strings.TrimPrefix(x.r.URL.Path, "/case/"), "/")[0], "@")
		x.w.Header().Set("Location", "/case/"+name+"@"+label+rest)
		x.w.WriteHeader(status)
	}}
}

// mislabelled sends the model's answer with the wrong content type.
func mislabelled(contentType string) answer {
	return answer{give: func(x *exchange) {
		x.w = &labelled{x.w, contentType}
		works.give(x)
	}}
}

// labelled replaces the content type just before the header is written.
type labelled struct {
	http.ResponseWriter
	as string
}

func (l *labelled) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l *labelled) WriteHeader(status int) {
	l.Header().Set("Content-Type", l.as)
	l.ResponseWriter.WriteHeader(status)
}

// send sends the model's answer, as a stream or in one piece.
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

// stream sends frames. For a Gemini request without alt=sse, it sends them as the elements of one JSON array.
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

// wait waits for d and reports whether the client is still connected.
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

// headers builds a header from alternating names and values.
func headers(list []string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(list); i += 2 {
		h.Set(list[i], list[i+1])
	}
	return h
}
