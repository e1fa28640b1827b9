package fsmtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

func deadlinePassed(r record, m fsm.Moved) string {
	due := r.c.watchdog
	switch m.On {
	case fsm.OnNoHello:
		due = r.c.helloBy
	case fsm.OnWatchdog:
	default:
		return ""
	}
	if m.Attempt != r.c.attempt || r.at.Before(due) {
		return fmt.Sprintf("attempt %d of %s: %s, %s before it was due", m.Attempt, m.Task, m.On, due.Sub(r.at))
	}
	return ""
}

func staleFairly(r record, m fsm.Moved) string {
	if m.On != fsm.OnStale {
		return ""
	}
	since := latest(r.c.since, r.c.until, r.closed, r.closedIn[strings.ToLower(m.Task.Repo())])
	if waited := r.at.Sub(since); waited < r.set.cfg.ClaimStale {
		return fmt.Sprintf("%s went stale, but had only %s to make progress", m.Task, waited)
	}
	return ""
}

// latest returns the latest of the given times.
func latest(at time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(at) {
			at = t
		}
	}
	return at
}

func silenceForgiven(d decision) string {
	return each(d, func(m fsm.Moved) string {
		if m.On != fsm.OnSilent && m.On != fsm.OnStillSilent && m.On != fsm.OnNoHello {
			return ""
		}
		s, now := d.p.soft, d.p.m.Now()
		if now.Before(s.grace) {
			return fmt.Sprintf("%s: %s in the grace period", m.Task, m.On)
		}
		if c := d.claim(m.Task); c != nil && m.On == fsm.OnSilent {
			if heard := s.heard[fsm.AttemptID(c.nonce, m.Attempt)]; now.Sub(heard) <= heartbeatTTL+s.late {
				return fmt.Sprintf("%s: %s, although it was last heard from %s ago, and the director is late by "+
					"%s", m.Task,
					m.On, now.Sub(heard), s.late)
			}
		}
		return ""
	})
}

// silenceSeen checks that no other step happened between the deadline and this step.
func silenceSeen(d decision) string {
	return each(d, func(m fsm.Moved) string {
		t := d.p.m.Task(m.Task)
		if m.On != fsm.OnSilent || t == nil {
			return ""
		}
		soft := d.p.soft
		due := latest(soft.heard[t.AttemptID()].Add(heartbeatTTL+soft.late+time.Millisecond), soft.grace)
		if !soft.last.Before(due) {
			return fmt.Sprintf("%s: %s, which was due %s before the previous step", m.Task, m.On, soft.last.Sub(due))
		}
		return ""
	})
}

func twoWitnesses(d decision) string {
	return each(d, func(m fsm.Moved) string {
		c := d.claim(m.Task)
		if m.On != fsm.OnStillSilent || c == nil || c.state != fsm.Suspect {
			return ""
		}
		switch worker := fsm.AttemptID(c.nonce, m.Attempt); {
		case d.p.soft.listed[worker].Before(c.since):
			return fmt.Sprintf("%s is killed for silence, although the runtime has not answered since then", m.Task)
		case d.p.soft.probed[worker].Before(c.since):
			return fmt.Sprintf("%s is killed for silence, although no probe has been sent since then", m.Task)
		}
		return ""
	})
}

// answersSeldom checks the limit on answers to unknown workers. Reports are exempt, because each of them is answered.
func answersSeldom(d decision) string {
	if _, ok := d.body.(fsm.ReportReceived); ok {
		return ""
	}
	return each(d, func(f fsm.WorkerAnswered) string {
		if f.Welcome {
			return ""
		}
		now := d.p.m.Now()
		before, known := d.p.soft.fenced[f.Worker]
		d.p.soft.fenced[f.Worker] = now
		if known && now.Sub(before) < time.Minute {
			return fmt.Sprintf("%s is answered %s after the previous answer", f.Worker, now.Sub(before))
		}
		return ""
	})
}

// atOnce lists the triggers that stop an attempt without a grace period, because its worker cannot use one. It is a
// copy, because the machine's table is under test.
var atOnce = []fsm.Trigger{fsm.OnStartFailed, fsm.OnNoHello, fsm.OnNotPlaced, fsm.OnStillSilent, fsm.OnContainerEnded}

func graceOfStop(d decision) string {
	stops := map[fsm.IssueKey]fsm.Effect{}
	for _, f := range d.facts {
		if planned, ok := f.(fsm.EffectPlanned); ok && planned.Effect.Kind == fsm.DoStop {
			stops[planned.Effect.Task] = planned.Effect
		}
	}
	return each(d, func(m fsm.Moved) string {
		if m.To != fsm.Stopping {
			return ""
		}
		want := d.p.cfg.StopGrace
		if r, ok := d.body.(fsm.ReportReceived); slices.Contains(atOnce, m.On) || ok && m.On == fsm.OnReport &&
			r.Report.Evidence.Known != "" {
			want = 0
		}
		if got := stops[m.Task].Stop; got == nil || got.Grace != want {
			return fmt.Sprintf("%s is stopped (%s) by %+v, want a grace period of %s", m.Task, m.On, got, want)
		}
		return ""
	})
}

// canCount reports whether a container's worker may still have an effect: its end is unconfirmed, and it either uses
// the director's checkout or is not shut out.
func (b *container) canCount() bool { return b.listed && !b.orphan && (!b.revoked || !b.travels) }

func fencedInTime(r record, f fsm.AttemptFenced) string {
	if r.at.Before(r.c.stopPlanned.Add(r.c.stopGrace + time.Minute)) {
		return fmt.Sprintf("attempt %d of %s is fenced %s after its stop, which had a limit of %s", f.Attempt, f.Task,
			r.at.Sub(r.c.stopPlanned), r.c.stopGrace)
	}
	return ""
}

func fencedStaysBack(r record, f fsm.Moved) string {
	if f.From == fsm.Stopping && f.To == fsm.Delivering && r.c.fenced[r.c.attempt] {
		return fmt.Sprintf("attempt %d of %s was fenced, but its work is being delivered", r.c.attempt, f.Task)
	}
	return ""
}

// countsNothing checks that messages of fenced workers have no effect except an answer, and that the journal contains
// the fact that fenced the worker.
func countsNothing(d decision) string {
	if e, ok := d.body.(fsm.EffectEnded); ok && e.Stop != nil {
		var ended, fenced bool
		for _, f := range d.facts {
			switch f := f.(type) {
			case fsm.EffectDone:
				ended = ended || f.Effect == e.Effect
			case fsm.AttemptFenced:
				fenced = fenced || f.Task == e.Task
			}
		}
		if ended && fenced != e.Stop.Fenced {
			return fmt.Sprintf("%s ended with fenced=%t, but the journal has %t", e.Effect, e.Stop.Fenced, fenced)
		}
		return ""
	}
	all := speakers(d.body)
	if l, ok := d.body.(fsm.LimitReported); ok {
		all = append(all, l.Worker)
	}
	for _, worker := range all {
		if wrong := saysNothing(d, worker, all); wrong != "" {
			return wrong
		}
	}
	return ""
}

// saysNothing checks that a fenced worker's message does not affect its task. Messages from the task's other attempts
// in the same event may.
func saysNothing(d decision, worker string, all []string) string {
	c, n := d.of(worker)
	if c == nil || !c.fenced[n] || d.p != d.w.directors.lead {
		return ""
	}
	others := slices.ContainsFunc(all, func(other string) bool {
		o, m := d.of(other)
		return o == c && !c.fenced[m]
	})
	for _, f := range d.facts {
		switch f := f.(type) {
		case fsm.ReportAccepted:
			if f.Worker == worker {
				return worker + " was fenced, but its report counts"
			}
		case fsm.WorkerAnswered:
			if f.Worker == worker && f.Welcome {
				return worker + " was fenced, but is welcomed"
			}
		case fsm.UsageCounted:
			if f.Task == c.key && !f.Ended && !others {
				return worker + " was fenced, but its usage counts"
			}
		case fsm.LimitStated:
			if f.Task == c.key && !others {
				return worker + " was fenced, but the limit it reported counts"
			}
		}
	}
	return ""
}

func waitsInTime(r record, f fsm.ContainerWaits) string {
	c, timeout := r.c, r.set.cfg.PendingTimeout
	switch {
	case c.waits && f.Until.After(c.waitsSince.Add(timeout)), !c.waits && !f.Until.Equal(r.at.Add(timeout)):
		return fmt.Sprintf("%s has been waiting since %s, with deadline %s", f.Task, c.waitsSince, f.Until)
	case f.Lacks == recovery.ImagePullFailed && !c.lacked && f.Until.After(r.at.Add(5*time.Minute)):
		return fmt.Sprintf("%s waits for an image until %s", f.Task, f.Until)
	}
	return ""
}

func waitingIsNoSilence(r record, f fsm.Moved) string {
	c := r.c
	switch {
	case c.waits && f.From == fsm.Starting && (f.On == fsm.OnNoHello || f.On == fsm.OnWatchdog):
		return fmt.Sprintf("%s waits for capacity, but is stopped: %s", f.Task, f.On)
	case f.On == fsm.OnNotPlaced && (!c.waits || r.at.Before(c.waitsUntil)):
		return fmt.Sprintf("gave up on %s (waiting: %t, until %s)", f.Task, c.waits, c.waitsUntil)
	}
	return ""
}

func helloInTime(r record, f fsm.ContainerStarted) string {
	if r.c.state == fsm.Starting && f.HelloBy.Before(r.at.Add(startTimeout)) {
		return fmt.Sprintf("%s has until %s to say hello", f.Task, f.HelloBy)
	}
	return ""
}

// runsWhenSeen checks that a container in a cluster does not count as running just because an effect has ended. Only
// the runtime's list or a message from the worker shows that it is running.
func runsWhenSeen(d decision, _ fsm.EffectEnded) string {
	if d.p.cfg.PendingTimeout == 0 {
		return ""
	}
	return each(d, func(s fsm.ContainerStarted) string {
		if t := d.p.m.Task(s.Task); t != nil && t.State == fsm.Starting {
			return fmt.Sprintf("%s counts as running, but the cluster has only accepted it", s.Task)
		}
		return ""
	})
}

// reasonsOfClusters maps each cause to its reason. It is a copy, because the machine's table is under test.
var reasonsOfClusters = map[fsm.EndCause]recovery.Reason{
	fsm.EndEvicted: recovery.WorkerLost, fsm.EndPreempted: recovery.WorkerLost, fsm.EndDeleted: recovery.WorkerLost,
	fsm.EndNodeLost: recovery.WorkerLost, fsm.EndDeadline: recovery.Timeout,
}

func clusterSaysWhy(d decision, e fsm.EffectEnded) string {
	if e.Stop == nil || e.Stop.Cause == "" || e.Stop.OOM ||
		slices.ContainsFunc(e.Stop.Reports, func(r fsm.Report) bool { return r.Final && !r.Exit }) {
		return ""
	}
	c := d.claim(e.Task)
	if c == nil || c.end.reported || c.end.known != "" && c.end.known != recovery.WorkerLost &&
		c.end.known != recovery.BusDisconnect {
		return ""
	}
	return each(d, func(v fsm.VerdictMade) string {
		if v.Task == e.Task && v.Finding.Reason != reasonsOfClusters[e.Stop.Cause] {
			return fmt.Sprintf("%s was ended by the cluster (%s), but fails with reason %s", e.Task, e.Stop.Cause,
				v.Finding.Reason)
		}
		return ""
	})
}

// planKept checks that a container gets the time limit that was in force when its attempt began.
func planKept(r record, up fsm.ContainerStarted) string {
	if c := r.c; c.life > 0 && c.state == fsm.Starting && up.WatchdogAt.Sub(r.at) != c.life {
		return fmt.Sprintf("attempt %d of %s began with %s, but now has %s", c.attempt, c.key, c.life,
			up.WatchdogAt.Sub(r.at))
	}
	return ""
}

// readingDecidesNothing checks that a new configuration does not cause decisions. A deadline or a free slot may cause
// decisions in the same step.
func readingDecidesNothing(d decision, _ fsm.SettingsRead) string {
	if len(d.facts) == 0 {
		return "the new configuration is missing from the journal"
	}
	if _, ok := d.facts[0].(fsm.SettingsChanged); !ok {
		return fmt.Sprintf("%T precedes the configuration that it depends on", d.facts[0])
	}
	for _, f := range d.facts[1:] {
		switch f := f.(type) {
		case fsm.AttemptBegan, fsm.VerdictMade, fsm.WatchdogMoved, fsm.ContainerStarted, fsm.TallyReset,
			fsm.UsageCounted, fsm.ReportAccepted:
			if v, ok := f.(fsm.VerdictMade); ok && v.Verdict.Row == "director.claim_stale" { // the claim was due
				continue
			}
			return fmt.Sprintf("%T results from reading a configuration", f)
		case fsm.EndingSet:
			// The deadline of a running worker or of a worker waiting for the cluster may have passed in the same step.
			if f.Resource != recovery.Cluster && f.Known != "timeout" && f.Known != "worker_lost" &&
				f.Known != "bus_disconnect" {
				return fmt.Sprintf("%s ends (%s) because a configuration was read", f.Task, f.Known)
			}
		}
	}
	return ""
}
