package agent

import "cmp"

// pi reads the output of pi-coding-agent 0.73, which always exits with code 0.
func pi(r *Reader, o object) {
	switch o.text("type") {
	case "message_end":
		if m := o.at("message"); m.text("role") == "assistant" {
			piMessage(r, m)
		}
	case "tool_execution_start":
		r.step(o.text("toolName"), o.at("args").argument())
	case "auto_retry_start":
		f := Failure{Message: o.text("errorMessage")}
		wait := providerWait(waitOf(o.number("delayMs"), 0.001))
		r.retry(f, retryNote(statusIn(f.Message), o.count("attempt"), o.count("maxAttempts")), wait)
	case "auto_retry_end":
		if message := o.text("finalError"); message != "" && o["success"] == false {
			r.state.failed = true
			r.failure(Failure{Message: message})
		}
	case "compaction_start":
		r.step("compacting the context", o.text("reason"))
	case "agent_end":
		r.result(!r.state.failed, r.state.text)
	}
}

func piMessage(r *Reader, m object) {
	r.state.text = ""
	for _, c := range m.list("content") {
		if c.text("type") == "text" {
			r.state.append(c.text("text"))
		}
	}
	u := m.at("usage")
	r.usage(Usage{Tokens: u.sum("input", "output", "cacheRead", "cacheWrite"), CostUSD: u.at("cost").number("total")},
		false)
	stop, message := m.text("stopReason"), m.text("errorMessage")
	if r.state.failed = stop == "error" || stop == "aborted" || message != ""; r.state.failed {
		r.failure(Failure{Message: cmp.Or(message, "the turn ended with "+stop)})
	}
}
