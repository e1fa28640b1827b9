package agent

import (
	"math"
	"strings"
)

// copilot reads copilot-cli 1.0.
func copilot(r *Reader, o object) {
	d := o.at("data")
	switch o.text("type") {
	case "session.start":
		r.step("session with", d.text("selectedModel"))
	case "assistant.message":
		if text := d.text("content"); text != "" {
			r.state.text, r.state.failed = text, false
		}
	case "assistant.usage":
		r.use(Usage{Tokens: d.count("inputTokens") + d.count("outputTokens")}, false) // cached ones are among the input
	case "tool.execution_start":
		r.step(d.text("toolName"), call(d.at("arguments")))
	case "tool.execution_complete":
		if code := d.at("error").text("code"); code == "denied" || code == "rejected" {
			r.emit(Denied{line(d.at("error").text("message"), maxStep)})
		}
	case "permission.completed":
		if kind := d.at("result").text("kind"); strings.HasPrefix(kind, "denied") {
			r.emit(Denied{line(kind, maxStep)})
		}
	case "model.call_failure":
		copilotRetry(r, d)
	case "assistant.turn_retry":
		r.step("trying again", "after "+d.text("reason"))
	case "session.error":
		r.state.failed = true
		message := d.text("message")
		r.failed(Failed{Message: message, Status: d.status("statusCode"), RetryAfter: waitIn(message)})
	case "result":
		r.use(Usage{PaidCalls: int64(min(max(math.Ceil(o.at("usage").number("premiumRequests")), 0), float64(maxCount)))}, false)
		r.final(o["exitCode"] == 0.0 && !r.state.failed, r.state.text)
	}
}

// copilotRetry reads one failed call; whether another follows is not known yet. The provider's error is JSON in a text.
func copilotRetry(r *Reader, d object) {
	message := d.text("errorMessage")
	if inner, ok := parse([]byte(message)); ok {
		message = inner.texts("message", "code", "type")
	}
	status, wait := d.status("statusCode"), waitIn(message)
	r.failed(Failed{Message: message, Status: status, Retryable: true, RetryAfter: wait})
	if Limits(status) {
		r.emit(RateLimited{Status: status, RetryAfter: wait})
	}
}
