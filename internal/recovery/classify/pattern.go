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

// pattern is a rule's expression, taken apart into what can be looked up and the rest. It matches what the expression matches; it
// is only quicker: an expression of a hundred ways to say one thing costs a hundred times as much as the one that a line holds.
type pattern struct {
	whole *regexp.Regexp
	words []uint16 // a line that holds one of these matches
	ways  []way    // or one for which one of these is true
}

// way is one alternative of an expression.
type way struct {
	need [][]uint16 // of each of these lists a line has to hold a word
	re   *regexp.Regexp
}

// Bounds of what is taken apart. More is left to the expressions.
const (
	maxSpelled = 24 // words that one part of an expression is spelled out to
	maxOneOf   = 64 // words of which a line has to hold one
)

// patternOf takes an expression apart that regexp.Compile has accepted.
func patternOf(whole *regexp.Regexp, words *vocabulary) *pattern {
	p := &pattern{whole: whole}
	for _, expr := range alternatives(whole.String()) {
		tree, err := syntax.Parse(expr, syntax.Perl)
		re, bad := regexp.Compile(expr)
		if err != nil || bad != nil { // an expression that is written in a way that we don't understand
			return &pattern{whole: whole, ways: []way{{re: whole}}}
		}
		if s := spell(tree); s.ok && s.sure && s.shortest() >= shortestWord {
			p.words = append(p.words, words.idsOf(s.words)...)
			continue
		}
		one := way{re: re}
		for _, list := range needs(tree) {
			one.need = append(one.need, words.idsOf(list))
		}
		p.ways = append(p.ways, one)
	}
	return p
}

// alternatives cuts an expression where it names another way to match, outside of groups. Flags in its midst hold for what follows.
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

// classEnd returns where the class of characters ends that begins at i.
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

// spelling is all that an expression can match, in lower case.
type spelling struct {
	words []string
	ok    bool // it can be spelled out
	sure  bool // whatever stands around such a word, and in any case of its letters, the expression matches it
}

func (s spelling) shortest() int {
	least := len(s.words[0])
	for _, w := range s.words {
		least = min(least, len(w))
	}
	return least
}

// spell spells an expression out.
func spell(re *syntax.Regexp) spelling {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return spelling{[]string{""}, true, true}
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
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

// then is s and t behind it.
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

// spellLiteral: only letters of ASCII are looked up in any case. What else folds to them is an oddity (see oddities).
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

// spellClass spells out a class of a few characters.
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

// oddities are the characters besides A to Z that an expression takes for one of a to z: the long s, the sign of Kelvin.
var oddities = []rune{'\u017f', '\u212a'}

func odd(line string) bool {
	return strings.ContainsRune(line, oddities[0]) || strings.ContainsRune(line, oddities[1])
}

// needs returns lists of words: whatever the expression matches holds, but for the case of letters, a word of each.
func needs(re *syntax.Regexp) (all [][]string) {
	if s := spell(re); s.ok {
		if s.shortest() < shortestWord {
			return nil
		}
		return [][]string{s.words}
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return needs(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needs(re.Sub[0])
		}
	case syntax.OpAlternate:
		var either []string
		for _, sub := range re.Sub {
			list := longest(needs(sub))
			if list == nil {
				return nil
			}
			either = append(either, list...)
		}
		if len(either) <= maxOneOf {
			return [][]string{either}
		}
	case syntax.OpConcat:
		run := spelling{words: []string{""}, ok: true}
		flush := func() {
			if run.shortest() >= shortestWord {
				all = append(all, run.words)
			}
			run = spelling{words: []string{""}, ok: true}
		}
		for _, sub := range re.Sub {
			s := spell(sub)
			if longer := run.then(s); longer.ok {
				run = longer
				continue
			}
			flush()
			if s.ok {
				run = s
			} else {
				all = append(all, needs(sub)...)
			}
		}
		flush()
		return all
	}
	return nil
}

// longest returns the list whose shortest word is the longest; nil: there is none.
func longest(lists [][]string) (best []string) {
	for _, list := range lists {
		if best == nil || (spelling{words: list}).shortest() > (spelling{words: best}).shortest() {
			best = list
		}
	}
	return best
}
