package fsmtest

import (
	"fmt"
	"slices"
	"time"

	"retake/internal/fsm"
)

// capped is the label of which at most one task has a worker, in a world with an order.
const capped = "area/db"

// order gives the issues of one world in eight priorities, a cap, and an issue without our label that must be
// closed first.
func (w *world) order() {
	if w.choices.pick(atStanding, 8) < 7 {
		return
	}
	w.cfg.Caps = map[string]int{capped: 1}
	for _, i := range w.issues {
		i.priority = w.choices.pick(atStanding, 5) - 2
		i.capped = w.choices.pick(atStanding, 2) == 1
	}
	late := w.issues[w.choices.pick(atStanding, len(w.issues))]
	first := &issue{key: fsm.IssueKey(late.key.Repo() + "#90"), open: true}
	w.add(first)
	late.after = first
	w.after(w.delay(4000), func() {
		first.setOpen(false)
		w.tell("somebody closes %s", first.key)
		w.touch(first)
	})
}

// waits reports whether another issue must be closed first, again if somebody has opened that again.
func (i *issue) waits() bool { return i.after != nil && i.after.open }

// standing is what the issue says about its turn.
func (i *issue) standing() (s fsm.Standing) {
	s.Priority = i.priority
	if i.capped {
		s.Capped = []string{capped}
	}
	if i.waits() {
		s.After = []fsm.IssueKey{i.after.key}
	}
	return s
}

// mayBegin reports whether nothing that its issue says keeps a task back.
func mayBegin(tasks []*fsm.Task, t *fsm.Task) bool {
	return len(t.Standing.After) == 0 && (!slices.Contains(t.Standing.Capped, capped) ||
		!slices.ContainsFunc(tasks, func(o *fsm.Task) bool {
			return o != t && slices.Contains(o.Standing.Capped, capped) &&
				(o.State.Info().Slot || o.State == fsm.Backoff &&
					len(o.Outbox) > 0)
		}))
}

// dispatched is the claim that leaves the queue with a fact, nil if none does.
func (h *history) dispatched(f fsm.Fact) *claim {
	if m, ok := f.(fsm.Moved); ok && m.On == fsm.OnDispatch && m.From == fsm.Queued {
		return h.claim(m.Task)
	}
	return nil
}

// dependenciesFirst: what the machine knows, and what is so.
func dependenciesFirst(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	c := h.dispatched(f)
	if c == nil {
		return ""
	}
	if first := h.w.issue(c.key).after; first != nil && !first.closed || len(c.standing.After) > 0 {
		return fmt.Sprintf("%s begins before %s is closed", c.key, first.key)
	}
	return ""
}

func capsKept(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	m, ok := f.(fsm.Moved)
	if !ok || !m.To.Info().Slot || h.w.cfg.Caps == nil {
		return ""
	}
	n := 0
	for _, c := range h.claims {
		if slices.Contains(c.standing.Capped, capped) && (c.key == m.Task || c.state.Info().Slot || c.rereads()) {
			n++
		}
	}
	if c := h.claim(m.Task); n > 1 && slices.Contains(c.standing.Capped, capped) && !c.state.Info().Slot {
		return fmt.Sprintf("%s takes a slot, and %d tasks with its label have one then", m.Task, n)
	}
	return ""
}

// longestWaiter: of one repository, and where neither a cap nor an incident has a say.
func longestWaiter(h *history, p *process, _ fsm.Record, f fsm.Fact) string {
	c := h.dispatched(f)
	if c == nil || len(p.m.Incidents()) > 0 {
		return ""
	}
	for _, o := range h.claims {
		if o.state == fsm.Queued && o != c && o.key.Repo() == c.key.Repo() && len(o.standing.After) == 0 &&
			len(o.standing.Capped) == 0 && o.turn().Before(c.turn()) {
			return fmt.Sprintf("%s begins, and %s waits for longer", c.key, o.key)
		}
	}
	return ""
}

// turn is since when the claim waits, with what its priority is worth.
func (c *claim) turn() time.Time { return c.since.Add(-time.Duration(c.standing.Priority) * time.Hour) }
