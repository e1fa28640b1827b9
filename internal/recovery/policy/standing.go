package policy

import (
	"retake/internal/recovery"
)

// Standing is a row, its origin and the rows that override it.
type Standing struct {
	Row
	Name string `json:"-"` // "<policy>.<on>[@caller]", the same as in verdicts
	// set if the row belongs to the document and not to its base
	Own   bool                       `json:"own,omitempty"`
	By    []string                   `json:"overruled_by,omitempty"` // rows that override it completely, or nil
	Taken map[recovery.Reason]string `json:"-"`                      // the row that decides a reason instead, by reason
}

// Standings returns all rows, the document's own first.
func (p *Policy) Standings() []Standing {
	layer := p.own()
	var own, base []Standing
	for i := range p.rows {
		r := &p.rows[i]
		s := Standing{Row: *r, Name: r.id, Own: layer > 0 && r.layer == layer, Taken: map[recovery.Reason]string{}}
		for _, by := range p.by(i) {
			s.By = append(s.By, by.id)
		}
		for _, reason := range r.Reasons {
			if by := p.decides(r, reasonIndex(reason)); by != nil && by != r {
				s.Taken[reason] = by.id
			}
		}
		if s.Own {
			own = append(own, s)
		} else {
			base = append(base, s)
		}
	}
	return append(own, base...)
}
