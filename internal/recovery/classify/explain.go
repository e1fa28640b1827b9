package classify

import (
	"fmt"
	"slices"

	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// Considered is a rule that matched the evidence.
type Considered struct {
	Rule   string          `json:"rule"`
	Reason recovery.Reason `json:"reason"`
	Line   string          `json:"line"` // the line that the rule would quote
	Lost   string          `json:"lost"` // why it lost; empty if it won
}

// Also is an alternative to a finding: another reason with nearly the same confidence.
type Also struct {
	Reason recovery.Reason `json:"reason"`
	Rule   string          `json:"rule"`
}

// closeBy is the maximum difference in confidence between a finding and its Also.
const closeBy = 0.1

// ClassifyAlso is like Classify. If a rule for text decides, ClassifyAlso also returns the best match with another
// reason, or nil if its confidence is much lower.
func (c *Classifier) ClassifyAlso(e recovery.Evidence) (recovery.Finding, *Also) {
	q := &classification{c: c, e: clean(e)}
	f, won := q.decide()
	f = q.finish(f)
	if won == nil || won.tier == nil {
		return f, nil
	}
	readable := q.readable()
	order := c.stepsOf(e.Stage)
	for i := range order {
		t := order[i].tier
		if t == nil || t.confidence < f.Confidence-closeBy {
			continue
		}
		if _, ok := order[i].judge(q); !ok {
			continue
		}
		for _, m := range q.text().all(t) {
			if m.reason != f.Reason && (readable == nil || slices.Contains(readable, m.reason)) {
				return f, &Also{Reason: m.reason, Rule: m.rule.ID}
			}
		}
	}
	return f, nil
}

// Explain is like Classify, but also returns the rules that matched, in order of precedence, and why each of them lost.
func (c *Classifier) Explain(e recovery.Evidence) (recovery.Finding, []Considered) {
	q := &classification{c: c, e: clean(e)}
	f, won := q.decide()
	f = q.finish(f)
	var out []Considered
	add := func(g recovery.Finding, lost string) {
		out = append(out, Considered{Rule: g.Rule, Reason: g.Reason, Line: plaintext.OneLine(g.Cause), Lost: lost})
	}
	order := c.stepsOf(e.Stage)
	for i := range order {
		s := &order[i]
		g, ok := s.judge(q)
		switch {
		case !ok, s.name == "no evidence" && s != won:
			continue
		case s == won:
			add(f, "")
		default:
			add(g, fmt.Sprintf("%s takes precedence over %s", won.name, s.name))
		}
		if s.tier == nil {
			continue
		}
		ms := q.text().all(s.tier)
		for _, m := range ms[1:] {
			lost := fmt.Sprintf("%s takes precedence over %s", won.name, s.name)
			if s == won {
				lost = whyLost(ms[0], m, s.tier.first)
			}
			add(m.finding(s.tier.confidence), lost)
		}
	}
	return f, out
}

// whyLost explains why m is not the best match in its tier.
func whyLost(best, m match, first bool) string {
	switch {
	case m.line == best.line:
		return fmt.Sprintf("rule %s matches earlier on the same line", best.rule.ID)
	case first:
		return "a match on an earlier line is closer to the cause"
	default:
		return "a match on a later line is closer to the end of the output"
	}
}
