package retryafter

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// cursor parses times in a text. A parsing method either advances the cursor and returns true, or leaves it in place.
type cursor struct {
	s string
	i int
}

// maxForm is the number of bytes that a form may examine.
const maxForm = 64

// form compiles an expression for match, which ignores case. A ~ stands for a few blanks and commas.
func form(expr string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(?:` + strings.ReplaceAll(expr, "~", `[ \t,]{0,4}`) + `)`)
}

// match advances past a form and returns its groups in lower case, or nil. A match must not end inside a number.
func (c *cursor) match(re *regexp.Regexp) []string {
	rest := c.s[c.i:min(len(c.s), c.i+maxForm)]
	groups := re.FindStringSubmatch(rest)
	if groups == nil {
		return nil
	}
	if n := len(groups[0]); n > 0 && n < len(rest) && plaintext.IsDigit(rest[n-1]) && plaintext.IsDigit(rest[n]) {
		return nil
	}
	c.i += len(groups[0])
	for i := range groups {
		groups[i] = strings.ToLower(groups[i])
	}
	return groups
}

// matchBefore advances past a form if a digit follows.
func (c *cursor) matchBefore(re *regexp.Regexp) bool {
	start := c.i
	return c.match(re) != nil && plaintext.IsDigit(c.peek()) || c.back(start)
}

// peek returns the next byte, or 0 at the end.
func (c *cursor) peek() byte {
	if c.i < len(c.s) {
		return c.s[c.i]
	}
	return 0
}

// back moves the cursor back and returns false.
func (c *cursor) back(to int) bool {
	c.i = to
	return false
}

// num converts digits matched by a form.
func num(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// units maps unit names to durations.
var units = map[string]time.Duration{
	"ms": time.Millisecond, "msec": time.Millisecond, "msecs": time.Millisecond, "millis": time.Millisecond,
	"millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "wk": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
	"month": recovery.LongestWait, "months": recovery.LongestWait, "us": time.Microsecond, "ns": time.Nanosecond,
}

// numerals maps words to numbers.
var numerals = map[string]float64{
	"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
	"seven": 7, "eight": 8, "nine": 9, "ten": 10, "fifteen": 15, "thirty": 30, "sixty": 60,
}

var (
	isoForm       = form(`(?-i:PT)`)
	andForm       = form(`~(?:and\b)?~`)
	agoForm       = form(`~ago\b`)
	amountForm    = form(`(?:(\d{1,19}(?:\.\d+)?)[ -]? ?|([a-z]+)[ -] ?)([a-z]+)`)
	stopwatchForm = form(`(\d{1,3}):([0-5]\d)(?::([0-5]\d))?`)
)

// span parses amounts with units and adds them up: "9.816s", "6m0s", "3 days 4 hours", "1 hour and 2 minutes", "an
// hour", "1 day, 2:03:04", "PT1H30M", and "01:30:00" if the context excludes a time of day.
func (c *cursor) span(noClock bool) (sum time.Duration, ok bool) {
	if c.peek() == 'P' {
		c.matchBefore(isoForm)
	}
	for parts := 0; parts < 8; parts++ {
		start := c.i
		if parts > 0 {
			c.match(andForm)
		}
		d, is := c.amount(noClock || parts > 0)
		if !is {
			c.i = start
			break
		}
		sum, ok = min(sum+d, recovery.LongestWait), true
	}
	if start := c.i; ok && c.match(agoForm) != nil {
		return 0, c.back(start)
	}
	return sum, ok
}

// amount parses one amount of a span.
func (c *cursor) amount(stopwatch bool) (time.Duration, bool) {
	start := c.i
	if !plaintext.IsDigit(c.peek()) && !c.atWord(isNumeral) {
		return 0, false
	}
	if stopwatch {
		if d, ok := c.stopwatch(); ok {
			return d, true
		}
	}
	m := c.match(amountForm)
	if m == nil {
		return 0, false
	}
	n, ok := numerals[m[2]]
	if m[2] == "" {
		n, _ = strconv.ParseFloat(m[1], 64)
		ok = true
	}
	unit, known := units[m[3]]
	if !ok || !known || c.peek() == '_' {
		return 0, c.back(start)
	}
	return spanOf(n, unit), true
}

func isNumeral(word string) bool { return numerals[word] > 0 }

// atWord reports whether the cursor is at a word that satisfies is.
func (c *cursor) atWord(is func(word string) bool) bool {
	end := c.i
	for end < len(c.s) && plaintext.IsLetter(c.s[end]) {
		end++
	}
	return is(strings.ToLower(c.s[c.i:end]))
}

// stopwatch parses a duration such as "2:03:04" (hours, minutes and seconds) or "01:30" (minutes and seconds).
func (c *cursor) stopwatch() (time.Duration, bool) {
	start := c.i
	m := c.match(stopwatchForm)
	if m == nil {
		return 0, false
	}
	end := c.i
	// the match is a time of day
	if w := c.match(wordForm); w != nil && (w[1] == "am" || w[1] == "pm" || zoneAbbreviations[w[1]] != "") {
		return 0, c.back(start)
	}
	c.i = end
	d := time.Duration(num(m[1]))*time.Minute + time.Duration(num(m[2]))*time.Second
	if m[3] != "" {
		d = d*60 + time.Duration(num(m[3]))*time.Second
	}
	return d, true
}
