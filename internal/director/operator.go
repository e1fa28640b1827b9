package director

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/director/serve"
	"retake/internal/fsm"
	"retake/internal/story"
)

// listenOperator opens the socket once for all sessions, because the socket could not be created on a disk that has
// failed.
func (d *daemon) listenOperator(ctx context.Context) error {
	if d.operator != nil {
		return nil
	}
	listener, err := serve.Listen(ctx, d.config.Director.DataDir)
	if err != nil {
		return err
	}
	d.operator = serve.NewSocket(listener, d.runID, http.HandlerFunc(d.serveMetrics), d.log)
	return nil
}

// serveOperator answers on the socket until ctx ends.
func (s *session) serveOperator(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+operator.HealthPath, func(w http.ResponseWriter, r *http.Request) {
		h := s.health(r.Context())
		status := http.StatusOK
		if !h.OK {
			status = http.StatusServiceUnavailable
		}
		operator.Respond(w, status, h)
	})
	mux.HandleFunc("GET "+operator.LivePath, s.live)
	mux.HandleFunc("GET /snapshot", func(w http.ResponseWriter, r *http.Request) {
		operator.Respond(w, http.StatusOK, s.snapshot(r.Context()))
	})
	mux.HandleFunc("GET /tasks", s.listTasks)
	mux.HandleFunc("GET /tasks/{owner}/{repo}/{number}/story", s.tellStory)
	mux.HandleFunc("GET /events", s.listEvents)
	mux.HandleFunc("GET /journal", serve.Journal(s.bus.Journal()))
	mux.HandleFunc("GET /journal/reports/{seq}", serve.Report(s.bus))
	mux.HandleFunc("GET /tasks/{owner}/{repo}/{number}/output", serve.Output(s.outputs))
	mux.HandleFunc("POST /{command}", s.operate)
	mux.HandleFunc("POST /reload", s.reload)
	mux.HandleFunc("POST /budget/reset", s.resetBudget)
	mux.HandleFunc("POST /cooldown/lift", s.liftCooldowns)
	mux.HandleFunc("POST /tasks/{owner}/{repo}/{number}/commands", s.postCommand)
	mux.HandleFunc("PUT /tasks/{owner}/{repo}/{number}", s.putTask)
	s.operator.Serve(ctx, mux)
	return nil
}

// commands maps what the operator may post.
var commands = map[string]fsm.OperatorCommand{"pause": fsm.Pause, "resume": fsm.Resume, "drain": fsm.Drain}

// operate carries out a command, and answers when the decision is in the journal.
func (s *session) operate(w http.ResponseWriter, r *http.Request) {
	command, ok := commands[r.PathValue("command")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if !s.owner.Decided(r.Context(), fsm.OperatorCommanded{Command: command}) {
		operator.Refuse(w, http.StatusServiceUnavailable, notWritten)
		return
	}
	operator.Respond(w, http.StatusOK, s.health(r.Context()))
}

// resetBudget sets a task's number of used paid calls.
func (s *session) resetBudget(w http.ResponseWriter, r *http.Request) {
	var b operator.BudgetReset
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&b); err != nil || b.PaidCallsUsed < 0 {
		operator.Respond(w, http.StatusBadRequest,
			operator.BudgetReset{Problem: `want {"issue": "owner/repo#1", "paid_calls_used": 0}`})
		return
	}
	key := fsm.IssueKey(b.Issue)
	switch known, err := loop.Look(r.Context(), s.owner,
		func(d *fsm.Driver) bool { return d.Machine().Task(key) != nil }); {
	case err != nil:
		operator.Refuse(w, http.StatusServiceUnavailable, tooBusy)
		return
	case !known:
		b.Problem = "the director has no task " + b.Issue + " (any more); director tasks lists those that it has"
		operator.Respond(w, http.StatusNotFound, b)
		return
	}
	if !s.owner.Decided(r.Context(), fsm.BudgetEdited{Task: key, PaidCalls: b.PaidCallsUsed}) {
		operator.Refuse(w, http.StatusServiceUnavailable, notWritten)
		return
	}
	s.log.Info("budget reset", zap.String("issue", b.Issue), zap.Int64("paid_calls_used", b.PaidCallsUsed))
	operator.Respond(w, http.StatusOK, b)
}

// liftCooldowns opens resources. All named resources must be closed, or it changes nothing.
func (s *session) liftCooldowns(w http.ResponseWriter, r *http.Request) {
	var l operator.CooldownLift
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<10)).Decode(&l); err != nil {
		operator.Respond(w, http.StatusBadRequest,
			operator.CooldownLift{Problem: `want {"resources": ["model.anthropic"]}, or {} for all`})
		return
	}
	closed, err := loop.Look(r.Context(), s.owner,
		func(d *fsm.Driver) []fsm.Cooldown { return d.Machine().Cooldowns() })
	if err != nil {
		operator.Refuse(w, http.StatusServiceUnavailable, tooBusy)
		return
	}
	l.Lifted = []wire.SnapshotCooldown{}
	for _, c := range closed {
		if len(l.Resources) == 0 || slices.Contains(l.Resources, c.Resource) {
			l.Lifted = append(l.Lifted, viewCooldown(c))
		}
	}
	for _, name := range l.Resources {
		if !slices.ContainsFunc(closed, func(c fsm.Cooldown) bool { return c.Resource == name }) {
			l.Lifted, l.Problem = []wire.SnapshotCooldown{}, name+" is not closed; director cooldown list shows what is"
			operator.Respond(w, http.StatusNotFound, l)
			return
		}
	}
	for _, c := range l.Lifted {
		if !s.owner.Decided(r.Context(), fsm.LiftCommanded{Resource: c.Resource}) {
			operator.Refuse(w, http.StatusServiceUnavailable, notWritten)
			return
		}
	}
	operator.Respond(w, http.StatusOK, l)
}

// slowAppend is the duration of an append beyond which the director is unhealthy.
const slowAppend = 5 * time.Second

func (s *session) health(ctx context.Context) operator.Health {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	h, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) operator.Health {
		h := operator.Health{Phase: string(d.Machine().Phase()), Tasks: len(d.Machine().Tasks())}
		h.Problem = s.slowJournal()
		return h
	})
	h.RunID, h.Leader = s.runID, lead.Leadership(s.candidate.Me())
	h.Problem = s.unwell(err, h.Problem)
	if h.OK = h.Problem == ""; h.OK {
		h.Problem = s.degraded()
	}
	return h
}

// busAway is the message to people while the bus is unreachable.
const busAway = "the agent bus does not answer, and nothing is decided until it does: look at its server " +
	"(agent_bus.url), or at the director's log"

// slowJournal says how long the current append has taken, if that is too long. It runs on the owner's goroutine.
func (s *session) slowJournal() string {
	began := s.owner.AppendingSince()
	if began.IsZero() || time.Since(began) < slowAppend {
		return ""
	}
	return fmt.Sprintf("the journal has not taken a decision for %s: look at the disk of its server",
		time.Since(began).Round(time.Second))
}

// unwell returns what keeps the director from working, or "": an error from the owner, the bus, the disk, or a slow
// journal.
func (s *session) unwell(err error, journal string) string {
	switch {
	case err != nil:
		return "the director has been busy with one thing for too long to answer (" + err.Error() +
			"): look at its log; if it stays like that, restart it"
	case !s.bus.Connected():
		return busAway
	}
	return cmp.Or(s.disk.Now().Problem(), journal)
}

// snapshot returns the state for the bus and the operator.
func (s *session) snapshot(ctx context.Context) wire.Snapshot {
	return s.snapshotOf(ctx, (*fsm.Machine).Tasks)
}

// snapshotOf returns the snapshot with the selected tasks, which must include those with a worker.
func (s *session) snapshotOf(ctx context.Context, tasks func(*fsm.Machine) []*fsm.Task) wire.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	seen, err := loop.Look(ctx, s.owner, s.ownersView)
	var out wire.Snapshot
	if err == nil {
		soon, cancel := context.WithTimeout(ctx, time.Second)
		err = s.views.Read(soon, seen.last,
			func(b *story.Book) { out = s.pictured(b.Machine(), tasks(b.Machine()), seen) })
		cancel()
		if err != nil { // a long journal is still being read, so use the owner's state
			out, err = loop.Look(ctx, s.owner,
				func(d *fsm.Driver) wire.Snapshot { return s.pictured(d.Machine(), tasks(d.Machine()), seen) })
		}
	}
	out.Director.Problem = seen.slow
	if err != nil { // the lists are empty in that case
		out.Director.Phase = "UNRESPONSIVE"
	}
	out.Director.RunID, out.Director.Leader, out.Director.Since = s.runID, true, wire.At(s.since)
	out.Director.Only = s.only.names()
	out.Director.Config = s.configState()
	out.Director.Leadership = lead.Leadership(s.candidate.Me())
	out.Director.Problem = cmp.Or(s.unwell(err, out.Director.Problem), s.degraded())
	out.Meters = map[string]float64{}
	for _, d := range s.bus.DeadLetters() {
		out.Meters["dead_letters."+string(d.Cause)] = float64(d.Total)
	}
	looks, idle := s.reviews.Counts()
	out.Meters["reviews.looks"], out.Meters["reviews.idle"] = float64(looks), float64(idle)
	s.webhooks.Meters(out.Meters)
	written := s.audit.Counts()
	out.Meters["audit.dropped"], out.Meters["audit.write_errors"] = float64(written.Dropped),
		float64(written.WriteErrors)
	return out
}

// seenNow is what only the owner knows: the journal's position, and what workers reported. The read model has the
// rest.
type seenNow struct {
	last     uint64 // the journal's last sequence
	at       time.Time
	slow     string // why the journal is slow, or empty
	activity map[fsm.IssueKey]seenWorker
}

type seenWorker struct {
	fsm.Activity
	at time.Time // zero if this process has not heard from the worker
}

// ownersView runs on the owner's goroutine. It visits only tasks with a worker.
func (s *session) ownersView(d *fsm.Driver) seenNow {
	m := d.Machine()
	now := seenNow{last: d.Last(), at: m.Now(), slow: s.slowJournal(), activity: map[fsm.IssueKey]seenWorker{}}
	for t := range m.Live() {
		a, at := t.Activity()
		now.activity[t.Key] = seenWorker{a, at}
	}
	return now
}

// pictured returns the snapshot of the read model's machine.
func (s *session) pictured(m *fsm.Machine, tasks []*fsm.Task, seen seenNow) wire.Snapshot {
	settings := s.settings()
	out := machineSnapshot(m, tasks, seen)
	for i, t := range tasks {
		if fate := s.met.Fate(m, t, settings); fate != "" {
			out.Tasks[i].WaitsFor += " (" + fate + ")"
		}
	}
	return out
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
		if until.IsZero() { // it depends on the canary, or holds nothing back
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
	if v.WaitsFor = waits.For; waits.Until.After(now) {
		v.NextDeadline = new(wire.At(waits.Until))
	}
	return v
}
