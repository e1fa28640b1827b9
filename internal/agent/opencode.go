package agent

import (
	"cmp"
	"strings"
)

// opencode reads the output of opencode 1.18. An error event contains the response's status, headers and body, and
// comes after the CLI's own retries.
func opencode(r *Reader, o object) {
	part := o.at("part")
	switch o.text("type") {
	case "text":
		r.state.text = part.text("text")
	case "tool_use":
		state := part.at("state")
		what := cmp.Or(state.at("input").argument(), state.text("title"))
		r.step(part.text("tool"), what)
		if state.text("status") == "error" && strings.Contains(state.text("error"), "permission") {
			r.denial(part.text("tool") + " " + what)
		}
	case "step_finish":
		opencodeStep(r, part)
	case "error":
		r.failure(o.failure())
		r.result(false, "")
	}
}

// opencodeEnds maps the reason why the last step ended to an error message, or to "" for a success.
var opencodeEnds = map[string]string{
	"stop": "", "length": "the model's output limit was reached",
	"content-filter": "the answer was blocked by a content filter",
	"error":          "the model's answer ended with an error",
}

func opencodeStep(r *Reader, part object) {
	t := part.at("tokens")
	tokens := t.sum("input", "output", "reasoning") + t.at("cache").sum("read", "write")
	r.usage(Usage{Tokens: tokens, CostUSD: part.number("cost")}, false)
	why, ends := opencodeEnds[part.text("reason")]
	if !ends {
		return
	}
	if why != "" {
		r.failure(Failure{Message: why})
	}
	r.result(why == "", r.state.text)
}
