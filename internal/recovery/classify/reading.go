package classify

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"retake/internal/agent"
	"retake/internal/recovery"
	"retake/internal/recovery/loglines"
	"retake/internal/recovery/plaintext"
)

// maxPlaces is how many lines per rule are tried with its expression: together with maxLine it bounds the cost of an
// expression, whatever the text. The first ones for tiers in which the first counts, the last ones for the others.
const maxPlaces = 8

// place is a line on which a rule's literal stands, and where the literal ends.
type place struct{ line, end int }

// reading is one text, searched once for all literals.
type reading struct {
	c       *Classifier
	e       *recovery.Evidence
	lines   []string
	levels  []loglines.Level
	places  [][]place // per rule
	chatter [][]place // per rule, on lines that only announce a retry
	advice  [][]place // per rule, on lines that are below error level
	retried [][]place // per rule, on those of them that announce a retry
	frames  int       // of stack traces
	hits    []place   // of the line that is searched; line is the rule here
}

// read searches the lines of tails, oldest first.
func (c *Classifier) read(e *recovery.Evidence, tails *[3]agent.Tail, logs *[3]loglines.Lines) *reading {
	rd := &reading{c: c, e: e, places: make([][]place, len(c.rules)), chatter: make([][]place, len(c.rules)), advice: make([][]place, len(c.rules)), retried: make([][]place, len(c.rules))}
	for i := range tails {
		for n, line := range tails[i].Lines {
			rd.add(line, logs[i].Level(n))
		}
		if len(tails[i].Lines) > 0 {
			rd.add("", loglines.None) // the end of a text ends a quotation
		}
	}
	return rd
}

// add searches one line.
func (rd *reading) add(line string, level loglines.Level) {
	c, n := rd.c, len(rd.lines)
	rd.lines, rd.levels = append(rd.lines, line), append(rd.levels, level)
	if frame(line) {
		rd.frames++
		return
	}
	if line == "" {
		return
	}
	rd.hits = rd.hits[:0]
	to, weak := rd.places, rd.places
	if level.Advises() {
		to, weak = rd.advice, rd.advice
	} else if c.advises(line) {
		weak = rd.chatter
	}
	chatter, help := false, describesOption(line)
	c.literals.Scan(line, func(owner, end int) {
		switch {
		case owner == len(c.rules):
			chatter = true
		case len(rd.hits) == 0 || rd.hits[len(rd.hits)-1].line != owner:
			rd.hits = append(rd.hits, place{owner, end})
		}
	})
	switch retries := chatter && !c.concludes(line); {
	case retries && level.Advises():
		to, weak = rd.retried, rd.retried
	case retries:
		to, weak = rd.chatter, rd.chatter
	}
	for _, h := range rd.hits {
		if !c.rules[h.line].isFor(rd.e) || help && c.rules[h.line].Tier != tierProse {
			continue
		}
		in := weak
		if c.first[h.line] {
			in = to
		}
		in[h.line] = keepPlace(in[h.line], place{n, h.end}, c.first[h.line])
	}
}

// crossing counts the rules' literals that begin in left and end in right.
func (c *Classifier) crossing(left, right string) (n int) {
	c.literals.Scan(left+right, func(_, end int) {
		if end > len(left) {
			n++
		}
	})
	c.literals.Scan(right, func(int, int) { n-- })
	return n
}

// announcesRetry reports whether a line tells of the program's next try.
func (c *Classifier) announcesRetry(line string) bool {
	found := false
	c.literals.Scan(line, func(owner, _ int) { found = found || owner == len(c.rules) })
	return found && !c.concludes(line)
}

// concludes reports whether a line that speaks of retries says that they are over.
func (c *Classifier) concludes(line string) bool {
	lower := strings.ToLower(line)
	return slices.ContainsFunc(c.verdicts, func(v string) bool { return strings.Contains(lower, v) })
}

// frame reports whether line is a frame of a stack trace (node, java, python): it tells where, never why. OCaml's compiler
// starts its findings like python, and names characters.
func frame(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return strings.HasPrefix(line, "at ") || strings.HasPrefix(line, `File "`) && !strings.Contains(line, ", characters ")
}

// advises reports whether line only warns or advises: what it speaks of is seldom why the program gave up.
func (c *Classifier) advises(line string) bool {
	line = strings.TrimPrefix(strings.TrimLeft(line, " \t"), "---> ") // .NET's inner exception
	return slices.ContainsFunc(c.advice, func(p string) bool {
		return len(line) >= len(p) && line[0]|0x20 == p[0]|0x20 && strings.EqualFold(line[:len(p)], p)
	})
}

// describesOption reports whether line is one of a program's help: it names everything that could ever go wrong.
func describesOption(line string) bool {
	t := strings.TrimLeft(line, " \t")
	return len(t) < len(line) && strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "- ") && strings.Contains(t, "  ")
}

// isFor reports whether r counts for evidence of this stage and exit code.
func (r *rule) isFor(e *recovery.Evidence) bool {
	return (len(r.Stages) == 0 || e.Stage == "" || slices.Contains(r.Stages, e.Stage)) &&
		(r.Exit == nil || e.ExitCode == nil || *e.ExitCode == *r.Exit)
}

// keepPlace adds p, holding on to the first or the last maxPlaces places.
func keepPlace(ps []place, p place, first bool) []place {
	if len(ps) < maxPlaces {
		return append(ps, p)
	}
	if !first {
		copy(ps, ps[1:])
		ps[maxPlaces-1] = p
	}
	return ps
}

// match is a line that a rule knows.
type match struct {
	rule   *rule
	reason recovery.Reason
	line   int
	quote  string
}

// best returns the line that decides within a tier: the first or the last, by rule order on the same line. Only
// reasons on the list count, if there is one.
func (rd *reading) best(b evidenceTier, first bool, places [][]place, only []recovery.Reason) (match, bool) {
	var best match
	for i := range rd.c.rules {
		r := &rd.c.rules[i]
		if r.Tier != b || len(places[i]) == 0 || only != nil && !slices.Contains(only, r.Reason) {
			continue
		}
		m, ok := rd.try(r, places[i], first, &best)
		if ok && (best.rule == nil || first && m.line < best.line || !first && m.line > best.line) {
			best = m
		}
	}
	return best, best.rule != nil
}

// all returns each rule's best line within a tier, in the order in which they would decide.
func (rd *reading) all(b *tierRow) (ms []match) {
	for i := range rd.c.rules {
		if r := &rd.c.rules[i]; r.Tier == b.name && len(rd.places[i]) > 0 {
			if m, ok := rd.try(r, rd.places[i], b.first, &match{}); ok {
				ms = append(ms, m)
			}
		}
	}
	slices.SortStableFunc(ms, func(x, y match) int {
		if b.first {
			return cmp.Compare(x.line, y.line)
		}
		return cmp.Compare(y.line, x.line)
	})
	return ms
}

// try applies r to its places, nearest to the root cause first, as long as they are nearer than a match that is known.
func (rd *reading) try(r *rule, places []place, first bool, known *match) (match, bool) {
	for k := range places {
		p := places[k]
		if !first {
			p = places[len(places)-1-k]
		}
		if known.rule != nil && (first && p.line >= known.line || !first && p.line <= known.line) {
			break
		}
		if reason, ok := rd.c.matches(r, window(rd.lines[p.line], p.end)); ok {
			return match{rule: r, reason: reason, line: p.line, quote: rd.quote(r, p)}, true
		}
	}
	return match{}, false
}

var threeDigits = regexp.MustCompile(`[0-9]{3}`)

// matches reports whether r knows the line, and what it means.
func (c *Classifier) matches(r *rule, line string) (recovery.Reason, bool) {
	if r.re == nil && len(r.Unless) == 0 {
		return r.Reason, true
	}
	lower := strings.ToLower(line)
	if slices.ContainsFunc(r.Unless, func(u string) bool { return strings.Contains(lower, u) }) {
		return "", false
	}
	if r.Reason != "" {
		return r.Reason, r.re == nil || r.re.MatchString(line)
	}
	if !threeDigits.MatchString(line) { // the expressions are long
		return "", false
	}
	m := r.re.FindStringSubmatch(line)
	if m == nil {
		return "", false
	}
	code, _ := strconv.Atoi(m[1])
	row, ok := c.kindOf(code)
	return row.Reason, ok
}

// window returns the line, or what is around the literal that ends at end in a long one.
func window(line string, end int) string {
	if len(line) <= plaintext.MaxLine {
		return line
	}
	return line[max(0, end-plaintext.MaxLine/2):min(len(line), end+plaintext.MaxLine/2)]
}

// jsonField is a field of a JSON document on many lines: its text is what a person would quote.
var jsonField = regexp.MustCompile(`^"[\w.-]+": "([^"\\]+)",?$`)

// quote returns what a person would quote of a place.
func (rd *reading) quote(r *rule, p place) string {
	line := rd.lines[p.line]
	if len(line) > plaintext.MaxCause {
		line = plaintext.From(line, p.end)
	}
	line = strings.TrimPrefix(strings.TrimSpace(line), "vet: ")
	if m := jsonField.FindStringSubmatch(line); m != nil {
		line = m[1]
	}
	if r.Next && p.line+1 < len(rd.lines) {
		if next := strings.TrimSpace(rd.lines[p.line+1]); next != "" && next != "FAIL" {
			return line + " " + next
		}
	}
	return line
}
