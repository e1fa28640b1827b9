package agent

import (
	"regexp"
	"strings"
)

// codex reads codex-cli 0.169.
func codex(r *Reader, o object) {
	switch o.text("type") {
	case "thread.started":
		r.step("session started", "")
	case "item.started", "item.completed":
		codexItem(r, o.at("item"), o.text("type") == "item.completed")
	case "error":
		codexError(r, o.text("message"))
	case "turn.failed":
		message := o.at("error").text("message")
		r.failed(Failed{Message: message, Status: statusIn(message), RetryAfter: waitIn(message)})
		r.final(false, "")
	case "turn.completed":
		u := o.at("usage") // cached tokens are among the input, those of reasoning among the output
		r.use(Usage{Tokens: u.count("input_tokens") + u.count("output_tokens")}, false)
		r.final(true, r.state.text)
	}
}

// codexItem reads one item of a turn. An item of type error is a remark, not the turn's end.
func codexItem(r *Reader, item object, completed bool) {
	switch item.text("type") {
	case "agent_message":
		r.state.text = item.text("text")
	case "command_execution":
		switch {
		case item.text("status") == "declined":
			r.emit(Denied{line(call(item), maxStep)})
		case !completed:
			r.step("running", call(item))
		}
	case "file_change":
		if changes := item.list("changes"); completed && len(changes) > 0 {
			r.step("editing", changes[0].text("path"))
		}
	case "mcp_tool_call":
		if !completed {
			r.step("calling", item.text("server")+"."+item.text("tool"))
		}
	case "web_search":
		r.step("searching", item.text("query"))
	}
}

// reconnecting is what codex says between two tries, with the reason in parentheses. Without one it waits for the network,
// for ever.
var reconnecting = regexp.MustCompile(`^Reconnecting\.\.\.\s*(\S*)\s*(?:\((.*)\))?`)

func codexError(r *Reader, message string) {
	m := reconnecting.FindStringSubmatch(message)
	if m == nil {
		r.failed(Failed{Message: message, Status: statusIn(message), RetryAfter: waitIn(message)})
		return
	}
	why := m[2]
	if why == "" {
		why = message
	}
	status := statusIn(why)
	r.failed(Failed{Message: why, Status: status, Retryable: true, RetryAfter: waitIn(why)})
	r.limited(status, m[1], RateLimited{RetryAfter: waitIn(why)})
}

// codexWords reads its log: a command that the sandbox refuses stands nowhere else.
func codexWords(r *Reader, words string) {
	if strings.Contains(words, "codex_core::tools") && strings.Contains(words, "ejected") {
		_, why, found := strings.Cut(words, "error=")
		if !found {
			why = words
		}
		r.emit(Denied{line(why, maxStep)})
	}
}
