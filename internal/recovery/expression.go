package recovery

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// expression is a rule's regular expression, taken apart at its outermost alternatives. Each is run only on lines that
// hold a literal without which it cannot match: a long list of phrases costs what its few candidates cost.
type expression struct{ alternatives []alternative }

type alternative struct {
	needs []string // lower case; one of them must be there; none: always run
	re    *regexp.Regexp
}

// newExpression compiles s.
func newExpression(s string) (*expression, error) {
	x := &expression{}
	for _, alt := range outermost(s) {
		tree, err := syntax.Parse(alt, syntax.Perl)
		if err != nil {
			return nil, err
		}
		re, err := regexp.Compile(alt)
		if err != nil {
			return nil, err
		}
		x.alternatives = append(x.alternatives, alternative{needs: needs(tree), re: re})
	}
	return x, nil
}

// outermost splits s at the | that stand in no group or class, and repeats the flags at its beginning. What sets flags
// elsewhere or quotes by \Q stays whole.
func outermost(s string) (parts []string) {
	flags, body := "", s
	if strings.HasPrefix(s, "(?i)") {
		flags, body = s[:4], s[4:]
	}
	if strings.Contains(body, "(?i") || strings.Contains(body, "(?m") || strings.Contains(body, "(?s") || strings.Contains(body, `\Q`) {
		return []string{s}
	}
	begin, depth := 0, 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '[':
			i = classEnd(body, i)
		case '(':
			depth++
		case ')':
			depth--
		case '|':
			if depth == 0 {
				parts = append(parts, flags+body[begin:i])
				begin = i + 1
			}
		}
	}
	return append(parts, flags+body[begin:])
}

// classEnd returns the place of the ] that ends the class at i.
func classEnd(s string, i int) int {
	j := i + 1
	if j < len(s) && s[j] == '^' {
		j++
	}
	for first := true; j < len(s); j, first = j+1, false {
		switch {
		case s[j] == '\\':
			j++
		case strings.HasPrefix(s[j:], "[:"):
			if n := strings.Index(s[j:], ":]"); n > 0 {
				j += n + 1
			}
		case s[j] == ']' && !first:
			return j
		}
	}
	return j
}

// matches says whether the expression matches line, whose lower case is lower.
func (x *expression) matches(line, lower string) bool {
	return slices.ContainsFunc(x.alternatives, func(a alternative) bool {
		return (len(a.needs) == 0 || slices.ContainsFunc(a.needs, func(n string) bool { return strings.Contains(lower, n) })) && a.re.MatchString(line)
	})
}

// maxNeeds bounds how many literals stand for one alternative.
const maxNeeds = 12

// needs returns literals of which one is in every match of re; none when that cannot be said.
func needs(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if s := strings.ToLower(string(re.Rune)); len(s) > 1 {
			return []string{s}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needs(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needs(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if n := needs(sub); len(n) > 0 && (best == nil || rarity(n) > rarity(best)) {
				best = n
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			n := needs(sub)
			if n == nil || len(all)+len(n) > maxNeeds {
				return nil
			}
			all = append(all, n...)
		}
		return all
	}
	return nil
}

// rarity says how seldom one of several literals is likely to occur: the longer the shortest, the rarer.
func rarity(literals []string) int {
	least := len(literals[0])
	for _, l := range literals {
		least = min(least, len(l))
	}
	return 4*least - len(literals)
}

// Bounds of the search for a status: how many numbers of a line are tried, and with how much around them. A line with
// more numbers is data, not a sentence.
const (
	maxStatuses   = 16
	statusBefore  = 48
	statusBehind  = 48
	statusLongest = 96 // what an expression sees that begins with ^
)

// findStatus returns the first group of re at the first number of three digits that re matches, "" if there is none.
// An expression with many alternatives before the number is slow, so that it is asked only where a number is.
func findStatus(re *regexp.Regexp, line string) string {
	if strings.HasPrefix(re.String(), "^") {
		if m := re.FindStringSubmatch(line[:min(len(line), statusLongest)]); m != nil {
			return m[1]
		}
		return ""
	}
	tried := 0
	for i := 0; i+3 <= len(line) && tried < maxStatuses; {
		end := run(line, i, len(line), isDigit)
		if end-i == 3 {
			tried++
			from := max(0, i-statusBefore)
			for from > 0 && i-from < 2*statusBefore && isWord(line[from-1]) {
				from--
			}
			if m := re.FindStringSubmatch(line[from:min(len(line), end+statusBehind)]); m != nil {
				return m[1]
			}
		}
		i = max(end, i+1)
	}
	return ""
}
