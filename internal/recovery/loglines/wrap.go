package loglines

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"retake/internal/recovery/plaintext"
)

// Widths, in characters, at which programs wrap text: a terminal's width minus a margin and a border.
const (
	narrowest = 54
	shortest  = 30 // minimum width of the widest line
	stub      = 3  // minimum width of a line that precedes a long word
	widest    = 200
)

// Crossing counts the known phrases that begin in left or between, and end in right.
type Crossing func(left, between, right string) int

// unwrap joins lines that were wrapped at some width. boxed marks lines that were in a frame. A line counts as wrapped
// if the next line's first word would not have fit on it and the two lines read as continuous text. Lists are not
// joined.
func unwrap(lines []string, boxed []bool, crossing Crossing) []string {
	out := lines[:0:0]
	s := &segment{crossing: crossing}
	for i := 0; i < len(lines); {
		end := i + 1
		for lines[i] != "" && end < len(lines) && strings.TrimSpace(lines[end]) != "" && boxed[end] == boxed[i] {
			end++
		}
		if s.take(lines[i:end]) && s.judge(boxed[i]) {
			if len(out) == 0 {
				out = append(make([]string, 0, len(lines)), lines[:i]...)
			}
			out = s.appendTo(out)
		} else if len(out) > 0 {
			out = append(out, lines[i:end]...)
		}
		i = end
	}
	if len(out) == 0 {
		return lines
	}
	return out
}

// segment holds the lines between blank lines.
type segment struct {
	crossing Crossing
	lines    []string
	widths   []int
	width    int // of the widest line
	bonds    []bond
	joins    []bool
	soft     int // number of joins after lines with room left
	hard     int // number of joins after full lines
}

// take restarts with new lines, and reports whether they may have been wrapped.
func (s *segment) take(lines []string) bool {
	if len(lines) < 2 {
		return false
	}
	s.lines, s.width, s.widths, s.soft, s.hard = lines, 0, s.widths[:0], 0, 0
	for _, l := range lines {
		if len(l) > 4*widest {
			return false
		}
		s.width = max(s.width, len(l))
	}
	if s.width < shortest {
		return false
	}
	s.width = 0
	for _, l := range lines {
		if strings.HasSuffix(l, "  ") {
			l = strings.TrimRight(l, " ")
		}
		s.widths = append(s.widths, utf8.RuneCountInString(l))
		s.width = max(s.width, s.widths[len(s.widths)-1])
	}
	return s.width >= shortest && s.width <= widest
}

// bond is the strength of the evidence that two lines belong together.
type bond int

const (
	apart bond = iota
	unclear
	readsOn
)

// judge decides which lines to join with the next line, and reports whether it joins any. Lines from a frame need less
// evidence, because programs that draw frames wrap their content.
func (s *segment) judge(boxed bool) bool {
	s.bonds = append(s.bonds[:0], make([]bond, len(s.lines))...)
	bonds := s.bonds
	clear, open := 0, jsonState{}
	if boxed {
		clear = 2
	}
	for i := range len(s.lines) - 1 {
		if i == 0 || bonds[i-1] == apart {
			open = jsonState{}
		}
		if !s.full(i) {
			continue
		}
		open.read(s.lines[i])
		if bonds[i] = s.bondOf(s.lines[i], s.lines[i+1], open); bonds[i] == readsOn {
			clear++
		}
	}
	if clear == 0 {
		return false
	}
	s.joins = make([]bool, len(s.lines))
	for i, b := range bonds {
		if s.joins[i] = b == readsOn || b == unclear && (clear > 1 || s.widths[i] == s.width); s.joins[i] {
			if s.widths[i] == s.width {
				s.hard++
			} else {
				s.soft++
			}
		}
	}
	return true
}

// full reports whether line i was too full for the first word of the next line.
func (s *segment) full(i int) bool {
	next := strings.TrimLeft(s.lines[i+1], " ")
	word, _, _ := strings.Cut(next, " ")
	need := s.widths[i] + 1 + utf8.RuneCountInString(word)
	return s.widths[i] == s.width && s.width >= narrowest || s.widths[i] >= stub && need > s.width && need > narrowest
}

// appendTo appends the lines to out, joined as judge has decided.
func (s *segment) appendTo(out []string) []string {
	for i := 0; i < len(s.lines); i++ {
		if !s.joins[i] {
			out = append(out, s.lines[i])
			continue
		}
		var b strings.Builder
		b.WriteString(strings.TrimRight(s.lines[i], " "))
		for ; s.joins[i]; i++ {
			next := strings.TrimLeft(s.lines[i+1], " ")
			b.WriteString(s.glue(i, next))
			b.WriteString(strings.TrimRight(next, " "))
		}
		out = append(out, b.String())
	}
	return out
}

// glue returns the text to insert between line i and the next line. It is empty if a word was cut.
func (s *segment) glue(i int, next string) string {
	line := s.lines[i]
	if s.widths[i] < s.width || strings.HasSuffix(line, " ") || len(s.lines[i+1])-len(next) == 1 {
		return " "
	}
	last, first := line[strings.LastIndexByte(line, ' ')+1:], next
	if at := strings.IndexByte(next, ' '); at >= 0 {
		first = next[:at]
	}
	cut, whole := s.phrases(line, next, 0)
	switch {
	case cut > whole:
		return ""
	case cut < whole:
		return " "
	case s.soft == 0 && s.hard > 1:
		return ""
	case slices.Contains(smallWords, strings.ToLower(last)), slices.Contains(smallWords, strings.ToLower(first)),
		strings.ContainsAny(last[len(last)-1:], ",;:.)"):
		return " "
	case len(last) > longWord && !plainWord(first), len(first) > longWord, bothDigits(last, first):
		return ""
	}
	return " "
}

// longWord is the length above which a word is likely to be an address, a path or JSON.
const longWord = 24

func plainWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
}

func bothDigits(last, first string) bool {
	return unicode.IsDigit(rune(last[len(last)-1])) && unicode.IsDigit(rune(first[0]))
}

// phrases counts the known phrases that begin in line and end in next. cut is the count if the lines are joined without
// a blank, and whole is the count with a blank. least is the minimum number of characters that a phrase must have in
// each line.
func (s *segment) phrases(line, next string, least int) (cut, whole int) {
	const near = 48
	left, right := line[max(0, len(line)-near):], next[:min(len(next), near)]
	if len(left) < least || len(right) < least {
		return 0, 0
	}
	count := func(between string) int {
		n := s.crossing(left, between, right)
		if least > 0 && n > 0 {
			from := min(len(left)-least+1+len(between), len(left)) // a blank counts as a character of left
			short := left[from:]
			n -= s.crossing(short, between, right) + s.crossing(left, between, right[:least-1]) - s.crossing(short,
				between, right[:least-1])
		}
		return n
	}
	return count(""), count(" ")
}

// smallWords are rarely part of another word. They never end a sentence.
var smallWords = []string{
	"the", "a", "an", "of", "to", "for", "from", "with", "by", "in", "on", "is", "are", "was",
	"be", "has", "have", "not", "no", "and", "or", "that", "this", "your", "you", "it", "its", "as", "at", "if", "can",
	"could", "will", "please",
}

// bondOf compares a full line with the next line. open is the JSON state at the end of line.
func (s *segment) bondOf(line, next string, open jsonState) bond {
	bare := strings.TrimLeft(next, " ")
	indented := len(bare) < len(next)
	switch {
	case (open.inString || open.depth > 0) && !Lists(bare):
		return readsOn
	case bare[0] == '\t', beginAlike(line, bare), Lists(line), Lists(bare), strings.HasPrefix(strings.TrimLeft(line, " "), `File "`) &&
		strings.Contains(line, ", in "):
		return apart
	}
	trimmed := strings.TrimRight(line, " ")
	if cut, whole := s.phrases(trimmed, bare, 4); cut+whole > 0 {
		return readsOn
	}
	if strings.Count(line, "(") > strings.Count(line, ")") && strings.Contains(bare, ")") {
		return readsOn
	}
	end, _ := utf8.DecodeLastRuneInString(trimmed)
	first, _ := utf8.DecodeRuneInString(bare)
	last := trimmed[strings.LastIndexByte(trimmed, ' ')+1:]
	if startsAnew(bare) {
		return apart
	}
	if strings.Contains(bare, ": ") && label.MatchString(bare) {
		return unclear
	}
	// the next line may come from another program
	if _, _, logged := Parse(strings.TrimLeft(line, " ")); logged && !slices.Contains(smallWords, last) {
		return unclear
	}
	sentence := strings.ContainsRune(".!?", end)
	switch {
	case end == ':' && indented && strings.Count(bare, " ") < 2 && !strings.ContainsRune("'\"`", first):
		// a list of names
		return apart
	case end == '/' && strings.Contains(last, "://"):
		return unclear
	case strings.ContainsRune(",([{/\\-_=&@'\"`", end), slices.Contains(smallWords, last),
		strings.ContainsRune(",.)]};", first),
		!sentence && strings.ContainsRune("!?/_=&%'`\"", first),
		end == ':' && (unicode.IsLower(first) || unicode.IsDigit(first)) && strings.Contains(bare, " "),
		unicode.IsLower(first) && !sentence && !strings.ContainsRune(":;)]}", end),
		unicode.IsDigit(first) && (unicode.IsLetter(end) || unicode.IsDigit(end)):
		return readsOn
	}
	return unclear
}

// label matches one or two words followed by a colon at the start of a line. They can be a label, or part of a
// sentence.
var label = regexp.MustCompile(`^[A-Za-z][\w.-]*(?: [a-z]+)?(?:\[\d+\])?: `)

// isPlace reports whether a line begins with a position in a file (a.go:7:2: x, a.cs(7,2)), or with the name of a field
// ("a": x, a=x).
func isPlace(line string) bool {
	name, file, letter := 0, 0, false // lengths of the longest prefixes that are valid as a name and as a file path
	for ; file < len(line); file++ {
		c := line[file]
		if !plaintext.IsWord(c) && c != '.' && c != '/' && c != '\\' && c != '-' {
			break
		}
		letter = letter || plaintext.IsLetter(c) || c == '_'
		if name == file && (plaintext.IsWord(c) || c == '-') {
			name++
		}
	}
	c := timeCursor{s: line, i: name}
	if name > 0 && c.byte("=") {
		return true
	}
	c.i = file
	if letter && c.byte(":") && c.digits() {
		if at := c.i; c.byte(":") && !c.digits() {
			c.i = at
		}
		c.byte(":")
		if c.byte(" ") {
			return true
		}
	}
	if line != "" && line[0] == '"' {
		c.i = 1
		for c.i < len(line) && (plaintext.IsWord(line[c.i]) || line[c.i] == '-') {
			c.i++
		}
		if c.i > 1 && strings.HasPrefix(line[c.i:], `": `) {
			return true
		}
	}
	word := strings.IndexAny(line, "\t\n\f\r ")
	if word < 0 {
		word = len(line)
	}
	for i := 1; i < word; i++ {
		if c.i = i; line[i] == '(' && c.byte("(") && c.digits() && c.byte(",") && c.digits() && c.byte(")") {
			return true
		}
	}
	return false
}

// starts contains prefixes of lines that do not continue another line.
var starts = []string{
	"- ", "* ", "• ", "· ", "at ", "File \"", "--", "==", "__", "++", "@@", "$ ", "> ", ">>", "#", "✖", "✗", "✘", "✓",
	"✔", "×", "›", "❯", "⎿", "●", "|", "~", "^", "[", "<",
	"{\"", "E ", "✕", "⨯", "...", "Caused by", "Traceback", "FAIL", "PASS", "npm ", "During handling",
}

// startsBy groups starts by first byte.
var startsBy = byFirst(starts)

// beginAlike reports whether two lines have the same first word.
func beginAlike(line, next string) bool {
	before, _, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
	first, _, _ := strings.Cut(next, " ")
	return before == first && len(first) > 1
}

// startsAnew reports whether next, without its indentation, begins an entry instead of continuing the previous line.
func startsAnew(next string) bool {
	if slices.ContainsFunc(startsBy[next[0]], func(p string) bool { return strings.HasPrefix(next, p) }) ||
		isPlace(next) || plainLevel.match(next) != nil {
		return true
	}
	first, _, _ := strings.Cut(next, " ")
	if n := strings.TrimRight(first, ".)"); len(n) < len(first) && strings.Trim(n, "0123456789") == "" { // 1. 2)
		return true
	}
	_, _, logged := Parse(next)
	return logged
}
