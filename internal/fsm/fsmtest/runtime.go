package fsmtest

import (
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// container is a container in the runtime, with its worker. If its host is disconnected, the worker may outlive it.
type container struct {
	attempt   string
	issue     fsm.IssueKey
	listed    bool // the runtime knows it
	running   bool
	lingering int  // number of messages that the worker can still send once the container is gone
	orphan    bool // created for a director that no longer leads
	oom       bool
	code      int

	validates bool // it only validates a copy of the work
	contract  *fsm.Contract

	pending bool         // accepted by a cluster, but not running yet
	waits   string       // reason for waiting
	made    int64        // time of acceptance
	travels bool         // its checkout is a copy
	lost    bool         // its node does not answer
	told    bool         // it received the stop, although the caller got an error
	revoked bool         // the bus ignores its worker
	cause   fsm.EndCause // why the cluster ended it

	welcomed bool
	fenced   bool
	paused   bool
	ends     int64 // when the work is done
	final    int   // final reports sent
	sent     int   // reports sent
	calls    int64 // paid calls
	silent   int64 // end of its silence
	cut      int64 // its messages do not arrive before this time
	patience int   // number of hellos before it gives up
}

func (b *container) alive() bool { return b.running || b.lingering > 0 }

func (w *runtime) container(attempt string) *container {
	for _, b := range w.containers {
		if b.attempt == attempt {
			return b
		}
	}
	return nil
}

// start creates a container for the attempt, unless it exists already. It returns the container's contract.
func (w *runtime) start(p *process, e fsm.Effect, k *fsm.Contract) *fsm.Contract {
	w.hub.losses.began(e)
	if b := w.container(e.Worker); b != nil && b.listed {
		b.orphan = b.orphan && p != w.directors.lead
		return b.contract
	}
	b := &container{
		attempt: e.Worker, issue: e.Task, listed: true, running: true, patience: 30,
		orphan: p != w.directors.lead || p.dead, travels: e.Start.Travels, made: w.now, contract: k,
	}
	b.ends = w.now + seconds(30) + w.delay(1500)
	if w.explored {
		b.patience = 1
	}
	if w.faultsStopped {
		b.ends = w.now + seconds(60)
	}
	w.containers = append(w.containers, b)
	i := w.hub.issue(e.Task)
	if b.validates = e.Start.Validate; b.validates {
		if i.validatedBy != e.Worker { // each attempt gets only one copy
			i.validated, i.validatedBy = i.work, e.Worker
		}
	} else {
		w.hub.works++
		i.work = w.hub.works
	}
	if w.inCluster {
		w.accept(b)
		return k
	}
	w.after(w.delay(20), func() { w.workers.workerTurn(b) })
	return k
}

// stop ends the container. It fails if the end cannot be confirmed.
func (w *runtime) stop(p *process, e fsm.Effect) fsm.EffectEnded {
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

// reported returns the outcome of a stop, with the worker's reports. If no report is final, reported adds the
// director's exit report.
func (w *runtime) reported(e fsm.Effect, gone *fsm.StopResult) fsm.EffectEnded {
	hasEnd := func() bool {
		return slices.ContainsFunc(w.workers.reports,
			func(r *report) bool { return r.worker == e.Worker && r.body.Final })
	}
	if !hasEnd() && !gone.Fenced { // the spool of a fenced worker cannot be read
		for _, r := range w.workers.spools[e.Worker] {
			w.workers.publish(e.Worker, r)
		}
	}
	if !hasEnd() {
		exit := fsm.Report{
			Ref: fsm.ReportRef{ID: e.Worker + "/exit", Seq: uint64(len(w.workers.reports))}, Final: true,
			Exit: true, Stage: "START",
		}
		exit.Evidence = recovery.Evidence{
			ExitCode: gone.ExitCode, Signal: gone.Signal,
			Message: "the container ended without a report",
		}
		w.workers.publish(e.Worker, exit)
	}
	w.hub.losses.stopped(e)
	for _, r := range w.workers.reports {
		if r.worker == e.Worker {
			gone.Reports = append(gone.Reports, r.body)
		}
	}
	return fsm.EffectEnded{Stop: gone}
}

// remove deletes a container. Its worker may continue for a while on a disconnected host.
func (w *runtime) remove(attempt string) {
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

func (w *runtime) forget(b *container) {
	w.containers = slices.DeleteFunc(w.containers, func(x *container) bool { return x == b })
}

// listing reads the runtime's list every twenty seconds.
func (w *shell) listing(p *process) {
	if p.dead || p == w.directors.stale || w.bad != nil {
		return
	}
	defer w.after(w.interval(20), func() { w.listing(p) })
	if p.asleep > w.now || w.fault(runtimeFails) {
		return
	}
	l := w.runtime.list(p)
	if len(l.Containers) == 0 && len(p.m.Tasks()) == 0 {
		return
	}
	w.after(w.delay(2), func() { w.directors.offer(p, l, nil) })
}

func (w *runtime) list(p *process) fsm.ContainersListed {
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

// pendingTimeout is the maximum wait for capacity in a cluster.
const pendingTimeout = 10 * time.Minute

// Texts of clusters.
const (
	noRoom     = "0/3 nodes are available: 3 Insufficient memory."
	lessRoom   = "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory."
	noImage    = "ImagePullBackOff: Back-off pulling image"
	nodeIsLost = "node node-3 does not answer"
)

// cluster turns a quarter of the worlds into clusters, in which attempts wait for capacity. Most attempts get a copy of
// the checkout (see transport).
func (w *world) cluster() {
	if w.choices.pick(atCluster, 4) < 3 {
		return
	}
	w.runtime.inCluster = true
	w.directors.set.cfg.PendingTimeout, w.directors.set.cfg.CheckoutTravels = pendingTimeout,
		w.choices.pick(atCluster, 4) > 0
	for _, s := range []site{nodeLost, clusterEnds} {
		if w.choices.pick(atCluster, 3) > 0 {
			w.rates[s] = siteTable[s].most
		}
	}
}

// transport sometimes changes whether a new director's attempts get a copy of the checkout, except in worlds that lose
// their journal.
func (w *directors) transport() {
	if w.runtime.inCluster && w.hub.losses == nil && w.choices.pick(atCluster, 4) == 3 {
		w.set.cfg.CheckoutTravels = !w.set.cfg.CheckoutTravels
	}
}

// accept makes a container wait for capacity or for a missing image, possibly forever. Once faults have stopped, every
// new attempt starts after a short wait.
func (w *runtime) accept(b *container) {
	b.pending, b.running, b.waits = true, false, noRoom
	waits := w.delay(20)
	switch n := w.choices.pick(atCluster, 8); {
	case w.faultsStopped:
	case n == 7:
		return
	case n == 6:
		b.waits = noImage
		waits = w.delay(900)
	case n == 5:
		waits = w.delay(1500)
	}
	w.after(waits, func() { w.place(b) })
}

// place starts a waiting container.
func (w *runtime) place(b *container) {
	if !b.pending || !b.listed {
		return
	}
	b.pending, b.running = false, true
	b.ends += w.now - b.made
	w.tell("    %s is placed", b.attempt)
	w.workers.workerTurn(b)
}

// words returns the reason for the wait, as shown in the runtime's list.
func (w *runtime) words(b *container) string {
	if b.waits == noRoom && !w.explored && w.now/seconds(240)%2 == 1 {
		return lessRoom
	}
	return b.waits
}

// loseNode disconnects a container's node from the cluster, so the container's end cannot be confirmed. The worker
// continues to run, but may be cut off from the bus. The node may return sooner, later or never.
func (w *runtime) loseNode(b *container) {
	b.lost = true
	w.tell("    the node of %s is lost", b.attempt)
	if w.choices.pick(nodeLost, 2) == 1 {
		b.cut = w.now + w.delay(3000)
	}
	if w.choices.pick(nodeLost, 3) > 0 || !b.travels {
		w.after(w.delay(3000), func() { w.returns(b) })
	}
}

// returns reconnects a node, and ends the containers that received a stop.
func (w *runtime) returns(b *container) {
	if !b.lost {
		return
	}
	b.lost = false
	w.tell("    the node of %s is back", b.attempt)
	if b.told {
		w.remove(b.attempt)
	}
}

// unconfirmed returns the outcome of a stop that a lost node cannot confirm. Once the effect's fence time, if any, has
// come, it fences the attempt, and the bus ignores the worker from then on.
func (w *runtime) unconfirmed(p *process, b *container, e fsm.Effect) fsm.EffectEnded {
	b.told = true
	if at := e.Stop.FenceAt; at.IsZero() || w.wall(p).Before(at) {
		return fsm.EffectEnded{Failure: &fsm.EffectError{
			Reason: recovery.WorkerLost, Text: nodeIsLost,
			Transient: true,
		}}
	}
	b.revoked = true
	return w.reported(e, &fsm.StopResult{Fenced: true, Cause: fsm.EndNodeLost, Words: nodeIsLost})
}

// endByCluster makes the cluster end a worker, as in an eviction.
func (w *runtime) endByCluster(b *container) {
	causes := [...]fsm.EndCause{fsm.EndEvicted, fsm.EndPreempted, fsm.EndDeleted, fsm.EndDeadline, fsm.EndNodeLost}
	b.running, b.code, b.cause = false, 143, causes[w.choices.pick(clusterEnds, len(causes))]
}

// offerShutOut offers the leader a report from a worker that was shut out. The report is not in the stream, and must
// not have an effect.
func (w *workers) offerShutOut(b *container, r fsm.Report) {
	w.after(w.lag(), func() {
		w.directors.offer(w.directors.lead, fsm.ReportReceived{Worker: b.attempt, Report: r}, nil)
	})
}

// shutOut removes a container that no task knows, and shuts its worker out of the bus.
func (w *runtime) shutOut(attempt string) {
	if b := w.container(attempt); b != nil {
		b.revoked = true
	}
	w.remove(attempt)
}
