package fsmtest

import (
	"strings"
	"time"

	"retake/internal/fsm"
)

// softView is what one process was told, which its journal does not say.
type softView struct {
	grace  time.Time            // no silence counts before
	heard  map[string]time.Time // by worker: when something of it came last, though it may wait
	last   time.Time            // when the last step was
	listed map[string]time.Time // by attempt: when the last list that has it was asked for
}

// This file is where the world tells the history what happens; each asks its part of the table.

// booted begins the soft knowledge of a process.
func (h *history) booted(p *process) {
	p.soft = &softView{heard: map[string]time.Time{}, listed: map[string]time.Time{}}
	for _, row := range h.rows.boot {
		h.judge(row, row.boot(h, p))
	}
	h.before = nil
}

func (h *history) judge(row *Invariant, text string) {
	if text != "" {
		h.w.fail(row.Name, "%s", text)
	}
}

// appended checks each fact that is in the journal now, in order, and takes it.
func (h *history) appended(p *process, records []fsm.Record) {
	for _, r := range records {
		h.record++
		for _, f := range r.Facts {
			for _, row := range h.rows.fact {
				h.judge(row, row.fact(h, p, r, f))
			}
			switch f := f.(type) {
			case fsm.RunBegan:
				h.set = p.began
			case fsm.SettingsChanged:
				h.set = h.w.readBy(f)
			}
			h.take(r.At, f)
		}
		if h.w.follow != nil {
			h.w.follow(p, r)
		}
	}
}

// alikeEvery is how many steps lie between two that are made twice.
const alikeEvery = 500

// arrived is told of a sign of life that waits, and returns when that is.
func (h *history) arrived(p *process, worker string) time.Time {
	at := h.w.wall(p)
	if now := p.m.Now(); now.After(at) {
		at = now
	}
	p.soft.heard[worker] = at
	return at
}

// stepping is told before a step.
func (h *history) stepping(p *process, at time.Time, body fsm.EventBody) {
	if h.twin = nil; h.w.steps%alikeEvery == 0 && h.w.without != decisionsAlike && h.w.without != everyOne {
		h.twin = clone(decisive, p.m)
	}
	now := p.m.Now()
	if at.After(now) {
		now = at
	}
	s := p.soft
	switch b := body.(type) {
	case fsm.Booted, fsm.DirectorResumed:
		s.grace = now.Add(2 * heartbeatTTL)
	case fsm.Hello:
		if b.Incompatible == "" {
			s.heard[b.Worker] = now
		}
	case fsm.WorkerSeen:
		s.heard[b.Worker] = now
	case fsm.WorkersSeen: // they have arrived
	case fsm.ContainersListed:
		for _, c := range b.Containers {
			if c.Running {
				s.listed[c.Attempt] = b.TakenAt
			}
		}
	}
}

// stepped is told after a step.
func (h *history) stepped(p *process, at time.Time, body fsm.EventBody, facts []fsm.Fact, effects []fsm.Effect) {
	defer func() { p.soft.last = p.m.Now() }()
	for _, row := range h.rows.step {
		h.judge(row, row.step(h, p, at, body, facts, effects))
	}
	if h.w.steps%fullEvery == 0 {
		for _, row := range h.rows.full {
			h.judge(row, row.full(h, p))
		}
	}
}

func (h *history) handed(p *process, e fsm.Effect) {
	for _, row := range h.rows.handed {
		h.judge(row, row.handed(h, p, e))
	}
}

func (h *history) carriedOut(p *process, e fsm.Effect) {
	for _, row := range h.rows.carried {
		h.judge(row, row.carried(h, p, e))
	}
}

func (h *history) acked(p *process, r *report) {
	for _, row := range h.rows.ack {
		h.judge(row, row.ack(h, p, r))
	}
}

// saveEvery is how many records lie between two snapshots.
const saveEvery = 40

// durable makes a snapshot when it is time to, and everything is in the journal.
func (h *history) durable(p *process) {
	if h.record < h.saved+saveEvery || p != h.w.lead || p.dead || !p.d.Idle() {
		return
	}
	data, err := p.m.Snapshot()
	if err != nil {
		h.w.fail(replaySame, "%v", err)
		return
	}
	h.saved = h.record
	h.w.journal.save(data)
	h.w.prune()
}

// prune forgets acknowledged reports of attempts that are over: nobody asks for them again.
func (w *world) prune() {
	if w.losses != nil { // somebody does
		return
	}
	kept := w.reports[:0]
	for _, r := range w.reports {
		c, n := w.history.of(r.worker)
		if !r.acked || c != nil && c.attempt == n || w.container(r.worker) != nil {
			kept = append(kept, r)
		}
	}
	clear(w.reports[len(kept):])
	w.reports = kept
}

// stops reports whether an effect is the stop of a claim's current attempt.
func (c *claim) stops(effect string) bool {
	return strings.HasPrefix(effect, fsm.AttemptID(c.nonce, c.attempt)+"/stop")
}
