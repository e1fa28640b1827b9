package fsm

import (
	"cmp"
	"fmt"
	"time"

	"retake/internal/recovery"
)

// stopped makes one decision about an ended or fenced attempt, based on all evidence.
func (m *attempts) stopped(t *Task, result *StopResult) {
	if t.State != Stopping {
		return
	}
	g := *cmp.Or(result, &StopResult{}) // a copy, because the event is journaled unchanged
	if g.Fenced {
		m.record(AttemptFenced{OfTask: OfTask{t.Key}, Attempt: t.Attempt, Words: shortWords(g.Words)})
	}
	for _, r := range g.Reports {
		var known *recovery.Finding
		if r.Exit {
			// If the director was killed after it had removed the container, only the director's report contains the
			// exit code.
			if g.ExitCode == nil {
				g.ExitCode, g.Signal, g.OOM = r.Evidence.ExitCode, r.Evidence.Signal, g.OOM || r.Evidence.OOM
			}
			known = m.exitFinding(t, g)
			r.Stage = cmp.Or(t.soft.Stage, r.Stage) // the director's own report does not contain the stage
		}
		m.accept(t, r, known)
	}
	if used := t.used(); used != (recovery.Usage{}) {
		m.record(UsageCounted{OfTask: OfTask{t.Key}, Usage: used, Ended: true, Spent: t.Spent.Plus(used)})
	}
	switch done := t.Ending.Outcome == OutcomeOK; {
	case done && (t.LeavesValidation || m.cfg.of(t).CleanValidation && !t.Validates):
		m.record(ValidationDue{OfTask: OfTask{t.Key}, Attempt: t.Attempt})
		m.move(t, OnValidate, "", m.now)
	case done && g.Fenced:
		m.validateFenced(t, *m.exitFinding(t, g))
	case done:
		m.deliver(t, OnGoneOK)
	case t.Ending.Outcome == OutcomeWithdrawn:
		m.release(t, OnGoneWithdrawn, ReleaseNote{Why: t.Ending.Withdrawn, Taken: t.Ending.Taken})
	default:
		f := t.Ending.Finding
		if f == nil || t.Ending.certain() || g.OOM && f.Reason != recovery.OOMKilled {
			f = m.exitFinding(t, g)
		}
		stage := t.Ending.Stage
		if t.Ending.Known == recovery.GitConflict { // the director's own merge failed before the worker could begin
			stage = "SYNC_MAIN"
		}
		m.decide(t, *f, stage)
	}
}

// AttemptFenced records that the end of the attempt's container cannot be confirmed, so its worker was shut out. The
// container may still run, but its results are ignored.
type AttemptFenced struct {
	OfTask
	Attempt int    `json:"attempt"`
	Words   string `json:"words"` // why the runtime could not confirm the end
}

func (f AttemptFenced) apply(_ *agenda, t *Task) { t.Ending.Fenced = f.Words }

// stopOrder returns the order that stops the current attempt. An attempt on the director's checkout could still change
// it, so it is never fenced.
func (m *attempts) stopOrder(t *Task, grace time.Duration, why StopReason) *StopOrder {
	o := &StopOrder{Grace: grace, Reason: why}
	if t.Travels {
		o.FenceAt = m.now.Add(grace + m.cfg.FenceAfter)
	}
	return o
}

// rowFenced names the verdict on an attempt that reported success but had to be fenced.
const rowFenced = "director.fenced"

// validateFenced lets another attempt validate the work of a fenced attempt that reported success. The director has
// only the work that the worker last sent, and cannot ask whether that work is complete.
func (m *attempts) validateFenced(t *Task, f recovery.Finding) {
	if t.Validates || m.cfg.of(t).Policy.Forbids(t.Tally) != "" {
		m.decide(t, f, "")
		return
	}
	const why = "the attempt reported success and then had to be fenced, so its work needs another validation"
	m.record(VerdictMade{
		OfTask: OfTask{t.Key}, Attempt: t.Attempt, Finding: f,
		Verdict: recovery.Verdict{
			Action: recovery.Revalidate, Charges: recovery.Infrastructure, Reason: f.Reason,
			Row: rowFenced, Why: why,
		},
	})
	m.move(t, OnRetry, why, m.now)
}

// certain reports whether the director's own evidence overrides a report. It does if the director stopped the attempt
// for a cause that it observed, because a later report only describes that stop. A worker's silence is not such a
// cause, because a report already on its way would be more precise.
func (e *Ending) certain() bool {
	return e.Known != "" && e.Known != recovery.WorkerLost && e.Known != recovery.BusDisconnect
}

// exitFinding classifies the end of a container without a report. It prefers the runtime's certain knowledge, then the
// director's reason for a stop, then the bare exit code.
func (m *attempts) exitFinding(t *Task, g StopResult) *recovery.Finding {
	e := recovery.Evidence{
		Known: cmp.Or(t.Ending.Known, recovery.WorkerLost), KnownCause: t.Ending.KnownCause, ExitCode: g.ExitCode,
		Signal: g.Signal,
	}
	switch {
	case g.OOM:
		e.Known, e.KnownCause = recovery.OOMKilled, "the container was killed at its memory limit"
		if g.Limit != "" {
			e.KnownCause += " (containers.memory = " + g.Limit + ")"
		}
	case t.Ending.certain():
	case g.Fenced, endCauses[g.Cause].reason != "":
		e.Known, e.KnownCause = g.ownCause()
	case t.Ending.Known != "":
	case g.ExitCode == nil:
		e.KnownCause = "the container disappeared before a report arrived"
	case g.Signal == "SIGKILL":
		e.KnownCause = "the worker was killed (SIGKILL) from outside; it may have run out of memory, but there " +
			"is no evidence"
	case g.Signal != "":
		e.KnownCause = "the worker was terminated by " + g.Signal + " without a report"
	default:
		e.KnownCause = fmt.Sprintf("the worker exited with code %d without a report", *g.ExitCode)
	}
	f := m.cfg.Classify(e)
	if g.Lost != "" { // append Lost after Classify, because the time in it would make equal failures look different
		f.Cause += ": " + g.Lost
	}
	return &f
}

// EndCause is the reason why a cluster, or another runtime that schedules attempts, ended an attempt. The journal
// stores the string.
type EndCause string

// The causes.
const (
	EndEvicted   EndCause = "evicted"
	EndPreempted EndCause = "preempted"
	EndDeadline  EndCause = "deadline"
	EndNodeLost  EndCause = "node_lost"
	EndDeleted   EndCause = "deleted"
)

// endCauses describes each cause. The cluster is responsible for all of them, so the agent is not charged.
var endCauses = map[EndCause]struct {
	reason recovery.Reason
	says   string
}{
	EndEvicted:   {recovery.WorkerLost, "the cluster evicted the worker, because its node needed the resources"},
	EndPreempted: {recovery.WorkerLost, "the cluster ended the worker to make room for a higher-priority pod"},
	EndDeadline:  {recovery.Timeout, "the cluster ended the worker when the cluster's own deadline passed"},
	EndNodeLost:  {recovery.WorkerLost, "the worker's node no longer responds"},
	EndDeleted:   {recovery.WorkerLost, "another client of the cluster deleted the worker"},
}

// ownCause returns the reason and text if only the runtime explains the attempt's end. The director's conclusion comes
// first in the text because the runtime's text may be long.
func (g *StopResult) ownCause() (recovery.Reason, string) {
	about := endCauses[g.Cause]
	if g.Fenced {
		about.reason = recovery.WorkerLost
		about.says = "fenced, because its end cannot be confirmed: it may still be running, but its messages no " +
			"longer count"
	}
	if words := shortWords(g.Words); words != "" {
		about.says += ": " + words
	}
	return about.reason, about.says
}
