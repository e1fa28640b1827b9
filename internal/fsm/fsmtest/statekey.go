package fsmtest

import (
	"time"

	"retake/internal/fsm"
	"retake/internal/fsm/fsmtest/deep"
)

// key returns the state's hash. States that differ only in time, or in the names of their two issues, have the same
// hash.
func (n *node) key() uint64 {
	straight := n.sum(nil)
	if len(n.w.hub.issues) < 2 {
		return straight
	}
	return min(straight, n.sum(&swapped))
}

// swapped exchanges the letters x and y.
var swapped = func() (letters [256]byte) {
	for i := range letters {
		letters[i] = byte(i)
	}
	letters['x'], letters['y'] = 'y', 'x'
	return letters
}()

func (n *node) sum(letters *[256]byte) uint64 {
	w := n.w
	now := w.wall(w.directors.lead)
	h := deep.Hash{From: now, Letters: letters}
	for i, p := range w.directors.pair() {
		if p == nil {
			h.Add(uint64(100 + i))
			continue
		}
		deep.Sum(decisive, p.d, &h)
		h.Add(p.told)
		h.Add(boolean(p.batch != nil) | boolean(p.dead)<<1 | boolean(p.d.Last() == w.directors.journal.last)<<2)
		h.Unordered(len(p.flight), func(i int, one *deep.Hash) { one.Text(p.flight[i].effect.ID) })
	}
	h.Unordered(len(w.hub.issues), func(i int, one *deep.Hash) {
		x := w.hub.issues[i]
		one.Text(string(x.key))
		one.Text(x.nonce)
		one.Text(x.asked)
		one.Add(uint64(x.labels) | boolean(x.open)<<8)
		one.Text(x.delivered)
		one.Text(x.reclaimed)
		one.Text(x.ended)
		one.Add(uint64(x.reclaimedAt))
		one.Add(uint64(x.answersAt))
		one.Text(x.validatedBy)
		one.Add(boolean(x.validated == x.work))
		if p := x.pull; p != nil {
			one.Text(p.state)
			one.Add(uint64(p.number) | uint64(p.head)<<32 | uint64(len(p.changes))<<48 | boolean(p.failing)<<60)
		}
	})
	h.Unordered(len(w.runtime.containers), func(i int, one *deep.Hash) {
		b := w.runtime.containers[i]
		one.Text(b.attempt)
		one.Add(boolean(b.listed) | boolean(b.running)<<1 | boolean(b.welcomed)<<2 | boolean(b.orphan)<<3 | uint64(
			b.sent)<<4 | uint64(b.patience)<<8 | boolean(b.validates)<<16 |
			boolean(b.pending)<<17 | boolean(b.lost)<<18 | boolean(b.told)<<19 | boolean(b.revoked)<<20 | boolean(
			b.travels)<<21)
	})
	h.Unordered(len(w.workers.reports), func(i int, one *deep.Hash) {
		r := w.workers.reports[i]
		one.Text(r.worker)
		one.Text(r.body.Ref.ID)
		one.Add(boolean(r.acked) | boolean(r.body.OK)<<1 | boolean(r.waits)<<2)
	})
	h.Unordered(len(n.messages), func(i int, one *deep.Hash) { one.Text(n.messages[i].worker) })
	h.Unordered(len(w.hub.comments), func(i int, one *deep.Hash) {
		c := w.hub.comments[i]
		one.Text(string(c.said.Task) + string(c.said.Command))
		one.Add(uint64(c.said.Comment))
	})
	h.Add(uint64(len(w.directors.history.taken)))
	h.Add(w.directors.journal.sum(letters, now, w.directors.lead.cfg))
	for _, x := range n.left {
		h.Add(uint64(x))
	}
	return h.Sum
}

func boolean(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// sum returns the hash of the state that a restart would restore.
func (j *journal) sum(letters *[256]byte, now time.Time, cfg fsm.Config) uint64 {
	if j.read == nil {
		j.read = fsm.New(cfg)
	}
	for ; j.readTo < len(j.batches); j.readTo++ {
		j.read.Replay(j.batches[j.readTo].records)
	}
	h := deep.Hash{From: now, Letters: letters}
	deep.Sum(hardState, j.read, &h)
	return h.Sum
}

// epoch is the start of every world.
var epoch = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// notHard lists the fields of the machine that are not hard state: configuration, derived data, and soft state. New
// fields count as hard state until they are listed here.
var notHard = []string{
	"memory.cfg", "memory.tasks", "memory.nonces", "memory.slots", "agenda.timers", "agenda.ready",
	"memory.now", "agenda.began", "agenda.grace", "agenda.late", "agenda.githubClosed", "agenda.dispatchableSince",
	"agenda.searched", "agenda.readTo", "agenda.undecided",
	"recorder.facts", "recorder.effects", "agenda.dirty", "recorder.unknownWorkers", "Machine.answers", "Task.soft",
	"Task.timer", "Task.ready", "Task.slot",
}

// notDecisive lists the fields that do not affect decisions.
var notDecisive = []string{
	"memory.cfg", "memory.tasks", "memory.nonces", "recorder.facts", "recorder.effects", "agenda.dirty",
	"hardState.Decided", "hardState.RunID", "hardState.Served", "Failure.At", "agenda.timers", "agenda.ready",
	"memory.slots", "turn.list",
	"Driver.writer", "Driver.last",
}

// mutable lists the types whose values change behind their pointers.
var mutable = []string{
	"Machine", "Task", "waiterList", "Driver",
	"world", "stage", "hub", "runtime", "workers", "directors", "shell", "operator", "process", "history", "claim",
	"softView", "issue", "pull", "comment", "container", "report", "flight",
}

var (
	hardState = deep.New(mutable, notHard...)
	decisive  = deep.New(mutable, notDecisive...)
	whole     = deep.New(mutable, "memory.cfg", "agenda.timers", "agenda.ready", "memory.slots", "turn.list")
)

// Maximum number of list elements and map entries in a machine without tasks, and for each task in it.
const (
	baseElements = 1200
	taskElements = 150
)

// elements counts the elements in a machine.
func elements(m *fsm.Machine) int {
	h := deep.Hash{From: epoch}
	deep.Sum(whole, m, &h)
	return h.Size
}

// decisionSum returns the hash of a decision.
func decisionSum(facts []fsm.Fact, effects []fsm.Effect) uint64 {
	h := deep.Hash{From: epoch}
	deep.Sum(whole, &facts, &h)
	deep.Sum(whole, &effects, &h)
	return h.Sum
}

// hardSum returns the hash of a machine's hard state.
func hardSum(m *fsm.Machine) uint64 {
	h := deep.Hash{From: epoch}
	deep.Sum(hardState, m, &h)
	return h.Sum
}
