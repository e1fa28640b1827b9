package agent

// pi reads pi-coding-agent 0.73, whose exit code is always 0.
func pi(r *Reader, o object) {
	switch o.text("type") {
	case "message_end":
		if m := o.at("message"); m.text("role") == "assistant" {
			piMessage(r, m)
		}
	case "tool_execution_start":
		r.step(o.text("toolName"), call(o.at("args")))
	case "auto_retry_start":
		message := o.text("errorMessage")
		status := statusIn(message)
		r.failed(Failed{Message: message, Status: status, Retryable: true, RetryAfter: waitIn(message)})
		wait := max(waitIn(message), told(waitOf(o.number("delayMs"), 0.001)))
		r.limited(status, tries(status, o.count("attempt"), o.count("maxAttempts")), RateLimited{RetryAfter: wait})
	case "auto_retry_end":
		if message := o.text("finalError"); message != "" && o.no("success") {
			r.state.failed = true
			r.failed(Failed{Message: message, Status: statusIn(message), RetryAfter: waitIn(message)})
		}
	case "compaction_start":
		r.step("compacting the context", o.text("reason"))
	case "agent_end":
		r.final(!r.state.failed, r.state.text)
	}
}

func piMessage(r *Reader, m object) {
	r.state.text = ""
	for _, c := range m.list("content") {
		if c.text("type") == "text" {
			r.state.add(c.text("text"))
		}
	}
	u := m.at("usage")
	tokens := u.count("input") + u.count("output") + u.count("cacheRead") + u.count("cacheWrite")
	r.use(Usage{Tokens: tokens, CostUSD: u.at("cost").number("total")}, false)
	stop, message := m.text("stopReason"), m.text("errorMessage")
	r.state.failed = stop == "error" || stop == "aborted" || message != ""
	if r.state.failed {
		if message == "" {
			message = "the turn ended with " + stop
		}
		r.failed(Failed{Message: message, Status: statusIn(message), RetryAfter: waitIn(message)})
	}
}
