package classify

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"retake/internal/recovery"
	"retake/internal/recovery/loglines"
	"retake/internal/recovery/plaintext"
	"retake/internal/recovery/recoverytest"
	"retake/internal/testfiles"
)

// twin is a slow reading without optimisations. Each rule searches each line for each of its literals, and applies its
// whole expression. The optimised reading must give the same result.
type twin struct {
	c     *Classifier
	lines []string
	// per rule, as in reading
	places, chatter, advice, retried [][]twinPlace
	frames                           int
}

type twinPlace struct{ line, end int }

// twinOf returns the twin's reading of the text of rd.
func twinOf(rd *reading) *twin {
	c := rd.c
	t := &twin{c: c, lines: rd.lines}
	for _, in := range []*[][]twinPlace{&t.places, &t.chatter, &t.advice, &t.retried} {
		*in = make([][]twinPlace, len(c.rules))
	}
	for n, line := range rd.lines {
		if frame(line) {
			t.frames++
			continue
		}
		if loglines.Lists(line) {
			continue
		}
		hits, retries := t.hitsOn(line)
		retries = retries && !slices.ContainsFunc(c.verdicts,
			func(v string) bool { return strings.Contains(strings.ToLower(line), v) })
		to, weak := t.places, t.places
		switch level := rd.levels[n]; {
		case retries && level.Advises():
			to, weak = t.retried, t.retried
		case retries:
			to, weak = t.chatter, t.chatter
		case level.Advises():
			to, weak = t.advice, t.advice
		case c.advises(line):
			weak = t.chatter
		}
		for _, h := range hits {
			r := &c.rules[h.rule]
			if !r.isFor(rd.e) || describesOption(line) && r.Tier != tierProse ||
				rd.isMention(r, line) || inNamesOnly(r, line, h.ends) {
				continue
			}
			if first := tierOf(r.Tier).first; first {
				to[h.rule] = append(to[h.rule], twinPlace{n, h.end})
				to[h.rule] = to[h.rule][:min(len(to[h.rule]), maxPlaces)]
			} else {
				weak[h.rule] = append(weak[h.rule], twinPlace{n, h.end})
				weak[h.rule] = weak[h.rule][max(0, len(weak[h.rule])-maxPlaces):]
			}
		}
	}
	return t
}

type twinHit struct {
	rule, end, length int
	ends              []int // of all literals of the rule in the line
}

// inNamesOnly does the same as inNames, for literals with the given ends.
func inNamesOnly(r *rule, line string, ends []int) bool {
	return !tierOf(r.Tier).first && !slices.Contains(ofNames, r.Reason) &&
		!slices.ContainsFunc(ends, func(end int) bool { return !inName(line, end) })
}

// hitsOn returns the literals of all rules in a line. retries reports whether the line has a phrase in chatter.
func (t *twin) hitsOn(line string) (hits []twinHit, retries bool) {
	lower := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r | 0x20
		}
		return r
	}, line)
	ends := map[int][]int{}
	for i := range t.c.rules {
		for _, l := range t.c.rules[i].Any {
			for from := 0; ; {
				at := strings.Index(lower[from:], l)
				if at < 0 {
					break
				}
				hits = append(hits, twinHit{rule: i, end: from + at + len(l), length: len(l)})
				ends[i] = append(ends[i], from+at+len(l))
				from += at + 1
			}
		}
	}
	slices.SortStableFunc(hits, func(a, b twinHit) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(b.length, a.length), cmp.Compare(a.rule, b.rule))
	})
	// Consecutive hits of the same rule count once.
	hits = slices.CompactFunc(hits, func(a, b twinHit) bool { return a.rule == b.rule })
	for i := range hits {
		hits[i].ends = ends[hits[i].rule]
	}
	return hits, slices.ContainsFunc(t.c.chatter, func(l string) bool { return strings.Contains(lower, l) })
}

// nearest returns the match on the nearest line. If only is not nil, it ignores other reasons.
func nearest(tier *tierRow, matches []match, only []recovery.Reason) (best match) {
	for _, m := range matches {
		if only != nil && !slices.Contains(only, m.rule.Reason) {
			continue
		}
		if best.rule == nil || tier.first && m.line < best.line || !tier.first && m.line > best.line {
			best = m
		}
	}
	return best
}

// matches returns the nearest match of each rule, in the order of the rules.
func (t *twin) matches(tier *tierRow, in [][]twinPlace) (ms []match) {
	for i := range t.c.rules {
		r := &t.c.rules[i]
		places := slices.Clone(in[i])
		if r.Tier != tier.name {
			continue
		}
		if !tier.first {
			slices.Reverse(places)
		}
		for _, p := range places {
			if reason, ok := t.matchesRule(r, window(t.lines[p.line], p.end)); ok {
				rd := &reading{c: t.c, lines: t.lines}
				ms = append(ms, match{r, reason, p.line, rd.quote(r, place{uint16(i), int32(p.line), int32(p.end)})})
				break
			}
		}
	}
	return ms
}

var twinDigits = regexp.MustCompile(`[0-9]{3}`)

func (t *twin) matchesRule(r *rule, line string) (recovery.Reason, bool) {
	lower := strings.ToLower(line)
	switch {
	case slices.ContainsFunc(r.Unless, func(u string) bool { return strings.Contains(lower, u) }):
		return "", false
	case r.re == nil:
		return r.Reason, true
	case r.Reason != "":
		return r.Reason, r.re.compiled().MatchString(line)
	case !twinDigits.MatchString(line):
		return "", false
	}
	m := r.re.compiled().FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	code, _ := strconv.Atoi(m[1])
	row, ok := t.c.kindOf(code)
	return row.Reason, ok
}

// sameAsTwin returns an error if the reading of the evidence differs from its twin.
func sameAsTwin(c *Classifier, e recovery.Evidence) error {
	q := &classification{c: c, e: clean(e)}
	rd := q.text()
	tw := twinOf(rd)
	if rd.frames != tw.frames {
		return fmt.Errorf("%d frames, want %d", rd.frames, tw.frames)
	}
	for i := range tiers {
		tier := &tiers[i]
		for name, in := range map[string]struct {
			got  *places
			want [][]twinPlace
		}{
			"places": {&rd.places, tw.places}, "chatter": {&rd.chatter, tw.chatter}, "advice": {&rd.advice, tw.advice},
			"retried": {&rd.retried, tw.retried},
		} {
			matches := tw.matches(tier, in.want)
			for _, only := range [][]recovery.Reason{nil, transport, waitedFor, ofCommands, {recovery.ToolNotFound}} {
				got, _ := rd.best(tier, in.got, only)
				if want := nearest(tier, matches, only); got != want {
					return fmt.Errorf("%s of tier %s: %s, want %s", name, tier.name, shown(got), shown(want))
				}
			}
		}
		want := tw.matches(tier, tw.places)
		slices.SortStableFunc(want, func(a, b match) int {
			if tier.first {
				return cmp.Compare(a.line, b.line)
			}
			return cmp.Compare(b.line, a.line)
		})
		if got := rd.all(tier); !slices.Equal(got, want) {
			return fmt.Errorf("tier %s: %d rules match, want %d", tier.name, len(got), len(want))
		}
	}
	return nil
}

func shown(m match) string {
	if m.rule == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s (%s) on line %d: %.80q", m.rule.ID, m.reason, m.line, m.quote)
}

// knownTexts returns the texts of the corpus and of the files in written, the rules' examples, and recoverytest.Tricky.
func knownTexts(t *testing.T, c *Classifier) (all []string) {
	for _, l := range testfiles.Corpus(t) {
		all = append(all, l.Text)
	}
	for _, file := range written {
		for _, l := range writtenLines(t, file) {
			all = append(all, l.Text)
		}
	}
	for i := range c.rules {
		all = append(all, c.rules[i].Examples...)
	}
	return append(all, recoverytest.Tricky...)
}

// TestReadingEqualsItsTwin compares both readings of output of real programs.
func TestReadingEqualsItsTwin(t *testing.T) {
	c := newClassifier(t)
	for _, text := range append(knownTexts(t, c), recoverytest.Tail(4<<10), recoverytest.Stream(4<<10),
		recoverytest.Hostile(4<<10)) {
		if err := sameAsTwin(c, recovery.Evidence{Stderr: text}); err != nil {
			t.Errorf("%.200q: %v", text, err)
		}
	}
}

// TestMixedReadingEqualsItsTwin compares both readings of real lines and words in a new order, cut, folded and
// repeated.
func TestMixedReadingEqualsItsTwin(t *testing.T) {
	c := newClassifier(t)
	var lines, words []string
	for _, text := range knownTexts(t, c) {
		lines = append(lines, strings.Split(text, "\n")...)
		words = append(words, strings.Fields(text)...)
	}
	for i := range c.rules {
		words = append(append(words, c.rules[i].Any...), c.rules[i].Unless...)
	}
	changes := []func(string, int) string{
		func(s string, n int) string { return s[:n%(len(s)+1)] },
		func(s string, n int) string { return s[n%(len(s)+1):] },
		func(s string, _ int) string { return strings.ToUpper(s) },
		func(s string, _ int) string { return strings.NewReplacer("k", "\u212a", "s", "\u017f").Replace(s) },
		func(s string, n int) string { return strings.Repeat(s+" ", n%60) },
		func(s string, n int) string { return s + " " + words[n%len(words)] + " " + words[n/7%len(words)] },
		func(s string, n int) string { return words[n%len(words)] + s },
	}
	line := rapid.Custom(func(r *rapid.T) string {
		s := lines[rapid.IntRange(0, len(lines)-1).Draw(r, "line")]
		if k := rapid.IntRange(-len(changes), len(changes)-1).Draw(r, "change"); k >= 0 {
			s = changes[k](s, rapid.IntRange(0, 1<<20).Draw(r, "by"))
		}
		return s
	})
	rapid.Check(t, func(r *rapid.T) {
		e := recovery.Evidence{
			Stderr: strings.Join(rapid.SliceOfN(line, 1, 12).Draw(r, "stderr"), "\n"),
			Stdout: strings.Join(rapid.SliceOfN(line, 0, 3).Draw(r, "stdout"), "\n"),
			Stage:  rapid.SampledFrom([]string{"", "CODE", "VALIDATE"}).Draw(r, "stage"),
		}
		if err := sameAsTwin(c, e); err != nil {
			r.Fatal(err)
		}
	})
}

// TestPatternEqualsExpression checks that a pattern, which is an expression in parts, matches the same texts as the
// whole expression.
func TestPatternEqualsExpression(t *testing.T) {
	texts := []string{
		"", "a", "ab", "abc", "AbC", "abd", "tests failed", "test failed", "Test failed", "a|b", "]", "x]y", "-a",
		"foo", "fOO", "bar", "BAR", "k", "\u212a", "\u017f", "S",
		"foo bar", "foobar", "foo  bar", "foo\nbar", "é", "É", "\xff", "\ufffd", "12:3: error", "K9", "m[a]", "a+b",
		"not found", "No such file", "nosuch",
	}
	for _, expr := range []string{
		"", "abc", "(?i)abc", "abc|abd", "(?i)abc|(?-i)foo|bar", "foo|(?i)bar", "[Tt]ests? failed", `\bfoo\b`,
		"^foo|bar$", `a\|b`, "[]]", "x[]|]y", "[^]a]b|foo", `[a\]b]|foo`,
		"[[:alpha:]|]foo|bar", `(?i)k|(?i)s`, "(?:foo|bar) ?(?:foo|bar)?", "(?i)[é]", "(?i)é", `\x{fffd}`, "f.o",
		"(foo|bar)+", "(?:foo){2}|bar", "[A-C]bc", "[a-c]b", "(?s)foo.bar|k", "(?:no|not) (?:such|found)",
		`\Qa|b\E|foo`, "(?:)", "foo|", "(?i)(?:foo|no) ?such|ba[rz]", "[ks]", "(?i)[ks]", "a+b", `a\+b`,
	} {
		words := &vocabulary{ids: map[string]uint16{}}
		re := regexp.MustCompile(expr)
		whole, _, err := parseExpression(expr)
		if err != nil || whole.groups != re.NumSubexp() {
			t.Fatalf("%q has %d groups, want %d: %v", expr, whole.groups, re.NumSubexp(), err)
		}
		p := patternOf(whole, words)
		for _, text := range texts {
			s := &sight{c: &Classifier{words: words}, line: text}
			if got, want := s.holds(p), re.MatchString(text); got != want {
				t.Errorf("%q matches %q: %v, want %v", expr, text, got, want)
			}
		}
	}
}

// BenchmarkTwin classifies the tail of 4 KiB of BenchmarkClassify with the twin.
func BenchmarkTwin(b *testing.B) {
	c := newClassifier(b)
	e := clean(recovery.Evidence{Stderr: recoverytest.Tail(4 << 10), At: benchNow})
	for b.Loop() {
		(&classification{c: c, e: e}).byTwin()
	}
}

// TestLastLineEqualsItsTwin compares lastTold with a search over all lines.
func TestLastLineEqualsItsTwin(t *testing.T) {
	part := rapid.SampledFrom([]string{
		"", " ", "\u00a0", "\t", "Usage:", "uſage: x", "Available Commands:",
		"available commandſ:", "options", "error: x", "  at main (a.js:1)", "at ", "at", "x ", "  File \"a\"", "é",
	})
	rapid.Check(t, func(r *rapid.T) {
		for range 50 {
			lines := rapid.SliceOfN(part, 0, 7).Draw(r, "lines")
			told := slices.Clone(lines)
			if n := slices.IndexFunc(told, usageHead.MatchString); n > 0 &&
				strings.TrimSpace(strings.Join(told[:n], "")) != "" {
				told = told[:n]
			}
			want := plaintext.LastLine(strings.Join(slices.DeleteFunc(told, frame), "\n"))
			if got := lastTold(lines); got != want {
				r.Fatalf("%q: %q, want %q", lines, got, want)
			}
		}
	})
}

// byTwin classifies a text with the twin's reading.
func (q *classification) byTwin() (match, bool) {
	tw := twinOf(q.text())
	for i := range tiers {
		if m := nearest(&tiers[i], tw.matches(&tiers[i], tw.places), nil); m.rule != nil {
			return m, true
		}
	}
	return match{}, false
}
