package loglines

import (
	"strings"
	"unicode/utf8"

	"retake/internal/recovery/plaintext"
)

// Lines holds the lines of a text and their levels.
type Lines struct {
	Text   string
	Lines  []string // of Text
	levels []Level  // may be shorter than Lines; the remaining lines do not state a level
	Logged bool     // at least one line has a logger's prefix
}

// Level returns the level of line n.
func (l *Lines) Level(n int) Level {
	if n < len(l.levels) {
		return l.levels[n]
	}
	return None
}

// Read restores the lines of a clean text. It uses crossing to detect words that a terminal cut at the end of a line.
func Read(text string, crossing Crossing) Lines {
	if text == "" {
		return Lines{}
	}
	lines := strings.Split(text, "\n")
	unboxed, boxed := unbox(dedent(lines))
	joined := unwrap(unboxed, boxed, crossing)
	r := reader{crossing: crossing}
	if &joined[0] != &lines[0] {
		r.lines = make([]string, 0, len(joined))
	}
	for n := range joined {
		r.line(joined, n)
	}
	if r.lines == nil {
		return Lines{Text: text, Lines: lines, levels: r.levels, Logged: r.logged}
	}
	return Lines{Text: strings.Join(r.lines, "\n"), Lines: r.lines, levels: r.levels, Logged: r.logged}
}

// reader collects lines.
type reader struct {
	crossing Crossing
	lines    []string // nil while the lines are unchanged
	levels   []Level
	logged   bool
}

// line adds the message of line n.
func (r *reader) line(lines []string, n int) {
	message, level, logged := Parse(lines[n])
	text, quoted := message, logged && strings.Contains(message, "\n")
	if !quoted {
		text, quoted = unquote(message)
	}
	if r.lines == nil && (logged || quoted) {
		r.lines = append(make([]string, 0, len(lines)+strings.Count(text, "\n")), lines[:n]...)
	}
	r.logged = r.logged || logged
	switch {
	case quoted:
		r.quoted(text, level, 1)
	case r.lines != nil:
		r.add(message, level)
	}
}

// add appends a line and its level.
func (r *reader) add(line string, level Level) {
	if level != None {
		for len(r.levels) < len(r.lines) {
			r.levels = append(r.levels, None)
		}
		r.levels = append(r.levels, level)
	}
	r.lines = append(r.lines, line)
}

// quoted adds the lines of a quoted text, which may itself contain quoted text.
func (r *reader) quoted(text string, level Level, quotes int) {
	for line := range strings.SplitSeq(strings.TrimSuffix(plaintext.WithoutControl(text), "\n"), "\n") {
		message, own, logged := Parse(line)
		level := level
		if logged && own != None {
			level = own
		}
		r.logged = r.logged || logged
		inner, again := message, logged && strings.Contains(message, "\n")
		if !again && quotes < maxQuotes {
			inner, again = unquote(message)
		}
		if again {
			r.quoted(inner, level, quotes+1)
		} else {
			r.add(message, level)
		}
	}
}

// dedent removes the common margin of all lines. It keeps any other indentation, which is significant in lists of
// options and in the output of linters.
func dedent(lines []string) []string {
	margin := -1
	for _, l := range lines {
		n := 0
		for n < len(l) && l[n] == ' ' {
			n++
		}
		switch {
		case n == len(l):
		case n == 0, l[n] == '-' && !strings.HasPrefix(l[n:], "- "), margin < 0 && '0' <= l[n] && l[n] <= '9':
			return lines
		case margin < 0 || n < margin:
			margin = n
		}
	}
	if margin < 0 {
		return lines
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l[min(margin, len(l)):]
	}
	return out
}

// Characters used to draw the sides and edges of frames.
const (
	sides = "│┃║▌▎▏┆┊╎╏"
	edges = "╭╮╰╯┌┐└┘╔╗╚╝├┤┠┨─━═╴╶╌┄┈"
)

// unbox removes frames, and reports for each line whether it was in a frame.
func unbox(lines []string) ([]string, []bool) {
	boxed := make([]bool, len(lines))
	var out []string
	for n, line := range lines {
		bare := strings.TrimLeft(line, " ")
		if len(bare) < 3 || bare[0] != 0xe2 {
			continue
		}
		c, size := utf8.DecodeRuneInString(bare)
		in := ""
		switch {
		case strings.ContainsRune(sides, c):
			in = strings.TrimPrefix(bare[size:], " ")
			if cut := strings.TrimRight(in, " "); strings.TrimRight(cut, sides) != cut {
				in = strings.TrimRight(strings.TrimRight(cut, sides), " ")
			}
		case strings.ContainsRune("╭╰┌└╔╚─━═", c) && strings.Trim(bare, edges+" ") == "":
		default:
			continue
		}
		if out == nil {
			out = append(out, lines...)
		}
		out[n], boxed[n] = in, true
	}
	if out == nil {
		return lines, boxed
	}
	return out, boxed
}
