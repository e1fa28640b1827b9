package agent

import (
	"regexp"
	"strconv"
	"strings"
)

// gemini reads the output of gemini-cli 0.61, which is events on stdout or, in json mode, one final object on stderr.
func gemini(r *Reader, o object) {
	switch o.text("type") {
	case "init":
		r.step("session with", o.text("model"))
	case "message":
		if o.text("role") == "assistant" {
			r.state.append(o.text("content"))
		}
	case "tool_use":
		r.state.text = "" // the text after the last tool call is the answer
		r.step(o.text("tool_name"), o.at("parameters").argument())
	case "tool_result":
		if kind := o.at("error").text("type"); kind == "policy_violation" || kind == "permission_denied" {
			r.denial(o.at("error").text("message"))
		}
	case "error":
		if o.text("severity") != "warning" {
			r.failure(Failure{Message: o.text("message")})
		}
	case "result":
		r.usage(Usage{Tokens: o.at("stats").count("total_tokens")}, true)
		geminiEnd(r, o, o.text("status") == "success", r.state.text)
		r.atEnd = true
	case "":
		if _, answered := o["response"]; answered || o.at("error") != nil {
			geminiEnd(r, o, true, o.text("response"))
		}
	}
}

func geminiEnd(r *Reader, o object, ok bool, text string) {
	if ok = ok && o.at("error") == nil; !ok {
		r.failure(o.failure())
	}
	r.answer(ok, text) // gemini prints such an error even if it then retries
}

var geminiAttempt = regexp.MustCompile(`^Attempt ([0-9]+) failed(?: with status ([45][0-9]{2}))?[.:]? ?(.*)$`)

// geminiWords reads gemini's messages about retries and errors. After an error in the stream, gemini exits with code 0.
func geminiWords(r *Reader, words string) {
	if m := geminiAttempt.FindStringSubmatch(words); m != nil {
		status, _ := strconv.Atoi(m[2])
		r.retry(Failure{Message: m[3], Status: status}, retryNote(status, 0, 0), 0)
		return
	}
	switch {
	case strings.HasPrefix(words, "[ERROR] "):
		r.failure(Failure{Message: strings.TrimPrefix(words, "[ERROR] ")})
	case strings.HasPrefix(words, "Suggested retry after "):
		r.emit(RateLimit{Status: 429, RetryAfter: waitIn(words)})
	}
}
