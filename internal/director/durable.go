package director

import (
	"go.uber.org/zap"

	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
)

// onBatch applies a durable batch to the projections. The owner calls it before onDurable.
func (s *session) onBatch(seq uint64, records []fsm.Record) {
	for _, p := range s.projections {
		p.Apply(seq, records)
	}
}

// onDurable logs each durable record and reacts to it.
func (s *session) onDurable(r fsm.Record) {
	for _, f := range r.Facts {
		s.logFact(f)
		s.react(f)
		s.only.note(f)
	}
}

// react carries out what a fact requires of the process.
func (s *session) react(f fsm.Fact) {
	switch f := f.(type) {
	case fsm.VerdictMade:
		if f.Verdict.Action == recovery.Abort {
			s.aborted = string(f.Task) + ": " + f.Verdict.Why
		}
	case fsm.EndingSet:
		if f.Outcome == fsm.OutcomeWithdrawn {
			s.withdrawals.End(f.Task)
		}
	case fsm.Moved:
		if f.On == fsm.OnWithdrawn {
			s.withdrawals.End(f.Task)
		}
		if f.To.Info().Final || f.To == fsm.Forgotten {
			s.outputs.Over(string(f.Task))
		}
	case fsm.TaskQueued:
		s.outputs.Expect(string(f.Task))
	case fsm.CooldownSet:
		s.broker.Close(f)
		s.github.Prime(github.Cooldown{Resource: f.Resource, Until: f.Until, Why: f.Why})
	case fsm.CooldownLifted:
		s.broker.Open(f.Resource)
		s.github.Lift(f.Resource)
	}
}

// Explanations of continue_on_error, for its start and its effect.
const (
	continuesText = "errors are continued after (recovery.continue_on_error): no failure ends the run, also none " +
		"that the policy calls fatal, such as a rejected credential; " +
		"every task that fails is still a question to a person, ERROR_REPORT.md is written at the end in any case, " +
		"and the exit code is 1 if a task failed"
	continuedText = "a failure that the policy calls fatal is continued after (recovery.continue_on_error): what " +
		"follows may fail for the same cause"
)

// logFact writes one line for each fact that an operator would look for.
func (s *session) logFact(f fsm.Fact) {
	switch f := f.(type) {
	case fsm.Moved:
		s.log.Info("transition", zap.String("issue", string(f.Task)), zap.Int("attempt", f.Attempt),
			zap.Stringer("from", f.From), zap.Stringer("to", f.To), zap.String("event", string(f.On)),
			zap.String("reason", f.Why))
	case fsm.PhaseChanged:
		s.log.Info("phase", zap.String("from", string(f.From)), zap.String("to", string(f.To)),
			zap.String("reason", f.Why))
	case fsm.SettingsChanged:
		s.log.Info("decided by another configuration from now on", zap.String("by", f.By),
			zap.Strings("changed", f.Keys), zap.String("digest", f.Digest))
	case fsm.VerdictMade:
		s.log.Info("verdict", zap.String("issue", string(f.Task)), zap.Int("attempt", f.Attempt),
			zap.String("stage", f.Stage),
			zap.String("reason", string(f.Finding.Reason)), zap.String("cause", f.Finding.Cause),
			zap.String("rule", f.Finding.Rule),
			zap.String("action", string(f.Verdict.Action)), zap.Duration("delay", f.Verdict.Delay),
			zap.String("why", f.Verdict.Why))
		if f.Verdict.Continued {
			s.log.Warn(continuedText, zap.String("issue", string(f.Task)), zap.Int("attempt", f.Attempt),
				zap.String("reason", string(f.Finding.Reason)), zap.String("cause", f.Finding.Cause))
		}
	case fsm.CommandTaken:
		s.log.Info("command", zap.String("issue", string(f.Task)), zap.String("command", string(f.Command)),
			zap.String("by", f.By), zap.String("refused", f.Refused))
	case fsm.ReportAccepted:
		s.log.Info("report", zap.String("issue", string(f.Task)), zap.String("worker", f.Worker),
			zap.String("error_id", f.Ref.ID),
			zap.Bool("ok", f.OK), zap.Bool("final", f.Final))
	case fsm.WorkDelivered:
		s.log.Info("delivered", zap.String("issue", string(f.Task)), zap.String("branch", f.Delivery.Branch),
			zap.String("sha", f.Delivery.SHA),
			zap.String("url", f.Delivery.URL))
	case fsm.IncidentChanged:
		if f.Over {
			s.log.Debug("incident forgotten", zap.String("incident", f.Incident.Key))
		} else if i := f.Incident; i.Breaker.Opened > 0 {
			s.log.Warn("incident", zap.String("incident", i.Key), zap.String("reason", string(i.Reason)),
				zap.String("cause", i.Cause),
				zap.Int("tasks", len(i.Breaker.Strikes)), zap.Time("until", i.Breaker.Until),
				zap.String("canary", i.Breaker.Canary))
		}
	case fsm.CooldownSet:
		s.log.Warn("cooldown", zap.String("resource", f.Resource), zap.Time("until", f.Until),
			zap.String("reason", f.Why),
			zap.String("said_by", fsm.Cooldown(f).Origin()))
	case fsm.CooldownLifted:
		s.log.Warn("an operator lifted a cooldown", zap.String("resource", f.Resource), zap.Int("tasks", len(f.Tasks)))
	case fsm.EffectDone:
		if f.Failed != "" {
			s.log.Error("effect given up", zap.String("issue", string(f.Task)), zap.String("effect", f.Effect),
				zap.String("error", f.Failed))
		}
	}
}
