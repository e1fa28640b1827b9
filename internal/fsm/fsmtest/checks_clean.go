package fsmtest

import (
	"fmt"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// cleanlyValidated names the invariant that is also checked where work is shown.
const cleanlyValidated = "ValidatedCleanly"

// afterSuccess reports whether an attempt is due because an agent has done well: no verdict has granted it.
func afterSuccess(n fsm.Next) bool { return n.Validate && n.Reason == "" }

// ofTheWork reports whether a failure is one that an agent has to mend.
func ofTheWork(r recovery.Reason) bool {
	about, _ := recovery.Describe(r)
	return about.Cause == recovery.Agent
}

// validatedCleanly: who hands in is an attempt that only validates, and such an attempt follows an agent's
// success, or another of its kind that a verdict repeats.
func validatedCleanly(h *history, p *process, _ fsm.Record, f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.AttemptBegan:
		c := h.claim(f.Task)
		switch {
		case f.LeavesValidation != (p.cfg.CleanValidation && !f.Next.Validate):
			return fmt.Sprintf("attempt %d of %s leaves its validation to another: %t", f.N, f.Task, f.LeavesValidation)
		case !f.Next.Validate || c == nil:
		case !p.cfg.CleanValidation:
			return fmt.Sprintf("attempt %d of %s only validates, and nobody has asked for that", f.N, f.Task)
		case afterSuccess(f.Next) && (c.validates || c.outcome != fsm.OutcomeOK || f.Next.Charges != ""):
			return fmt.Sprintf("attempt %d of %s validates after no agent's success", f.N, f.Task)
		case !afterSuccess(f.Next) && !again(c.last.Row) && ofTheWork(f.Next.Reason):
			return fmt.Sprintf("attempt %d of %s validates again, and nobody has mended %s", f.N, f.Task, f.Next.Reason)
		}
	case fsm.EffectPlanned:
		c := h.claim(f.Effect.Task)
		if o := f.Effect.Start; o != nil && o.LeavesValidation != (p.cfg.CleanValidation && !o.Validate) {
			return fmt.Sprintf("%s is told that it leaves its validation to another: %t", f.Effect.ID,
				o.LeavesValidation)
		}
		if f.Effect.Kind != fsm.DoDeliver || !p.cfg.CleanValidation || c == nil {
			return ""
		}
		if !c.validates || c.outcome != fsm.OutcomeOK || !f.Effect.Deliver.Validated {
			return fmt.Sprintf("attempt %d of %s is handed in, and no clean container has validated it", c.attempt,
				c.key)
		}
	case fsm.WorkDelivered:
		if c := h.claim(f.Task); c != nil && p.cfg.CleanValidation && (!c.validates || f.Delivery.Changed) {
			return fmt.Sprintf("attempt %d of %s is delivered, and no clean container has validated it", c.attempt,
				c.key)
		}
	}
	return ""
}

// handsInTheValidated: an order to hand in says that only what was validated may be.
func handsInTheValidated(h *history, _ *process, e fsm.Effect) string {
	if e.Kind == fsm.DoDeliver && h.w.cfg.CleanValidation && !e.Deliver.Validated {
		return e.ID + " hands in whatever there is"
	}
	return ""
}

// shown: what people see of a delivery is what a container without an agent was given, and that container has
// reported success.
func (h *history) shown(i *issue, e fsm.Effect) {
	if !h.w.cfg.CleanValidation || i.delivered == e.Worker {
		return
	}
	well := h.w.losses != nil && h.w.losses.well[e.Worker] // the journal may know it still
	for _, r := range h.w.reports {
		well = well || r.worker == e.Worker && r.body.OK && r.body.Final
	}
	if !well || i.validatedBy != e.Worker || i.validated != i.work {
		h.w.fail(cleanlyValidated, "%s shows work %d, validated was %d by %q, well %t", e.ID, i.work, i.validated,
			i.validatedBy, well)
	}
}
