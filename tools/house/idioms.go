package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// idioms are constructions that grammar allows and native engineers do not write. The list only grows.
var idioms = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\bof (its|their|his|our|your|my|one's) own\b`),
	regexp.MustCompile(`(?i)\bof (ours|theirs|mine|yours)\b`),
	regexp.MustCompile(`(?i)\b(is|are|was|were|be|been|gets?) (told|had|said so)\b`),
	regexp.MustCompile(`(?i)\b(is|are|was|were) looked (for|at)\b`),
	regexp.MustCompile(`(?i)\b(has|have|had|is|are|was|were|knows|gets|makes|takes) none\b`),
	regexp.MustCompile(`(?i)\bthat (it|this|there) is one\b|\bthere (is|was) one\b`),
	regexp.MustCompile(`^(What|Who|Whoever|Whose|Whatever) [^?]*[^?]$`),
	regexp.MustCompile(`(?i)[,;:] (what|who|whoever|whose) (is|was|has|had|are|were|may|can|cannot|must) `),
	regexp.MustCompile(`(?i)\b(renews|takes|needs|makes|writes|sends|gives|knows|reads|keeps|asks|gets|leaves|begins|starts|holds|stands|sees) no [a-z]+`),
	regexp.MustCompile(`(?i)\bso\.?$`),
	regexp.MustCompile(`(?i)\b(not|no|nothing|nobody|never) [a-z ]*any more\b|\bno more\b`),
	regexp.MustCompile(`(?i)\bfor ever\b`),
	regexp.MustCompile(`;[^;]*;`),
	regexp.MustCompile(`(?i)\b(nil|empty|zero|none|nothing|false|true|0): [a-z]`),
	regexp.MustCompile(`(?i)\bis it not\b|\bare they not\b`),
	regexp.MustCompile(`(?i)\bnobody (has|had|is|was|needs|knows|can|may|else)\b`),
	regexp.MustCompile(`(?i)\bby (itself|themselves)\b`),
	regexp.MustCompile(`(?i)\bas (it|they) (is|are|was|were)\b`),
	regexp.MustCompile(`(?i)\b(a|the|one|this|that|last|next|first|each) look\b`),
	regexp.MustCompile(`(?i)\bwhoever\b`),
	regexp.MustCompile(`(?i)\bwhat [a-z]+ (is|was|are|were|has|had|does|did|do|says|said)\b`),
	regexp.MustCompile(`: [^:]*[a-z]: [a-z]`),
	regexp.MustCompile(`(?i)\bhow (it|they) (is|are|goes|go|stands?|does)\b`),
	regexp.MustCompile(`(?i)\bwhat becomes of\b|\bwhat became of\b`),
}

// sentences counts the sentences of a file that people read, and those with an idiom.
type sentences struct{ all, idioms int }

var sentenceEnd = regexp.MustCompile(`[.!?]\s+`)

func (s *sentences) add(text string) {
	text = strings.Join(strings.Fields(text), " ")
	for _, one := range sentenceEnd.Split(text, -1) {
		one = strings.TrimSpace(one)
		if strings.Count(one, " ") < 2 {
			continue
		}
		s.all++
		if hasIdiom(one) {
			s.idioms++
		}
	}
}

func hasIdiom(sentence string) bool {
	for _, re := range idioms {
		if re.MatchString(sentence) {
			return true
		}
	}
	return false
}

// sentencesOf reads the comments of a file, and the strings in it that look like sentences.
func sentencesOf(f *ast.File) (s sentences) {
	for _, group := range f.Comments {
		s.add(group.Text())
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && !strings.HasPrefix(lit.Value, "`") {
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Count(text, " ") >= 3 {
				s.add(text)
			}
		}
		return true
	})
	return s
}
