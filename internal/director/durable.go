package director

import (
	"retake/internal/director/record"
	"retake/internal/fsm"
	"retake/internal/github/gate"
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
		record.Log(s.log, f)
		s.react(f)
		s.only.Note(f)
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
		s.github.Gate.Prime(gate.Cooldown{Resource: f.Resource, Until: f.Until, Why: f.Why})
	case fsm.CooldownLifted:
		s.broker.Open(f.Resource)
		s.github.Gate.Lift(f.Resource)
	}
}
