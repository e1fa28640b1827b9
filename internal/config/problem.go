package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"

	"retake/internal/secrets/redact"
)

// Problem is one mistake in the configuration.
type Problem struct {
	Where string // file:line:col, file, "environment NAME", "flag" or "run"
	Key   string // section.key; empty for a problem with the whole file
	Text  string // the mistake and the allowed values

	rank, line, col int // for sorting: the file by position, then environment, flags and [recovery]'s files
}

// String formats the problem on one line, with secrets redacted.
func (p Problem) String() string {
	s := p.Where + ": "
	if p.Key != "" {
		s += cut(p.Key, mostOfKey) + ": "
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, redact.Text(s+p.Text))
}

const mostOfKey = 120 // maximum length of a key in a message; known keys have fewer than 50 characters

// cut shortens a text to the given number of characters, and appends "..." if it was longer.
func cut(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

// Problems are the mistakes in one configuration, in order.
type Problems []Problem

// String formats one problem per line, without a trailing newline.
func (ps Problems) String() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns all problems as one error, or nil if there are no problems.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return errors.New(ps.String())
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.line, b.line), cmp.Compare(a.col, b.col),
			cmp.Compare(a.Where, b.Where), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(ps)
}
