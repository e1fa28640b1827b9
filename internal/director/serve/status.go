package serve

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/disk"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/director/view"
	"retake/internal/fsm"
	"retake/internal/timeline"
)

// Status answers queries about the state of a session and its tasks. Its methods are safe for concurrent use. A
// request may outlast the session.
type Status struct {
	RunID    string
	Since    time.Time // when the director started
	Only     []string  // the issues of the run; empty means all
	Owner    *loop.Owner
	Views    *view.Model
	Bus      *bus.Bus
	Disk     *disk.Guard
	Fate     func(*fsm.Machine, *fsm.Task) string // how the configuration affects a task, or ""
	Leader   func() *bus.Leader                   // this process as leader; nil with an embedded bus
	Config   func() *wire.SnapshotConfig
	Degraded func() string            // describes unusable components, or returns ""
	Refused  func() string            // why GitHub refuses the account as a whole, or ""
	Held     func() string            // the GitHub limit that delays work, or ""
	Meters   func(map[string]float64) // adds the counters of other components
}

// slowAppend is the maximum duration of an append before the director counts as unhealthy.
const slowAppend = 5 * time.Second

// Health returns the state of the director, and its problem if any.
func (s *Status) Health(ctx context.Context) operator.Health {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	contracts := ""
	h, err := loop.Look(ctx, s.Owner, func(d *fsm.Driver) operator.Health {
		contracts = brokenContracts(d.Machine())
		h := operator.Health{Phase: string(d.Machine().Phase()), Tasks: len(d.Machine().Tasks())}
		h.Problem = s.ownersProblem(d.Machine())
		return h
	})
	h.RunID, h.Leader = s.RunID, leadership(s.Leader())
	h.Problem = s.unwell(err, h.Problem)
	if h.OK = h.Problem == ""; h.OK {
		h.Problem = s.degraded(contracts)
	}
	return h
}

// degraded describes a late director and all unusable components, or returns "". contracts is the result of
// brokenContracts.
func (s *Status) degraded(contracts string) string {
	parts := []string{lateText(s.Owner.Late()), contracts, s.Degraded()}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "; ")
}

// brokenContracts describes the contracts that have problems, or returns "". It runs on the owner's goroutine.
func brokenContracts(m *fsm.Machine) string {
	var all []string
	for _, i := range m.AllIncidents() {
		if i.OfContract() && i.Breaker.Held {
			all = append(all, fmt.Sprintf("the contract of %s has problems, so no attempt starts there: %s. %s", i.Repo,
				i.Cause, fsm.MendContract))
		}
	}
	return strings.Join(all, "; ")
}

// lateText describes a director that lags behind, or returns "".
func lateText(l loop.Lateness) string {
	if l.By == 0 {
		return ""
	}
	by := l.By.Round(100 * time.Millisecond)
	return fmt.Sprintf("late by %s, because %s: workers get %s more time before they count as silent", by, l.Cause, by)
}

// busAway is the message shown while the bus is unreachable.
const busAway = "the agent bus is not responding, so the director is waiting for it: check its server " +
	"(agent_bus.url) and the director's log"

// aborted describes a run that the policy aborted, or returns "".
func aborted(m *fsm.Machine) string {
	why := m.Aborted()
	if why == "" {
		return ""
	}
	return "the policy aborted the run, so no attempt starts: " + why + ": fix the cause, then: director resume"
}

// ownersProblem describes the first problem with the machine or its journal, or returns "". It runs on the owner's
// goroutine.
func (s *Status) ownersProblem(m *fsm.Machine) string {
	problem := cmp.Or(s.slowJournal(), aborted(m))
	if missing := m.MissingPrograms(); missing != "" && problem == "" {
		problem = "a program that a stage runs is missing, so no attempt starts: " + missing + ". " + fsm.SupplyPrograms
	}
	return problem
}

// slowJournal describes an append that takes too long, or returns "". It runs on the owner's goroutine.
func (s *Status) slowJournal() string {
	began := s.Owner.AppendingSince()
	if began.IsZero() || time.Since(began) < slowAppend {
		return ""
	}
	return fmt.Sprintf("an append to the journal has not finished after %s: check the disk of the bus server",
		time.Since(began).Round(time.Second))
}

// unwell returns why the director cannot work, or "". err is the owner's error, and journal is the result of
// ownersProblem.
func (s *Status) unwell(err error, journal string) string {
	switch {
	case err != nil:
		return "the director has been too busy to answer for too long (" + err.Error() +
			"): read its log and, if that does not help, restart it"
	case !s.Bus.Connected():
		return busAway
	}
	return cmp.Or(s.Disk.Now().Problem(), journal, s.Refused())
}

// Snapshot returns the state for the bus and the operator.
func (s *Status) Snapshot(ctx context.Context) wire.Snapshot {
	return s.SnapshotOf(ctx, (*fsm.Machine).Tasks)
}

// SnapshotOf returns the snapshot of selected tasks, which must include all tasks with a worker.
func (s *Status) SnapshotOf(ctx context.Context, tasks func(*fsm.Machine) []*fsm.Task) wire.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	seen, err := loop.Look(ctx, s.Owner, s.ownersView)
	var out wire.Snapshot
	if err == nil {
		soon, cancel := context.WithTimeout(ctx, time.Second)
		err = s.Views.Read(soon, seen.last,
			func(b *timeline.Book) {
				out = s.pictured(b.Machine(), tasks(b.Machine()), seen)
				out.Director.PhaseSince = s.phaseSince(b)
			})
		cancel()
		if err != nil { // the read model is still reading a long journal, so use the owner's state
			out, err = loop.Look(ctx, s.Owner,
				func(d *fsm.Driver) wire.Snapshot { return s.pictured(d.Machine(), tasks(d.Machine()), seen) })
		}
	}
	out.Director.Problem = seen.problem
	if err != nil { // without a state, the lists are empty
		out.Director.Phase = operator.PhaseUnresponsive
	}
	out.Director.RunID, out.Director.Leader, out.Director.Since = s.RunID, true, wire.At(s.Since)
	out.Director.Only = s.Only
	out.Director.Config = s.Config()
	out.Director.Leadership = leadership(s.Leader())
	out.Director.Problem = cmp.Or(s.unwell(err, out.Director.Problem), s.degraded(seen.contracts))
	out.Meters = map[string]float64{}
	for _, d := range s.Bus.DeadLetters() {
		out.Meters["dead_letters."+string(d.Cause)] = float64(d.Total)
	}
	out.Meters["late_seconds"] = s.Owner.Late().By.Seconds()
	s.Meters(out.Meters)
	return out
}

// phaseSince returns when the phase began. A pause or drain survives a restart, whereas other phases begin when the
// director starts.
func (s *Status) phaseSince(b *timeline.Book) *wire.Time {
	at, phase := b.PhaseSince(), b.Machine().Phase()
	switch {
	case phase != fsm.PhasePaused && phase != fsm.PhaseDraining && at.Before(s.Since):
		at = s.Since
	case at.IsZero():
		return nil
	}
	return new(wire.At(at))
}

// live reports whether the owner responds, regardless of the bus, the disk and GitHub.
func (s *Status) live(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	_, err := loop.Look(ctx, s.Owner, func(*fsm.Driver) struct{} { return struct{}{} })
	if err != nil && ctx.Err() != nil { // any other error means that the session is over
		operator.Respond(w, http.StatusServiceUnavailable, operator.Health{RunID: s.RunID, Problem: s.unwell(err, "")})
		return
	}
	operator.Respond(w, http.StatusOK, operator.Health{OK: true, RunID: s.RunID})
}

func (s *Status) serveHealth(w http.ResponseWriter, r *http.Request) {
	h := s.Health(r.Context())
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	operator.Respond(w, status, h)
}

func (s *Status) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	operator.Respond(w, http.StatusOK, s.Snapshot(r.Context()))
}
