package agent

// own reads the lines that a wrapper of your own prints; docs/specs/agents.md has them. Unknown types are passed over.
func own(r *Reader, o object) {
	wait := waitOf(o.number("retry_after_seconds"), 1)
	switch o.text("type") {
	case "progress":
		r.step(o.text("step"), "")
	case "usage":
		r.use(Usage{
			Tokens: o.count("tokens"), CostUSD: o.number("cost_usd"), PaidCalls: o.count("paid_calls"), CacheHits: o.count("cache_hits"),
		}, o.yes("total"))
	case "rate_limited":
		status := o.status("status")
		if status == 0 {
			status = 429
		}
		r.emit(RateLimited{Status: status, RetryAfter: wait, Headers: headersOf(o.at("headers"))})
	case "error":
		r.failed(Failed{
			Message: o.text("message"), Status: o.status("status"), Retryable: o.yes("retryable"), RetryAfter: wait, Headers: headersOf(o.at("headers")),
		})
	case "denied":
		r.emit(Denied{line(o.text("what"), maxStep)})
	case "final":
		r.final(o.yes("ok"), o.text("text"))
	}
}
