package loglines

import (
	"strings"

	"retake/internal/recovery/plaintext"
)

// About half of all lines begin with a time, so times are parsed without regular expressions.

// timeEnd returns the end of a line's time, `\[?stamp\]?:?`, or 0.
func timeEnd(line string) int {
	c := timeCursor{s: line}
	c.byte("[")
	if !c.stamp() {
		return 0
	}
	c.byte("]")
	c.byte(":")
	return c.i
}

// clockEnd returns the end of a line's clock, `\[?clock\]?`, or 0.
func clockEnd(line string) int {
	c := timeCursor{s: line}
	c.byte("[")
	if !c.clock() {
		return 0
	}
	c.byte("]")
	return c.i
}

// timeCursor parses the parts of a time. A method that returns false leaves the cursor in place.
type timeCursor struct {
	s string
	i int
}

// byte advances past one of the given bytes.
func (c *timeCursor) byte(some string) bool {
	for k := range len(some) {
		if c.i < len(c.s) && c.s[c.i] == some[k] {
			c.i++
			return true
		}
	}
	return false
}

// digits advances past one or more digits.
func (c *timeCursor) digits() bool {
	begin := c.i
	for c.i < len(c.s) && plaintext.IsDigit(c.s[c.i]) {
		c.i++
	}
	return c.i > begin
}

// shape advances past a text of the given shape. In a shape, 0 stands for a digit, A for an upper-case letter, and a
// for a lower-case letter. A hyphen stands for a hyphen or a slash. A dot stands for a dot, a hyphen or a slash. T
// stands for T or a blank, and a blank stands for a blank or a colon. Any other byte stands for itself.
func (c *timeCursor) shape(shape string) bool {
	if len(c.s)-c.i < len(shape) {
		return false
	}
	for k := range len(shape) {
		var ok bool
		b := c.s[c.i+k]
		switch shape[k] {
		case '0':
			ok = plaintext.IsDigit(b)
		case 'A':
			ok = 'A' <= b && b <= 'Z'
		case 'a':
			ok = 'a' <= b && b <= 'z'
		case '-':
			ok = b == '-' || b == '/'
		case '.':
			ok = b == '-' || b == '/' || b == '.'
		case 'T':
			ok = b == 'T' || b == ' '
		case ' ':
			ok = b == ' ' || b == ':'
		default:
			ok = b == shape[k]
		}
		if !ok {
			return false
		}
	}
	c.i += len(shape)
	return true
}

// stamp advances past a date, a clock and an optional time zone.
func (c *timeCursor) stamp() bool {
	start := c.i
	for _, date := range [...]string{"0000-00-00T", "00.00.0000 ", "00.Aaa.0000 "} {
		if c.shape(date) && c.clock() {
			c.zone()
			return true
		}
		c.i = start
	}
	return false
}

// clock advances past hours, minutes and seconds, which may have a fraction.
func (c *timeCursor) clock() bool {
	if !c.shape("00:00:00") {
		return false
	}
	if end := c.i; c.byte(".,") {
		n := 0
		for n < 9 && c.byte("0123456789") {
			n++
		}
		if n == 0 {
			c.i = end
		}
	}
	return true
}

// zone advances past an optional time zone.
func (c *timeCursor) zone() {
	start := c.i
	if c.i < len(c.s) && c.s[c.i] == ' ' {
		c.i++
	}
	for _, name := range [...]string{"Z", "UTC", "GMT", "CEST", "CET"} {
		if strings.HasPrefix(c.s[c.i:], name) {
			c.i += len(name)
			return
		}
	}
	if sign := c.byte("+-"); sign && (c.shape("00:00") || c.shape("0000")) {
		return
	}
	c.i = start
}
