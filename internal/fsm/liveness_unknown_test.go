package fsm

import (
	"strconv"
	"testing"
	"time"
)

// Unknown containers that cannot be removed may stay for days, and there may be more than the machine remembers.
// The number of facts about them is bounded, and each remembered container is answered less and less often.
func TestUnknownWorkersAreBounded(t *testing.T) {
	const minutes, answers = 10, 4 // at once, and after 1, 3 and 6 minutes
	for _, n := range []int{1, 257, 1000, maxUnknownWorkers, maxUnknownWorkers + 1, 5000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			m := New(testConfig())
			m.Step(Event{At: at(0), Body: Booted{RunID: "r"}})
			list := ContainersListed{}
			for i := range n {
				gone := Container{Attempt: "gone" + strconv.Itoa(i) + "-1", Running: true}
				list.Containers = append(list.Containers, gone)
			}
			wrote := 0
			for s := 5; s <= minutes*60; s += 5 {
				list.TakenAt = at(s)
				facts, effects := m.Step(Event{At: at(s), Body: list})
				if wrote += len(facts); len(effects) != len(facts) {
					t.Fatalf("%d facts and %d effects", len(facts), len(effects))
				}
			}
			if want := answers * min(n, maxUnknownWorkers); wrote != want {
				t.Errorf("%d facts, want %d", wrote, want)
			}
		})
	}
}

// When the answered containers have disappeared, the others get an answer.
func TestUnknownWorkersMakeRoom(t *testing.T) {
	var u unknownWorkers
	for i := range maxUnknownWorkers {
		u.answer(strconv.Itoa(i), at(i))
	}
	if u.answer("new", at(59)) {
		t.Error("a container is answered too early")
	}
	if !u.answer("new", at(60)) || u.answer("another", at(60)) || u.answer("new", at(119)) ||
		!u.answer("0", at(120)) {
		t.Error("the first answered container keeps its entry, or too many are answered")
	}
	if len(u.places) != maxUnknownWorkers {
		t.Errorf("%d are remembered", len(u.places))
	}
}

// A container that is answered repeatedly is answered less and less often.
func TestUnknownWorkerIsLeftAlone(t *testing.T) {
	m := New(testConfig())
	var after []time.Duration
	last := at(0)
	for s := 0; s < 3*3600; s += 5 {
		now := at(s)
		if facts, _ := m.Step(Event{At: now, Body: WorkerSeen{Worker: "gone-1"}}); len(facts) > 0 {
			after, last = append(after, now.Sub(last)), now
		}
	}
	for i, wait := range after[1:] {
		if want := min(time.Duration(i+1)*fenceEvery, fenceSeldom); wait != want {
			t.Errorf("answer %d came after %s, want %s", i+2, wait, want)
		}
	}
}

// If more containers stay than the machine remembers, each of them is answered in turn.
func TestNoUnknownContainerIsHidden(t *testing.T) {
	m, answered, list := New(testConfig()), map[string]bool{}, ContainersListed{}
	for i := range 5000 {
		list.Containers = append(list.Containers, Container{Attempt: "gone" + strconv.Itoa(i) + "-1", Running: true})
	}
	for s := 5; s <= 11*60; s += 5 {
		list.TakenAt = at(s)
		_, effects := m.Step(Event{At: at(s), Body: list})
		for _, e := range effects {
			answered[e.Worker] = true
		}
	}
	if len(answered) != len(list.Containers) {
		t.Errorf("%d of %d containers were answered", len(answered), len(list.Containers))
	}
}

// The machine limits the facts that reports about workers without an attempt cause.
func TestReportsOfUnknownWorkersAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		persons bool
		most    int
	}{
		"workers": {false, 2 * maxUnknownWorkers}, // at once, and after a minute
		"people":  {true, unheardAtOnce + int(2*time.Minute/unheardEvery)},
	} {
		m, wrote := New(testConfig()), 0
		for i := range 12_000 {
			now := at(0).Add(time.Duration(i) * 10 * time.Millisecond)
			facts, effects := m.Step(Event{At: now, Body: ReportReceived{
				Worker: "gone" + strconv.Itoa(i%3000) + "-1",
				Report: Report{Ref: ReportRef{ID: strconv.Itoa(i), Seq: uint64(i + 1)}, Persons: c.persons},
			}})
			if wrote += len(facts); len(effects) != len(facts) {
				t.Fatalf("%s: %d facts and %d effects", name, len(facts), len(effects))
			}
		}
		if wrote > c.most || wrote < unheardAtOnce {
			t.Errorf("%s: %d facts for 12,000 reports, want at most %d", name, wrote, c.most)
		}
	}
}
