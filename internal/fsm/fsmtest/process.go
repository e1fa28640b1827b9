package fsmtest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"retake/internal/bus/lease"
	"retake/internal/fsm"
)

// process is one running director: a driver, and the state of the shell around it.
type process struct {
	id      int
	cfg     fsm.Config
	began   settings // settings at its start
	d       *fsm.Driver
	m       *fsm.Machine
	dead    bool
	skew    int64       // offset of its clock from the world's clock
	wake    int64       // time of its next deadline, or the constant never
	asleep  int64       // end of its sleep
	slept   int64       // start of its sleep
	appends int64       // start of the running append, or 0
	lease   *lease.Term // the last term, if the process can no longer renew its lease; otherwise nil
	refused int64       // time of its last refused claim, or 0
	flight  []*flight   // effects under way
	soft    *softView
	signs   []fsm.Sign // signs of life that the shell has not offered yet

	listening int    // number of comment reads in progress
	told      uint64 // ids of the decided comments, as a bit set; for the explorer

	found foundPrograms // the last search for programs

	batch *fsm.Batch // running append; for the explorer

	// The driver must release tokens and waiting effects in order, each only once enough records are durable.
	decided, durable int
	tokens           []token
	waiting          []pendingEffect
	lastToken        fsm.Token
}

type token struct {
	id   fsm.Token
	need int
	then func()
}

type pendingEffect struct {
	effect fsm.Effect
	need   int
}

// flight is a running effect.
type flight struct {
	effect fsm.Effect
	over   bool
}

// newProcess returns a director that has read the journal, or nil if the journal cannot be read.
func (w *directors) newProcess() *process {
	w.born++
	p := &process{id: w.born, cfg: w.set.cfg, began: w.set, wake: never}
	p.m = fsm.New(p.cfg)
	if err := w.journal.load(p.m); err != nil {
		w.fail(replaySame, "cannot read the journal: %v", err)
		return nil
	}
	name := "p"
	if !w.explored { // the explorer needs equal names in equal states
		name = fmt.Sprintf("p%d", p.id)
	}
	p.d = fsm.NewDriver(p.m, w.journal.last, name)
	if !w.withData {
		omitData(p.d)
	}
	return p
}

// boot starts a director from the journal, and makes it the leader.
func (w *directors) boot() {
	w.transport()
	p := w.newProcess()
	if p == nil {
		return
	}
	if w.lead != nil && w.fault(clockSkewed) {
		p.skew = int64(time.Duration(w.choices.pick(clockSkewed, 240)-120) * 5 * time.Second)
	}
	w.lead = p
	w.tell("p%d starts with the journal at %d", p.id, w.journal.last)
	w.history.booted(p)
	w.offer(p, fsm.Booted{RunID: fmt.Sprintf("run-%d", p.id)}, nil)
	w.offer(p, w.runtime.list(p), nil)
	for _, r := range w.workers.reports {
		if !r.acked {
			w.workers.redeliver(r)
		}
	}
	w.after(w.delay(5), func() { w.shell.poll(p, true) })
	w.after(w.delay(20), func() { w.shell.listing(p) })
	w.after(w.delay(20), func() { w.shell.listen(p) })
	w.after(w.delay(40), func() { w.shell.watch(p) })
	w.after(w.delay(300), func() { w.operator.directorFaults(p) })
	w.operator.search(p)
	w.operator.watchContracts(p, -1)
}

// end kills a process. Some of its running effects still take place, unless its lease has expired, because the shell
// stops sending by then.
func (w *directors) end(p *process, why string) {
	if p.dead {
		return
	}
	w.tell("p%d ends: %s", p.id, why)
	p.dead, p.wake = true, never
	for _, f := range p.flight {
		if !f.over && w.may(p) && w.fault(crashHalf) {
			w.shell.carryOut(p, f.effect)
		}
	}
	p.flight = nil
	if p == w.stale {
		w.stale = nil
	}
}

// crash kills a process. If it was the leader, the next leader starts at once.
func (w *directors) crash(p *process, why string) {
	leader := p == w.lead
	w.end(p, why)
	if leader {
		w.history.before = p
		w.boot()
	}
}

// offer offers an event to a process, checks its decisions, and takes its output.
func (w *directors) offer(p *process, body fsm.EventBody, acked func()) {
	if p.dead || w.bad != nil {
		return
	}
	if p.asleep > w.now {
		w.queue.add(p.asleep, func() { w.offer(p, body, acked) })
		return
	}
	if p.slept > 0 {
		gap := w.now - p.slept
		p.slept = 0
		w.offer(p, fsm.DirectorResumed{Gap: time.Duration(gap)}, nil)
		if p.dead || w.bad != nil {
			return
		}
	}
	_, sign := body.(fsm.WorkerSeen)
	if _, late := body.(fsm.DirectorLate); !late && (sign || p.m.Due(w.wall(p))) {
		w.sayLate(p)
		w.handOver(p)
		if p.dead || w.bad != nil {
			return
		}
	}
	w.steps++
	var tok fsm.Token
	if acked != nil {
		p.lastToken++
		tok = p.lastToken
	}
	if w.step(p, body, tok, acked) {
		w.flush(p)
		p.wake = w.wakes(p)
	}
}

// sayLate reports the delay of the running append to the machine, if the delay has changed.
func (w *directors) sayLate(p *process) {
	late := time.Duration(0)
	if p.appends > 0 {
		late = time.Duration(w.now - p.appends)
	}
	if late != p.m.Late() && !p.dead && w.bad == nil {
		w.offer(p, fsm.DirectorLate{By: late}, nil)
	}
}

// step offers an event to the driver, and checks the decisions. It reports whether the driver accepted the event.
func (w *directors) step(p *process, body fsm.EventBody, tok fsm.Token, acked func()) bool {
	at := w.wall(p)
	w.history.stepping(p, at, body)
	if s, ok := body.(fsm.SettingsRead); ok {
		p.cfg = *s.Config
	}
	if s, ok := body.(fsm.ProgramsSearched); ok {
		p.searching(s)
	}
	if err := p.d.Offer(fsm.Event{At: at, Body: body}, tok); err != nil {
		w.fail("DriverTakesEvents", "%T: %v", body, err)
		return false
	}
	facts, effects := p.m.Decided()
	if w.say != nil {
		w.tell("p%d ← %s", p.id, eventLine(body))
		for _, f := range facts {
			w.tell("    %s", factLine(f))
		}
	}
	if len(facts) > 0 {
		p.decided++
	}
	if tok != 0 {
		p.tokens = append(p.tokens, token{tok, p.decided, acked})
	}
	for _, e := range effects {
		p.waiting = append(p.waiting, pendingEffect{e, p.decided})
	}
	w.history.stepped(p, at, body, facts, effects)
	return true
}

// heard handles a sign of life that reaches a process. The shell offers it at once, or holds it for a while.
func (w *directors) heard(p *process, s fsm.WorkerSeen) {
	if p.dead || w.bad != nil || p.asleep > w.now || !w.fault(signsWait) {
		w.offer(p, s, nil)
		return
	}
	at := w.history.arrived(p, s.Worker)
	if i := slices.IndexFunc(p.signs, func(n fsm.Sign) bool { return n.Worker == s.Worker }); i >= 0 {
		s.Activity = s.Activity.After(p.signs[i].Activity)
		p.signs[i] = fsm.Sign{WorkerSeen: s, At: at}
		return
	}
	p.signs = append(p.signs, fsm.Sign{WorkerSeen: s, At: at})
	w.after(w.delay(120), func() { w.handOver(p) })
}

// handOver offers the waiting signs of life.
func (w *directors) handOver(p *process) {
	if all := p.signs; len(all) > 0 {
		p.signs = nil
		w.offer(p, fsm.WorkersSeen{Signs: all}, nil)
	}
}

func (w *directors) wakes(p *process) int64 {
	if p.dead {
		return never
	}
	next := p.m.NextDeadline()
	if next.IsZero() {
		return never
	}
	return max(int64(next.Sub(epoch))-p.skew, p.asleep)
}

// deadline acts as the shell's timer, which may fire late.
func (w *directors) deadline(p *process) {
	before := p.m.NextDeadline()
	w.offer(p, fsm.Tick{}, nil)
	if w.bad != nil || p.dead {
		return
	}
	if next := p.m.NextDeadline(); !next.IsZero() && !next.After(w.wall(p)) {
		w.fail(timerMeansWork, "a tick at deadline %s left deadline %s due", before.Sub(epoch), next.Sub(epoch))
	}
}

// flush takes the driver's output.
func (w *directors) flush(p *process) {
	w.takeReady(p, func(t token) { t.then() }, func(e fsm.Effect) { w.shell.submit(p, e) },
		func(b *fsm.Batch) { w.write(p, b) })
}

// takeReady takes the driver's output. It checks that the output is in order, and that the journal already contains the
// records of each decision.
func (w *directors) takeReady(p *process, ack func(token), submit func(fsm.Effect), write func(*fsm.Batch)) {
	for !p.dead && w.bad == nil {
		r := p.d.Ready()
		if r.Batch == nil && len(r.Acks) == 0 && len(r.Effects) == 0 {
			return
		}
		for _, a := range r.Acks {
			if len(p.tokens) == 0 || p.tokens[0].id != a {
				w.fail(ackAfterFact, "token %d was released out of order", a)
				return
			}
			t := p.tokens[0]
			p.tokens = p.tokens[1:]
			if t.need > p.durable {
				w.fail(ackAfterFact, "token %d was released after %d records, want at least %d", a, p.durable, t.need)
			}
			ack(t)
		}
		for _, e := range r.Effects {
			if len(p.waiting) == 0 || p.waiting[0].effect.ID != e.ID {
				w.fail(effectAfterFact, "%s was released out of order", e.ID)
				return
			}
			need := p.waiting[0].need
			p.waiting = p.waiting[1:]
			if need > p.durable {
				w.fail(effectAfterFact, "%s was released after %d records, want at least %d", e.ID, p.durable, need)
			}
			w.history.handed(p, e)
			submit(e)
		}
		if r.Batch != nil {
			write(r.Batch)
		}
	}
}

// write starts an append, which may succeed, fail, or succeed without an answer. The director may also crash before or
// after the append.
func (w *directors) write(p *process, b *fsm.Batch) {
	if b.Data != nil {
		b.Data = bytes.Clone(b.Data)
	}
	if w.fault(crashAtAppend) {
		w.crash(p, "crash before the append "+b.ID)
		return
	}
	if w.choices.pick(atDelay, 4) == 0 {
		w.landed(p, b)
		return
	}
	p.appends = w.now
	w.after(w.delay(2), func() { w.landed(p, b) })
}

func (w *directors) landed(p *process, b *fsm.Batch) {
	if p.appends = 0; p.dead || w.bad != nil {
		return
	}
	if w.fault(journalFails) {
		p.d.Stop()
		w.crash(p, "the append "+b.ID+" failed")
		return
	}
	seq, err := w.journal.append(b)
	if err != nil {
		p.d.Stop()
		w.crash(p, "the append "+b.ID+" was refused")
		return
	}
	w.tell("    journal %d: %d records of %s", seq, len(b.Records), b.ID)
	w.history.appended(p, b.Records)
	if w.fault(crashAtAppend) {
		w.crash(p, "crash after the append "+b.ID)
		return
	}
	if w.fault(journalSilent) { // the shell searches the journal for the batch's id
		var ok bool
		if seq, ok = w.journal.find(b.ID); !ok || w.choices.chance(journalSilent, 300) {
			p.d.Stop()
			w.crash(p, "the shell cannot determine whether the append "+b.ID+" landed")
			return
		}
	}
	p.durable += len(b.Records)
	p.d.Appended(seq)
	w.flush(p)
	p.wake = w.wakes(p)
	w.history.durable(p)
}

// omitData keeps the driver from writing JSON.
func omitData(d *fsm.Driver) {
	d.Encode = func(at time.Time, _ fsm.Event, facts []fsm.Fact) (fsm.Record, []byte, error) {
		return fsm.Record{At: at, Facts: facts}, nil, nil
	}
}
