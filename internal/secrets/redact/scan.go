package redact

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rule describes how to find one type of secret.
type rule struct {
	name  string
	keys  []string // literals; every line that the pattern matches contains at least one of them
	expr  string
	at    bool   // every match begins with a key, so search tries the pattern only there
	exact bool   // keys are case-sensitive
	edge  bool   // a match must follow a non-word character
	then  string // text that the rest of the line must contain
	lines bool   // a match that begins with a key may span several lines
	// group with the secret. 0 means the first group that matched, or the whole match without groups. -1 always means
	// the whole match.
	group   int
	entropy float64 // minimum entropy, in bits per character
	digit   bool    // the secret must contain a digit, to exclude words
	check   func(string) bool
}

const (
	// assigned matches the text between a name and its value, including in nested JSON.
	assigned = `(?:[ \t\w.-]{0,20})[\s'"\\]{0,4}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=\\]{0,6}`
	// end matches the text after a value.
	end = `(?:[^A-Za-z0-9]|$)`
)

const (
	// aheadBytes is the number of bytes after a key that are searched first. If a match reaches the end of these bytes,
	// the whole line is searched.
	aheadBytes = 1 << 10
	// behindBytes is the number of bytes before a key that are searched in a long line.
	behindBytes = 512
)

// searched is a rule that is ready to use.
type searched struct {
	rule
	pattern func() *regexp.Regexp // compiled on first use, because most rules are never used
}

// key is a literal that triggers a rule.
type key struct {
	text, exact string // the literal in lower case, and the original if it is case-sensitive
	rules       []int
}

// index finds the keys in a text.
type index struct {
	rules []searched
	// heads contains 1 + the index in keys, or 0 for no key. The function head computes the position in heads from a
	// key's first two bytes.
	heads [1 << 14]uint16
	keys  [][]key
}

func head(a, b byte) int { return int(a&0x7f)<<7 | int(b&0x7f) }

func newIndex(tables ...[]rule) *index {
	x := &index{}
	for _, r := range slices.Concat(tables...) {
		expr := r.expr
		if r.at || r.lines {
			expr = "^(?:" + expr + ")"
		}
		x.rules = append(x.rules,
			searched{r, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })})
		for _, k := range r.keys {
			x.add(k, r.exact, len(x.rules)-1)
		}
	}
	return x
}

func (x *index) add(text string, isExact bool, r int) {
	k := key{text: lowerASCII(text)}
	if isExact {
		k.exact = text
	}
	h := head(k.text[0], k.text[1])
	if x.heads[h] == 0 {
		x.keys = append(x.keys, nil)
		x.heads[h] = uint16(len(x.keys))
	}
	same := &x.keys[x.heads[h]-1]
	i := slices.IndexFunc(*same, func(o key) bool { return o.text == k.text && o.exact == k.exact })
	if i < 0 {
		*same = append(*same, k)
		i = len(*same) - 1
	}
	(*same)[i].rules = append((*same)[i].rules, r)
}

// all indexes all rules, and shaped indexes only the rules for values with a distinctive form.
var (
	all    = sync.OnceValue(func() *index { return newIndex(shapes, library, named, guesses) })
	shaped = sync.OnceValue(func() *index { return newIndex(shapes, library) })
)

// span is a range of a text, [from, to).
type span struct{ from, to int }

// search calls found for every secret, in any order.
func (x *index) search(text string, found func(span)) {
	lower := lowerASCII(text)
	var done places
	for i := 0; i+1 < len(lower); i++ {
		h := x.heads[head(lower[i], lower[i+1])]
		if h == 0 {
			continue
		}
		for _, k := range x.keys[h-1] {
			if !strings.HasPrefix(lower[i:], k.text) || k.exact != "" && !strings.HasPrefix(text[i:], k.exact) {
				continue
			}
			for _, r := range k.rules {
				if rule := &x.rules[r]; i >= done.of(r) {
					if next := rule.apply(text, lower, i, found); next > i+1 {
						done.set(r, next)
					}
				}
			}
		}
	}
}

// places holds the position from which each rule continues after finding a match or searching a whole line. It is a
// slice, because it has only a few elements.
type places []struct{ rule, next int }

func (p places) of(rule int) int {
	for _, d := range p {
		if d.rule == rule {
			return d.next
		}
	}
	return 0
}

func (p *places) set(rule, next int) {
	for i := range *p {
		if (*p)[i].rule == rule {
			(*p)[i].next = next
			return
		}
	}
	*p = append(*p, struct{ rule, next int }{rule, next})
}

// apply applies a rule at the position of a key. It returns the position from which to apply the rule again.
func (r *searched) apply(text, lower string, at int, found func(span)) (next int) {
	switch {
	case r.name == byName:
		return lookAtName(text, lower, at, found)
	case r.name == keyTail:
		return lookAtKeyEnd(text, at, found)
	case r.lines:
		m := r.pattern().FindStringSubmatchIndex(text[at:])
		if m == nil {
			return at + 1
		}
		r.judge(text[at:], m, at, found)
		return at + m[1]
	case r.at && r.edge && !isEdge(text, at):
		return at + 1
	case r.at:
		line := restOfLine(text, at, aheadBytes)
		if r.then != "" && !strings.Contains(text[at:line], r.then) {
			return at + 1
		}
		m := r.pattern().FindStringSubmatchIndex(text[at:line])
		if m != nil && at+m[1] == line && line < len(text) && text[line] != '\n' {
			m = r.pattern().FindStringSubmatchIndex(text[at:restOfLine(text, at, len(text))])
		}
		if m == nil {
			return at + 1
		}
		r.judge(text[at:], m, at, found)
		return at + max(1, m[1])
	}
	from := max(strings.LastIndexByte(text[max(0, at-behindBytes):at], '\n')+1+max(0, at-behindBytes), 0)
	to := restOfLine(text, at, 4*aheadBytes)
	r.matches(text[from:to], from, found)
	return to
}

// keyTail is the rule for a private key with a missing beginning. It covers the lines before the end marker that have
// the form of key lines.
const keyTail = "end of a private key"

var (
	endOfKey  = regexp.MustCompile(`^-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`)
	lineOfKey = regexp.MustCompile(`^[ \t]*[A-Za-z0-9+/=]{1,76}[ \t\r]*$`)
)

func lookAtKeyEnd(text string, at int, found func(span)) (next int) {
	m := endOfKey.FindStringIndex(text[at:])
	if m == nil {
		return at + 1
	}
	from := strings.LastIndexByte(text[:at], '\n') + 1
	if strings.Trim(text[from:at], " \t") != "" {
		from = at
	}
	for from > 0 {
		line := strings.LastIndexByte(text[:from-1], '\n') + 1
		if text[from-1] != '\n' || !lineOfKey.MatchString(text[line:from-1]) {
			break
		}
		from = line
	}
	found(span{from, at + m[1]})
	return at + m[1]
}

// restOfLine returns the offset of the end of the line, or at+most if the line is longer.
func restOfLine(text string, at, most int) int {
	piece := text[at:min(len(text), at+min(most, len(text)))]
	if n := strings.IndexByte(piece, '\n'); n >= 0 {
		return at + n
	}
	return at + len(piece)
}

func (r *searched) matches(text string, offset int, found func(span)) {
	for _, m := range r.pattern().FindAllStringSubmatchIndex(text, -1) {
		r.judge(text, m, offset, found)
	}
}

// judge calls found for the secret part of a match, if the match meets all conditions of the rule.
func (r *searched) judge(text string, m []int, offset int, found func(span)) {
	group := r.group
	for g := 1; group == 0 && 2*g < len(m); g++ {
		if m[2*g] >= 0 {
			group = g
		}
	}
	from, to := m[2*max(group, 0)], m[2*max(group, 0)+1]
	if from < 0 {
		return
	}
	secret := text[from:to]
	if secret == "" || strings.Contains(secret, Marker) || r.entropy > 0 && entropy(secret) <= r.entropy ||
		r.digit && !strings.ContainsAny(secret, "0123456789") || r.check != nil && !r.check(secret) {
		return
	}
	found(span{offset + from, offset + to})
}

// isEdge reports whether a word can begin here, such as after an escape sequence in terminal output, JSON, a URL or a
// shell command.
func isEdge(text string, at int) bool {
	if at == 0 || !isWord(text[at-1]) {
		return true
	}
	c, before := text[at-1], text[max(0, at-24):at-1]
	switch {
	case strings.HasSuffix(before, `\`):
		return strings.IndexByte("nrtbf0", c) >= 0
	case c == 'm' && strings.Contains(before, "\x1b["):
		return strings.Trim(before[strings.LastIndex(before, "\x1b[")+2:], "0123456789;") == ""
	case isHex(c) && len(before) > 1 && isHex(before[len(before)-1]):
		before = before[:len(before)-1]
		return strings.HasSuffix(before, "%") || strings.HasSuffix(before, `\x`) || strings.HasSuffix(before, `\u00`)
	}
	return false
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// entropy returns the entropy of a text in bits per character.
func entropy(text string) (bits float64) {
	var counts [256]int
	for i := range len(text) {
		counts[text[i]]++
	}
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(text))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// masked replaces secrets with Marker.
func masked(text string, x *index) string {
	var spans []span
	x.search(text, func(s span) { spans = append(spans, s) })
	if len(spans) == 0 {
		return text
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var out strings.Builder
	done := 0
	for i, s := range spans {
		if s.to <= done {
			continue
		}
		if s.from >= done && (i == 0 || s.from > done || !strings.HasSuffix(out.String(), Marker)) {
			out.WriteString(text[done:s.from] + Marker)
		}
		done = s.to
	}
	out.WriteString(text[done:])
	return out.String()
}

var lowered = func() (table [256]byte) {
	for c := range table {
		table[c] = byte(c)
		if 'A' <= c && c <= 'Z' {
			table[c] += 'a' - 'A'
		}
	}
	return table
}()

// lowerASCII is like strings.ToLower, but keeps the length.
func lowerASCII(text string) string {
	lower := []byte(text)
	for i, c := range lower {
		lower[i] = lowered[c]
	}
	return string(lower)
}
