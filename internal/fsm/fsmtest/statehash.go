package fsmtest

import (
	"time"

	"retake/internal/fsm"
)

// epoch is when every world begins.
var epoch = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// notHard are the fields of the machine that no fact builds: configuration, what is derived from the hard state, and
// soft state. Every other field is hard, also one that is added later.
var notHard = []string{
	"memory.cfg", "memory.tasks", "memory.nonces", "memory.slots", "agenda.timers", "agenda.ready",
	"memory.now", "agenda.began", "agenda.grace", "agenda.githubClosed", "agenda.dispatchableSince",
	"recorder.facts", "recorder.effects", "agenda.dirty", "recorder.unknownWorkers", "Machine.answers", "Task.soft",
	"Task.timer", "Task.ready", "Task.slot",
}

// notDecisive are the fields that decide nothing: two machines that differ in nothing else will do the same.
var notDecisive = []string{
	"memory.cfg", "memory.tasks", "memory.nonces", "recorder.facts", "recorder.effects", "agenda.dirty",
	"hardState.Decided", "hardState.RunID", "Failure.At", "agenda.timers", "agenda.ready", "memory.slots",
	"turn.list",
	"Driver.writer", "Driver.last",
}

var (
	hardState = newWalker(notHard...)
	decisive  = newWalker(notDecisive...)
	whole     = newWalker("memory.cfg", "agenda.timers", "agenda.ready", "memory.slots", "turn.list")
)

// The bound of what a machine holds: list elements and map entries, of all that it is, for no task and for each.
const (
	baseElements = 1200
	taskElements = 150
)

// elements counts what a machine holds.
func elements(m *fsm.Machine) int {
	h := hash{from: epoch}
	sum(whole, m, &h)
	return h.size
}

// decisionSum is the sum of what a step decided.
func decisionSum(facts []fsm.Fact, effects []fsm.Effect) uint64 {
	h := hash{from: epoch}
	sum(whole, &facts, &h)
	sum(whole, &effects, &h)
	return h.sum
}

// hardSum is the sum of a machine's hard state.
func hardSum(m *fsm.Machine) uint64 {
	h := hash{from: epoch}
	sum(hardState, m, &h)
	return h.sum
}
