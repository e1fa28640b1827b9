package fsmtest

import (
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// pendingTimeout is for how long a cluster may look for room.
const pendingTimeout = 10 * time.Minute

// What clusters say.
const (
	noRoom     = "0/3 nodes are available: 3 Insufficient memory."
	lessRoom   = "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory."
	noImage    = "ImagePullBackOff: Back-off pulling image"
	nodeIsLost = "node node-3 does not answer"
)

// cluster makes one world in four one whose runtime places attempts by itself. Most of their attempts have
// checkouts of their own; the transport may be another one whenever a director begins.
func (w *world) cluster() {
	if w.choices.pick(atCluster, 4) < 3 {
		return
	}
	w.inCluster = true
	w.cfg.PendingTimeout, w.cfg.CheckoutTravels = pendingTimeout, w.choices.pick(atCluster, 4) > 0
	for _, s := range []site{nodeLost, clusterEnds} {
		if w.choices.pick(atCluster, 3) > 0 {
			w.rates[s] = siteTable[s].most
		}
	}
}

// transport is drawn anew for the attempts of a director that begins. Whoever rebuilds a journal takes it for granted.
func (w *world) transport() {
	if w.inCluster && w.losses == nil && w.choices.pick(atCluster, 4) == 3 {
		w.cfg.CheckoutTravels = !w.cfg.CheckoutTravels
	}
}

// accept has a container wait: for room, for an image that is missing, or for ever. An attempt that begins once
// faults have stopped finds room.
func (w *world) accept(b *container) {
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

// place lets a container run that has waited.
func (w *world) place(b *container) {
	if !b.pending || !b.listed {
		return
	}
	b.pending, b.running = false, true
	b.ends += w.now - b.made
	w.tell("    %s is placed", b.attempt)
	w.workerTurn(b)
}

// words are what a container waits for, as the list says it.
func (w *world) words(b *container) string {
	if b.waits == noRoom && !w.explored && w.now/seconds(240)%2 == 1 {
		return lessRoom
	}
	return b.waits
}

// loseNode cuts a container's node off from the cluster: its end cannot be confirmed any more. Its worker works
// on, and may be heard. The node comes back, sooner or later, or never.
func (w *world) loseNode(b *container) {
	b.lost = true
	w.tell("    the node of %s is lost", b.attempt)
	if w.choices.pick(nodeLost, 2) == 1 {
		b.cut = w.now + w.delay(3000)
	}
	if w.choices.pick(nodeLost, 3) > 0 || !b.travels {
		w.after(w.delay(3000), func() { w.returns(b) })
	}
}

// returns brings a node back: what was to be ended on it ends.
func (w *world) returns(b *container) {
	if !b.lost {
		return
	}
	b.lost = false
	w.tell("    the node of %s is back", b.attempt)
	if b.told {
		w.remove(b.attempt)
	}
}

// unconfirmed is the outcome of a stop that a lost node cannot confirm: the attempt is fenced if and when the
// order allows it. The bus takes nothing of its worker from then on.
func (w *world) unconfirmed(p *process, b *container, e fsm.Effect) fsm.EffectEnded {
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

// endByCluster ends a worker for a reason of the cluster's own.
func (w *world) endByCluster(b *container) {
	causes := [...]fsm.EndCause{fsm.EndEvicted, fsm.EndPreempted, fsm.EndDeleted, fsm.EndDeadline, fsm.EndNodeLost}
	b.running, b.code, b.cause = false, 143, causes[w.choices.pick(clusterEnds, len(causes))]
}

// offerShutOut offers the leader a report of a worker that was shut out, which no stream has: nothing may come of it.
func (w *world) offerShutOut(b *container, r fsm.Report) {
	w.after(w.lag(), func() { w.offer(w.lead, fsm.ReportReceived{Worker: b.attempt, Report: r}, nil) })
}

// shutOut removes a container that no task knows, and shuts its worker out of the bus.
func (w *world) shutOut(attempt string) {
	if b := w.container(attempt); b != nil {
		b.revoked = true
	}
	w.remove(attempt)
}
