package fsm

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"retake/internal/recovery"
)

// crowd returns a machine with n running workers, k1-1 to kn-1.
func crowd(b testing.TB, n int) *Machine {
	b.Helper()
	cfg := testConfig()
	cfg.MaxWorkers = n
	m := New(cfg)
	m.Step(Event{At: at(0), Body: Booted{RunID: "r"}})
	for i := 1; i <= n; i++ {
		s := strconv.Itoa(i)
		m.Step(Event{At: at(1), Body: oneIssue(s)})
		m.Step(Event{At: at(2), Body: EffectEnded{
			Task: issueKey(s), Effect: "k" + s + "-0/claim",
			Claim: &ClaimResult{Ours: true},
		}})
		m.Step(Event{At: at(3), Body: EffectEnded{Task: issueKey(s), Effect: "k" + s + "-1/start"}})
		m.Step(Event{At: at(4), Body: Hello{Worker: "k" + s + "-1", Token: 1}})
	}
	if len(m.Tasks()) != n || m.Task(issueKey(strconv.Itoa(n))).State != Running {
		b.Fatal("the workers don't run")
	}
	return m
}

var crowds = []int{10, 1000, 100_000}

// BenchmarkHeartbeat measures a heartbeat. Its cost must not grow with the number of tasks.
func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			m := crowd(b, n)
			workers := make([]EventBody, n)
			for i := range workers {
				workers[i] = WorkerSeen{Worker: fmt.Sprintf("k%d-1", i+1)}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				m.Step(Event{At: at(5).Add(time.Duration(i) * time.Microsecond), Body: workers[i%n]})
			}
		})
	}
}

// BenchmarkTick measures a step without a decision, which is the minimum cost of an event.
func BenchmarkTick(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			m := crowd(b, n)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				m.Step(Event{At: at(5), Body: Tick{}})
			}
		})
	}
}

// BenchmarkReport measures a step with a decision, in which the worker's task accepts a notice. Its cost must not
// grow with the number of tasks.
func BenchmarkReport(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			m := crowd(b, n)
			body := ReportReceived{Worker: "k7-1", Report: Report{Ref: ReportRef{ID: "k7-1/note"}}}
			t := m.Task(issueKey("7"))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				t.Reports = t.Reports[:0]
				m.Step(Event{At: at(5), Body: body})
			}
		})
	}
}

// BenchmarkCycle measures one failed attempt and the start of the next: report, gone, backoff, re-read, start, hello.
func BenchmarkCycle(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			m := crowd(b, n)
			k, t := issueKey("7"), m.Task(issueKey("7"))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				t.Tally = recovery.Tally{} // the number of attempts is unlimited
				w := t.AttemptID()
				step := func(body EventBody) { m.Step(Event{At: at(5), Body: body}) }
				r := Report{Ref: ReportRef{ID: "end"}, Final: true}
				r.Evidence.Assertion.ErrorType = "agent_crash"
				step(ReportReceived{Worker: w, Report: r})
				step(EffectEnded{Task: k, Effect: w + "/stop", Stop: &StopResult{}})
				t.Until = at(5)
				m.index(t)
				step(Tick{})
				step(EffectEnded{Task: k, Effect: w + "/recheck", Claim: &ClaimResult{Ours: true}})
				step(EffectEnded{Task: k, Effect: t.AttemptID() + "/start"})
				step(Hello{Worker: t.AttemptID()})
			}
			if t.State != Running || t.Attempt != b.N+1 {
				b.Fatalf("%s, attempt %d of %d", t.State, t.Attempt, b.N)
			}
		})
	}
}

// BenchmarkDriverOffer measures a report that is decided, journaled and acknowledged.
func BenchmarkDriverOffer(b *testing.B) {
	m := crowd(b, 1000)
	d := NewDriver(m, 0, "p")
	t := m.Task(issueKey("7"))
	body := ReportReceived{Worker: "k7-1", Report: Report{
		Ref:   ReportRef{ID: "k7-1/note", Seq: 1, SHA256: "5f0c"},
		Stage: "CODE",
	}}
	var seq uint64
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		t.Reports = t.Reports[:0]
		if err := d.Offer(Event{At: at(5), Body: body}, Token(i+1)); err != nil {
			b.Fatal(err)
		}
		for !d.Idle() {
			if r := d.Ready(); r.Batch != nil {
				seq++
				d.Appended(seq)
			}
		}
	}
}

// BenchmarkList measures the comparison of a runtime's list with all tasks. Only this event reads all tasks.
func BenchmarkList(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			m := crowd(b, n)
			l := ContainersListed{TakenAt: at(5)}
			for i := range n {
				l.Containers = append(l.Containers, Container{Attempt: fmt.Sprintf("k%d-1", i+1), Running: true})
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				m.Step(Event{At: at(5), Body: l})
			}
		})
	}
}
