package advise

import (
	"io"
	"strings"
	"unicode/utf8"
)

// widths are the maximum column widths of a policy table, in characters.
var widths = [...]int{20, 21, 20, 14, 17}

// cells are one row; a cell may have several lines.
type cells [len(widths)]string

// writeRow writes the lines of cells side by side, separated by tabs for a tabwriter.
func writeRow(w io.Writer, row cells) {
	for more := true; more; {
		line := ""
		more = false
		for i, cell := range row {
			first, rest, found := strings.Cut(strings.Join(wrap(cell, widths[i]), "\n"), "\n")
			line += "\t" + first
			row[i], more = rest, more || found
		}
		_, _ = io.WriteString(w, line[1:]+"\n")
	}
}

// wrap breaks the lines of s at blanks, or within a word that exceeds the width. Continuation lines are indented.
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
