package fsmtest

import (
	"fmt"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// The names of the invariants of clusters.
const (
	fencedCounts   = "NothingOfTheFencedCounts"
	pendingWaits   = "PendingIsWaiting"
	clustersReason = "TheClusterSaysWhy"
)

// canCount reports whether anything that a container's worker does may still count: nobody has confirmed that
// it is gone, and it is not shut out, or works on the director's own checkout.
func (b *container) canCount() bool { return b.listed && !b.orphan && (!b.revoked || !b.travels) }

// placed is what the journal says of an attempt's place.
type placed struct {
	waits, lacked bool // for room; for an image
	waitsSince    time.Time
	waitsUntil    time.Time
	stopPlanned   time.Time // of the current attempt
	stopGrace     time.Duration
	fenced        map[int]bool // attempts
}

// takePlacement changes the twin by a fact.
func (h *history) takePlacement(at time.Time, f fsm.Fact) {
	switch f := f.(type) {
	case fsm.AttemptBegan:
		if c := h.claim(f.Task); c != nil {
			c.waits, c.lacked, c.waitsSince = false, false, time.Time{}
		}
	case fsm.ContainerWaits:
		if c := h.claim(f.Task); c != nil {
			if !c.waits {
				c.waitsSince = at
			}
			c.waits, c.waitsUntil, c.lacked = true, f.Until, f.Lacks == recovery.ImagePullFailed
		}
	case fsm.ContainerStarted:
		if c := h.claim(f.Task); c != nil {
			c.waits = false
		}
	case fsm.EffectPlanned:
		if c := h.claim(f.Effect.Task); c != nil && f.Effect.Kind == fsm.DoStop {
			c.stopPlanned, c.stopGrace = at, f.Effect.Stop.Grace
		}
	case fsm.AttemptFenced:
		if c := h.claim(f.Task); c != nil {
			if c.fenced == nil {
				c.fenced = map[int]bool{}
			}
			c.fenced[f.Attempt] = true
		}
	}
}

// fencedAtItsTime: an attempt is fenced when its end could not be confirmed for a minute after the time that it
// had, and nothing of it is handed in.
func fencedAtItsTime(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.AttemptFenced:
		if c := h.claim(f.Task); c != nil && r.At.Before(c.stopPlanned.Add(c.stopGrace+time.Minute)) {
			return fmt.Sprintf("attempt %d of %s is fenced %s after its stop, which had %s", f.Attempt, f.Task,
				r.At.Sub(c.stopPlanned), c.stopGrace)
		}
	case fsm.Moved:
		if c := h.claim(f.Task); c != nil && f.From == fsm.Stopping && f.To == fsm.Delivering && c.fenced[c.attempt] {
			return fmt.Sprintf("attempt %d of %s was fenced, and is handed in", c.attempt, f.Task)
		}
	}
	return ""
}

// countsNothing: what is said by whoever was fenced leads to an answer at most; that somebody was fenced is
// written down.
func countsNothing(h *history, p *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	if e, ok := body.(fsm.EffectEnded); ok && e.Stop != nil {
		var ended, fenced bool
		for _, f := range facts {
			switch f := f.(type) {
			case fsm.EffectDone:
				ended = ended || f.Effect == e.Effect
			case fsm.AttemptFenced:
				fenced = fenced || f.Task == e.Task
			}
		}
		if ended && fenced != e.Stop.Fenced {
			return fmt.Sprintf("%s ended, fenced: %t; the journal says %t", e.Effect, e.Stop.Fenced, fenced)
		}
		return ""
	}
	all := speakers(body)
	if l, ok := body.(fsm.LimitReported); ok {
		all = append(all, l.Worker)
	}
	for _, worker := range all {
		if wrong := saysNothing(h, p, worker, all, facts); wrong != "" {
			return wrong
		}
	}
	return ""
}

// saysNothing: of those who speak in this step, worker counts nothing if it was fenced. What another attempt of
// its task says counts.
func saysNothing(h *history, p *process, worker string, all []string, facts []fsm.Fact) string {
	c, n := h.of(worker)
	if c == nil || !c.fenced[n] || p != h.w.lead {
		return ""
	}
	others := slices.ContainsFunc(all, func(other string) bool {
		o, m := h.of(other)
		return o == c && !c.fenced[m]
	})
	for _, f := range facts {
		switch f := f.(type) {
		case fsm.ReportAccepted:
			if f.Worker == worker {
				return worker + " was fenced, and its report counts"
			}
		case fsm.WorkerAnswered:
			if f.Worker == worker && f.Welcome {
				return worker + " was fenced, and is welcomed"
			}
		case fsm.UsageCounted:
			if f.Task == c.key && !f.Ended && !others {
				return worker + " was fenced, and what it says that it used counts"
			}
		case fsm.LimitStated:
			if f.Task == c.key && !others {
				return worker + " was fenced, and its word of a limit counts"
			}
		}
	}
	return ""
}

// waitsForRoom: what waits misses no hello and has no watchdog. It has its time, an image that is missing five
// minutes of it at most, and is given up then.
func waitsForRoom(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.ContainerWaits:
		c := h.claim(f.Task)
		switch {
		case c == nil:
		case c.waits && f.Until.After(c.waitsSince.Add(h.set.cfg.PendingTimeout)), !c.waits &&
			!f.Until.Equal(r.At.Add(h.set.cfg.PendingTimeout)):
			return fmt.Sprintf("%s waits since %s, until %s", f.Task, c.waitsSince, f.Until)
		case f.Lacks == recovery.ImagePullFailed && !c.lacked && f.Until.After(r.At.Add(5*time.Minute)):
			return fmt.Sprintf("%s waits for an image until %s", f.Task, f.Until)
		}
	case fsm.Moved:
		c := h.claim(f.Task)
		switch {
		case c == nil:
		case c.waits && f.From == fsm.Starting && (f.On == fsm.OnNoHello || f.On == fsm.OnWatchdog):
			return fmt.Sprintf("%s waits for room, and is stopped: %s", f.Task, f.On)
		case f.On == fsm.OnNotPlaced && (!c.waits || r.At.Before(c.waitsUntil)):
			return fmt.Sprintf("%s is given up, waits: %t, until %s", f.Task, c.waits, c.waitsUntil)
		}
	case fsm.ContainerStarted:
		if c := h.claim(f.Task); c != nil && c.state == fsm.Starting && f.HelloBy.Before(r.At.Add(startTimeout)) {
			return fmt.Sprintf("%s has until %s for its hello", f.Task, f.HelloBy)
		}
	}
	return ""
}

// runsWhenSeen: in a cluster a container runs when the list, or its worker, says so.
func runsWhenSeen(_ *history, p *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	if _, started := body.(fsm.EffectEnded); !started || p.cfg.PendingTimeout == 0 {
		return ""
	}
	for _, f := range facts {
		s, ok := f.(fsm.ContainerStarted)
		if !ok {
			continue
		}
		if t := p.m.Task(s.Task); t != nil && t.State == fsm.Starting {
			return fmt.Sprintf("%s is taken to run, and the cluster has only accepted it", s.Task)
		}
	}
	return ""
}

// reasonsOfClusters is what each cause means. (Written down once more: the table is what is searched.)
var reasonsOfClusters = map[fsm.EndCause]recovery.Reason{
	fsm.EndEvicted: recovery.WorkerLost, fsm.EndPreempted: recovery.WorkerLost, fsm.EndDeleted: recovery.WorkerLost,
	fsm.EndNodeLost: recovery.WorkerLost,
	fsm.EndDeadline: recovery.Timeout,
}

// clusterSaysWhy: an attempt that the cluster has ended, and of which nobody knows anything else, fails for the
// cluster's reason.
func clusterSaysWhy(h *history, _ *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	e, ok := body.(fsm.EffectEnded)
	if !ok || e.Stop == nil || e.Stop.Cause == "" || e.Stop.OOM {
		return ""
	}
	for _, r := range e.Stop.Reports {
		if r.Final && !r.Exit {
			return ""
		}
	}
	c := h.claim(e.Task)
	if c == nil || c.end.reported || c.end.known != "" && c.end.known != recovery.WorkerLost &&
		c.end.known != recovery.BusDisconnect {
		return ""
	}
	for _, f := range facts {
		if v, ok := f.(fsm.VerdictMade); ok && v.Task == e.Task && v.Finding.Reason != reasonsOfClusters[e.Stop.Cause] {
			return fmt.Sprintf("%s was ended by the cluster (%s), and fails for %s", e.Task, e.Stop.Cause,
				v.Finding.Reason)
		}
	}
	return ""
}
