package agent

import (
	"math"
	"strings"
)

// copilot reads the output of copilot-cli 1.0.
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
		r.usage(Usage{Tokens: d.sum("inputTokens", "outputTokens")}, false) // input tokens include cached ones
	case "tool.execution_start":
		r.step(d.text("toolName"), d.at("arguments").argument())
	case "tool.execution_complete":
		if code := d.at("error").text("code"); code == "denied" || code == "rejected" {
			r.denial(d.at("error").text("message"))
		}
	case "permission.completed":
		if kind := d.at("result").text("kind"); strings.HasPrefix(kind, "denied") {
			r.denial(kind)
		}
	case "model.call_failure":
		copilotRetry(r, o)
	case "assistant.turn_retry":
		r.step("trying again", "after "+d.text("reason"))
	case "session.error":
		r.state.failed = true
		r.failure(o.failure())
	case "result":
		calls := math.Ceil(o.at("usage").number("premiumRequests"))
		r.usage(Usage{PaidCalls: int64(min(max(calls, 0), float64(maxCount)))}, false)
		r.result(o["exitCode"] == 0.0 && !r.state.failed, r.state.text)
	}
}

// copilotRetry reads one failed call, which copilot may retry. The text contains the provider's error as JSON.
func copilotRetry(r *Reader, o object) {
	f := o.failure()
	if inner, ok := parse([]byte(f.Message)); ok {
		f.Message = inner.texts("message", "code", "type")
	}
	f.Retryable = true
	if f = r.failure(f); IsLimitStatus(f.Status) {
		r.emit(RateLimit{Status: f.Status, RetryAfter: f.RetryAfter})
	}
}
