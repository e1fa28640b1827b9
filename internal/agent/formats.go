package agent

import "slices"

// format describes the output of one family of CLIs.
type format struct {
	name   string
	about  string
	object func(*Reader, object)
	words  func(*Reader, string) // reads lines that are not JSON; they are skipped if it is nil
	end    func(*Reader)         // called at the end of the stream, may be nil
}

// formats lists the known formats. Field names are from the versions in agents.toml.
var formats = []format{
	{"claude", "stream-json of claude-code and qwen-code, or the same as one list", claude, nil, nil},
	{"cline", "cline --json", cline, nil, nil},
	{"codex", "codex exec --json", codex, codexWords, nil},
	{"continue", "cn --format json: one object at the end", cn, nil, nil},
	{"copilot", "copilot --output-format json", copilot, nil, nil},
	{"gemini", "gemini's stream-json, and the object that its json mode ends with", gemini, geminiWords, nil},
	{"opencode", "opencode run --format json", opencode, nil, nil},
	{"pi", "pi --mode json", pi, nil, nil},
	{"retake", "lines that your wrapper prints", wrapper, nil, nil},
	{
		"text", "plain text: the whole output is the answer",
		func(r *Reader, _ object) { r.state.text = "{…}" },
		func(r *Reader, words string) { r.state.append(words + "\n") },
		func(r *Reader) { r.result(true, r.state.text) },
	},
}

// Formats returns the names of all formats.
func Formats() []string {
	names := make([]string, 0, len(formats))
	for _, f := range formats {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return names
}

// append adds to the answer, up to maxAnswer bytes.
func (s *state) append(text string) {
	if room := maxAnswer - len(s.text); room > 0 {
		s.text += text[:min(len(text), room)]
	}
}

// cn reads continue-cli 1.5, which prints one object at the end. If the answer is JSON, it prints only the answer.
func cn(r *Reader, o object) {
	switch o.text("status") {
	case "error":
		r.failure(o.failure())
		r.result(false, "")
	case "success":
		r.result(true, o.text("response"))
	default:
		r.result(true, "an object")
	}
}

// wrapper reads the lines of a user's own wrapper; docs/specs/agents.md has them. Unknown types are passed over.
func wrapper(r *Reader, o object) {
	wait := waitOf(o.number("retry_after_seconds"), 1)
	switch o.text("type") {
	case "progress":
		r.step(o.text("step"), "")
	case "usage":
		r.usage(Usage{
			Tokens: o.count("tokens"), CostUSD: o.number("cost_usd"), PaidCalls: o.count("paid_calls"),
			CacheHits: o.count("cache_hits"),
		}, o.isTrue("total"))
	case "rate_limited":
		status := o.status("status")
		if status == 0 {
			status = 429
		}
		r.emit(RateLimit{Status: status, RetryAfter: wait, Headers: limitHeaders(o.at("headers"))})
	case "error":
		f := o.failure()
		f.Retryable, f.RetryAfter = o.isTrue("retryable"), wait
		r.failure(f)
	case "denied":
		r.denial(o.text("what"))
	case "final":
		r.result(o.isTrue("ok"), o.text("text"))
	}
}
