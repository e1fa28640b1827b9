package classify

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"retake/internal/recovery/plaintext"
)

// pattern is a rule's expression, split into a word search and the rest. It matches the same lines but is faster,
// because one search of the line finds the words of all rules, whereas an expression tries each of its alternatives.
type pattern struct {
	whole *expression
	words []uint16 // a line that contains one of these words matches
	ways  []way    // a line that matches one of these alternatives matches
}

// way is one alternative of an expression.
type way struct {
	need need
	re   *expression
}

// need is a necessary condition on a line. It holds if the line contains one of words, meets every need of all, and
// meets at least one need of any. Empty fields are ignored, so every line meets the zero need.
type need struct {
	words    []uint16
	all, any []need
}

func (n *need) isNothing() bool { return len(n.words)+len(n.all)+len(n.any) == 0 }

// Limits on the words of patterns. A part of an expression with more than maxSpelled words remains an expression.
const (
	maxSpelled = 50        // words for one part of an expression
	maxWords   = 1<<16 - 1 // words in all rules; exceeding it is an error
)

// patternOf splits an expression into words, and alternatives that still need a regular expression.
func patternOf(whole *expression, words *vocabulary) *pattern {
	p := &pattern{whole: whole}
	exprs := alternatives(whole.text)
	if whole.groups > 0 {
		exprs = beginnings(whole.text)
	}
	for _, expr := range exprs {
		re, tree, err := parseExpression(expr)
		// the parts are invalid or have different groups, so use the whole expression
		if err != nil || re.groups != whole.groups && whole.groups == 1 {
			return &pattern{whole: whole, ways: []way{{re: whole}}}
		}
		if s := spell(tree); whole.groups == 0 && s.ok && s.sure && s.shortest() >= shortestWord {
			p.words = append(p.words, words.idsOf(s.words)...)
			continue
		}
		p.ways = append(p.ways, way{words.needOf(tree), re})
	}
	return p
}

// beginnings splits an expression that begins with a group of alternatives. For example, (?:a|b)c becomes ac and bc.
// The leftmost match wins. If several alternatives match at the same position, the first of them wins.
func beginnings(expr string) []string {
	flags := flagGroup.FindString(expr)
	rest, ok := strings.CutPrefix(expr[len(flags):], "(?:")
	if end := groupEnd(rest); ok && len(alternatives(expr)) == 1 && end < len(rest) &&
		(end+1 == len(rest) || strings.IndexByte("?*+{", rest[end+1]) < 0) {
		all := alternatives(rest[:end])
		for i := range all {
			all[i] = flags + "(?:" + all[i] + ")" + rest[end+1:]
		}
		return all
	}
	return []string{expr}
}

// groupEnd returns the index of the parenthesis that closes the group in which expr begins.
func groupEnd(expr string) int {
	depth := 0
	for i := 0; i < len(expr); i++ {
		switch expr[i] {
		case '\\':
			i++
		case '[':
			i = classEnd(expr, i)
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return i
			}
		}
	}
	return len(expr)
}

// alternatives splits an expression at each | outside groups. Flags in the middle of an expression apply to all later
// alternatives.
func alternatives(expr string) (all []string) {
	if strings.Contains(expr, `\Q`) {
		return []string{expr}
	}
	begin, depth, flags, before := 0, 0, "", ""
	for i := 0; i < len(expr); i++ {
		switch expr[i] {
		case '\\':
			i++
		case '[':
			i = classEnd(expr, i)
		case '(':
			if depth++; depth == 1 {
				flags += flagGroup.FindString(expr[i:])
			}
		case ')':
			depth--
		case '|':
			if depth == 0 {
				all = append(all, before+expr[begin:i])
				begin, before = i+1, flags
			}
		}
	}
	return append(all, before+expr[begin:])
}

var flagGroup = regexp.MustCompile(`^\(\?[a-zA-Z-]+\)`)

// classEnd returns the end of the character class that starts at i.
func classEnd(expr string, i int) int {
	if i++; i < len(expr) && expr[i] == '^' {
		i++
	}
	for first := i; i < len(expr) && (expr[i] != ']' || i == first); i++ {
		switch {
		case expr[i] == '\\':
			i++
		case strings.HasPrefix(expr[i:], "[:"):
			if n := strings.Index(expr[i:], ":]"); n > 0 {
				i += n + 1
			}
		}
	}
	return i
}

// spelling lists every possible match of an expression, in lower case.
type spelling struct {
	words []string
	ok    bool // the list is complete
	sure  bool // one of the words suffices for a match, in any context and case
}

func (s spelling) shortest() int {
	least := len(s.words[0])
	for _, w := range s.words {
		least = min(least, len(w))
	}
	return least
}

// spell returns the spelling of an expression.
func spell(re *syntax.Regexp) spelling {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return spelling{[]string{""}, true, true}
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary,
		syntax.OpNoWordBoundary:
		return spelling{[]string{""}, true, false}
	case syntax.OpCapture:
		return spell(re.Sub[0])
	case syntax.OpLiteral:
		return spellLiteral(re.Rune, re.Flags&syntax.FoldCase != 0)
	case syntax.OpCharClass:
		return spellClass(re.Rune)
	case syntax.OpQuest:
		s := spell(re.Sub[0])
		s.words = append(s.words, "")
		return s.bounded()
	case syntax.OpAlternate:
		all := spelling{ok: true, sure: true}
		for _, sub := range re.Sub {
			s := spell(sub)
			all = spelling{append(all.words, s.words...), all.ok && s.ok, all.sure && s.sure}
		}
		return all.bounded()
	case syntax.OpConcat:
		all := spelling{[]string{""}, true, true}
		for _, sub := range re.Sub {
			if all = all.then(spell(sub)); !all.ok {
				break
			}
		}
		return all
	}
	return spelling{}
}

func (s spelling) bounded() spelling {
	if !s.ok || len(s.words) > maxSpelled {
		return spelling{}
	}
	slices.Sort(s.words)
	s.words = slices.Compact(s.words)
	return s
}

// then returns the concatenation of s and t.
func (s spelling) then(t spelling) spelling {
	if !s.ok || !t.ok || len(s.words)*len(t.words) > maxSpelled {
		return spelling{}
	}
	both := spelling{ok: true, sure: s.sure && t.sure}
	for _, a := range s.words {
		for _, b := range t.words {
			both.words = append(both.words, a+b)
		}
	}
	return both.bounded()
}

// spellLiteral folds only ASCII letters. Other characters that fold to them are handled separately (see oddities).
func spellLiteral(runes []rune, fold bool) spelling {
	s := spelling{ok: true, sure: true}
	var word strings.Builder
	for _, r := range runes {
		switch {
		case r == utf8.RuneError, fold && r >= utf8.RuneSelf && unicode.SimpleFold(r) != r:
			return spelling{}
		case r < utf8.RuneSelf && plaintext.IsLetter(byte(r)):
			s.sure = s.sure && fold
			r |= 0x20
		}
		word.WriteRune(r)
	}
	s.words = []string{word.String()}
	return s
}

// spellClass spells out a small character class.
func spellClass(ranges []rune) spelling {
	s := spelling{ok: true, sure: true}
	has := func(r rune) bool {
		for i := 0; i < len(ranges); i += 2 {
			if ranges[i] <= r && r <= ranges[i+1] {
				return true
			}
		}
		return false
	}
	for i := 0; i < len(ranges); i += 2 {
		if ranges[i+1]-ranges[i] > maxSpelled {
			return spelling{}
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			switch {
			case r == utf8.RuneError:
				return spelling{}
			case slices.Contains(oddities, r):
			case r < utf8.RuneSelf && plaintext.IsLetter(byte(r)):
				s.sure = s.sure && has(r|0x20) && has(r&^0x20)
				s.words = append(s.words, string(r|0x20))
			default:
				s.words = append(s.words, string(r))
			}
		}
	}
	if len(s.words) == 0 {
		return spelling{}
	}
	return s.bounded()
}

// oddities are the characters outside A to Z that a case-insensitive expression treats as letters from a to z: the long
// s and the Kelvin sign.
var oddities = []rune{'\u017f', '\u212a'}

func odd(line string) bool {
	return strings.ContainsRune(line, oddities[0]) || strings.ContainsRune(line, oddities[1])
}

// needOf returns the necessary condition for a match, ignoring case.
func (v *vocabulary) needOf(re *syntax.Regexp) need {
	if s := spell(re); s.ok {
		return v.oneOf(s)
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return v.needOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return v.needOf(re.Sub[0])
		}
	case syntax.OpAlternate:
		var either need
		for _, sub := range re.Sub {
			one := v.needOf(sub)
			if one.isNothing() {
				return need{}
			}
			either.any = append(either.any, one)
		}
		return either
	case syntax.OpConcat:
		return v.needOfSequence(flat(nil, re))
	}
	return need{}
}

// flat appends the elements of a sequence to all, and descends into nested groups.
func flat(all []*syntax.Regexp, re *syntax.Regexp) []*syntax.Regexp {
	switch re.Op {
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			all = flat(all, sub)
		}
		return all
	}
	return append(all, re)
}

// needOfSequence combines the spellings in a sequence as far as the limits allow.
func (v *vocabulary) needOfSequence(subs []*syntax.Regexp) (all need) {
	nothing := spelling{words: []string{""}, ok: true}
	run := nothing
	add := func(n need) {
		if !n.isNothing() {
			all.all = append(all.all, n)
		}
	}
	for _, sub := range subs {
		s, repeated := spell(sub), false
		// In a repetition, the first occurrence ends the current run of characters, and the last begins the next run.
		if !s.ok && (sub.Op == syntax.OpPlus || sub.Op == syntax.OpRepeat && sub.Min > 0) {
			s, repeated = spell(sub.Sub[0]), true
		}
		longer := run.then(s)
		switch {
		case longer.ok && repeated:
			add(v.oneOf(longer))
			run = s
		case longer.ok:
			run = longer
		default:
			add(v.oneOf(run))
			if run = s; !s.ok {
				add(v.needOf(sub))
				run = nothing
			}
		}
	}
	add(v.oneOf(run))
	return all
}

// oneOf returns the need for at least one of the words in s. If any of them is too short, it returns the zero need.
func (v *vocabulary) oneOf(s spelling) need {
	if s.shortest() < shortestWord {
		return need{}
	}
	return need{words: v.idsOf(s.words)}
}
