package bench

import (
	"fmt"
	"unicode/utf8"
)

// String returns the figure's table row: ✓ or ✗ if the figure has a goal, then its name, value, ratio and goal.
func (f Figure) String() string {
	mark, ratio, goal := " ", "", f.Goal.String()
	if goal != "" {
		mark = "✗"
		if f.Met() {
			mark = "✓"
		}
		goal = "  goal " + goal
	}
	if f.Beside != 0 {
		ratio = fmt.Sprintf("  %s × of %s (%s)", number(f.Ratio()), f.Of, withUnit(f.Beside, f.Unit))
	}
	return fmt.Sprintf("%s %s %12s%s%s", mark, pad(f.What, 72), withUnit(f.Value, f.Unit), ratio, goal)
}

func withUnit(v float64, unit string) string {
	if unit == "" || unit[0] == '/' || unit == "%" {
		return number(v) + unit
	}
	return number(v) + " " + unit
}

// pad appends spaces to s until it is width characters long.
func pad(s string, width int) string {
	for n := utf8.RuneCountInString(s); n < width; n++ {
		s += " "
	}
	return s
}
