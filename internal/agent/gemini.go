package agent

import (
	"regexp"
	"strconv"
	"strings"
)

// gemini reads gemini-cli 0.61: events on stdout, and on stderr the object that ends its json mode.
func gemini(r *Reader, o object) {
	switch o.text("type") {
	case "init":
		r.step("session with", o.text("model"))
	case "message":
		if o.text("role") == "assistant" {
			r.state.add(o.text("content"))
		}
	case "tool_use":
		r.state.text = "" // the answer is what follows the last tool
		r.step(o.text("tool_name"), call(o.at("parameters")))
	case "tool_result":
		if kind := o.at("error").text("type"); kind == "policy_violation" || kind == "permission_denied" {
			r.emit(Denied{line(o.at("error").text("message"), maxStep)})
		}
	case "error":
		if o.text("severity") != "warning" {
			r.failed(Failed{Message: o.text("message"), Status: statusIn(o.text("message"))})
		}
	case "result":
		r.use(Usage{Tokens: o.at("stats").count("total_tokens")}, true)
		geminiEnd(r, o, o.text("status") == "success", r.state.text)
	case "":
		_, answered := o["response"]
		if e := o.at("error"); answered || e != nil {
			geminiEnd(r, o, e == nil, o.text("response"))
		}
	}
}

func geminiEnd(r *Reader, o object, ok bool, text string) {
	if e := o.at("error"); e != nil || !ok {
		ok = false
		message := e.text("message")
		status := e.status("code", "status")
		if status == 0 {
			status = statusIn(message)
		}
		r.failed(Failed{Message: message, Status: status, RetryAfter: waitIn(message)})
	}
	r.final(ok, text)
}

var geminiAttempt = regexp.MustCompile(`^Attempt ([0-9]+) failed(?: with status ([45][0-9]{2}))?[.:]? ?(.*)$`)

// geminiWords reads what it says of its tries, and errors in the stream, which leave exit code 0.
func geminiWords(r *Reader, words string) {
	if m := geminiAttempt.FindStringSubmatch(words); m != nil {
		status, _ := strconv.Atoi(m[2])
		r.failed(Failed{Message: m[3], Status: status, Retryable: true})
		r.limited(status, tries(status, 0, 0), RateLimited{})
		return
	}
	switch {
	case strings.HasPrefix(words, "[ERROR] "):
		r.failed(Failed{Message: strings.TrimPrefix(words, "[ERROR] ")})
	case strings.HasPrefix(words, "Suggested retry after "):
		r.emit(RateLimited{Status: 429, RetryAfter: waitIn(words)})
	}
}
