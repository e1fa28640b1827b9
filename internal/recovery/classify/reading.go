package classify

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"retake/internal/agent"
	"retake/internal/recovery"
	"retake/internal/recovery/loglines"
	"retake/internal/recovery/plaintext"
)

// maxPlaces is the maximum number of lines to match against one rule's expression. Together with MaxLine, it bounds the
// cost of an expression on any text. In tiers where the first match decides, these are the first lines; in all others,
// the last.
const maxPlaces = 8

// place is an occurrence of a rule's literal: the line, and the offset at which the literal ends.
type place struct {
	rule      uint16
	line, end int32
}

// places holds all occurrences in text order, grouped by their rule's tier.
type places [len(tiers)][]place

// reading holds the lines of all texts, searched once for all literals.
type reading struct {
	c       *Classifier
	e       *recovery.Evidence
	lines   []string
	levels  []loglines.Level
	places  places
	chatter places // on lines that announce a retry, warn or advise
	advice  places // on lines below error level
	retried places // on lines below error level that announce a retry
	frames  int    // number of stack frames

	hits   []place // on the current line
	retry  bool    // the current line announces a retry
	sights map[int32]*sight
	tried  []uint8 // number of places tried per rule
}

// read searches the lines of tails, oldest first.
func (c *Classifier) read(e *recovery.Evidence, tails *[3]agent.Tail, logs *[3]loglines.Lines) *reading {
	rd := &reading{c: c, e: e, sights: map[int32]*sight{}, tried: make([]uint8, len(c.rules))}
	n := 0
	for i := range tails {
		n += len(tails[i].Lines) + 1
	}
	rd.lines, rd.levels = make([]string, 0, n), make([]loglines.Level, 0, n)
	for i := range tails {
		if len(tails[i].Lines) > 0 {
			rd.add(&tails[i], &logs[i])
		}
	}
	return rd
}

// add appends the lines of one text and searches them.
func (rd *reading) add(tail *agent.Tail, logs *loglines.Lines) {
	c, n := rd.c, len(rd.lines)
	for i, line := range tail.Lines {
		rd.lines, rd.levels = append(rd.lines, line), append(rd.levels, logs.Level(i))
		if frame(line) {
			rd.frames++
		}
	}
	rd.lines, rd.levels = append(rd.lines, ""), append(rd.levels, loglines.None) // the end of a text ends a quotation
	begin := 0                                                                   // of line n
	c.literals.Scan(tail.Text, func(owner, end int) {
		for end > begin+len(rd.lines[n]) {
			rd.keep(n)
			begin += len(rd.lines[n]) + 1
			n++
		}
		switch {
		case owner == len(c.rules):
			rd.retry = true
		case len(rd.hits) == 0 || rd.hits[len(rd.hits)-1].rule != uint16(owner):
			rd.hits = append(rd.hits, place{uint16(owner), int32(n), int32(end - begin)})
		}
	})
	rd.keep(n)
}

// keep stores the hits on line n according to the line's strength as evidence, and drops hits that do not count.
func (rd *reading) keep(n int) {
	if len(rd.hits) == 0 && !rd.retry {
		return
	}
	hits, retry := rd.hits, rd.retry
	rd.hits, rd.retry = rd.hits[:0], false
	c, line, level := rd.c, rd.lines[n], rd.levels[n]
	if level.Advises() && transfers(line) {
		level = loglines.None
	}
	if len(hits) == 0 || frame(line) || loglines.Lists(line) {
		return
	}
	to, weak := &rd.places, &rd.places
	retries := retry && !c.concludes(line)
	switch {
	case retries && level.Advises():
		to, weak = &rd.retried, &rd.retried
	case retries:
		to, weak = &rd.chatter, &rd.chatter
	case level.Advises():
		to, weak = &rd.advice, &rd.advice
	case c.advises(line):
		weak = &rd.chatter
	}
	help := describesOption(line)
	for _, h := range hits {
		r := &c.rules[h.rule]
		if !r.isFor(rd.e) || help && r.Tier != tierProse || rd.isMention(r, line) ||
			r.inNames(line, int(h.end)) {
			continue
		}
		in := weak
		if tiers[r.tier].first {
			in = to
		}
		if in[r.tier] == nil {
			in[r.tier] = make([]place, 0, maxPlaces)
		}
		in[r.tier] = append(in[r.tier], h)
	}
}

// transfers reports whether a line states that a transfer failed. Package managers only warn about a failed transfer,
// and their error messages state only the consequence.
func transfers(line string) bool {
	return strings.Contains(line, "ould not transfer ") || strings.Contains(line, "ransfer failed for ") ||
		strings.Contains(line, "ailed to fetch http")
}

// announcesRetry reports whether a line announces that the program will retry.
func (c *Classifier) announcesRetry(line string) bool {
	found := false
	c.literals.Scan(line, func(owner, _ int) { found = found || owner == len(c.rules) })
	return found && !c.concludes(line)
}

// concludes reports whether a line about retries states that they are over.
func (c *Classifier) concludes(line string) bool {
	lower := strings.ToLower(line)
	return slices.ContainsFunc(c.verdicts, func(v string) bool { return strings.Contains(lower, v) })
}

// frame reports whether line is a stack frame from Node.js, Java or Python. A frame locates an error, but does not
// explain it. The OCaml compiler's messages begin like a Python frame, but also contain ", characters ".
func frame(line string) bool {
	n := 0
	for n < len(line) && (line[n] == ' ' || line[n] == '\t') {
		n++
	}
	line = line[n:]
	return strings.HasPrefix(line, "at ") || strings.HasPrefix(line, `File "`) &&
		!strings.Contains(line, ", characters ")
}

// advises reports whether a line only warns or advises. Such a line is seldom the reason why the program gave up.
// Wrappers advise manual intervention after any failure.
func (c *Classifier) advises(line string) bool {
	if strings.Contains(line, "manual intervention") || strings.Contains(line, "Manual intervention") ||
		line == "Connection closed" { // the last line of an sftp error
		return true
	}
	line = strings.TrimPrefix(strings.TrimLeft(line, " \t"), "---> ") // .NET's inner exception
	return line != "" && slices.ContainsFunc(c.advice[line[0]|0x20], func(p string) bool {
		return len(line) >= len(p) && strings.EqualFold(line[:len(p)], p)
	}) && !transfers(line)
}

// describesOption reports whether a line is part of a program's help text, which can mention any error.
func describesOption(line string) bool {
	t := strings.TrimLeft(line, " \t")
	return len(t) < len(line) && strings.HasPrefix(t, "-") && !strings.HasPrefix(t, "- ") && strings.Contains(t, "  ")
}

// isFor reports whether r applies to evidence of this stage, tool and exit code.
func (r *rule) isFor(e *recovery.Evidence) bool {
	return (len(r.Stages) == 0 || e.Stage == "" || slices.Contains(r.Stages, e.Stage)) &&
		(len(r.Tools) == 0 || e.Tool == "" || slices.ContainsFunc(r.Tools, func(name string) bool {
			return strings.HasPrefix(strings.ToLower(e.Tool), name)
		})) &&
		(r.Exit == nil || e.ExitCode == nil || *e.ExitCode == *r.Exit)
}

// match is a line that matches a rule.
type match struct {
	rule   *rule
	reason recovery.Reason
	line   int
	quote  string
}

// best returns the deciding match within a tier. Depending on the tier, it is on the first or the last matching line.
// If several rules match that line, the first rule wins. If only is not nil, best ignores all other reasons.
func (rd *reading) best(t *tierRow, in *places, only []recovery.Reason) (best match, ok bool) {
	rd.each(t, in, only, func(m match) bool {
		best, ok = m, true
		return false
	})
	return best, ok
}

// all returns the best match of each rule within a tier. The match that decides comes first.
func (rd *reading) all(t *tierRow) (ms []match) {
	rd.each(t, &rd.places, nil, func(m match) bool {
		if !slices.ContainsFunc(ms, func(known match) bool { return known.rule == m.rule }) {
			ms = append(ms, m)
		}
		return true
	})
	return ms
}

// each calls found for every match within a tier, nearest to the root cause first, until found returns false. Within a
// line, it follows the order of the rules. It tries at most maxPlaces places per rule.
func (rd *reading) each(t *tierRow, in *places, only []recovery.Reason, found func(match) bool) {
	all := in[t.index()]
	clear(rd.tried)
	for len(all) > 0 {
		var line []place // the places of the next line
		if n := len(all); t.first {
			k := 1
			for k < n && all[k].line == all[0].line {
				k++
			}
			rd.hits = append(rd.hits[:0], all[:k]...)
			line, all = rd.hits, all[k:]
		} else {
			k := n - 1
			for k > 0 && all[k-1].line == all[n-1].line {
				k--
			}
			rd.hits = append(rd.hits[:0], all[k:]...)
			line, all = rd.hits, all[:k]
			slices.Reverse(line)
		}
		slices.SortStableFunc(line, func(a, b place) int { return cmp.Compare(a.rule, b.rule) })
		for _, p := range line {
			r := &rd.c.rules[p.rule]
			if rd.tried[p.rule] == maxPlaces || only != nil && !slices.Contains(only, r.Reason) {
				continue
			}
			rd.tried[p.rule]++
			if reason, ok := rd.sight(p).matches(r); ok &&
				!found(match{rule: r, reason: reason, line: int(p.line), quote: rd.quote(r, p)}) {
				return
			}
		}
		rd.hits = line
	}
}

// sight returns the line that contains an occurrence. All tiers share the result, because their rules examine the same
// few lines.
func (rd *reading) sight(p place) *sight {
	s, line := rd.sights[p.line], window(rd.lines[p.line], int(p.end))
	if s == nil || s.line != line {
		s = &sight{c: rd.c, line: line}
		rd.sights[p.line] = s
	}
	return s
}

// window returns the line or, if the line is long, only the part around the literal that ends at end.
func window(line string, end int) string {
	if len(line) <= plaintext.MaxLine {
		return line
	}
	return line[max(0, end-plaintext.MaxLine/2):min(len(line), end+plaintext.MaxLine/2)]
}

// jsonField matches a field of a multi-line JSON document. Only the field's value is worth quoting.
var jsonField = regexp.MustCompile(`^"[\w.-]+": "([^"\\]+)",?$`)

// quote returns the text worth quoting for an occurrence.
func (rd *reading) quote(r *rule, p place) string {
	line := rd.lines[p.line]
	if len(line) > plaintext.MaxCause {
		line = plaintext.From(line, int(p.end))
	}
	line = strings.TrimPrefix(strings.TrimSpace(line), "vet: ")
	if m := jsonField.FindStringSubmatch(line); m != nil {
		line = m[1]
	}
	if r.Next && int(p.line)+1 < len(rd.lines) {
		if next := strings.TrimSpace(rd.lines[p.line+1]); next != "" && next != "FAIL" {
			return line + " " + next
		}
	}
	return line
}
