package agent

import (
	"fmt"
	"strings"
)

// claude reads claude-code 2.1 and qwen-code 0.15, which took the format over.
func claude(r *Reader, o object) {
	switch o.text("type") {
	case "system":
		claudeSystem(r, o)
	case "assistant":
		claudeMessage(r, o)
	case "rate_limit_event":
		if o.at("rate_limit_info").text("status") == "rejected" {
			r.emit(RateLimited{Status: 429})
		}
	case "result":
		claudeResult(r, o)
	}
}

// claudeErrors are the words for errors that messages and retries carry, with the status that they stand for.
var claudeErrors = map[string]int{
	"rate_limit": 429, "overloaded": 529, "authentication_failed": 401, "billing_error": 402, "server_error": 500,
}

func claudeSystem(r *Reader, o object) {
	switch o.text("subtype") {
	case "init":
		r.step("session with", o.text("model"))
	case "api_retry":
		status := o.status("error_status")
		if status == 0 {
			status = claudeErrors[o.text("error")]
		}
		r.failed(Failed{Message: strings.TrimSpace(fmt.Sprintf("%s %s", number(status), o.text("error"))), Status: status, Retryable: true})
		wait := waitOf(o.number("retry_delay_ms"), 0.001)
		r.limited(status, tries(status, o.count("attempt"), o.count("max_retries")), RateLimited{RetryAfter: told(wait)})
	}
}

func claudeMessage(r *Reader, o object) {
	m := o.at("message")
	for _, c := range m.list("content") {
		switch c.text("type") {
		case "tool_use":
			r.step(c.text("name"), call(c.at("input")))
		case "text":
			r.state.text = c.text("text")
		}
	}
	if id := m.text("id"); id != "" && id != r.state.id {
		r.state.id = id // a message comes once per part of it, each time with its usage
		r.use(Usage{Tokens: claudeTokens(m.at("usage"))}, false)
	}
	if kind := o.text("error"); kind != "" {
		r.failed(Failed{Message: r.state.text, Status: claudeErrors[kind]})
	}
}

func claudeTokens(u object) int64 {
	return u.count("input_tokens") + u.count("output_tokens") + u.count("cache_creation_input_tokens") + u.count("cache_read_input_tokens")
}

// claudeResult reads the last word. Its subtype stays "success" when the API failed; qwen also says is_error false then.
func claudeResult(r *Reader, o object) {
	r.use(Usage{Tokens: claudeTokens(o.at("usage")), CostUSD: o.number("total_cost_usd")}, true)
	for _, d := range o.list("permission_denials") {
		r.emit(Denied{line(d.text("tool_name")+" "+call(d.at("tool_input")), maxStep)})
	}
	said := o.text("result")
	if o.yes("is_error") || strings.HasPrefix(said, "[API Error:") || strings.HasPrefix(o.text("subtype"), "error") {
		message := said
		if message == "" {
			message = claudeErrorText(o)
		}
		status := o.status("api_error_status")
		if status == 0 {
			status = statusIn(message)
		}
		r.failed(Failed{Message: message, Status: status, RetryAfter: waitIn(message)})
		r.final(false, said)
		return
	}
	r.final(true, said)
}

// claudeErrorText is for an error without a result: its list of errors, or an object, or the kind of the end.
func claudeErrorText(o object) string {
	if values, _ := o["errors"].([]any); len(values) > 0 {
		if s, ok := values[0].(string); ok {
			return s
		}
	}
	if s := o.at("error").text("message"); s != "" {
		return s
	}
	return o.texts("terminal_reason", "subtype")
}

// tries says which try it is, in words for a step.
func tries(status int, attempt, most int64) string {
	switch {
	case status != 0 && most > 0:
		return fmt.Sprintf("after %d (%d of %d)", status, attempt, most)
	case status != 0:
		return fmt.Sprintf("after %d", status)
	case most > 0:
		return fmt.Sprintf("(%d of %d)", attempt, most)
	}
	return ""
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
