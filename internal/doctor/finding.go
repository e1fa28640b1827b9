package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Level is the severity of a finding.
type Level string

// All levels.
const (
	OK       Level = "ok"
	Warning  Level = "warning"   // the director starts, but probably not as intended
	Problem  Level = "problem"   // the director does not start or does not work
	NotTried Level = "not tried" // the text gives the reason
)

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"` // name of the row
	Level Level  `json:"level"`
	Text  string `json:"text"`
	// the remedy; empty if the text contains it, or if no remedy is necessary
	Fix string `json:"fix,omitempty"`
}

// String returns the finding on one line, with its fix.
func (f Finding) String() string {
	text := strings.Join(strings.Fields(f.Text), " ")
	if f.Fix != "" {
		text += "; to do: " + f.Fix
	}
	return text
}

// Report holds the findings of one examination.
type Report struct {
	OK       bool      `json:"ok"` // there are no problems
	Findings []Finding `json:"findings"`
}

func reportOf(findings []Finding) Report {
	return Report{
		OK:       !slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Problem }),
		Findings: findings,
	}
}

// At returns the findings at one level.
func (r Report) At(level Level) (out []Finding) {
	for _, f := range r.Findings {
		if f.Level == level {
			out = append(out, f)
		}
	}
	return out
}

// Show writes one line for each finding, or only for findings of the given levels.
func (r Report) Show(to io.Writer, levels ...Level) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		if len(levels) == 0 || slices.Contains(levels, f.Level) {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Level, f.Check, f)
		}
	}
	return w.Flush()
}

// Summary counts the problems.
func (r Report) Summary() string {
	var parts []string
	for _, c := range []struct {
		level Level
		word  string
	}{{Problem, "problem"}, {Warning, "warning"}} {
		if n := len(r.At(c.level)); n > 0 {
			parts = append(parts, plural(n, c.word))
		}
	}
	if n := len(r.At(NotTried)); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not tried", n))
	}
	text := "no problems found"
	if !r.OK {
		text = "the director cannot run with these problems"
	}
	if parts != nil {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
