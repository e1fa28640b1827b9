package retryafter

import (
	"math"
	"strconv"
	"strings"
	"time"

	"retake/internal/recovery"
)

// when is a printed time: a duration, or a point in time that may be incomplete.
type when struct {
	span time.Duration // 0 for a point in time

	epoch            time.Time // complete without other fields
	year, month, day int       // 0 if missing
	weekday          int       // 1 is Sunday; 0 if missing
	tomorrow         bool
	clock            time.Duration // since midnight
	hasClock         bool
	zone             string // name or abbreviation; "" means UTC
	offset           int    // seconds east of UTC, instead of a name
}

// wait returns the time from at until w, between 0 and LongestWait. It returns 0 for a time in the past, and for a
// point in time if at is zero.
func (w when) wait(at time.Time) time.Duration {
	switch {
	case w.span > 0:
		return min(w.span, recovery.LongestWait)
	case at.IsZero():
		return 0
	}
	return until(w.moment(at), at)
}

// until returns the time from at to t, or 0 if t has passed or at is zero.
func until(t, at time.Time) time.Duration {
	if at.IsZero() || !t.After(at) {
		return 0
	}
	return min(t.Sub(at), recovery.LongestWait)
}

// moment returns the point in time that w represents. A time of day without a date means its next occurrence. A date
// without a year means the next such date, or a recent one.
func (w when) moment(at time.Time) time.Time {
	if !w.epoch.IsZero() {
		return w.epoch
	}
	loc := w.location()
	now := at.In(loc)
	date := func(year, month, day int) time.Time { // in wall-clock time, because not all days have 24 hours
		seconds := int(w.clock / time.Second)
		return time.Date(year, time.Month(month), day, 0, 0, seconds, int(w.clock%time.Second), loc)
	}
	year, month, day := now.Year(), int(now.Month()), now.Day()
	switch {
	case w.year > 0:
		return date(w.year, w.month, w.day)
	case w.month > 0:
		if t := date(year, w.month, w.day); t.After(at) || year >= 9999 {
			return t
		}
		if t := date(year+1, w.month, w.day); t.Sub(at) <= recovery.LongestWait {
			return t // for example a day in January, stated in December
		}
		return time.Time{}
	case w.weekday > 0:
		day += (w.weekday - 1 - int(now.Weekday()) + 7) % 7
		if t := date(year, month, day); t.After(at) {
			return t
		}
		return date(year, month, day+7)
	case w.tomorrow:
		return date(year, month, day+1)
	case w.hasClock:
		if t := date(year, month, day); t.After(at) {
			return t
		}
		return date(year, month, day+1)
	}
	return time.Time{}
}

// location returns the printed zone, or UTC if it is unknown.
func (w when) location() *time.Location {
	if w.offset != 0 {
		return time.FixedZone("", w.offset)
	}
	if w.zone == "" {
		return time.UTC
	}
	loc, _ := zoneNamed(w.zone)
	return loc
}

// spanOf returns n units, at most LongestWait, or 0 if n is not positive.
func spanOf(n float64, unit time.Duration) time.Duration {
	if !(n > 0) {
		return 0
	}
	return max(1, time.Duration(math.Round(min(n*float64(unit), float64(recovery.LongestWait)))))
}

// epochFrom is the smallest number that counts as seconds since 1970 instead of a span. It is a time in 1973.
const epochFrom = 1e8

// numberAsWhen interprets a number without a unit: an epoch in s, ms, µs or ns, or a span in unit.
func numberAsWhen(n float64, unit time.Duration) (when, bool) {
	if !(n > 0) {
		return when{}, false // negative, zero or NaN
	}
	if n < epochFrom {
		d := spanOf(n, unit)
		return when{span: d}, d > 0
	}
	if unit != time.Second && n < 1e11 {
		return when{span: recovery.LongestWait}, true // in any other unit, this is a long wait
	}
	for _, scale := range []float64{1, 1e3, 1e6, 1e9} {
		if n/scale < 1e11 {
			sec := math.Floor(n / scale)
			return when{epoch: time.Unix(int64(sec), int64((n/scale-sec)*1e9)).UTC()}, true
		}
	}
	return when{span: recovery.LongestWait}, true
}

// parseWhen parses a field that contains only a time: a number in unit, seconds since 1970, a duration with units, or a
// date in ISO 8601 or any of HTTP's three forms.
func parseWhen(s string, unit time.Duration) (when, bool) {
	s = strings.Trim(s, " \t\"'")
	if len(s) > 64 {
		return when{}, false
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && !strings.ContainsAny(s, "xX_") {
		return numberAsWhen(n, unit)
	}
	c := cursor{s: s}
	if d, ok := c.span(false); ok && c.i == len(s) {
		return when{span: d}, d > 0
	}
	c.i = 0
	if w, ok := c.moment(); ok && (w.month > 0 || !w.epoch.IsZero()) {
		return w, true
	}
	return when{}, false
}
