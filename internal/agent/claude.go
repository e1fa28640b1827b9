package agent

import (
	"cmp"
	"fmt"
	"strings"
)

// claude reads the output of claude-code 2.1, and of qwen-code 0.15, which adopted the format.
func claude(r *Reader, o object) {
	switch o.text("type") {
	case "system":
		claudeSystem(r, o)
	case "assistant":
		claudeMessage(r, o)
	case "rate_limit_event":
		if o.at("rate_limit_info").text("status") == "rejected" {
			r.emit(RateLimit{Status: 429})
		}
	case "result":
		claudeResult(r, o)
	}
}

func claudeSystem(r *Reader, o object) {
	switch o.text("subtype") {
	case "init":
		r.step("session with", o.text("model"))
	case "api_retry":
		kind := o.text("error")
		f := Failure{Message: kind, Status: cmp.Or(o.status("error_status"), errorWords[kind])}
		if f.Status != 0 {
			f.Message = strings.TrimSpace(fmt.Sprint(f.Status, " ", kind))
		}
		wait := providerWait(waitOf(o.number("retry_delay_ms"), 0.001))
		r.retry(f, retryNote(f.Status, o.count("attempt"), o.count("max_retries")), wait)
	case "task_started", "task_notification":
		claudeTask(r, o.text("task_id"), o.text("subtype") == "task_started")
	}
}

// claudeTask tracks background tasks. After reporting its result, claude waits for them and then takes another turn.
func claudeTask(r *Reader, id string, begins bool) {
	switch {
	case begins && len(r.state.tasks) < maxTasks:
		if r.state.tasks == nil {
			r.state.tasks = map[string]bool{}
		}
		r.state.tasks[id] = true
	case !begins:
		delete(r.state.tasks, id)
		r.atEnd = r.state.ended && len(r.state.tasks) == 0
	}
}

// maxTasks limits the number of tracked background tasks.
const maxTasks = 1000

func claudeMessage(r *Reader, o object) {
	m := o.at("message")
	for _, c := range m.list("content") {
		switch c.text("type") {
		case "tool_use":
			r.step(c.text("name"), c.at("input").argument())
		case "text":
			r.state.text = c.text("text")
		}
	}
	if id := m.text("id"); id != "" && id != r.state.id {
		r.state.id = id // every part repeats the usage of the whole message
		r.usage(Usage{Tokens: claudeTokens(m.at("usage"))}, false)
	}
	if kind := o.text("error"); kind != "" {
		r.failure(Failure{Message: r.state.text, Status: errorWords[kind]})
	}
}

func claudeTokens(u object) int64 {
	return u.sum("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
}

// claudeResult reads the last event. Its subtype is "success" even if the API failed. In that case, qwen also reports
// is_error false.
func claudeResult(r *Reader, o object) {
	r.usage(Usage{Tokens: claudeTokens(o.at("usage")), CostUSD: o.number("total_cost_usd")}, true)
	for _, d := range o.list("permission_denials") {
		r.denial(d.text("tool_name") + " " + d.at("tool_input").argument())
	}
	ok := !o.statesError(1) && !strings.HasPrefix(o.text("subtype"), "error")
	if !ok {
		r.failure(o.failure())
	}
	r.result(ok, o.text("result"))
}

// retryNote describes a retry as a step, with the status that caused it and the attempt number.
func retryNote(status int, attempt, most int64) (note string) {
	if status != 0 {
		note = fmt.Sprint("after ", status)
	}
	if most > 0 {
		note += fmt.Sprintf(" (%d of %d)", attempt, most)
	}
	return strings.TrimSpace(note)
}
