package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/fsm"
)

// Commands carries out operators' commands for the whole fleet. Its methods are safe for concurrent use.
type Commands struct {
	Owner  *loop.Owner
	Health func(context.Context) operator.Health
	Log    *zap.Logger
}

// commands maps the last element of a request's path to the command.
var commands = map[string]fsm.OperatorCommand{"pause": fsm.Pause, "resume": fsm.Resume, "drain": fsm.Drain}

// operate carries out a command, and answers when the decision is in the journal.
func (s *Commands) operate(w http.ResponseWriter, r *http.Request) {
	command, ok := commands[r.PathValue("command")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if !s.Owner.Decided(r.Context(), fsm.OperatorCommanded{Command: command}) {
		operator.Refuse(w, http.StatusServiceUnavailable, NotWritten)
		return
	}
	operator.Respond(w, http.StatusOK, s.Health(r.Context()))
}

// resetBudget sets the number of paid calls that a task has used.
func (s *Commands) resetBudget(w http.ResponseWriter, r *http.Request) {
	var b operator.BudgetReset
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&b); err != nil || b.PaidCallsUsed < 0 {
		operator.Respond(w, http.StatusBadRequest,
			operator.BudgetReset{Problem: `want {"issue": "owner/repo#1", "paid_calls_used": 0}`})
		return
	}
	key := fsm.IssueKey(b.Issue)
	switch known, err := loop.Look(r.Context(), s.Owner,
		func(d *fsm.Driver) bool { return d.Machine().Task(key) != nil }); {
	case err != nil:
		operator.Refuse(w, http.StatusServiceUnavailable, TooBusy)
		return
	case !known:
		b.Problem = "there is no task " + b.Issue + "; director tasks lists all tasks"
		operator.Respond(w, http.StatusNotFound, b)
		return
	}
	if !s.Owner.Decided(r.Context(), fsm.BudgetEdited{Task: key, PaidCalls: b.PaidCallsUsed}) {
		operator.Refuse(w, http.StatusServiceUnavailable, NotWritten)
		return
	}
	s.Log.Info("budget reset", zap.String("issue", b.Issue), zap.Int64("paid_calls_used", b.PaidCallsUsed))
	operator.Respond(w, http.StatusOK, b)
}

// liftCooldowns reopens resources. If a named resource is not closed, it reopens none.
func (s *Commands) liftCooldowns(w http.ResponseWriter, r *http.Request) {
	var l operator.CooldownLift
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<10)).Decode(&l); err != nil {
		operator.Respond(w, http.StatusBadRequest,
			operator.CooldownLift{Problem: `want {"resources": ["model.anthropic"]}, or {} for all`})
		return
	}
	closed, err := loop.Look(r.Context(), s.Owner,
		func(d *fsm.Driver) []fsm.Cooldown { return d.Machine().Cooldowns() })
	if err != nil {
		operator.Refuse(w, http.StatusServiceUnavailable, TooBusy)
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
			l.Lifted = []wire.SnapshotCooldown{}
			l.Problem = name + " is not closed; director cooldown list shows the closed ones"
			operator.Respond(w, http.StatusNotFound, l)
			return
		}
	}
	for _, c := range l.Lifted {
		if !s.Owner.Decided(r.Context(), fsm.LiftCommanded{Resource: c.Resource}) {
			operator.Refuse(w, http.StatusServiceUnavailable, NotWritten)
			return
		}
	}
	operator.Respond(w, http.StatusOK, l)
}
