package fsmtest

import (
	"slices"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// container is one that the runtime made, and the worker in it. A worker may outlive its container: a host that
// was cut off.
type container struct {
	attempt   string
	issue     fsm.IssueKey
	listed    bool // the runtime knows it
	running   bool
	lingering int  // messages that its worker still sends, though the runtime knows it no more
	orphan    bool // carried out for a director that was not the leader any more
	oom       bool
	code      int

	validates bool // it has no agent, and only a copy of the work

	pending bool         // accepted by a cluster, and nothing of it has run
	waits   string       // for what
	made    int64        // when it was accepted
	travels bool         // its checkout is a copy of its own
	lost    bool         // its node does not answer
	told    bool         // to end, by somebody who got no answer
	revoked bool         // the bus takes nothing of its worker any more
	cause   fsm.EndCause // what the cluster has ended it for

	welcomed bool
	fenced   bool
	paused   bool
	ends     int64 // when the work is done
	final    int   // final reports sent
	sent     int   // reports sent
	calls    int64 // paid
	silent   int64 // it says nothing before
	cut      int64 // its messages do not leave before
	patience int   // hellos before it gives up
}

func (b *container) alive() bool { return b.running || b.lingering > 0 }

func (w *world) container(attempt string) *container {
	for _, b := range w.containers {
		if b.attempt == attempt {
			return b
		}
	}
	return nil
}

// start makes sure that there is a container for the attempt.
func (w *world) start(p *process, e fsm.Effect) {
	w.losses.began(e)
	if b := w.container(e.Worker); b != nil && b.listed {
		b.orphan = b.orphan && p != w.lead
		return
	}
	b := &container{
		attempt: e.Worker, issue: e.Task, listed: true, running: true, patience: 30,
		orphan: p != w.lead || p.dead, travels: e.Start.Travels, made: w.now,
	}
	b.ends = w.now + seconds(30) + w.delay(1500)
	if w.explored {
		b.patience = 1
	}
	if w.faultsStopped {
		b.ends = w.now + seconds(60)
	}
	w.containers = append(w.containers, b)
	i := w.issue(e.Task)
	if b.validates = e.Start.Validate; b.validates {
		if i.validatedBy != e.Worker { // the copy of an attempt is made once
			i.validated, i.validatedBy = i.work, e.Worker
		}
	} else {
		w.works++
		i.work = w.works
	}
	if w.inCluster {
		w.accept(b)
		return
	}
	w.after(w.delay(20), func() { w.workerTurn(b) })
}

// stop ends the container. Without certainty that it is gone, it fails.
func (w *world) stop(p *process, e fsm.Effect) fsm.EffectEnded {
	b := w.container(e.Worker)
	gone := &fsm.StopResult{}
	if b != nil && b.listed && b.lost {
		return w.unconfirmed(p, b, e)
	}
	if b != nil && b.listed {
		if w.fault(runtimeUnkilled) {
			return fsm.EffectEnded{Failure: &fsm.EffectError{
				Reason: recovery.DockerDaemon,
				Text:   "could not kill the container", Transient: true,
			}}
		}
		code := b.code
		if b.running {
			code, gone.Signal, gone.Killed = 137, "SIGKILL", true
		}
		if gone.OOM, gone.Cause = b.oom, b.cause; !b.pending {
			gone.ExitCode = &code
		}
		w.remove(e.Worker)
	}
	return w.reported(e, gone)
}

// reported is the outcome of a stop with the reports of the worker; one of the director's own, if there is none
// of an end.
func (w *world) reported(e fsm.Effect, gone *fsm.StopResult) fsm.EffectEnded {
	hasEnd := func() bool {
		return slices.ContainsFunc(w.reports, func(r *report) bool { return r.worker == e.Worker && r.body.Final })
	}
	if !hasEnd() && !gone.Fenced { // nobody reaches its spool
		for _, r := range w.spools[e.Worker] {
			w.publish(e.Worker, r)
		}
	}
	if !hasEnd() {
		exit := fsm.Report{
			Ref: fsm.ReportRef{ID: e.Worker + "/exit", Seq: uint64(len(w.reports))}, Final: true,
			Exit: true, Stage: "START",
		}
		exit.Evidence = recovery.Evidence{
			ExitCode: gone.ExitCode, Signal: gone.Signal,
			Message: "the container ended without a report",
		}
		w.publish(e.Worker, exit)
	}
	w.losses.stopped(e)
	for _, r := range w.reports {
		if r.worker == e.Worker {
			gone.Reports = append(gone.Reports, r.body)
		}
	}
	return fsm.EffectEnded{Stop: gone}
}

// remove takes a container away. Its worker may go on for a while, where nobody can reach it.
func (w *world) remove(attempt string) {
	b := w.container(attempt)
	if b == nil || !b.listed {
		return
	}
	if b.lost {
		b.told = true
		return
	}
	b.listed, b.pending = false, false
	if b.running && w.fault(workerReturns) {
		b.lingering = 1 + w.choices.pick(workerReturns, 4)
	}
	b.running = false
	if b.lingering == 0 {
		w.forget(b)
	}
}

func (w *world) forget(b *container) {
	w.containers = slices.DeleteFunc(w.containers, func(x *container) bool { return x == b })
}

// listing reads the runtime's list every twenty seconds.
func (w *world) listing(p *process) {
	if p.dead || p == w.stale || w.bad != nil {
		return
	}
	defer w.after(w.interval(20), func() { w.listing(p) })
	if p.asleep > w.now || w.fault(runtimeFails) {
		return
	}
	l := w.list(p)
	if len(l.Containers) == 0 && len(p.m.Tasks()) == 0 {
		return
	}
	w.after(w.delay(2), func() { w.offer(p, l, nil) })
}

func (w *world) list(p *process) fsm.ContainersListed {
	l := fsm.ContainersListed{TakenAt: w.wall(p)}
	for _, b := range w.containers {
		switch {
		case !b.listed:
		case w.fault(runtimeLies):
			if w.choices.pick(runtimeLies, 2) == 1 {
				l.Containers = append(l.Containers, fsm.Container{Attempt: b.attempt, Running: !b.running})
			}
		case b.pending:
			l.Containers = append(l.Containers, fsm.Container{Attempt: b.attempt, Pending: true, Waiting: w.words(b)})
		default:
			l.Containers = append(l.Containers, fsm.Container{Attempt: b.attempt, Running: b.running})
		}
	}
	return l
}
