package fsmtest

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// delivering is what is known of a claim's finished work that is not handed in.
type delivering struct {
	failing time.Time // since when the delivery under way fails; zero: it has not, or waits for a stated reset
	failed  int       // how often in a row
	tries   int       // as the last fact says
	// since when the push seems to be refused, and nothing else; zero: it does not, or a stated reset was waited for
	doubted time.Time
	doubts  int  // how often in a row
	kept    bool // a person was asked because of it; the work is no part of the question
	resumed bool // who has said to go on, with nothing to say to the agent
	told    bool // people have said something to the agent, with no command since
}

// The bounds of a delivery's patience, beside its configured time.
const (
	deliveryDoubt = 2 * time.Minute
	deliveryOften = 3
)

// failsForGood: a delivery is not tried for ever.
func failsForGood(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	d, ok := f.(fsm.EffectDeferred)
	c := h.claim(d.Task)
	if !ok || c == nil || !strings.Contains(d.Effect, "/"+string(fsm.DoDeliver)) || h.set.cfg.DeliverFor == 0 ||
		d.Tries == c.tries || c.failing.IsZero() {
		return ""
	}
	if most := 4*h.set.cfg.DeliverFor + deliveryDoubt; c.failed >= deliveryOften && r.At.Sub(c.failing) >= most {
		return fmt.Sprintf("%s has failed %d times since %s, and nobody is asked", d.Effect, c.failed+1, c.failing)
	}
	return ""
}

// pushRefused is what git says then.
const pushRefused = "push: error: 403"

// refusedForLong: a push that seems to be refused counts only when it is said again and again, and nothing
// else, unless the delivery is given up anyway.
func refusedForLong(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	d, ok := f.(fsm.EffectDone)
	c := h.claim(d.Task)
	if !ok || c == nil || d.Failed != pushRefused {
		return ""
	}
	most := 4*h.set.cfg.DeliverFor + deliveryDoubt
	isOver := h.set.cfg.DeliverFor > 0 && c.tries >= deliveryOften && !c.failing.IsZero() && r.At.Sub(c.failing) >= most
	if !isOver && (c.doubts < deliveryOften || c.doubted.IsZero() || r.At.Sub(c.doubted) < deliveryDoubt) {
		return fmt.Sprintf("%s is given up after %d refusals since %s", d.Effect, c.doubts+1, c.doubted)
	}
	return ""
}

// handedInAgain: what only could not be handed in is handed in before another attempt begins, if a person says
// so and has nothing to say to the agent.
func handedInAgain(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	if f, ok := f.(fsm.AttemptBegan); ok {
		if c := h.claim(f.Task); c != nil && c.resumed {
			return fmt.Sprintf("attempt %d of %s begins, though the work is done and was to be handed in", f.N, f.Task)
		}
	}
	return ""
}

// seemsRefused counts one more failure of a push.
func (d *delivering) seemsRefused(at time.Time, refused bool) {
	switch {
	case !refused:
		d.doubted, d.doubts = time.Time{}, 0
		return
	case d.doubted.IsZero():
		d.doubted = at
	}
	d.doubts++
}

// takeDelivery changes what is known by a fact.
func (h *history) takeDelivery(at time.Time, f fsm.Fact) {
	switch f := f.(type) {
	case fsm.EffectPlanned:
		if c := h.claim(f.Effect.Task); c != nil && f.Effect.Kind == fsm.DoDeliver {
			c.delivering = delivering{}
		}
	case fsm.EffectDeferred:
		c := h.claim(f.Task)
		switch {
		case c == nil || !strings.Contains(f.Effect, "/"+string(fsm.DoDeliver)):
		case f.Tries == c.tries: // it waits for a stated reset
			c.failing, c.failed, c.doubted = time.Time{}, 0, time.Time{}
		case c.failing.IsZero():
			c.failing, c.failed, c.tries = at, 1, f.Tries
		default:
			c.failed, c.tries = c.failed+1, f.Tries
		}
		if c != nil && c.tries == f.Tries && !c.failing.IsZero() &&
			strings.Contains(f.Effect, "/"+string(fsm.DoDeliver)) {
			c.seemsRefused(at, f.Why == pushRefused)
		}
	case fsm.VerdictMade:
		if c := h.claim(f.Task); c != nil {
			r := f.Finding.Reason
			c.resumed = false
			c.kept = f.Verdict.Row == "director.deliver" && r != recovery.PolicyViolation &&
				r != recovery.ScopeViolation && r != recovery.Validation
		}
	case fsm.CommandTaken:
		c := h.claim(f.Task)
		if c != nil {
			c.told = false
		}
		switch {
		case c == nil || f.Refused != "":
		case f.Command == fsm.CommandResume, f.Command == fsm.CommandRetry:
			c.resumed = c.kept
		case f.Command != fsm.CommandWhy && f.Command != fsm.CommandHelp && f.Command != fsm.CommandSnooze:
			c.kept, c.resumed = false, false
		}
	case fsm.Moved: // an answer that is no command has something to say, or takes the label off
		if c := h.claim(f.Task); c != nil && f.From == fsm.Blocked && f.On == fsm.OnUnblocked && !c.resumed {
			c.kept = false
		}
	case fsm.HintsGiven: // the command that came before has something to say to the agent
		if c := h.claim(f.Task); c != nil && c.resumed {
			c.kept, c.resumed = false, false
		} else if c != nil {
			c.told = true
		}
	case fsm.TallyReset: // the question is answered with it
		if c := h.claim(f.Task); c != nil && c.told {
			c.kept, c.resumed, c.told = false, false, false
		}
	case fsm.AttemptBegan:
		if c := h.claim(f.Task); c != nil {
			c.delivering = delivering{}
		}
	}
}
