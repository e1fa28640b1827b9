package agent

import "cmp"

// cline reads the output of cline 3.0, which wraps each agent event in another object.
func cline(r *Reader, o object) {
	switch o.text("type") {
	case "agent_event":
		clineEvent(r, o.at("event"))
	case "error":
		clineError(r, o)
	case "run_result":
		r.usage(clineUsage(o.at("usage")), true)
		ok := o.text("finishReason") == "completed"
		if !ok && !r.state.failed {
			r.failure(Failure{Message: o.texts("text", "finishReason")})
		}
		r.result(ok, o.text("text"))
	}
}

func clineEvent(r *Reader, e object) {
	switch e.text("type") {
	case "error":
		clineError(r, e)
	case "usage":
		r.usage(clineUsage(e), false)
	case "content_start":
		if name := e.text("toolName"); name != "" {
			r.step(name, e.at("input").argument())
		}
	case "notice":
		r.step(e.text("message"), "")
	}
}

func clineError(r *Reader, e object) {
	f := e.failure()
	f.Status = cmp.Or(f.Status, statusIn(f.Message), errorWords[e.text("errorClass")])
	r.state.failed = !e.isTrue("recoverable")
	if r.state.failed {
		r.failure(f)
	} else {
		r.retry(f, retryNote(f.Status, 0, 0), 0)
	}
}

func clineUsage(u object) Usage {
	return Usage{
		Tokens:  u.sum("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"),
		CostUSD: cmp.Or(u.number("totalCost"), u.number("cost")),
	}
}
