package recovery

import "strings"

// matchISO: 2026-02-18, 2026/02/18 12:00, 2026-02-18T12:00:00.5+02:00, 2026-11-21T18-02-31-138Z.
func matchISO(s string, i int) int {
	end := either(s, i, "9999-99-99", "9999/99/99")
	if end == i {
		return i
	}
	clock := end
	if clock < len(s) && (s[clock] == 'T' || s[clock] == ' ') {
		clock = either(s, end, s[end:end+1]+"99:99", s[end:end+1]+"99-99")
	}
	if clock == end {
		return end
	}
	end = clock
	if seconds := either(s, end, ":99", "-99"); seconds > end {
		end = seconds
		if end < len(s) && strings.IndexByte(".,-", s[end]) >= 0 {
			if fraction := run(s, end+1, 12, isDigit); fraction > end+1 {
				end = fraction
			}
		}
	}
	return either(s, end, "Z", "+99:99", "-99:99", "+9999", "-9999")
}

// matchStamp: 20261121-095900Z, 20260218_001, run_20261121-095900Z.
func matchStamp(s string, i int) int {
	begin := either(s, i, "run_")
	end := either(s, begin, "99999999-999", "99999999_999", "99999999T999")
	if end == begin {
		return i
	}
	end = run(s, end, 9, isDigit)
	return either(s, end, "Z")
}

// matchClock: 12:00:01, 9:59:59.123, 3:05 PM.
func matchClock(s string, i int) int {
	minutes := either(s, i, "99:99", "9:99")
	if minutes == i {
		return i
	}
	if end := fixed(s, minutes, ":99"); end > minutes {
		if end < len(s) && (s[end] == '.' || s[end] == ',') {
			if fraction := run(s, end+1, 12, isDigit); fraction > end+1 {
				return fraction
			}
		}
		return end
	}
	half := either(s, minutes, " AM", " PM", "AM", "PM", " am", " pm", "am", "pm")
	if half > minutes && edge(s, half) {
		return half
	}
	return i
}

var monthNames = []string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

var dayNames = []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// skipWeekday returns the end of "Sat, " or "Sat ".
func skipWeekday(s string, i int) int {
	if end := either(s, i, dayNames...); end > i {
		if next := either(s, end, ", ", " "); next > end {
			return next
		}
	}
	return i
}

// matchDayMonth: Sat, 21 Nov 2026, 21-Nov-26, 21/Nov/2026.
func matchDayMonth(s string, i int) int {
	j := skipWeekday(s, i)
	day := either(s, j, "99", "9")
	if day == j || day >= len(s) || strings.IndexByte(" -/", s[day]) < 0 {
		return i
	}
	month := either(s, day+1, monthNames...)
	if month == day+1 || month >= len(s) || s[month] != s[day] {
		return i
	}
	if year := either(s, month+1, "9999", "99"); year > month+1 {
		return year
	}
	return i
}

// matchMonthDay: Sat Nov 21, Oct 9, 2026.
func matchMonthDay(s string, i int) int {
	j := skipWeekday(s, i)
	month := either(s, j, monthNames...)
	if month == j || month >= len(s) || s[month] != ' ' {
		return i
	}
	day := either(s, month+1, "99", "9")
	if day == month+1 || !edge(s, day) {
		return i
	}
	if year := either(s, day, ", 9999", " 9999"); year > day && edge(s, year) {
		return year
	}
	return day
}
