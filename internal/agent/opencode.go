package agent

import "strings"

// opencode reads opencode 1.18.
func opencode(r *Reader, o object) {
	part := o.at("part")
	switch o.text("type") {
	case "text":
		r.state.text = part.text("text")
	case "tool_use":
		state := part.at("state")
		what := call(state.at("input"))
		if what == "" {
			what = state.text("title")
		}
		r.step(part.text("tool"), what)
		if why := state.text("error"); state.text("status") == "error" && strings.Contains(why, "permission") {
			r.emit(Denied{line(part.text("tool")+" "+what, maxStep)})
		}
	case "step_finish":
		opencodeStep(r, part)
	case "error":
		opencodeError(r, o.at("error"))
	}
}

// opencodeEnds are the reasons with which a step is the last one, and what they mean if that is no success.
var opencodeEnds = map[string]string{
	"stop": "", "length": "the model's output limit was reached", "content-filter": "the answer was held back by a content filter",
	"error": "the model's answer ended with an error",
}

func opencodeStep(r *Reader, part object) {
	t := part.at("tokens")
	tokens := t.count("input") + t.count("output") + t.count("reasoning") + t.at("cache").count("read") + t.at("cache").count("write")
	r.use(Usage{Tokens: tokens, CostUSD: part.number("cost")}, false)
	why, ends := opencodeEnds[part.text("reason")]
	if !ends {
		return
	}
	if why != "" {
		r.failed(Failed{Message: why})
	}
	r.final(why == "", r.state.text)
}

// opencodeError reads the best of all errors: status, headers and body. It comes after the CLI's own tries.
func opencodeError(r *Reader, e object) {
	d := e.at("data")
	message := d.texts("message")
	if message == "" {
		message = e.texts("message", "name")
	}
	f := Failed{Message: message, Status: d.status("statusCode"), Headers: headersOf(d.at("responseHeaders"))}
	if f.RetryAfter = waitOf(seconds(f.Headers["retry-after"]), 1); f.RetryAfter == 0 {
		f.RetryAfter = waitIn(message)
	}
	r.failed(f)
	r.final(false, "")
}
