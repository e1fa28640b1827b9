package recovery

import (
	"strings"
	"time"
)

var months = map[string]int{
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
	"january": 1, "february": 2, "march": 3, "april": 4, "june": 6, "july": 7, "august": 8, "sept": 9, "september": 9, "october": 10, "november": 11, "december": 12,
}

var weekdays = map[string]int{
	"sun": 1, "mon": 2, "tue": 3, "tues": 3, "wed": 4, "thu": 5, "thur": 5, "thurs": 5, "fri": 6, "sat": 7,
	"sunday": 1, "monday": 2, "tuesday": 3, "wednesday": 4, "thursday": 5, "friday": 6, "saturday": 7,
}

// moment reads a date, a clock time, or both: ISO 8601, HTTP's three forms, "Oct 9, 5pm (America/New_York)",
// "October 9th, 2026 3:05 PM", "10/26/2026", "3pm", "15:00 UTC", "midnight PT", "tomorrow at 9am", "Monday 10:00",
// and seconds or milliseconds since 1970.
func (c *cursor) moment() (w when, ok bool) {
	start := c.i
	if w, ok := c.epoch(); ok {
		return w, true
	}
	dated := c.date(&w)
	if dated {
		c.between()
	}
	at := c.i
	clocked := c.clock(&w)
	if !clocked {
		c.i = at
	}
	if !dated && clocked { // "15:00 on Oct 9", "3pm tomorrow"
		at := c.i
		c.between()
		if d := w; c.date(&d) {
			w, dated = d, true
		} else {
			c.i = at
		}
	}
	if !dated && !clocked {
		c.i = start
		return when{}, false
	}
	if dated && w.year == 0 && w.month > 0 { // "Sat Nov 21 10:00:00 2026"
		at := c.i
		c.blank()
		if y, ok := c.digits(4, 4); ok && y >= 1970 {
			w.year = y
		} else {
			c.i = at
		}
	}
	return w, true
}

// between skips what stands between a date and a clock time.
func (c *cursor) between() {
	c.blank()
	if c.peek() == 'T' && c.i+1 < len(c.s) && isDigit(c.s[c.i+1]) {
		c.i++
		return
	}
	at := c.i
	switch c.word() {
	case "at", "on", "by", "from":
		c.blank()
	default:
		c.i = at
	}
}

// epoch reads 10 or 13 digits as seconds or milliseconds since 1970.
func (c *cursor) epoch() (when, bool) {
	start := c.i
	n, ok := c.number()
	if ok && n >= 1e9 && n < 1e13 && !isLetter(c.peek()) {
		if w, ok := numberAsWhen(n, time.Second); ok && !w.epoch.IsZero() {
			return w, true
		}
	}
	c.i = start
	return when{}, false
}

// date reads a date, with its weekday or without.
func (c *cursor) date(w *when) bool {
	start := c.i
	if c.numericDate(w) {
		return true
	}
	switch word := c.word(); {
	case word == "today":
		return true
	case word == "tomorrow":
		w.tomorrow = true
		return true
	case weekdays[word] > 0:
		at := c.i
		c.eat(".")
		c.blank()
		named := when{clock: w.clock, hasClock: w.hasClock, zone: w.zone, offset: w.offset}
		if c.namedDate(&named) || c.numericDate(&named) {
			*w = named
			return true
		}
		c.i = at
		w.weekday = weekdays[word]
		return true
	}
	c.i = start
	return c.namedDate(w)
}

// numericDate reads "2026-10-09", "2026/10/09" and "10/26/2026" (month first, unless it cannot be one).
func (c *cursor) numericDate(w *when) bool {
	start := c.i
	a, ok := c.digits(1, 4)
	width, sep := c.i-start, c.peek()
	if !ok || !c.eat("-/.") {
		c.i = start
		return false
	}
	b, okB := c.digits(1, 2)
	if !okB || c.peek() != sep || !c.eat("-/.") {
		c.i = start
		return false
	}
	at := c.i
	d, okD := c.digits(1, 4)
	last := c.i - at
	y, m, day := a, b, d
	switch {
	case width == 4 && last <= 2:
	case width <= 2 && last == 4 && sep != '-':
		y, m, day = d, a, b
		if m > 12 || sep == '.' {
			m, day = b, a
		}
	default:
		okD = false
	}
	if !okD || !setDate(w, y, m, day) {
		c.i = start
		return false
	}
	return true
}

// namedDate reads "Oct 9", "October 9th, 2026", "9 Oct 2026" and "09-Oct-26".
func (c *cursor) namedDate(w *when) bool {
	start := c.i
	day, dayFirst := c.digits(1, 2)
	if dayFirst {
		c.ordinal()
		c.eat("-")
		c.blank()
		if at := c.i; c.word() != "of" {
			c.i = at
		}
		c.blank()
	}
	month := months[c.word()]
	c.eat(".")
	if !dayFirst && month > 0 {
		c.blank()
		day, _ = c.digits(1, 2)
		c.ordinal()
	}
	if !setDate(w, 0, month, day) {
		c.i = start
		return false
	}
	at := c.i
	dash := c.eat("-")
	c.blank()
	if y, ok := c.digits(4, 4); ok && y >= 1970 {
		w.year = y
	} else if y, ok := c.digits(2, 2); ok && dash {
		w.year = 2000 + y
	} else {
		c.i = at
	}
	return true
}

// ordinal skips the letters of "9th".
func (c *cursor) ordinal() {
	at := c.i
	switch c.word() {
	case "st", "nd", "rd", "th":
	default:
		c.i = at
	}
}

// setDate checks and keeps a date. Year 0 is none.
func setDate(w *when, year, month, day int) bool {
	if month < 1 || month > 12 || day < 1 || day > 31 || year != 0 && year < 1970 {
		return false
	}
	w.year, w.month, w.day = year, month, day
	return true
}

// clock reads "3pm", "3:30 p.m.", "15:00:01.5", "noon" and "midnight", and the zone behind it.
func (c *cursor) clock(w *when) bool {
	start := c.i
	h, ok := c.digits(1, 2)
	if !ok {
		switch c.word() {
		case "midnight":
		case "noon":
			h = 12
		default:
			c.i = start
			return false
		}
		w.clock, w.hasClock = time.Duration(h)*time.Hour, true
		c.zone(w)
		return true
	}
	m, s, frac, colon := 0, 0, time.Duration(0), false
	if c.eat(":") {
		colon = true
		if m, ok = c.digits(2, 2); !ok {
			c.i = start
			return false
		}
		if at := c.i; c.eat(":") {
			if s, ok = c.digits(2, 2); !ok {
				c.i, s = at, 0
			}
		}
		if at := c.i; c.eat(".,") {
			if n, ok := c.number(); ok && c.i-at <= 10 {
				for k := c.i - at - 1; k < 9; k++ {
					n *= 10
				}
				frac = min(time.Duration(n), time.Second-1)
			} else {
				c.i = at
			}
		}
	}
	half := c.half()
	switch {
	case half == "" && !colon, half != "" && (h < 1 || h > 12), h > 23, m > 59, s > 60:
		c.i = start
		return false
	case half == "pm" && h < 12:
		h += 12
	case half == "am" && h == 12:
		h = 0
	}
	w.clock = time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second + frac
	w.hasClock = true
	c.zone(w)
	return true
}

// half reads am or pm.
func (c *cursor) half() string {
	start := c.i
	if c.peek() == ' ' || strings.HasPrefix(c.s[c.i:], "\u202f") { // ECMA's locales print a narrow blank
		c.i += len("\u202f")
		if c.s[start] == ' ' {
			c.i = start + 1
		}
	}
	w := c.word()
	if w == "a" || w == "p" {
		if c.eat(".") && (c.peek()|0x20) == 'm' {
			c.i++
			c.eat(".")
			return w + "m"
		}
	}
	if w == "am" || w == "pm" {
		return w
	}
	c.i = start
	return ""
}

// zone reads a zone where one stands: "(Europe/Warsaw)", "America/New_York", "UTC", "GMT+2", "+02:00", "Z",
// "Pacific time".
func (c *cursor) zone(w *when) {
	back := c.i
	c.blank()
	open := c.eat("(")
	begin := c.i
	for c.i < len(c.s) && c.i-begin < 40 && (isLetter(c.s[c.i]) || c.s[c.i] == '/' || c.s[c.i] == '_' || c.s[c.i] == '-' && c.i > begin && strings.IndexByte(c.s[begin:c.i], '/') >= 0) {
		c.i++
	}
	name := c.s[begin:c.i]
	known := zoneAbbreviations[strings.ToLower(name)] != "" || strings.IndexByte(name, '/') > 0
	if open && name != "" && c.peek() != '+' && c.peek() != '-' {
		w.zone = name
		return
	}
	if name != "" && !known {
		c.i = back
		return
	}
	if seconds, ok := c.offset(); ok && strings.IndexByte(name, '/') < 0 {
		w.offset = seconds
		return
	}
	if name == "" {
		c.i = back
		return
	}
	w.zone = name
}

// offset reads "+2", "+02:00" and "-0730" as seconds east of UTC.
func (c *cursor) offset() (seconds int, ok bool) {
	start, sign := c.i, 1
	switch {
	case c.eat("+"):
	case c.eat("-"):
		sign = -1
	default:
		return 0, false
	}
	var h, m int
	if n, ok := c.digits(4, 4); ok {
		h, m = n/100, n%100
	} else if h, ok = c.digits(1, 2); !ok {
		c.i = start
		return 0, false
	} else if c.peek() == ':' {
		at := c.i
		c.i++
		if m, ok = c.digits(2, 2); !ok {
			c.i, m = at, 0
		}
	}
	if h > 14 || m > 59 {
		c.i = start
		return 0, false
	}
	return sign * (h*3600 + m*60), true
}
