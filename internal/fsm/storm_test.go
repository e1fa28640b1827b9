package fsm

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"retake/internal/recovery"
)

// storm simulates a fleet whose environment fails at random until a given time.
type storm struct {
	t      *testing.T
	m      *Machine
	now    time.Time
	queue  moments
	random *rand.Rand
	calm   time.Time
	rate   float64   // probability of each possible failure
	last   time.Time // start of the last attempt
}

type moment struct {
	at time.Time
	n  int
	do func()
}

type moments []moment

func (q moments) Len() int { return len(q) }
func (q moments) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].n < q[j].n
}
func (q moments) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *moments) Push(x any)   { *q = append(*q, x.(moment)) }
func (q *moments) Pop() any     { old := *q; x := old[len(old)-1]; *q = old[:len(old)-1]; return x }

func (s *storm) after(d time.Duration, do func()) {
	heap.Push(&s.queue, moment{s.now.Add(d), len(s.queue) + s.random.IntN(1000), do})
}

func (s *storm) fails() bool { return s.now.Before(s.calm) && s.random.Float64() < s.rate }

func (s *storm) step(body EventBody) {
	s.t.Helper()
	_, effects := mustStep(s.t, s.m, s.now, body)
	for _, e := range effects {
		s.carryOut(e)
	}
}

func (s *storm) carryOut(e Effect) {
	end := EffectEnded{Task: e.Task, Effect: e.ID}
	took := time.Duration(1+s.random.IntN(5)) * time.Second
	switch e.Kind {
	case DoClaim, DoRecheck:
		end.Claim = &ClaimResult{Ours: true}
	case DoStart:
		if s.fails() {
			end.Failure = [...]*EffectError{
				{
					Reason: recovery.NetworkTransient, Text: "fetch: connection reset", Transient: true,
					Resource: recovery.GitHubGit,
				},
				{Reason: recovery.DockerDaemon, Text: "no engine", Transient: true, Resource: recovery.Host},
				{Reason: recovery.BusDisconnect, Text: "no bus", Transient: true, Resource: recovery.Host},
			}[s.random.IntN(3)]
		} else {
			s.last = s.now
			s.after(took+time.Second, func() { s.work(e.Worker) })
		}
	case DoStop:
		end.Stop = &StopResult{}
	case DoDeliver:
		end.Delivery = &DeliverResult{Branch: "b"}
		if s.fails() {
			end.Delivery, end.Failure = nil, &EffectError{
				Reason: recovery.NetworkTransient,
				Text:   "push: connection reset", Transient: true, Resource: recovery.GitHubGit,
			}
		}
	}
	if e.Kind.Durable() {
		s.after(took, func() { s.step(end) })
	}
}

// work simulates a worker, which fails at some point or ends after a few minutes.
func (s *storm) work(worker string) {
	if _, current := s.m.Worker(worker); !current {
		return
	}
	s.step(Hello{Worker: worker, Token: 1})
	report := Report{Ref: ReportRef{ID: worker + "/r"}, Final: true, OK: true}
	took := time.Duration(60+s.random.IntN(120)) * time.Second
	if s.fails() {
		took = time.Duration(5+s.random.IntN(90)) * time.Second
		why := [...]recovery.Reason{
			recovery.NetworkTransient, recovery.Overloaded, recovery.AuthError,
			recovery.AgentCrash,
		}[s.random.IntN(4)]
		report.OK, report.Stage = false, "CODE"
		report.Evidence = recovery.Evidence{
			Provider: "anthropic", Message: string(why),
			Assertion: recovery.Assertion{ErrorType: string(why)},
		}
	}
	for at := 20 * time.Second; at < took; at += 20 * time.Second {
		s.after(at, func() { s.step(WorkerSeen{Worker: worker}) })
	}
	s.after(took, func() { s.step(ReportReceived{Worker: worker, Report: report}) })
}

// TestQueueMovesAfterTheStorm checks that after twenty minutes of random failures, all issues have started within the
// same time. If half of all tries succeed, half of that time must suffice. There are three issues for each worker.
func TestQueueMovesAfterTheStorm(t *testing.T) {
	const lasts = 20 * time.Minute
	for rate, within := range map[float64]time.Duration{0.2: time.Minute, 0.5: lasts / 2, 0.8: lasts} {
		var worst, sum time.Duration
		seeds := 20
		if os.Getenv("RETAKE_NIGHTLY") == "1" {
			seeds = 200
		}
		for seed := range uint64(seeds) {
			cfg := testConfig()
			cfg.MaxWorkers = 8
			s := &storm{
				t: t, m: New(cfg), now: epoch, random: rand.New(rand.NewPCG(seed, 1)), calm: epoch.Add(lasts),
				rate: rate,
			}
			s.step(Booted{RunID: "r"})
			for i := range 24 {
				k := IssueKey(fmt.Sprintf("a/a#%d", i+1))
				s.step(IssuesSeen{
					Repo: "a/a", AskedAt: s.now,
					Issues: []IssueView{{
						Key: k, Open: true, Labels: []Label{LabelTask},
						Nonce: fmt.Sprintf("a%07d", i),
					}},
				})
			}
			s.run(s.calm.Add(6 * time.Hour))
			for _, task := range s.m.Tasks() {
				if task.State == Queued || task.State == Backoff {
					t.Errorf("seed %d: %s is %s", seed, task.Key, task.State)
				}
			}
			took := max(0, s.last.Sub(s.calm))
			sum += took
			if worst = max(worst, took); took > within {
				t.Errorf("seed %d, rate %.1f: the last issue begins %s after the last fault, want %s at most", seed,
					rate, took, within)
			}
		}
		t.Logf("rate %.1f: the last issue begins %s after the last fault on average, at worst %s", rate,
			(sum / time.Duration(seeds)).Round(time.Second), worst.Round(time.Second))
	}
}

// run continues until the last event, or until a time.
func (s *storm) run(until time.Time) {
	s.t.Helper()
	for s.now.Before(until) {
		next := s.m.NextDeadline()
		switch {
		case len(s.queue) > 0 && (next.IsZero() || !s.queue[0].at.After(next)):
			x := heap.Pop(&s.queue).(moment)
			s.now = x.at
			x.do()
		case next.IsZero():
			return
		default:
			s.now = later(s.now.Add(time.Millisecond), next)
			s.step(Tick{})
		}
	}
}
