package agent

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// leadingStatus is a status where CLIs put it when they have no field for it: at the beginning of their message.
var leadingStatus = regexp.MustCompile(`^(?:\[?API Error: )?(?:unexpected status |exceeded retry limit, last status: )?\(?([45][0-9]{2})\b`)

// statusIn reads a status that a message begins with; 0: none.
func statusIn(message string) int {
	m := leadingStatus.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// statedWait is how long the provider says to wait, in the words that CLIs pass on.
var statedWait = regexp.MustCompile(`(?i)\b(?:retry (?:after|in)|try again in) ([0-9]{1,6}(?:\.[0-9]{1,6})?) ?(ms|s|m|seconds?|minutes?)\b`)

var waitUnits = map[string]float64{"ms": 0.001, "s": 1, "second": 1, "seconds": 1, "m": 60, "minute": 60, "minutes": 60}

// waitIn reads a stated wait; 0: none.
func waitIn(message string) time.Duration {
	m := statedWait.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	return waitOf(n, waitUnits[strings.ToLower(m[2])])
}

// callee are the names under which CLIs put what a tool is called with; the first that is there is the most telling.
var callee = []string{
	"file_path", "filePath", "absolute_path", "path", "command", "cmd", "pattern", "query", "url", "title", "description", "prompt",
}

// call says in a few words what a tool is called with.
func call(input object) string {
	s := strings.TrimSpace(input.texts(callee...))
	first, _, _ := strings.Cut(s, "\n")
	return first
}

// headersOf takes text values over, with lower-case names: only those that say something about limits, so that nothing
// else of a provider's answer travels.
func headersOf(o object) map[string]string {
	var out map[string]string
	for _, name := range limitHeaders {
		v := o.texts(name, strings.ToUpper(name), headerCase(name))
		if v == "" || len(v) > maxStep {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = v
	}
	return out
}

// limitHeaders are the headers of model providers that tell of limits, and the id that their support asks for.
var limitHeaders = []string{
	"retry-after", "retry-after-ms", "request-id", "x-request-id", "x-should-retry",
	"x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-limit",
	"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests",
	"x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens",
	"anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset",
	"anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset",
	"anthropic-ratelimit-input-tokens-limit", "anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset",
	"anthropic-ratelimit-output-tokens-limit", "anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset",
	"anthropic-ratelimit-unified-status", "anthropic-ratelimit-unified-reset",
	"anthropic-ratelimit-unified-5h-reset", "anthropic-ratelimit-unified-7d-reset",
}

// headerCase writes Retry-After for retry-after.
func headerCase(name string) string {
	parts := strings.Split(name, "-")
	for i, p := range parts {
		if p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "-")
}

// seconds reads a header's number; a date is left to who has a clock.
func seconds(s string) float64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || n != n {
		return 0
	}
	return n
}
