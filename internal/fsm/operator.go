package fsm

func (Tick) step(*Machine) {}

func (s SignalReceived) step(m *Machine) { m.setPhase(PhaseShutdown, "signal: "+s.Signal) }

// Running work is never thrown away.
func (c OperatorCommanded) step(m *Machine) {
	switch c.Command {
	case Pause:
		m.setPhase(PhasePaused, "the operator paused")
		for _, t := range m.hard.Tasks {
			if t.watched() {
				m.emit(t, Effect{Kind: DoPause})
			}
		}
	case Drain:
		m.unpause(PhaseDraining, "the operator drains")
	case Resume:
		if m.hard.Intent != "" {
			m.unpause(m.defaultPhase(), "the operator resumed")
		}
	}
}

// unpause leaves the phase that the operator wanted. The time of a pause does not count for the watchdog.
func (m *recorder) unpause(to Phase, why string) {
	paused, gap := m.hard.Intent == PhasePaused, m.now.Sub(m.hard.PausedAt)
	m.setPhase(to, why)
	if !paused {
		return
	}
	for _, t := range m.hard.Tasks {
		if t.watched() {
			m.record(WatchdogMoved{OfTask: OfTask{t.Key}, At: t.WatchdogAt.Add(gap)})
			m.emit(t, Effect{Kind: DoResume})
		}
	}
}

// defaultPhase is the phase when the operator has commanded none.
func (m *memory) defaultPhase() Phase {
	if m.githubOpensAt().After(m.now) {
		return PhaseCooldown
	}
	return PhaseMonitor
}

// syncPause repeats a pause or its end to a worker that may have missed it.
func (m *recorder) syncPause(t *Task) {
	switch pausing := m.hard.Phase == PhasePaused; {
	case pausing && !t.soft.Paused:
		m.emit(t, Effect{Kind: DoPause})
	case !pausing && t.soft.Paused:
		m.emit(t, Effect{Kind: DoResume})
	}
}
