package director

import (
	"context"
	"slices"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
)

// snapshot is the state as it is told on the bus and to the operator.
func (s *session) snapshot(ctx context.Context) wire.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	out := wire.Snapshot{Director: wire.SnapshotDirector{RunID: s.runID, Leader: true, Since: wire.At(s.since)}}
	// An owner that does not answer leaves the lists empty: the phase says so.
	if err := s.owner.read(ctx, func(m *fsm.Machine) { fill(&out, m) }); err != nil {
		out.Director.Phase = "UNRESPONSIVE"
	}
	out.Meters = map[string]float64{}
	for _, d := range s.bus.DeadLetters() {
		out.Meters["dead_letters."+string(d.Cause)] = float64(d.Total)
	}
	written := s.audit.Counts()
	out.Meters["audit.dropped"], out.Meters["audit.write_errors"] = float64(written.Dropped), float64(written.WriteErrors)
	return out
}

func fill(out *wire.Snapshot, m *fsm.Machine) {
	out.Director.Phase = string(m.Phase())
	for _, t := range m.Tasks() {
		out.Tasks = append(out.Tasks, viewTask(t))
		switch {
		case t.State == fsm.Queued:
			out.Queue.EligibleIssueNumbers = append(out.Queue.EligibleIssueNumbers, t.Key.Number())
		case t.State.Info().Label == fsm.LabelClaimed:
			out.Queue.ClaimedIssueNumbers = append(out.Queue.ClaimedIssueNumbers, t.Key.Number())
		}
		if t.State.Info().Live {
			a, at := t.Activity()
			w := wire.SnapshotWorker{
				WorkerID: t.AttemptID(), Issue: string(t.Key), State: t.State.String(), Stage: a.Stage, Attempt: t.Attempt,
				Retries: t.Tally.Redispatches,
			}
			if !at.IsZero() {
				w.HeartbeatAgeSeconds = max(m.Now().Sub(at).Seconds(), 0)
			}
			out.Workers = append(out.Workers, w)
		}
	}
	for _, c := range m.Cooldowns() {
		out.Cooldowns = append(out.Cooldowns, wire.SnapshotCooldown{Resource: c.Resource, Until: wire.At(c.Until), Why: c.Why})
	}
	for _, i := range m.Incidents() {
		until := i.NextChange(m.Now())
		if until.IsZero() { // it depends on how the canary does
			until = m.Now()
		}
		out.Cooldowns = append(out.Cooldowns, wire.SnapshotCooldown{
			Resource: "incident/" + i.Key, Until: wire.At(until), Why: string(i.Reason) + ": " + i.Cause,
		})
	}
	slices.Sort(out.Queue.EligibleIssueNumbers)
	slices.Sort(out.Queue.ClaimedIssueNumbers)
}

func viewTask(t *fsm.Task) wire.SnapshotTask {
	v := wire.SnapshotTask{Issue: string(t.Key), State: t.State.String(), Attempt: t.Attempt}
	if n := len(t.History); n > 0 {
		reason := string(t.History[n-1].Reason)
		v.Reason = &reason
	}
	if !t.Until.IsZero() {
		at := wire.At(t.Until)
		v.NextDeadline = &at
	}
	return v
}
