package fsmtest

import (
	"slices"
	"strconv"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// report is a worker's or the director's report in the stream, which delivers it repeatedly until it is acknowledged.
type report struct {
	worker string
	body   fsm.Report
	acked  bool
	waits  bool // offered but not acknowledged; for the explorer
}

// workerTurn is one turn of a worker: hello, heartbeats, notices, or the end of its work.
func (w *workers) workerTurn(b *container) {
	if !b.alive() || w.bad != nil {
		return
	}
	if !b.running { // it outlived its container, and its messages may be lost
		b.lingering--
		if b.lingering == 0 {
			defer w.runtime.forget(b)
		}
	}
	next := int64(heartbeatTTL) / 3
	if b.running && !b.lost && w.fault(nodeLost) {
		w.runtime.loseNode(b)
	}
	switch {
	case b.running && w.fault(clusterEnds):
		w.runtime.endByCluster(b)
		return
	case b.running && w.fault(workerDies):
		b.running, b.code, b.oom = false, 1+w.choices.pick(workerDies, 2)*136, w.choices.pick(workerDies, 4) == 3
		return
	case w.now < b.silent:
	case w.fault(workerStalls):
		b.silent = w.now + w.delay(400)
	case !b.welcomed:
		if b.patience--; b.patience < 0 {
			b.running, b.code = false, 1
			return
		}
		if w.fault(workerLies) { // the worker reports its end before the welcome
			w.finish(b)
		}
		if w.fault(workerAgain) { // it was welcomed and has worked, but then it lost its connection
			b.calls += 4
			w.sendUnreliably(b, fsm.WorkerSeen{Worker: b.attempt, Activity: fsm.Activity{Usage: w.usageSoFar(b)}})
		}
		w.sendUnreliably(b, fsm.Hello{Worker: b.attempt, Token: 1, Incompatible: w.version()})
		next = seconds(5)
	case !b.paused && w.now >= b.ends && b.final == 0:
		w.finish(b)
	case b.final > 0 && w.fault(workerLies):
		w.finish(b)
	case b.lingering > 0 && w.choices.pick(workerReturns, 2) == 1, w.fault(workerAgain):
		w.sendUnreliably(b, fsm.Hello{Worker: b.attempt, Token: 1})
	case w.fault(workerNotes):
		w.send(b, w.failureReport(b, false))
	default:
		w.sendUnreliably(b, fsm.WorkerSeen{Worker: b.attempt, Activity: fsm.Activity{
			Stage: "CODE",
			Step:  strconv.Itoa(b.sent), Paused: b.paused, Usage: w.usageSoFar(b),
		}})
	}
	if b.lingering > 0 {
		next = seconds(5)
	}
	w.after(next, func() { w.workerTurn(b) })
	if w.fault(busCut) {
		b.cut = w.now + w.delay(600)
	}
}

// usageSoFar returns the usage of the attempt so far. A lying worker reports less.
func (w *workers) usageSoFar(b *container) *recovery.Usage {
	if w.faultsStopped || b.validates || w.choices.pick(atLife, 4) == 0 {
		return nil
	}
	b.calls += int64(w.choices.pick(atLife, 3)) / 2
	u := &recovery.Usage{Tokens: 1000 * b.calls, PaidCalls: b.calls, CostUSD: float64(b.calls) / 8}
	if w.rates[workerLies] > 0 && w.choices.pick(workerLies, 20) == 19 {
		u.PaidCalls /= 2
	}
	return u
}

func (w *workers) version() string {
	if !w.faultsStopped && w.rates[workerLies] > 0 && w.choices.chance(workerLies, 10) {
		return "2.0"
	}
	return ""
}

// failureReport returns a report of a random failure or, during an outage, of the failure that all attempts share.
func (w *workers) failureReport(b *container, final bool) fsm.Report {
	e := failureEvidence[w.choices.pick(atOutcome, len(failureEvidence))]
	if w.now < w.outageTo {
		e = w.outageEnd
	}
	if b.validates {
		if w.fixesAreScarce() {
			e = failedTest
		}
		e.Stage, e.Provider = "VALIDATE", ""
	}
	if words := reporterWords[e.Message]; len(words) > 0 {
		e.Assertion = words[len(w.reports)%len(words)]
	}
	return fsm.Report{Final: final, Stage: e.Stage, Evidence: e}
}

// fixesAreScarce reports whether this world tests the fix-round budget: validation in a clean container always finds a
// failed test, and the budget allows few attempts. This would rarely happen by chance.
func (w *workers) fixesAreScarce() bool {
	cfg := &w.directors.set.cfg
	return cfg.CleanValidation && cfg.FixRounds > 1 && cfg.Policy.Guards().IterationBudget == fewIterations
}

// finish sends a final report. Once faults have stopped, the work succeeds.
func (w *workers) finish(b *container) {
	b.final++
	if w.faultsStopped || w.now >= w.outageTo && w.choices.pick(atOutcome, 5) < 2 {
		w.send(b, fsm.Report{OK: true, Final: true, Stage: "DONE"})
		return
	}
	w.send(b, w.failureReport(b, true))
}

func (w *workers) send(b *container, r fsm.Report) {
	b.sent++
	r.Usage = w.usageSoFar(b)
	r.Ref = fsm.ReportRef{ID: "r" + strconv.Itoa(b.sent), Seq: uint64(len(w.reports))}
	if b.revoked {
		w.offerShutOut(b, r)
		return
	}
	if d := b.cut - w.now; d > 0 && !w.faultsStopped {
		w.spool(b, r)
		w.after(d, func() {
			if b.alive() && !b.revoked { // otherwise, leave the report in the spool
				w.publish(b.attempt, r)
			}
		})
		return
	}
	w.publish(b.attempt, r)
}

// spool stores a report in the attempt's checkout.
func (w *workers) spool(b *container, r fsm.Report) {
	if w.spools == nil {
		w.spools = map[string][]fsm.Report{}
	}
	w.spools[b.attempt] = append(w.spools[b.attempt], r)
}

// publish puts a report into the stream.
func (w *workers) publish(worker string, body fsm.Report) {
	if slices.ContainsFunc(w.reports, func(r *report) bool {
		return r.worker == worker && r.body.Ref.ID == body.Ref.ID
	}) {
		return
	}
	w.tell("    stream: %s %s ok=%t final=%t", worker, body.Ref.ID, body.OK, body.Final)
	r := &report{worker: worker, body: body}
	w.reports = append(w.reports, r)
	w.redeliver(r)
}

// redeliver offers a report to the leader repeatedly until it is acknowledged.
func (w *workers) redeliver(r *report) {
	lag := int64(0)
	if w.fault(streamLate) {
		lag = w.delay(100)
	}
	p := w.directors.lead
	if w.directors.stale != nil && w.fault(staleHears) {
		p = w.directors.stale
		w.after(lag+seconds(30), func() { // the stream repeats a report that is not acknowledged in time
			if !r.acked {
				w.redeliver(r)
			}
		})
	}
	w.after(lag, func() {
		w.directors.offer(p, fsm.ReportReceived{Worker: r.worker, Report: r.body}, func() {
			w.directors.history.acked(r)
			r.acked = true
			if w.fault(streamTwice) {
				w.after(w.delay(300), func() {
					w.directors.offer(w.directors.lead, fsm.ReportReceived{Worker: r.worker, Report: r.body},
						func() { w.directors.history.acked(r) })
				})
			}
		})
	})
}

// sendUnreliably sends a message that may be lost.
func (w *workers) sendUnreliably(b *container, body fsm.EventBody) {
	if w.now < b.cut && !w.faultsStopped || w.fault(busDrop) {
		return
	}
	n := 1
	if w.fault(busTwice) {
		n = 2
	}
	for range n {
		w.after(w.lag(), func() {
			to := w.directors.lead
			// a disconnected host can only reach the stale director
			if w.directors.stale != nil && (!b.running && !w.faultsStopped || w.fault(staleHears)) {
				to = w.directors.stale
			}
			if s, ok := body.(fsm.WorkerSeen); ok {
				w.directors.heard(to, s)
				return
			}
			w.directors.offer(to, body, nil)
		})
	}
}

// probeWait is the time limit for answering a probe, in seconds.
const probeWait = 5

// probe asks a silent worker for a sign of life. If none arrives in time, it reports the unanswered probe to the
// machine.
func (w *workers) probe(p *process, e fsm.Effect) {
	sent := w.wall(p)
	if !w.fault(busDrop) {
		w.after(w.lag(), func() { w.control(e) })
	}
	w.after(seconds(probeWait), func() {
		if p.soft.heard[e.Worker].Before(sent) {
			w.directors.offer(p, fsm.ProbeUnanswered{Worker: e.Worker, SentAt: sent}, nil)
		}
	})
}

// control delivers a control message to a worker.
func (w *workers) control(e fsm.Effect) {
	b := w.runtime.container(e.Worker)
	if b == nil || !b.alive() || b.revoked || w.now < b.cut && !w.faultsStopped || w.now < b.silent {
		return
	}
	switch e.Kind {
	case fsm.DoWelcome:
		b.welcomed = true
	case fsm.DoFence, fsm.DoRefuse:
		b.fenced = true
		if b.running {
			b.running = false
		}
		b.lingering = 0
		if !b.listed {
			w.runtime.forget(b)
		}
	case fsm.DoProbe:
		w.sendUnreliably(b, fsm.WorkerSeen{Worker: b.attempt})
	case fsm.DoPause:
		b.paused = true
	case fsm.DoResume:
		b.paused = false
	}
}
