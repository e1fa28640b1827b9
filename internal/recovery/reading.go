package recovery

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// keep is how many lines per rule are tried with its expression: together with maxLine it bounds the cost of an
// expression, whatever the text. The first ones for bands in which the first counts, the last ones for the others.
const keep = 8

// place is a line on which a rule's literal stands, and where the literal ends.
type place struct{ line, end int }

// reading is one text, searched once for all literals.
type reading struct {
	c       *Classifier
	lines   []string
	places  [][]place // per rule
	chatter [][]place // per rule, on lines that only announce a retry
}

// read searches the lines of texts, oldest first.
func (c *Classifier) read(stage string, texts ...[]string) *reading {
	rd := &reading{c: c, places: make([][]place, len(c.rules)), chatter: make([][]place, len(c.rules))}
	for _, t := range texts {
		if len(t) > 0 {
			rd.lines = append(append(rd.lines, t...), "") // the end of a text ends a quotation
		}
	}
	var hits []place // line is the rule here
	for n, line := range rd.lines {
		if frame(line) {
			continue
		}
		hits = hits[:0]
		to, weak := rd.places, rd.places
		if c.advises(line) {
			weak = rd.chatter
		}
		help := describesOption(line)
		c.literals.scan(line, func(owner, end int) {
			switch {
			case owner == len(c.rules):
				to, weak = rd.chatter, rd.chatter
			case len(hits) == 0 || hits[len(hits)-1].line != owner:
				hits = append(hits, place{owner, end})
			}
		})
		for _, h := range hits {
			if !c.rules[h.line].at(stage) || help && c.rules[h.line].Band != bandProse {
				continue
			}
			in := weak
			if c.first[h.line] {
				in = to
			}
			in[h.line] = remember(in[h.line], place{n, h.end}, c.first[h.line])
		}
	}
	return rd
}

// frame says whether line is a frame of a stack trace (node, java, python): it says where, never why. OCaml's compiler
// starts its findings like python, and names characters.
func frame(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return strings.HasPrefix(line, "at ") || strings.HasPrefix(line, `File "`) && !strings.Contains(line, ", characters ")
}

// advises says whether line only warns or advises: what it speaks of is seldom why the program gave up.
func (c *Classifier) advises(line string) bool {
	line = strings.TrimPrefix(strings.TrimLeft(line, " \t"), "---> ") // .NET's inner exception
	return slices.ContainsFunc(c.advice, func(p string) bool {
		return len(line) >= len(p) && line[0]|0x20 == p[0]|0x20 && strings.EqualFold(line[:len(p)], p)
	})
}

// describesOption says whether line is one of a program's help: it names everything that could ever go wrong.
func describesOption(line string) bool {
	t := strings.TrimLeft(line, " \t")
	return len(t) < len(line) && strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "- ") && strings.Contains(t, "  ")
}

// at says whether r counts in stage.
func (r *rule) at(stage string) bool {
	return len(r.Stages) == 0 || stage == "" || slices.Contains(r.Stages, stage)
}

// remember adds p, holding on to the first or the last keep places.
func remember(ps []place, p place, first bool) []place {
	if len(ps) < keep {
		return append(ps, p)
	}
	if !first {
		copy(ps, ps[1:])
		ps[keep-1] = p
	}
	return ps
}

// match is a line that a rule knows.
type match struct {
	rule   *rule
	reason Reason
	line   int
	quote  string
}

// best returns the line that decides within a band: the first or the last, by rule order on the same line. Only
// reasons on the list count, if there is one.
func (rd *reading) best(b band, first bool, places [][]place, only []Reason) (match, bool) {
	var best match
	for i := range rd.c.rules {
		r := &rd.c.rules[i]
		if r.Band != b || len(places[i]) == 0 || only != nil && !slices.Contains(only, r.Reason) {
			continue
		}
		m, ok := rd.try(r, places[i], first, &best)
		if ok && (best.rule == nil || first && m.line < best.line || !first && m.line > best.line) {
			best = m
		}
	}
	return best, best.rule != nil
}

// all returns each rule's best line within a band, in the order in which they would decide.
func (rd *reading) all(b *bandRow) (ms []match) {
	for i := range rd.c.rules {
		if r := &rd.c.rules[i]; r.Band == b.name && len(rd.places[i]) > 0 {
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
		if reason, ok := rd.c.matches(r, around(rd.lines[p.line], p.end)); ok {
			return match{rule: r, reason: reason, line: p.line, quote: rd.quote(r, p)}, true
		}
	}
	return match{}, false
}

// matches says whether r knows the line, and what it means.
func (c *Classifier) matches(r *rule, line string) (Reason, bool) {
	if r.re == nil && len(r.Unless) == 0 {
		return r.Reason, true
	}
	lower := strings.ToLower(line)
	for _, u := range r.Unless {
		if strings.Contains(lower, u) {
			return "", false
		}
	}
	if r.Band == bandStatus {
		code, err := strconv.Atoi(findStatus(r.re, line))
		if err != nil {
			return "", false
		}
		row, ok := c.statusOf(code)
		return row.Reason, ok
	}
	return r.Reason, r.re == nil || r.parts.matches(line, lower)
}

// around returns the line, or what is around the literal that ends at end in a long one.
func around(line string, end int) string {
	if len(line) <= maxLine {
		return line
	}
	return line[max(0, end-maxLine/2):min(len(line), end+maxLine/2)]
}

// quote returns what a person would quote of a place.
func (rd *reading) quote(r *rule, p place) string {
	line := rd.lines[p.line]
	if len(line) > maxCause {
		line = line[max(0, p.end-maxCause/2):]
	}
	line = strings.TrimPrefix(strings.TrimSpace(line), "vet: ")
	if r.Next && p.line+1 < len(rd.lines) {
		if next := strings.TrimSpace(rd.lines[p.line+1]); next != "" && next != "FAIL" {
			return line + " " + next
		}
	}
	return line
}
