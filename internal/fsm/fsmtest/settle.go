package fsmtest

import (
	"fmt"
	"time"

	"retake/internal/fsm"
)

// The bounds of liveness: how many steps, and how much time, a world without faults may take to come to rest.
const (
	restSteps = 10_000
	restTime  = 24 * time.Hour
)

// settle stops all faults, and lets the world come to rest.
func (w *world) settle() {
	if w.bad != nil {
		return
	}
	w.tell("faults stop")
	w.faultsStopped = true
	if w.stale != nil {
		w.end(w.stale, "faults stop")
	}
	if p := w.lead; p.asleep > w.now {
		p.asleep = w.now
		p.wake = w.wakes(p)
	}
	for _, b := range w.containers {
		b.cut, b.silent = min(b.cut, w.now), min(b.silent, w.now)
		if b.lost && !b.travels { // nobody fences it
			w.after(w.delay(600), func() { w.returns(b) })
		}
	}
	w.resume()
	steps, until := w.steps+restSteps, w.now+int64(restTime)
	for w.bad == nil && w.steps < steps && w.now < until {
		if w.steps%20 == 0 && w.atRest() == "" {
			break
		}
		w.next()
	}
	for _, row := range w.history.rows.end {
		if w.bad == nil {
			w.history.judge(row, row.end(w.history, w.lead))
		}
	}
}

// resume is said now and then: a policy may have ended the run.
func (w *world) resume() {
	w.offer(w.lead, fsm.OperatorCommanded{Command: fsm.Resume}, nil)
	w.after(seconds(3600), w.resume)
}

// resting are the states in which a task may stay when nothing happens any more.
var resting = map[string]bool{"Running": true, "InReview": true, "Blocked": true}

// atRest says what is still to come, or nothing.
func (w *world) atRest() string {
	for _, t := range w.lead.m.Tasks() {
		if t.State == fsm.Queued && w.issue(t.Key).waits() {
			continue
		}
		if !resting[t.State.String()] || len(t.Outbox) > 0 {
			return fmt.Sprintf("%s stays %s, %d effects are planned, the phase is %s", t.Key, t.State, len(t.Outbox),
				w.lead.m.Phase())
		}
	}
	for _, t := range w.lead.m.Tasks() {
		if text := w.reviewOpen(t); text != "" {
			return text
		}
		if t.State == fsm.Blocked && !t.Until.IsZero() {
			return "somebody is to be reminded of " + string(t.Key)
		}
	}
	if text := w.unheard(); text != "" {
		return text
	}
	for _, i := range w.issues {
		if t := w.lead.m.Task(i.key); t != nil && t.State == fsm.Blocked && i.open && (i.removed || i.answer != "") {
			return "somebody answered on " + string(i.key) + ", and nobody has heard it"
		}
		if i.open && i.labels&(taskLabel|claimedLabel|blockedLabel) == taskLabel && i.nonce != foreign && !i.waits() {
			return string(i.key) + " is eligible, and nobody takes it"
		}
		if i.halfClaimed() {
			return string(i.key) + " is claimed by half, and nobody finishes it"
		}
	}
	for _, b := range w.containers {
		if b.listed && (!b.lost || !b.revoked) { // that one is there for good
			return "a container is left: " + b.attempt
		}
	}
	for _, r := range w.reports {
		if !r.acked {
			return fmt.Sprintf("%s of %s is not acknowledged", r.body.Ref.ID, r.worker)
		}
	}
	if !w.lead.d.Idle() {
		return "the journal is behind"
	}
	return ""
}

func atRest(h *history, _ *process) string { return h.w.atRest() }

func noTimerLeft(h *history, p *process) string {
	if next := p.m.NextDeadline(); !next.IsZero() && len(p.m.Cooldowns()) == 0 && h.w.atRest() == "" {
		return fmt.Sprintf("a timer is set for %s, %s from now, and nothing waits", next.Format(time.TimeOnly),
			next.Sub(p.m.Now()))
	}
	return ""
}

// labelsAgree: at rest an issue that is claimed or blocked has its task, and the other way round.
func labelsAgree(h *history, p *process) string {
	if h.w.atRest() != "" {
		return ""
	}
	for _, i := range h.w.issues {
		t := p.m.Task(i.key)
		switch {
		case i.nonce == foreign:
		case t != nil && t.State == fsm.Blocked && i.open && i.labels&blockedLabel == 0 && !i.removed:
			return fmt.Sprintf("%s is Blocked, its labels are %v", i.key, labelSets[i.labels])
		case t != nil && t.State == fsm.InReview && i.labels&reviewLabel == 0:
			return fmt.Sprintf("%s is InReview, its labels are %v", i.key, labelSets[i.labels])
		case t == nil && i.open && i.nonce != "" && i.labels&(claimedLabel|blockedLabel|reviewLabel) != 0:
			return fmt.Sprintf("nobody knows %s, its labels are %v", i.key, labelSets[i.labels])
		}
	}
	return ""
}
