package agent

import "slices"

// format describes the output of one family of CLIs.
type format struct {
	name   string
	about  string
	object func(*Reader, object)
	words  func(*Reader, string) // reads lines that are not JSON; nil skips them
	end    func(*Reader)         // called at the end of the stream; may be nil

	ends     []string // the allowed values of a profile's ends_with
	begins   []string // events that begin another turn after the last event
	trailing []string // events that may follow the last event, although the agent has finished
}

// formats lists the known formats. Field names are from the versions in agents.toml.
var formats = []format{
	{
		name: "claude", about: "stream-json from claude-code and qwen-code, as lines or one list", object: claude,
		ends: []string{"result"}, begins: []string{"assistant"}, trailing: []string{"rate_limit_event"},
	},
	{
		name: "cline", about: "cline --json", object: cline,
		ends: []string{"run_result"}, trailing: []string{"run_aborted"},
	},
	{
		name: "codex", about: "codex exec --json", object: codex, words: codexWords,
		ends: []string{"turn.completed"}, begins: []string{"turn.started"},
	},
	{
		name: "continue", about: "cn --format json, with one object at the end", object: cn,
		ends: []string{"response"},
	},
	{
		name: "copilot", about: "copilot --output-format json", object: copilot,
		ends: []string{"result"},
	},
	{
		name: "gemini", about: "gemini's stream-json, and the final object of its json mode", object: gemini,
		words: geminiWords, ends: []string{"result"},
	},
	{
		name: "opencode", about: "opencode run --format json", object: opencode,
		ends: []string{"step_finish"}, begins: []string{"step_start"},
	},
	{
		name: "pi", about: "pi --mode json", object: pi,
		ends: []string{"agent_end"}, begins: []string{"agent_start"},
	},
	{
		name: "retake", about: "lines that your wrapper prints", object: wrapper,
		ends: []string{"final"},
	},
	{
		name: "text", about: "plain text, where the whole output is the answer",
		object: func(r *Reader, _ object) { r.state.text = "{…}" },
		words:  func(r *Reader, words string) { r.state.append(words + "\n") },
		end:    func(r *Reader) { r.result(true, r.state.text) },
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

// append adds text to the answer, up to maxAnswer bytes.
func (s *state) append(text string) {
	if room := maxAnswer - len(s.text); room > 0 {
		s.text += text[:min(len(text), room)]
	}
}

// cn reads the output of continue-cli 1.5, which is one object at the end. If the answer is JSON, cn prints only the
// answer.
func cn(r *Reader, o object) {
	switch o.text("status") {
	case "error":
		r.failure(o.failure())
		r.result(false, "")
	case "success":
		r.result(true, o.text("response"))
	default:
		r.answer(true, "an object")
	}
}

// wrapper reads the lines of a user's wrapper, as specified in docs/specs/agents.md. It skips unknown types.
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
