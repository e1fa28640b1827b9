package retryafter

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limit is the state of a resource's limit after one or more responses.
type Limit struct {
	Remaining *int64    `json:"remaining,omitempty"` // remaining requests under the scarcest limit, or nil
	ResetAt   time.Time `json:"reset_at,omitzero"`   // reset of the latest window; zero if unknown
	// wait stated in the last response: Retry-After, or the reset of an exhausted window
	RetryAfter time.Duration `json:"retry_after,omitzero"`
	// earliest time for the next request; zero if it follows from Remaining and ResetAt
	OpenAt time.Time `json:"open_at,omitzero"`
}

// ReadLimit parses the rate-limit headers of any provider, ignoring case: Retry-After (seconds or a date),
// retry-after-ms, headers whose names contain "ratelimit" or "rate-limit", and headers that state a used share (see
// readShares). A reset is a number of seconds, an epoch, a duration or a date. at is the time of the response. If it is
// zero, only relative values are used. ok is false if the headers do not state a limit.
func ReadLimit(headers map[string]string, at time.Time) (l Limit, ok bool) {
	if len(headers) == 0 {
		return l, false
	}
	var windows []limitWindow
	stated := time.Duration(0)
	exact := false
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		switch name := strings.ToLower(name); name {
		case "retry-after-ms", "x-ms-retry-after-ms":
			if d := statedWait(value, time.Millisecond, at); d > 0 {
				stated, exact = d, true
			}
		case "retry-after":
			if d := statedWait(value, time.Second, at); d > 0 && !exact {
				stated = d
			}
		default:
			windows = readWindow(windows, name, value)
		}
	}
	for _, w := range append(windows, readShares(headers)...) {
		if w.remaining != nil && (l.Remaining == nil || *w.remaining < *l.Remaining) {
			l.Remaining = w.remaining
		}
		reset, wait := w.resetAt(at)
		if reset.After(l.ResetAt) {
			l.ResetAt = reset
		}
		if w.remaining != nil && *w.remaining == 0 {
			l.RetryAfter = max(l.RetryAfter, wait)
		}
	}
	if stated > 0 { // a stated wait means that the limit is exhausted
		l.Remaining, l.RetryAfter = new(int64), stated
		if !at.IsZero() && at.Add(stated).After(l.ResetAt) {
			l.ResetAt = at.Add(stated)
		}
	}
	if l.RetryAfter > 0 && !at.IsZero() {
		l.OpenAt = at.Add(l.RetryAfter)
	}
	return l, l.Remaining != nil || !l.ResetAt.IsZero() || l.RetryAfter > 0
}

// statedWait parses a field that holds a wait.
func statedWait(value string, unit time.Duration, at time.Time) time.Duration {
	w, ok := parseWhen(value, unit)
	if !ok {
		return 0
	}
	return w.wait(at)
}

// Wait returns the time from at until a request can succeed again, from 0 to 31 days.
func (l Limit) Wait(at time.Time) time.Duration { return until(l.open(), at) }

// open returns the time from which a request can succeed, or zero for now.
func (l Limit) open() time.Time {
	if l.OpenAt.IsZero() && l.Remaining != nil && *l.Remaining == 0 {
		return l.ResetAt
	}
	return l.OpenAt
}

// limitWindow is one of the limits in a response, such as requests per minute or tokens per day.
type limitWindow struct {
	name      string
	remaining *int64
	reset     when
}

// resetAt returns the time of the reset, or zero if it is unknown, and the wait until then.
func (w limitWindow) resetAt(at time.Time) (time.Time, time.Duration) {
	wait := w.reset.wait(at)
	switch {
	case w.reset.span > 0 && !at.IsZero():
		return at.Add(wait), wait
	case w.reset != when{} && !at.IsZero():
		return w.reset.moment(at), wait
	}
	return time.Time{}, wait
}

// readWindow parses one header into its window.
func readWindow(ws []limitWindow, name, value string) []limitWindow {
	if !strings.Contains(name, "ratelimit") && !strings.Contains(name, "rate-limit") {
		return ws
	}
	value, _, _ = strings.Cut(value, ";w=") // "0;w=21600"
	unit := time.Second
	if strings.HasSuffix(name, "-ms") {
		unit = time.Millisecond
	}
	switch {
	case strings.Contains(name, "remaining"):
		w := windowOf(&ws, name, "remaining")
		w.remaining = count(value)
	case strings.Contains(name, "reset"):
		if reset, ok := parseWhen(value, unit); ok {
			windowOf(&ws, name, "reset").reset = reset
		}
	case strings.HasSuffix(name, "-status"): // anthropic-ratelimit-unified-5h-status
		if value == "rejected" {
			windowOf(&ws, name, "status").remaining = new(int64)
		}
	case name == "ratelimit":
		ws = readStructured(ws, value)
	}
	return ws
}

// windowOf returns the window that a header describes. Headers for the same window differ only in the word that names
// the value.
func windowOf(ws *[]limitWindow, name, word string) *limitWindow {
	for _, drop := range []string{word + "time", word + "-after", word + "-ms", word} {
		if before, after, ok := strings.Cut(name, drop); ok {
			name = strings.Trim(before+after, "-")
			break
		}
	}
	i := slices.IndexFunc(*ws, func(w limitWindow) bool { return w.name == name })
	if i < 0 {
		i = len(*ws)
		*ws = append(*ws, limitWindow{name: name})
	}
	return &(*ws)[i]
}

// readStructured parses the one-line forms of the IETF drafts, such as `limit=100, remaining=0, reset=50`.
func readStructured(ws []limitWindow, value string) []limitWindow {
	w := limitWindow{name: "ratelimit"}
	for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ';' }) {
		key, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "remaining", "r":
			w.remaining = count(v)
		case "reset", "t":
			w.reset, _ = parseWhen(v, time.Second)
		}
	}
	return append(ws, w)
}

// count parses the number of remaining requests, or returns nil. Negative numbers count as 0.
func count(s string) *int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return nil
	}
	n = max(n, 0)
	return &n
}
