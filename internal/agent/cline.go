package agent

// cline reads cline 3.0: what its agent does is in events inside of events.
func cline(r *Reader, o object) {
	switch o.text("type") {
	case "agent_event":
		clineEvent(r, o.at("event"))
	case "error":
		clineError(r, o)
	case "run_result":
		r.use(clineUsage(o.at("usage")), true)
		ok := o.text("finishReason") == "completed"
		if !ok && !r.state.failed {
			message := o.texts("text", "finishReason")
			r.failed(Failed{Message: message, Status: statusIn(message), RetryAfter: waitIn(message)})
		}
		r.final(ok, o.text("text"))
	}
}

func clineEvent(r *Reader, e object) {
	switch e.text("type") {
	case "error":
		clineError(r, e)
	case "usage":
		r.use(clineUsage(e), false)
	case "content_start":
		if name := e.text("toolName"); name != "" {
			r.step(name, call(e.at("input")))
		}
	case "notice":
		r.step(e.text("message"), "")
	}
}

// clineClasses are its words for errors, with the status that they stand for.
var clineClasses = map[string]int{"auth": 401, "rate_limit": 429, "quota": 402, "overloaded": 529, "server": 500}

func clineError(r *Reader, e object) {
	message := e.texts("message", "error")
	inner := e.at("error")
	if message == "" {
		message = inner.texts("message", "name")
	}
	status := e.status("statusCode", "status")
	if status == 0 {
		status = inner.status("statusCode", "status")
	}
	if status == 0 {
		status = statusIn(message)
	}
	if status == 0 {
		status = clineClasses[e.text("errorClass")]
	}
	again := e.yes("recoverable")
	r.state.failed = !again
	r.failed(Failed{Message: message, Status: status, Retryable: again, RetryAfter: waitIn(message)})
	if again {
		r.limited(status, tries(status, 0, 0), RateLimited{RetryAfter: waitIn(message)})
	}
}

func clineUsage(u object) Usage {
	usage := Usage{
		Tokens:  u.count("inputTokens") + u.count("outputTokens") + u.count("cacheReadTokens") + u.count("cacheWriteTokens"),
		CostUSD: u.number("totalCost"),
	}
	if usage.CostUSD == 0 {
		usage.CostUSD = u.number("cost")
	}
	return usage
}
