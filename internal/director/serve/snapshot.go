package serve

import (
	"slices"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

// seenNow holds the state that only the owner knows: the journal's position, and the workers' activity. The read
// model has the rest.
type seenNow struct {
	last    uint64 // the journal's last sequence
	at      time.Time
	problem string // problem with the machine or its journal, or empty
	// contracts describes the contracts that have problems, or is empty.
	contracts string
	activity  map[fsm.IssueKey]seenWorker
}

type seenWorker struct {
	fsm.Activity
	at time.Time // zero if this process has had no message from the worker
}

// ownersView returns the part of a snapshot that only the owner knows. It runs on the owner's goroutine, so it visits
// only tasks with a worker.
func (s *Status) ownersView(d *fsm.Driver) seenNow {
	m := d.Machine()
	now := seenNow{
		last: d.Last(), at: m.Now(), problem: s.ownersProblem(m), contracts: brokenContracts(m),
		activity: map[fsm.IssueKey]seenWorker{},
	}
	for t := range m.Live() {
		a, at := t.Activity()
		now.activity[t.Key] = seenWorker{a, at}
	}
	return now
}

// pictured returns the snapshot of a machine, usually the one in the read model. seen is the owner's part.
func (s *Status) pictured(m *fsm.Machine, tasks []*fsm.Task, seen seenNow) wire.Snapshot {
	out := machineSnapshot(m, tasks, seen)
	out.Queue.WaitsFor, out.Queue.Until = bound(m, s.Held(), seen.at)
	for i, t := range tasks {
		if fate := s.Fate(m, t); fate != "" {
			out.Tasks[i].WaitsFor += " (" + fate + ")"
		}
	}
	return out
}

// bound explains why the next issue in the queue is not claimed yet, and until when, if known. held is the GitHub limit
// that delays work, or "".
func bound(m *fsm.Machine, held string, now time.Time) (waitsFor string, until *wire.Time) {
	w, waits := m.NextWaits(now)
	if held != "" && (w.Work || !waits) {
		return held, nil
	}
	if w.Until.After(now) {
		until = new(wire.At(w.Until))
	}
	return w.For, until
}

func machineSnapshot(m *fsm.Machine, tasks []*fsm.Task, seen seenNow) (out wire.Snapshot) {
	out.Director.Phase = string(m.Phase())
	for _, t := range tasks {
		out.Tasks = append(out.Tasks, viewTask(m, t, seen.at))
		switch {
		case t.State == fsm.Queued:
			out.Queue.EligibleIssueNumbers = append(out.Queue.EligibleIssueNumbers, t.Key.Number())
		case t.State == fsm.Claiming, t.State.Info().Label == fsm.LabelClaimed:
			out.Queue.ClaimedIssueNumbers = append(out.Queue.ClaimedIssueNumbers, t.Key.Number())
		}
		if t.State.Info().Live {
			a := seen.activity[t.Key]
			w := wire.SnapshotWorker{
				WorkerID: t.AttemptID(), Issue: string(t.Key), State: t.State.String(), Stage: a.Stage,
				Attempt: t.Attempt,
				Retries: t.Tally.Redispatches,
			}
			if !a.at.IsZero() {
				w.HeartbeatAgeSeconds = max(seen.at.Sub(a.at).Seconds(), 0)
			}
			out.Workers = append(out.Workers, w)
		}
	}
	for _, c := range m.Cooldowns() {
		if c.Until.After(seen.at) {
			out.Cooldowns = append(out.Cooldowns, viewCooldown(c))
		}
	}
	for _, i := range m.Incidents() {
		until := i.Breaker.NextDeadline(seen.at)
		if until.IsZero() { // the outage ends when a canary succeeds, or is no longer delaying tasks
			until = seen.at
		}
		row := wire.SnapshotCooldown{
			Resource: "incident/" + i.Key, Until: wire.At(until), Why: string(i.Reason) + ": " + i.Cause,
			State: string(i.Breaker.State(seen.at)),
		}
		for _, s := range i.Breaker.Recent(seen.at) {
			row.Tasks = append(row.Tasks, s.Task)
		}
		out.Cooldowns = append(out.Cooldowns, row)
	}
	slices.Sort(out.Queue.EligibleIssueNumbers)
	slices.Sort(out.Queue.ClaimedIssueNumbers)
	return out
}

func viewCooldown(c fsm.Cooldown) wire.SnapshotCooldown {
	v := wire.SnapshotCooldown{Resource: c.Resource, Until: wire.At(c.Until), Why: c.Why}
	if !c.Since.IsZero() {
		v.Since = new(wire.At(c.Since))
	}
	for _, s := range c.By {
		v.Tasks = append(v.Tasks, string(s.Task))
		v.StatedBy = append(v.StatedBy, wire.SnapshotStated{
			Issue: string(s.Task), Attempt: s.Attempt,
			At: wire.At(s.At), Until: wire.At(s.Until), Text: s.Text,
		})
	}
	return v
}

func viewTask(m *fsm.Machine, t *fsm.Task, now time.Time) wire.SnapshotTask {
	v := wire.SnapshotTask{Issue: string(t.Key), State: t.State.String(), Attempt: t.Attempt}
	if n := len(t.History); n > 0 {
		v.Reason = new(string(t.History[n-1].Reason))
	}
	waits := m.WaitsAt(t, now)
	if v.WaitsFor = waits.Words(); waits.Until.After(now) {
		v.NextDeadline = new(wire.At(waits.Until))
	}
	return v
}
