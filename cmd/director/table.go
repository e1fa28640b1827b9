package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// gap is the number of spaces between two columns.
const gap = 3

// shrinking describes a column that may shrink on a narrow terminal. least is its minimum width; 0 means that the
// column may disappear.
type shrinking struct{ column, least int }

// columnsOf returns the terminal's width, or 0 if to is not a terminal.
func columnsOf(to io.Writer) int {
	f, ok := to.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// writeTable writes rows in columns. If they exceed the terminal's width, it shrinks the columns listed in may, in that
// order, and then cuts the lines.
func writeTable(to io.Writer, rows [][]string, columns int, may []shrinking) error {
	widths := make([]int, len(rows[0]))
	total := -gap
	for c := range widths {
		for _, row := range rows {
			widths[c] = max(widths[c], len([]rune(row[c])))
		}
		total += widths[c] + gap
	}
	for _, s := range may {
		over := total - columns
		if columns == 0 || over <= 0 {
			break
		}
		was := widths[s.column]
		if widths[s.column] = max(min(was, s.least), was-over); s.least == 0 {
			widths[s.column] = 0
			total -= gap
		}
		total -= was - widths[s.column]
	}
	var text strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for c, cell := range row {
			if widths[c] > 0 {
				cell = cut(cell, widths[c])
				line.WriteString(cell + strings.Repeat(" ", widths[c]-len([]rune(cell))+gap))
			}
		}
		whole := strings.TrimRight(line.String(), " ")
		if columns > 0 {
			whole = cut(whole, columns)
		}
		text.WriteString(whole + "\n")
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// cut shortens s to a maximum of most characters, including the ellipsis.
func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return strings.TrimRight(string(r[:max(most-1, 0)]), " ") + "…"
	}
	return s
}
