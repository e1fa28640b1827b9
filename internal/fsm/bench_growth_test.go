package fsm

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"retake/internal/bench"
	"retake/internal/recovery"
)

// TestBenchGrowth measures the cost of more tasks. With 10 to 100,000 tasks, it decides and encodes events about each
// task in turn. It also measures the memory of a running task.
func TestBenchGrowth(t *testing.T) {
	bench.Begin(t)
	var least, tick float64
	for _, n := range []int{10, 1000, 100_000} {
		d := NewDriver(crowd(t, n), 0, "bench")
		sent := 0
		report := eachOf(t, d, n, 1, func(i int) EventBody {
			w := "k" + strconv.Itoa(i+1) + "-1"
			sent++
			return ReportReceived{Worker: w, Report: Report{
				Ref:      ReportRef{ID: w + "/" + strconv.Itoa(sent)},
				Evidence: recovery.Evidence{Stage: "CODE"},
			}}
		})
		nothing := eachOf(t, d, n, 0, func(int) EventBody { return Tick{} })
		if least == 0 {
			least, tick = report, nothing
		}
		record := func(what string, value, beside float64, goal bench.Goal) {
			bench.Record(t, bench.Figure{
				Section: "growth", What: fmt.Sprintf("%d tasks: %s", n, what), Value: value,
				Unit: "µs", Beside: beside, Of: "10 tasks", Goal: goal,
			})
		}
		record("a report is decided and encoded", report, least,
			bench.Goal{AtMost: 1.2, Ratio: true, Limit: "the processor's caches: with 100,000 tasks each one's state " +
				"comes from memory, some ten cache lines; the number of steps is the same, and they take " +
				"one of the 45 µs of a decision"})
		record("no work", nothing, tick, bench.Goal{})
	}
	bytes := bytesOfARunningTask(t, 100_000)
	bench.Record(t, bench.Figure{
		Section: "growth", What: "memory of a running task", Value: bytes, Unit: "B",
		Goal: bench.Goal{AtMost: 2048},
	})
}

// eachOf returns the time of an event, in µs: the minimum of many rounds over all tasks. records is the expected number
// of journal records for each event.
func eachOf(t *testing.T, d *Driver, tasks, records int, event func(i int) EventBody) float64 {
	t.Helper()
	const rounds, events = 10, 20_000
	least := time.Hour
	bodies := make([]EventBody, events)
	for range rounds {
		for i := range bodies {
			bodies[i] = event(i % tasks)
		}
		var took time.Duration
		made := 0
		// an attempt has a limited number of reports, so forget them between the parts
		for first := 0; first < events; first += tasks {
			part := bodies[first:min(first+tasks, events)]
			began := time.Now()
			for _, b := range part {
				if err := d.Offer(Event{At: at(5), Body: b}, 0); err != nil {
					t.Fatal(err)
				}
			}
			took += time.Since(began)
			made += len(d.records)
			d.records, d.ready = nil, Ready{}
			for i := range part {
				d.m.hard.Tasks[i].Reports = nil
			}
		}
		if made != records*events {
			t.Fatalf("%d events made %d records", events, made)
		}
		least = min(least, took/events)
	}
	return float64(least.Nanoseconds()) / 1000
}

// bytesOfARunningTask returns the growth of a machine for each running task.
func bytesOfARunningTask(t *testing.T, tasks int) float64 {
	t.Helper()
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // subtract the freed memory of the first machine
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	m := crowd(t, tasks)
	after := heap()
	runtime.KeepAlive(m)
	return float64(after-before) / float64(tasks)
}
