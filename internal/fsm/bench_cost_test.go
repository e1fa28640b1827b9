package fsm

import (
	"fmt"
	"testing"
	"time"
)

// TestStepDoesNotGrow: what a step costs does not depend on how many tasks there are, as long as the event is about one.
func TestStepDoesNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	few, many := crowd(t, 10), crowd(t, 10_000)
	for name, step := range map[string]func(*Machine){
		"a heartbeat": func(m *Machine) { m.Step(Event{At: at(5), Body: WorkerSeen{Worker: "k7-1"}}) },
		"a report": func(m *Machine) {
			m.Task(issueKey("7")).Reports = nil
			m.Step(Event{At: at(5), Body: ReportReceived{Worker: "k7-1", Report: Report{Ref: ReportRef{ID: "k7-1/note"}}}})
		},
		"a tick": func(m *Machine) { m.Step(Event{At: at(5), Body: Tick{}}) },
		"an answer": func(m *Machine) {
			m.Step(Event{At: at(5), Body: QuestionAnswered{Task: issueKey("7"), By: "octocat", Command: "retry"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			quietly(t, func() string {
				small, large := stepCost(few, step), stepCost(many, step)
				t.Logf("%s with 10 tasks, %s with 10,000", small, large)
				if large > 3*small+200*time.Nanosecond {
					return fmt.Sprintf("a step takes %s with 10 tasks, %s with 10,000", small, large)
				}
				return ""
			})
		})
	}
}

// stepCost is the least that a step takes: whatever disturbs makes it more.
func stepCost(m *Machine, step func(*Machine)) time.Duration {
	const rounds, steps = 20, 200
	least := time.Hour
	for range rounds {
		began := time.Now()
		for range steps {
			step(m)
		}
		least = min(least, time.Since(began)/steps)
	}
	return least
}

// quietly fails only if something is wrong every time: others use the machine, too, and no load lasts through all tries.
func quietly(t *testing.T, measure func() (wrong string)) {
	t.Helper()
	wrong := ""
	for range 8 {
		if wrong = measure(); wrong == "" {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Error(wrong)
}
