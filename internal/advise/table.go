package advise

import (
	"strings"
	"unicode/utf8"
)

// columns of the table of a policy.
const columns = 5

// table prints cells of several lines side by side; no line is wider than its column.
type table struct {
	widths [columns]int // the most; narrower if nothing needs them
	rows   [][columns][]string
}

func (t *table) add(cells [columns]string) {
	var row [columns][]string
	for i, cell := range cells {
		row[i] = wrap(cell, t.widths[i])
	}
	t.rows = append(t.rows, row)
}

func (t *table) write(b *strings.Builder) {
	var widths [columns]int
	for _, row := range t.rows {
		for i, lines := range row {
			for _, l := range lines {
				widths[i] = max(widths[i], utf8.RuneCountInString(l))
			}
		}
	}
	for _, row := range t.rows {
		height := 0
		for _, lines := range row {
			height = max(height, len(lines))
		}
		for n := range height {
			var line strings.Builder
			for i, lines := range row {
				cell := ""
				if n < len(lines) {
					cell = lines[n]
				}
				line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
}

// wrap breaks the lines of s at blanks, or within a word where it alone is wider; what is broken off is indented.
func wrap(s string, width int) (lines []string) {
	const indent = "  "
	for _, line := range strings.Split(s, "\n") {
		for utf8.RuneCountInString(line) > width {
			head := string([]rune(line)[:width+1])
			at := strings.LastIndex(head, " ")
			if strings.TrimSpace(head[:max(at, 0)]) == "" {
				at = len(string([]rune(line)[:width]))
			}
			lines = append(lines, strings.TrimRight(line[:at], " "))
			line = indent + strings.TrimLeft(line[at:], " ")
		}
		lines = append(lines, line)
	}
	return lines
}
