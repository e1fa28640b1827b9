package fsmtest

import (
	"fmt"

	"retake/internal/fsm"
)

// withinItsLease: what a director had asked for before it died may still happen.
func withinItsLease(h *history, p *process, e fsm.Effect) string {
	if p.lease != nil && !p.dead && h.w.lead != p {
		return fmt.Sprintf("p%d carries out %s, and p%d leads", p.id, e.ID, h.w.lead.id)
	}
	return ""
}

// decidesInTurn: directors are numbered in the order in which they began.
func decidesInTurn(h *history, p *process, r fsm.Record, _ fsm.Fact) string {
	if p.id < h.decider {
		return fmt.Sprintf("p%d decided at %s, after p%d had", p.id, r.At.Sub(epoch), h.decider)
	}
	h.decider = p.id
	return ""
}
