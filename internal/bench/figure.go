package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Figure is one measured value.
type Figure struct {
	Section string  `json:"section"` // as in Sections
	What    string  `json:"what"`    // a clause that describes the measurement and its settings
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"` // "/s", "ms", "µs", "B", "%", "cores"; empty for a count
	// Beside is the figure on the other side of the comparison, with the same unit and from the same run. It is 0 if
	// the figure is not compared.
	Beside float64 `json:"beside,omitempty"`
	Of     string  `json:"of,omitempty"` // the other side of the comparison, such as "raw bus"
	Goal   Goal    `json:"goal,omitzero"`
}

// Goal is the expected range of a figure. The zero Goal means that the figure is for information only.
type Goal struct {
	AtLeast float64 `json:"at_least,omitempty"`
	AtMost  float64 `json:"at_most,omitempty"`
	Ratio   bool    `json:"ratio,omitempty"` // the bounds apply to Ratio instead of Value
	// Limit explains, based on a profile, why the goal is out of reach. It is printed if the figure misses the goal.
	Limit string `json:"limit,omitempty"`
}

// Ratio returns the ratio to the comparison, or NaN for a figure without one.
func (f Figure) Ratio() float64 {
	if f.Beside == 0 {
		return math.NaN()
	}
	return f.Value / f.Beside
}

// Met reports whether a figure reaches its goal. A figure without a goal always does.
func (f Figure) Met() bool {
	v, g := f.Value, f.Goal
	if g.Ratio {
		v = f.Ratio()
	}
	return !(g.AtLeast != 0 && !(v >= g.AtLeast)) && !(g.AtMost != 0 && !(v <= g.AtMost)) // NaN never meets a goal
}

func (g Goal) String() string {
	var all []string
	mark := ""
	if g.Ratio {
		mark = " ×"
	}
	if g.AtLeast != 0 {
		all = append(all, "≥ "+number(g.AtLeast)+mark)
	}
	if g.AtMost != 0 {
		all = append(all, "≤ "+number(g.AtMost)+mark)
	}
	return strings.Join(all, ", ")
}

// number formats a value with three significant digits and thousands separators.
func number(v float64) string {
	if math.Abs(v) < 1000 {
		return strconv.FormatFloat(roundTo(v, 3), 'f', -1, 64)
	}
	s := fmt.Sprintf("%.0f", math.Abs(v))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v < 0 {
		return "-" + s
	}
	return s
}

func roundTo(v float64, digits int) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	scale := math.Pow(10, float64(digits-1)-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
