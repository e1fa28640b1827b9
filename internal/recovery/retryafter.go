package recovery

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what is believed: no provider's cap lasts longer than a month.
const maxRetryAfter = 31 * 24 * time.Hour

// retryAfter returns how long to wait before another try, when anything states it: the worker, headers, then text.
// Reasons that time does not heal have none. Dates are read only against e.At. Never negative, at most maxRetryAfter.
func retryAfter(e Evidence, r Reason) time.Duration {
	if about, _ := Describe(r); about.Class != Transient {
		return 0
	}
	if e.RetryAfter > 0 {
		return min(e.RetryAfter, maxRetryAfter)
	}
	if d := fromHeaders(e); d > 0 {
		return d
	}
	for _, s := range []string{e.Stderr, e.Stdout, e.Message} {
		if d := fromText(cleanText(s), e.At); d > 0 {
			return d
		}
	}
	return 0
}

// fromHeaders reads Retry-After before a reset; a reset counts only when nothing remains.
func fromHeaders(e Evidence) time.Duration {
	if d := seconds(e.Headers["retry-after-ms"], time.Millisecond); d > 0 {
		return d
	}
	h := e.Headers["retry-after"]
	if d := seconds(h, time.Second); d > 0 {
		return d
	}
	for _, layout := range []string{time.RFC1123, time.RFC850, time.ANSIC} {
		if t, err := time.Parse(layout, h); err == nil {
			return until(t, e.At)
		}
	}
	if e.Headers["x-ratelimit-remaining"] == "0" {
		if n, err := strconv.ParseInt(e.Headers["x-ratelimit-reset"], 10, 64); err == nil {
			return until(time.Unix(n, 0), e.At)
		}
	}
	return 0
}

// until is the time from at to t; 0 when t has passed or at is not known.
func until(t, at time.Time) time.Duration {
	if at.IsZero() || !t.After(at) {
		return 0
	}
	return min(t.Sub(at), maxRetryAfter)
}

// seconds reads a number of unit; 0 for what is none, negative or absurd values included.
func seconds(s string, unit time.Duration) time.Duration {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return time.Duration(min(f*float64(unit), float64(maxRetryAfter)))
}

// A duration in words: "2s", "6m0s", "3 days 4 hours". Longer names of units stand before their beginnings.
const (
	amount  = `([0-9]{1,9}(?:\.[0-9]{1,9})?)`
	unit    = `(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d)`
	inWords = `((?:` + amount + `\s*` + unit + `[ ,]*(?:and )?)+)`
)

// waitForms are the ways in which programs state a wait. The last one in the text counts.
var waitForms = []struct {
	near string // lower-case literal that must be on the line
	re   *regexp.Regexp
	unit time.Duration // of the first group; 0: the group is a duration in words
}{
	{"retrydelayms", regexp.MustCompile(`(?i)retryDelayMs"?: ?` + amount), time.Millisecond},
	{"retry-after-ms", regexp.MustCompile(`(?i)retry-after-ms"?: ?"?` + amount), time.Millisecond},
	{"retry", regexp.MustCompile(`(?i)\bretry[-_ ]?after"?[:=] ?"?` + amount + `(?:["\s,;}]|$)`), time.Second},
	{"retry", regexp.MustCompile(`(?i)(?:retry[-_ ]?after"?[:=]? ?|retryDelay"?: ?|retry in )"?` + inWords), 0},
	{"again in", regexp.MustCompile(`(?i)again in (?:about )?` + inWords), 0},
	{"resets in", regexp.MustCompile(`(?i)resets in (?:about )?` + inWords), 0},
}

var (
	waitPart = regexp.MustCompile(`(?i)` + amount + `\s*([a-z]+)`)
	epochEnd = regexp.MustCompile(`\|([0-9]{10})\b`)
)

// fromText reads the last wait that the text states.
func fromText(s string, at time.Time) time.Duration {
	lines := strings.Split(s, "\n")
	tried := 0
	for i := len(lines) - 1; i >= 0 && tried < keep; i-- {
		line := lines[i]
		if len(line) > maxLine {
			line = line[len(line)-maxLine:]
		}
		lower := strings.ToLower(line)
		if strings.Contains(lower, "limit reached|") {
			if m := epochEnd.FindStringSubmatch(line); m != nil {
				n, _ := strconv.ParseInt(m[1], 10, 64)
				return until(time.Unix(n, 0), at)
			}
		}
		d, near := fromLine(line, lower)
		if d > 0 {
			return d
		}
		if near {
			tried++
		}
	}
	return 0
}

// fromLine reads one line: the form that stands last wins. near says that a form's literal was there.
func fromLine(line, lower string) (d time.Duration, near bool) {
	last := -1
	for _, w := range waitForms {
		if !strings.Contains(lower, w.near) {
			continue
		}
		near = true
		all := w.re.FindAllStringSubmatchIndex(line, -1)
		if all == nil {
			continue
		}
		m := all[len(all)-1]
		if m[2] <= last {
			continue
		}
		last = m[2]
		if text := line[m[2]:m[3]]; w.unit > 0 {
			d = seconds(text, w.unit)
		} else {
			d = parts(text)
		}
	}
	return d, near
}

// parts adds up amounts with units: "3 days 4 hours", "6m0s", "9.816s".
func parts(s string) time.Duration {
	var sum time.Duration
	for _, m := range waitPart.FindAllStringSubmatch(s, -1) {
		unit := time.Second
		switch u := strings.ToLower(m[2]); {
		case strings.HasPrefix(u, "ms"), strings.HasPrefix(u, "milli"):
			unit = time.Millisecond
		case strings.HasPrefix(u, "m"):
			unit = time.Minute
		case strings.HasPrefix(u, "h"):
			unit = time.Hour
		case strings.HasPrefix(u, "d"):
			unit = 24 * time.Hour
		}
		sum = min(sum+seconds(m[1], unit), maxRetryAfter)
	}
	return sum
}
