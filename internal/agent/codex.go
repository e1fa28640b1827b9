package agent

import (
	"cmp"
	"regexp"
	"strings"
)

// codex reads the output of codex-cli 0.169.
func codex(r *Reader, o object) {
	switch o.text("type") {
	case "thread.started":
		r.step("session started", "")
	case "item.started", "item.completed":
		codexItem(r, o.at("item"), o.text("type") == "item.completed")
	case "error":
		codexError(r, o.text("message"))
	case "turn.failed":
		r.failure(o.failure())
		r.result(false, "")
	case "turn.completed":
		// Input tokens include cached tokens, and output tokens include reasoning.
		r.usage(Usage{Tokens: o.at("usage").sum("input_tokens", "output_tokens")}, false)
		r.result(true, r.state.text)
	}
}

// codexItem reads one item of a turn. An item of type error does not end the turn.
func codexItem(r *Reader, item object, completed bool) {
	switch item.text("type") {
	case "agent_message":
		r.state.text = item.text("text")
	case "command_execution":
		switch {
		case item.text("status") == "declined":
			r.denial(item.argument())
		case !completed:
			r.step("running", item.argument())
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

// reconnecting matches the line that codex prints before a retry, with an optional reason in parentheses. If it has no
// reason, codex is waiting for the network and never gives up.
var reconnecting = regexp.MustCompile(`^Reconnecting\.\.\.\s*(\S*)\s*(?:\((.*)\))?`)

func codexError(r *Reader, message string) {
	f, note := reconnect(Failure{Message: message})
	if f.Retryable {
		r.retry(f, note, 0)
	} else {
		r.failure(f)
	}
}

// reconnect recognises an error that codex retries, marks it as retryable, and returns a note with the retry number.
func reconnect(f Failure) (_ Failure, note string) {
	if m := reconnecting.FindStringSubmatch(f.Message); m != nil {
		f.Message, f.Retryable, note = cmp.Or(m[2], f.Message), true, m[1]
	}
	return f, note
}

// codexWords reads codex's log, because commands refused by the sandbox appear only there.
func codexWords(r *Reader, words string) {
	if strings.Contains(words, "codex_core::tools") && strings.Contains(words, "ejected") {
		_, why, found := strings.Cut(words, "error=")
		if !found {
			why = words
		}
		r.denial(why)
	}
}
