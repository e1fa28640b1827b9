package policy

import (
	"retake/internal/recovery"
)

// Standing is the origin of a row, and its remaining scope.
type Standing struct {
	Row
	Name  string                     `json:"-"`                      // "<policy>.<on>[@caller]", as in verdicts
	Own   bool                       `json:"own,omitempty"`          // of the document, not of its base
	By    []string                   `json:"overruled_by,omitempty"` // rows that override it completely, or nil
	Taken map[recovery.Reason]string `json:"-"`                      // its reasons decided by other rows, with those rows
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
