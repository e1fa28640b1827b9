package fsmtest

import (
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/fsm/fsmtest/deep"
	"retake/internal/recovery"
)

// softView is the part of a process's state that is not in the journal.
type softView struct {
	grace  time.Time            // silence before this time does not count
	late   time.Duration        // the director's delay, as last reported
	heard  map[string]time.Time // time of the last message, even if the machine has not received it, by worker
	last   time.Time            // time of the last step
	ailing time.Time            // time of the last step that began during an incident
	listed map[string]time.Time // time of the last list that shows the container running, by attempt
	probed map[string]time.Time // when the last unanswered probe was sent, by attempt
	fenced map[string]time.Time // time of the last answer to an unknown worker or its container, by worker

	edits  map[fsm.IssueKey]*fsm.Effect // running edits of comments about failing deliveries
	edited []string                     // ids of edits with a known outcome
	tally  recovery.Tally               // of the task of the last outcome, before it
}

// hasIncident reports whether the machine had an incident when it decided a fact, or has one now. By the time the fact
// is journaled, the incident may be over.
func (r record) hasIncident() bool {
	return len(r.p.m.Incidents()) > 0 || !r.p.soft.ailing.Before(r.at)
}

// record is a journaled fact before the model applies it.
type record struct {
	*history
	p     *process
	at    time.Time
	cause string // kind of the event that led to the fact
	c     *claim // claim that the fact is about, or nil
}

type factCheck func(record, fsm.Fact) string

// on checks the facts of one type.
func on[F fsm.Fact](check func(record, F) string) factCheck {
	return func(r record, f fsm.Fact) string {
		if f, ok := f.(F); ok {
			return check(r, f)
		}
		return ""
	}
}

// onClaim checks the facts of one type that are about a claim.
func onClaim[F fsm.Fact](check func(record, F) string) factCheck {
	return on(func(r record, f F) string {
		if r.c == nil {
			return ""
		}
		return check(r, f)
	})
}

// several combines several checks into one.
func several(checks ...factCheck) factCheck {
	return func(r record, f fsm.Fact) string {
		for _, check := range checks {
			if wrong := check(r, f); wrong != "" {
				return wrong
			}
		}
		return ""
	}
}

// decision is the result of a step.
type decision struct {
	*history
	p       *process
	at      time.Time
	body    fsm.EventBody
	facts   []fsm.Fact
	effects []fsm.Effect
}

type stepCheck func(decision) string

// after checks the decisions about events of one type.
func after[E fsm.EventBody](check func(decision, E) string) stepCheck {
	return func(d decision) string {
		if e, ok := d.body.(E); ok {
			return check(d, e)
		}
		return ""
	}
}

// each checks the decision's facts of one type.
func each[F fsm.Fact](d decision, check func(F) string) string {
	for _, f := range d.facts {
		if f, ok := f.(F); ok {
			if wrong := check(f); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// booted resets a process's softView.
func (h *history) booted(p *process) {
	p.soft = &softView{
		heard: map[string]time.Time{}, listed: map[string]time.Time{}, probed: map[string]time.Time{},
		fenced: map[string]time.Time{},
		edits:  map[fsm.IssueKey]*fsm.Effect{},
	}
	for _, row := range h.rows {
		if row.boot != nil {
			h.judge(row, row.boot(h, p))
		}
	}
	h.before = nil
}

func (h *history) judge(row *Invariant, text string) {
	if text != "" {
		h.w.fail(row.Name, "%s", text)
	}
}

// appended checks each newly journaled fact in order, and applies it.
func (h *history) appended(p *process, records []fsm.Record) {
	for _, r := range records {
		h.record++
		for _, f := range r.Facts {
			h.w.cover.fact(f)
			fact := record{h, p, r.At, r.Cause.Kind, h.claim(fsm.About(f))}
			for _, row := range h.rows {
				if row.fact != nil {
					h.judge(row, row.fact(fact, f))
				}
			}
			switch f := f.(type) {
			case fsm.RunBegan:
				h.set = p.began
			case fsm.SettingsChanged:
				h.set = h.w.directors.readBy(f)
			}
			h.take(r.At, f)
		}
		if h.w.directors.follow != nil {
			h.w.directors.follow(p, r)
		}
	}
}

// alikeEvery is the number of steps between checks that repeating a step gives the same result.
const alikeEvery = 500

// arrived records a sign of life that waits in the shell, and returns its time.
func (h *history) arrived(p *process, worker string) time.Time {
	at := latest(h.w.wall(p), p.m.Now())
	p.soft.heard[worker] = at
	return at
}

// stepping is called before a step.
func (h *history) stepping(p *process, at time.Time, body fsm.EventBody) {
	if h.twin = nil; h.w.steps%alikeEvery == 0 && h.rows != nil && h.w.without != decisionsAlike {
		h.twin = deep.Clone(decisive, p.m)
	}
	now, s := latest(p.m.Now(), at), p.soft
	if len(p.m.Incidents()) > 0 {
		s.ailing = now
	}
	switch b := body.(type) {
	case fsm.Booted, fsm.DirectorResumed:
		s.grace = now.Add(2 * heartbeatTTL)
	case fsm.DirectorLate:
		if b.By < s.late { // the delay has ended, so extended deadlines may be due from now on
			s.grace = latest(s.grace, now)
		}
		s.late = b.By
	case fsm.Hello:
		if b.Incompatible == "" {
			s.heard[b.Worker] = now
		}
	case fsm.WorkerSeen:
		s.heard[b.Worker] = now
	case fsm.WorkersSeen: // arrived has recorded these
	case fsm.EffectEnded:
		if t := p.m.Task(b.Task); t != nil {
			s.tally = t.Tally
		}
		if strings.HasPrefix(b.Effect, string(fsm.DoProgress)+"/") {
			s.edited = append(s.edited, b.Effect)
		}
	case fsm.ProbeUnanswered:
		s.probed[b.Worker] = latest(s.probed[b.Worker], b.SentAt)
	case fsm.ContainersListed:
		for _, c := range b.Containers {
			if c.Running {
				s.listed[c.Attempt] = b.TakenAt
			}
		}
	}
}

// stepped is called after a step.
func (h *history) stepped(p *process, at time.Time, body fsm.EventBody, facts []fsm.Fact, effects []fsm.Effect) {
	d := decision{h, p, at, body, facts, effects}
	_, late := body.(fsm.DirectorLate)
	if late && len(facts)+len(effects) == 0 {
		return // the decisions follow with the next event
	}
	for _, row := range h.rows {
		if row.step != nil {
			h.judge(row, row.step(d))
		}
		if row.full != nil && h.w.steps%fullEvery == 0 {
			h.judge(row, row.full(h, p))
		}
	}
	if !late { // DirectorLate may emit a due effect, but does not decide about deadlines
		p.soft.last = p.m.Now()
	}
}

func (h *history) handed(p *process, e fsm.Effect) {
	for _, row := range h.rows {
		if row.handed != nil {
			h.judge(row, row.handed(h, p, e))
		}
	}
}

func (h *history) carriedOut(p *process, e fsm.Effect) {
	for _, row := range h.rows {
		if row.carried != nil {
			h.judge(row, row.carried(h, p, e))
		}
	}
}

func (h *history) acked(r *report) {
	for _, row := range h.rows {
		if row.ack != nil {
			h.judge(row, row.ack(h, r))
		}
	}
}

// saveEvery is the number of records between two snapshots.
const saveEvery = 40

// durable occasionally makes a snapshot while everything is in the journal.
func (h *history) durable(p *process) {
	if h.record < h.saved+saveEvery+len(h.claims) || p != h.w.directors.lead || p.dead || !p.d.Idle() {
		return
	}
	data, err := p.m.Snapshot()
	if err != nil {
		h.w.fail(replaySame, "%v", err)
		return
	}
	h.saved = h.record
	h.w.directors.journal.save(data)
	h.w.workers.prune()
}

// prune drops acknowledged reports of ended attempts. Only a rebuild would read them again.
func (w *workers) prune() {
	if w.hub.losses != nil {
		return
	}
	kept := w.reports[:0]
	for _, r := range w.reports {
		c, n := w.directors.history.of(r.worker)
		if !r.acked || c != nil && c.attempt == n || w.runtime.container(r.worker) != nil {
			kept = append(kept, r)
		}
	}
	clear(w.reports[len(kept):])
	w.reports = kept
}
