package recovery

import (
	"strconv"
	"strings"
	"time"
)

// cursor reads times from a text by recursive descent. Every reading method either advances and returns true, or leaves
// the cursor where it was. None looks further than some dozens of bytes, whatever the text.
type cursor struct {
	s string
	i int
}

func (c *cursor) peek() byte {
	if c.i < len(c.s) {
		return c.s[c.i]
	}
	return 0
}

// blank skips blanks and commas, at most a few.
func (c *cursor) blank() {
	for n := 0; n < 4 && (c.peek() == ' ' || c.peek() == '\t' || c.peek() == ','); n++ {
		c.i++
	}
}

// eat advances past any one of the bytes.
func (c *cursor) eat(bytes string) bool {
	if c.i < len(c.s) && strings.IndexByte(bytes, c.s[c.i]) >= 0 {
		c.i++
		return true
	}
	return false
}

func isDigit(b byte) bool  { return '0' <= b && b <= '9' }
func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

// digits reads lo to hi digits and no more.
func (c *cursor) digits(lo, hi int) (int, bool) {
	n, j := 0, c.i
	for ; j < len(c.s) && j-c.i <= hi && isDigit(c.s[j]); j++ {
		n = n*10 + int(c.s[j]-'0')
	}
	if j-c.i < lo || j-c.i > hi {
		return 0, false
	}
	c.i = j
	return n, true
}

// word reads letters, at most 20, in lower case.
func (c *cursor) word() string {
	j := c.i
	for j < len(c.s) && j-c.i < 20 && isLetter(c.s[j]) {
		j++
	}
	w := c.s[c.i:j]
	c.i = j
	return strings.ToLower(w)
}

// number reads digits with or without a fraction.
func (c *cursor) number() (float64, bool) {
	j := c.i
	for j < len(c.s) && j-c.i < 20 && isDigit(c.s[j]) {
		j++
	}
	if j == c.i || j-c.i == 20 {
		return 0, false
	}
	if j+1 < len(c.s) && c.s[j] == '.' && isDigit(c.s[j+1]) {
		for j++; j < len(c.s) && j-c.i < 40 && isDigit(c.s[j]); j++ {
		}
	}
	n, err := strconv.ParseFloat(c.s[c.i:j], 64)
	if err != nil {
		return 0, false
	}
	c.i = j
	return n, true
}

// units are the names of spans.
var units = map[string]time.Duration{
	"ms": time.Millisecond, "msec": time.Millisecond, "msecs": time.Millisecond, "millis": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "wk": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
	"month": maxRetryAfter, "months": maxRetryAfter, "us": time.Microsecond, "ns": time.Nanosecond,
}

// numerals are the numbers that are written as words.
var numerals = map[string]float64{"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "fifteen": 15, "thirty": 30, "sixty": 60}

// span reads amounts with units and adds them up: "9.816s", "6m0s", "3 days 4 hours", "1 hour and 2 minutes", "an hour",
// "1 day, 2:03:04", "PT1H30M", and, where a clock time cannot be meant, "01:30:00".
func (c *cursor) span(noClock bool) (sum time.Duration, ok bool) {
	if strings.HasPrefix(c.s[c.i:], "PT") && c.i+2 < len(c.s) && isDigit(c.s[c.i+2]) {
		c.i += 2
	}
	for parts := 0; parts < 8; parts++ {
		start := c.i
		if parts > 0 {
			c.blank()
			if at := c.i; c.word() != "and" {
				c.i = at
			}
			c.blank()
		}
		d, is := c.part(noClock || parts > 0)
		if !is {
			c.i = start
			break
		}
		sum, ok = min(sum+d, maxRetryAfter), true
	}
	if at := c.i; ok {
		c.blank()
		if c.word() == "ago" {
			return 0, false
		}
		c.i = at
	}
	return sum, ok
}

// part reads one amount of a span.
func (c *cursor) part(stopwatch bool) (time.Duration, bool) {
	start := c.i
	if stopwatch {
		if d, ok := c.stopwatch(); ok {
			return d, true
		}
	}
	n, ok := c.number()
	if !ok {
		if n, ok = numerals[c.word()]; !ok {
			c.i = start
			return 0, false
		}
	}
	for k := 0; k < 2 && (c.peek() == ' ' || k == 0 && c.peek() == '-'); k++ {
		c.i++
	}
	unit, ok := units[c.word()]
	if !ok || c.peek() == '_' {
		c.i = start
		return 0, false
	}
	return spanOf(n, unit), true
}

// stopwatch reads "2:03:04" and "01:30" as hours and minutes, minutes and seconds.
func (c *cursor) stopwatch() (time.Duration, bool) {
	start := c.i
	a, ok := c.digits(1, 3)
	if !ok || !c.eat(":") {
		c.i = start
		return 0, false
	}
	b, ok := c.digits(2, 2)
	if !ok || b > 59 {
		c.i = start
		return 0, false
	}
	d := time.Duration(a)*time.Minute + time.Duration(b)*time.Second
	if at := c.i; c.eat(":") {
		if s, ok := c.digits(2, 2); ok && s < 60 {
			d = d*60 + time.Duration(s)*time.Second
		} else {
			c.i = at
		}
	}
	at := c.i
	c.blank()
	if w := c.word(); w == "am" || w == "pm" || zoneAbbreviations[w] != "" { // a clock after all
		c.i = start
		return 0, false
	}
	c.i = at
	return d, true
}
