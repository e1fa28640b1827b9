package record

import (
	"go.uber.org/zap"

	"retake/internal/fsm"
)

// Log messages about recovery.continue_on_error, at the start of a session and after a fatal failure.
const (
	ContinuesText = "recovery.continue_on_error is set: the run survives every failure, even one that the policy " +
		"calls fatal, such as a rejected credential. Retake still asks a person about every failed task, always " +
		"writes ERROR_REPORT.md at the end, and exits with code 1 if a task failed"
	ContinuedText = "the run continues after a fatal failure (recovery.continue_on_error): later work may fail for " +
		"the same reason"
)

// Log writes one line for each fact that operators look for.
func Log(log *zap.Logger, f fsm.Fact) {
	switch f := f.(type) {
	case fsm.Moved:
		log.Info("transition", zap.String("issue", string(f.Task)), zap.Int("attempt", f.Attempt),
			zap.Stringer("from", f.From), zap.Stringer("to", f.To), zap.String("event", string(f.On)),
			zap.String("reason", f.Why))
	case fsm.PhaseChanged:
		log.Info("phase", zap.String("from", string(f.From)), zap.String("to", string(f.To)),
			zap.String("reason", f.Why))
	case fsm.SettingsChanged:
		log.Info("configuration changed", zap.String("by", f.By),
			zap.Strings("changed", f.Keys), zap.String("digest", f.Digest))
	case fsm.VerdictMade:
		log.Info("verdict", zap.String("issue", string(f.Task)), zap.Int("attempt", f.Attempt),
			zap.String("stage", f.Stage),
			zap.String("reason", string(f.Finding.Reason)), zap.String("cause", f.Finding.Cause),
			zap.String("rule", f.Finding.Rule),
			zap.String("action", string(f.Verdict.Action)), zap.Duration("delay", f.Verdict.Delay),
			zap.String("why", f.Verdict.Why))
		if f.Verdict.Continued {
			log.Warn(ContinuedText, zap.String("issue", string(f.Task)), zap.Int("attempt", f.Attempt),
				zap.String("reason", string(f.Finding.Reason)), zap.String("cause", f.Finding.Cause))
		}
	case fsm.CommandTaken:
		log.Info("command", zap.String("issue", string(f.Task)), zap.String("command", f.Typed()),
			zap.String("by", f.By), zap.String("refused", f.Refused))
	case fsm.ReportAccepted:
		log.Info("report", zap.String("issue", string(f.Task)), zap.String("worker", f.Worker),
			zap.String("error_id", f.Ref.ID),
			zap.Bool("ok", f.OK), zap.Bool("final", f.Final))
	case fsm.WorkDelivered:
		log.Info("delivered", zap.String("issue", string(f.Task)), zap.String("branch", f.Delivery.Branch),
			zap.String("sha", f.Delivery.SHA),
			zap.String("url", f.Delivery.URL))
	case fsm.IncidentChanged:
		if f.Over {
			log.Debug("incident forgotten", zap.String("incident", f.Incident.Key))
		} else if i := f.Incident; i.Breaker.Opened > 0 {
			log.Warn("incident", zap.String("incident", i.Key), zap.String("reason", string(i.Reason)),
				zap.String("cause", i.Cause),
				zap.Int("tasks", len(i.Breaker.Strikes)), zap.Time("until", i.Breaker.Until),
				zap.String("canary", i.Breaker.Canary))
		}
	case fsm.CooldownSet:
		log.Warn("cooldown", zap.String("resource", f.Resource), zap.Time("until", f.Until),
			zap.String("reason", f.Why),
			zap.String("said_by", fsm.Cooldown(f).Origin()))
	case fsm.CooldownLifted:
		log.Warn("operator lifted a cooldown", zap.String("resource", f.Resource), zap.Int("tasks", len(f.Tasks)))
	case fsm.EffectDone:
		if f.Failed != "" {
			log.Error("gave up on effect", zap.String("issue", string(f.Task)), zap.String("effect", f.Effect),
				zap.String("error", f.Failed))
		}
	}
}
