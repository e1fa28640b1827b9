package recovery

import "fmt"

// Considered is a rule that knew something in the evidence, and why it does not decide.
type Considered struct {
	Rule   string `json:"rule"`
	Reason Reason `json:"reason"`
	Line   string `json:"line"` // what it would quote
	Lost   string `json:"lost"` // empty: it decides
}

// Explain is Classify with the rules that matched, in the order in which they are asked, and why each lost.
func (c *Classifier) Explain(e Evidence) (Finding, []Considered) {
	q := &asked{c: c, e: e.clean()}
	f, won := q.decide()
	f = q.finish(f)
	var out []Considered
	add := func(g Finding, lost string) {
		out = append(out, Considered{Rule: g.Rule, Reason: g.Reason, Line: oneLine(g.Cause), Lost: lost})
	}
	order := c.stepsOf(e.Stage)
	for i := range order {
		s := &order[i]
		g, ok := s.ask(q)
		switch {
		case !ok, s.name == "silence" && s != won:
			continue
		case s == won:
			add(f, "")
		default:
			add(g, fmt.Sprintf("%s decides before %s", won.name, s.name))
		}
		if s.band == nil {
			continue
		}
		ms := q.text().all(s.band)
		for _, m := range ms[1:] {
			lost := fmt.Sprintf("%s decides before %s", won.name, s.name)
			if s == won {
				lost = outdone(ms[0], m, s.band.first)
			}
			add(m.finding(s.band.confidence), lost)
		}
	}
	return f, out
}

// outdone says why m is not the best of its band.
func outdone(best, m match, first bool) string {
	switch {
	case m.line == best.line:
		return fmt.Sprintf("rule %s stands before it on the same line", best.rule.ID)
	case first:
		return "an earlier line is nearer to the cause"
	default:
		return "a later line is nearer to the end"
	}
}
