package retryafter

import (
	"strings"
	"time"

	"retake/internal/recovery/plaintext"
)

var months = map[string]int{
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11,
	"dec":     12,
	"january": 1, "february": 2, "march": 3, "april": 4, "june": 6, "july": 7, "august": 8, "sept": 9, "september": 9,
	"october": 10, "november": 11, "december": 12,
}

var weekdays = map[string]int{
	"sun": 1, "mon": 2, "tue": 3, "tues": 3, "wed": 4, "thu": 5, "thur": 5, "thurs": 5, "fri": 6, "sat": 7,
	"sunday": 1, "monday": 2, "tuesday": 3, "wednesday": 4, "thursday": 5, "friday": 6, "saturday": 7,
}

var (
	wordForm      = form(`~([a-z]{1,20})`)
	epochForm     = form(`\d{10,13}(?:\.\d+)?`)
	numericForm   = form(`(\d{1,4})([-/.])(\d{1,2})([-/.])(\d{1,4})`)
	relativeForm  = form(`(today|tomorrow)\b`)
	weekdayForm   = form(`([a-z]+)\.?~`)
	monthDayForm  = form(`([a-z]+)\.?~(\d{1,2})(?:st|nd|rd|th)?`)
	dayMonthForm  = form(`(\d{1,2})(?:st|nd|rd|th)?-?~(?:of)?~([a-z]+)\.?`)
	yearForm      = form(`-?~(\d{4})`)
	shortYearForm = form(`-~(\d\d)`)
	timeForm      = form(`~(?-i:T)`)
	betweenForm   = form(`~(?:(?:at|on|by|from)\b~)?`)
	noonForm      = form(`(noon|midnight)\b`)
	clockForm     = form(`(\d{1,2})(?::(\d\d)(?::(\d\d))?(?:[.,](\d{1,18}))?)?(?:[ \x{202f}]?([ap])\.?m\b\.?)?`)
	zoneForm      = form(`~(\()?([a-z]+(?:[/_][a-z/_-]*)?)?(?:([+-])(\d{1,2})(?::?(\d\d))?)?`)
)

// moment parses a date, a clock time, or both: ISO 8601, HTTP's three forms, "Oct 9, 5pm (America/New_York)", "October
// 9th, 2026 3:05 PM", "10/26/2026", "3pm", "15:00 UTC", "midnight PT", "tomorrow at 9am", "Monday 10:00", and seconds
// or milliseconds since 1970.
func (c *cursor) moment() (w when, ok bool) {
	if !plaintext.IsDigit(c.peek()) && !c.atWord(beginsMoment) {
		return w, false
	}
	start := c.i
	if m := c.match(epochForm); m != nil {
		if w, ok := parseWhen(m[0], time.Second); ok && !w.epoch.IsZero() && !plaintext.IsLetter(c.peek()) {
			return w, true
		}
		c.i = start
	}
	dated := c.date(&w)
	at := c.i
	if dated && !c.matchBefore(timeForm) {
		c.match(betweenForm)
	}
	clocked := c.clock(&w)
	if !clocked {
		c.i = at
	}
	if at = c.i; !dated && clocked { // "15:00 on Oct 9", "3pm tomorrow"
		c.match(betweenForm)
		if dated = c.date(&w); !dated {
			c.i = at
		}
	}
	if dated && w.year == 0 && w.month > 0 { // "Sat Nov 21 10:00:00 2026"
		c.year(&w)
	}
	return w, dated || clocked
}

// beginsMoment reports whether a moment can begin with a word.
func beginsMoment(word string) bool {
	return months[word] > 0 || weekdays[word] > 0 || word == "today" || word == "tomorrow" || word == "noon" ||
		word == "midnight"
}

// date parses a date, with or without a weekday.
func (c *cursor) date(w *when) bool {
	start := c.i
	if c.fullDate(w) {
		return true
	}
	if m := c.match(relativeForm); m != nil {
		w.tomorrow = m[1] == "tomorrow"
		return true
	}
	if m := c.match(weekdayForm); m != nil && weekdays[m[1]] > 0 {
		if !c.fullDate(w) {
			c.i = start + len(m[1])
			w.weekday = weekdays[m[1]]
		}
		return true
	}
	return c.back(start)
}

// fullDate parses "2026-10-09", "2026/10/09", "10/26/2026" (month first unless the first number exceeds 12),
// "26.10.2026", "Oct 9", "October 9th, 2026", "9 Oct 2026" and "09-Oct-26".
func (c *cursor) fullDate(w *when) bool {
	start := c.i
	if m := c.match(numericForm); m != nil && m[2] == m[4] {
		switch a, b, d := num(m[1]), num(m[3]), num(m[5]); {
		case len(m[1]) == 4 && len(m[5]) <= 2:
			return w.setDate(a, b, d) || c.back(start)
		case len(m[1]) <= 2 && len(m[5]) == 4 && m[2] != "-":
			if a > 12 || m[2] == "." {
				a, b = b, a
			}
			return w.setDate(d, a, b) || c.back(start)
		}
	}
	c.i = start
	month, day := 0, 0
	if m := c.match(monthDayForm); m != nil {
		month, day = months[m[1]], num(m[2])
	} else if m := c.match(dayMonthForm); m != nil {
		month, day = months[m[2]], num(m[1])
	}
	if !w.setDate(0, month, day) {
		return c.back(start)
	}
	c.year(w)
	return true
}

// year parses an optional year after a day and a month.
func (c *cursor) year(w *when) {
	start := c.i
	if m := c.match(yearForm); m != nil && num(m[1]) >= 1970 {
		w.year = num(m[1])
		return
	}
	c.i = start
	if m := c.match(shortYearForm); m != nil {
		w.year = 2000 + num(m[1])
	}
}

// setDate stores a date if it is valid. Year 0 means that the year is missing.
func (w *when) setDate(year, month, day int) bool {
	if month < 1 || month > 12 || day < 1 || day > 31 || year != 0 && year < 1970 {
		return false
	}
	w.year, w.month, w.day = year, month, day
	return true
}

// clock parses "3pm", "3:30 p.m.", "15:00:01.5", "noon" and "midnight", with an optional zone.
func (c *cursor) clock(w *when) bool {
	start := c.i
	if m := c.match(noonForm); m != nil {
		w.clock, w.hasClock = map[string]time.Duration{"noon": 12 * time.Hour}[m[1]], true
		c.zone(w)
		return true
	}
	m := c.match(clockForm)
	if m == nil {
		return false
	}
	h, half := num(m[1]), m[5]
	switch {
	case half == "" && m[2] == "", half != "" && (h < 1 || h > 12), h > 23, num(m[2]) > 59, num(m[3]) > 60:
		return c.back(start)
	case half == "p" && h < 12:
		h += 12
	case half == "a" && h == 12:
		h = 0
	}
	fraction := num((m[4] + "000000000")[:9])
	seconds := h*3600 + num(m[2])*60 + num(m[3])
	w.clock = time.Duration(seconds)*time.Second + time.Duration(fraction)
	w.hasClock = true
	c.zone(w)
	return true
}

// zone parses an optional zone: "(Europe/Warsaw)", "America/New_York", "UTC", "GMT+2", "+02:00", "Z" or "Pacific time".
func (c *cursor) zone(w *when) {
	start := c.i
	m := c.match(zoneForm)
	if m == nil {
		return
	}
	name, area := m[2], strings.Contains(m[2], "/")
	hours, minutes := num(m[4]), num(m[5])
	switch {
	case m[1] != "" && name != "" && m[3] == "":
		w.zone = name
	case name != "" && zoneAbbreviations[name] == "" && !area:
		c.i = start
	case m[3] != "" && !area && hours <= 14 && minutes <= 59:
		w.offset = hours*3600 + minutes*60
		if m[3] == "-" {
			w.offset = -w.offset
		}
	case name == "":
		c.i = start
	default:
		w.zone = name
	}
}
