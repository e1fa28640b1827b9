package fsm

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

// TestStepDoesNotGrow checks that the cost of a step about one task does not depend on the number of tasks.
func TestStepDoesNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	few, many := crowd(t, 10), crowd(t, 10_000)
	for name, step := range map[string]func(*Machine){
		"a heartbeat": func(m *Machine) { m.Step(Event{At: at(5), Body: WorkerSeen{Worker: "k7-1"}}) },
		"a report": func(m *Machine) {
			m.Task(issueKey("7")).Reports = nil
			m.Step(Event{At: at(5), Body: ReportReceived{
				Worker: "k7-1",
				Report: Report{Ref: ReportRef{ID: "k7-1/note"}},
			}})
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

// stepCost returns the minimum cost of a step, because disturbances only add to it.
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

// quietly repeats a failed measurement several times before it fails the test, because other programs may use the
// machine for a while.
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

// TestTasksAreSmall checks that a running task takes at most 2 KiB of the machine, and that a finished task leaves
// almost no memory.
func TestTasksAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory")
	}
	const tasks, most, left = 20_000, 2048, 128
	heap := func() int {
		runtime.GC()
		runtime.GC() // subtract the freed memory of the first machine
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	quietly(t, func() string {
		before := heap()
		m := crowd(t, tasks)
		for i := range tasks {
			m.Step(Event{At: at(5), Body: WorkerSeen{Worker: "k" + strconv.Itoa(i+1) + "-1", Activity: Activity{
				Stage: strings.Clone("CODE"), Step: fmt.Sprint("editing file ", i), Percent: new(float64(i)),
				Usage: &recovery.Usage{Tokens: int64(i)},
			}}})
		}
		running := (heap() - before) / tasks
		for i := range tasks {
			n := strconv.Itoa(i + 1)
			w := "k" + n + "-1"
			m.Step(Event{At: at(6), Body: ReportReceived{Worker: w, Report: Report{
				Ref: ReportRef{ID: w + "/result"},
				OK:  true, Final: true,
			}}})
			m.Step(Event{At: at(7), Body: EffectEnded{Task: issueKey(n), Effect: w + "/stop", Stop: &StopResult{}}})
			m.Step(Event{At: at(8), Body: EffectEnded{
				Task: issueKey(n), Effect: w + "/deliver",
				Delivery: &DeliverResult{Branch: "retake/" + n, SHA: "5f0c"},
			}})
		}
		if n := len(m.Tasks()); n != 0 {
			t.Fatalf("%d tasks are left, the first is %s", n, m.Tasks()[0].State)
		}
		done := (heap() - before) / tasks
		runtime.KeepAlive(m)
		t.Logf("%d bytes for a running task, %d for a finished task", running, done)
		if running > most || done > left {
			return fmt.Sprintf("%d bytes for a running task, want at most %d; %d for a finished task, want at most %d",
				running, most, done, left)
		}
		return ""
	})
}
