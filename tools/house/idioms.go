package main

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// idiomTexts lists constructions that are grammatical but that native engineers do not write. Each is at least ten
// times as frequent here as in other Go projects. The list only grows.
var idiomTexts = map[string][]string{
	"relative clause as a noun": {
		`^(what|who|whoever|whose|whatever|whom|where) [^?]*[^?]$`,
		`[,;:(] ?(what|who|whoever|whose) `,
		`\b(from|of|on|for|by|to|with|in|than|and|or|but|as|only|all|is|are|at|behind|after|before|against|into|not|that|keeps?|if) what\b`,
		`\bwhat (is|was|are|were|has|had|it|they|he|she|this|that|the|an?|its|their|we|one|may|can|must|cannot)\b`,
		`\bwhat [a-z]+ (is|was|are|were|has|had|does|did|do|says|said|of|may|can|must|cannot)\b`,
		`\b(is|says?|knows?|tells?|of|and|or|by|for|nor|but|as|not) who\b`,
		`\bwhose [a-z' ]+ (is|are|was|were|has|have|had|does|did|ends?|ended)\b`, `\b(knows?|says?|tells?|is|of|and) whose\b`,
		`\b(is|are|was|were) (where|how|why|for how long|in what way|of what)\b`,
		`\b(whatever|wherever)\b`, `\b(what of|of which)\b`, `\bwhoever\b`, `\ball that\b`, `\bwhat becomes of\b|\bwhat became of\b`, `\bhow (it|they) (is|are|goes|go|stands?|does)\b`,
		`\b(nothing|something|everything|anything) (that|which)\b`,
		`^which\b`, `^whether\b`, `^how [a-z ]+ (is|are|was|were)\b`, `\bwhich is why\b`,
	},
	"pronoun for a noun": {
		`\bof (its|their|his|our|your|my|one.?s) own\b`, `\bof (ours|theirs|mine|yours)\b`, `\b[a-z]{2,}'s( own)?([.,;:]|$)`,
		`\bthat (it|this|there) is one\b`, `\bthere (is|was) one\b`,
		`\b(is|as|than|from|and|or|with|nor|but|not|only|like) ones? (that|which|who|whose|with|in|on|at|is|has)\b`,
		`\b(an?|the|another|every|no|each|this|[a-z]+) ones? (that|which|who|whose)\b`,
		`\b(is|are|as|than|not|and|or|with|like|also|already|have|has) ones?[.,;:]?$`,
		`\b(is|are|was|were|as|than|from|like|not) (that|those) of\b`, `\bthose (that|who|which|of|with|in|on)\b`,
		`\b(nobody|somebody|anybody)\b`, `\banother's\b`,
		`\b(of|behind|beside) it[.,;:]?$`, `\b(to|for|of|with|from|by) (another|others|both|none|either)[.,;]?$`,
		`\b(has|have|had|is|are|was|were|be|knows|gets|makes|takes) none\b`,
		`\bthe (earlier|later|former|latter|other|others|same|old|new)[.,;:]?$`,
	},
	"passive without an agent": {
		`\b(is|are|was|were|be|been|gets?) (not |never |only |already |still |also |then |thus )?(told|had|said|asked|heard|looked|begun|meant)\b`,
		`\b(is|are|was|were|be) put (up|on|off|in|into)\b`,
		`\b(is|are|was|were) (left|kept|known|given|taken)[.,;:]?$`,
		`\b(is|are|was|were) (left|kept|given|taken) (for|of|from|out|by|away|to)\b`,
		`\bnot known\b`, `\b(has|have|had) (it|them|him) [a-z]+`, `\bmade anew\b`,
	},
	"things that speak": {
		`\b(says?|said|tells?) (of|what|which|who|how|why|whether|when|nothing|no|so)\b`, `\bas [a-z' ]+ (says?|said)\b`,
		`\b(whose|'s|own) words?\b`, `\btold\b`,
	},
	"negation by a noun": {
		`\b(renews|takes|needs|makes|writes|sends|gives|knows|reads|keeps|asks|gets|leaves|begins|starts|holds|stands|sees|swallows|costs|` +
			`finds|shows|changes|counts as|sets|opens|adds|decides|ends|loses|removes|stores|want|needs?|are|is|was) no [a-z]+`,
		`\bnothing (is|was) (left|known|kept|decided|said|lost|asked|of|to)\b`, `\bnothing (of|in|has|else|more|left|on|about|but|may|can|must|new|old|when|ever|goes|will|runs|yet)\b`,
		`\b[a-z]{3,}s nothing\b`, `(\b(and|or|but)|[;:,]) nothing\b`, `, (and|or) (no|not|never)\b`, `\bno [a-z]+ of\b`,
		`\bnot (of|in|the|an?|one|by) [a-z' ]+, but\b`, `\bis it not\b|\bare they not\b`, `\bnor\b`,
	},
	"words at the end": {
		`\b(so|too|either|alone|anew)[.,;:]?$`, `\bany more[.,;:]?$|\b(not|never|nothing|nobody|none|no) [a-z ]+ any more\b`, `\bfor ever\b`, `\b(of|is|was|says|said) so\b`, `, also\b`,
		`\balso (if|where|by|those|closed|while|what)\b`, `\banew\b`, `\bby (itself|themselves)\b`, `\bof itself\b`,
		`\b(if|when|until|once|unless|while|because|where|that|whether|as|it|they|which|who) ` +
			`((it|they|that|there|this|one) )?(does|do|did|has|have|had|is|are|was|were|may|could)( not)?[.;,]?$`,
		`\bas (it|they) (is|are|was|were|came|comes|stands?|stood|should|says?|said)\b`, `\bas (the|an?|its) [a-z]+ (is|are|was|were)\b`,
		`\b(again and again|all the same|just the same|for so long|so many times|for how long|meanwhile)\b`,
	},
	"words for places": {
		`\b(an?|the|this|each|every|one|last|next|that|first|two|few|no|further) looks?\b`, `\blooks (at|for|whether|how|again|what|only)\b`,
		`\b(a|this|that|its|their|same|one|every|each|another|other|right|wrong|first) places?\b`, `\bin (the|its|their) place\b`,
		`\bbesides?\b`, `\bstands? (in|at|on|behind|there|with|before|after|above|below|under|until|as|still)\b`, `\b(lies|lay|stood) [a-z]+`,
		`\bgo(es)? on\b`, `\bwent on\b`, `\b(is|was|are|were) (alike|well|away)\b`, `\b(gets?|got) through\b`, `\bin which way\b`,
		`\bbegun\b`, `\bamong (it|them)\b`, `\b(is|are) there (still|yet|again)\b`, `\b(is|are) to come\b`,
		`\bfor (a|one|the) moment\b|\ba moment (later|ago)\b`,
		`\bit is (the|an?|this|that) [a-z' ]+ (that|which|who)\b`,
	},
	"punctuation for grammar": {
		`;[^;]*;`, `^[^:]* [^:]*: [^:%]*[a-z)]: [a-z]`, `\b(nil|empty|zero|none|nothing|unset|false|true|0): `, `"": `,
	},
}

// natural matches phrases that are fine even though a pattern above matches them.
var natural = regexp.MustCompile(`\b(there (is|are|was|were) no|no longer|no-op|does nothing|nothing to|` +
	`(part|copy|because|out|most|all|one|rest|any|ahead|instead) of it|none of|all of what|stands for|each other's|looks like|looks up|` +
	`and so on|or so|if so|not (yet )?known to|as is)\b`)

var idioms = compile(idiomTexts)

// idiom is a pattern for lower-case sentences. Each match contains at least one of the literals. Searching for the
// literals first makes the check five times faster.
type idiom struct {
	pattern  *regexp.Regexp
	literals []string
}

func compile(texts map[string][]string) (all []idiom) {
	for _, group := range sortedKeys(texts) {
		for _, text := range texts[group] {
			tree, err := syntax.Parse(text, syntax.Perl)
			if err != nil {
				panic(err)
			}
			all = append(all, idiom{regexp.MustCompile(text), literalsOf(tree)})
		}
	}
	return all
}

// literalsOf returns a list of strings such that every match contains at least one of them. It returns nil if a match
// can have any text.
func literalsOf(re *syntax.Regexp) (best []string) {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCapture, syntax.OpPlus:
		return literalsOf(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			one := literalsOf(sub)
			if one == nil {
				return nil
			}
			best = append(best, one...)
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if one := literalsOf(sub); shortest(one) > shortest(best) {
				best = one
			}
		}
	}
	return best
}

func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	return len(slices.MinFunc(texts, func(a, b string) int { return len(a) - len(b) }))
}

func hasIdiom(sentence string) bool {
	sentence = strings.ToLower(sentence)
	cleaned := ""
	for _, one := range idioms {
		has := func(literal string) bool { return strings.Contains(sentence, literal) }
		if one.literals != nil && !slices.ContainsFunc(one.literals, has) {
			continue
		}
		if cleaned == "" {
			cleaned = natural.ReplaceAllString(sentence, "_")
		}
		if one.pattern.MatchString(cleaned) {
			return true
		}
	}
	return false
}
