package worker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/agent"
	"retake/internal/budget"
	"retake/internal/bus/wire"
)

// TestLimitIsReportedWhileTheAgentRuns checks that the shared guard learns of a limit at once, even after the first
// lease has ended.
func TestLimitIsReportedWhileTheAgentRuns(t *testing.T) {
	for name, before := range map[string]time.Duration{"with its lease": 0, "long after": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := agentPlan(t, "claude-code", nil)
				bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}}
				l := &lender{pool: budget.New("run_1", budget.Limits{
					MaxConcurrent: 1, Spacing: time.Second,
					Cooldown: 10 * time.Second,
				})}
				bus.budget = l.answer
				r.onRun = func(c command) {
					if c.stdout == nil {
						return
					}
					time.Sleep(before)
					prints(claude429)(c)
					time.Sleep(time.Second)
					bus.set(func() {
						if g := peek(l.pool, "model.anthropic"); g.Why != budget.WhyCooldown ||
							g.Wait != 29*time.Second {
							t.Errorf("the guard did not learn of the limit: %+v, %q", g, l.said)
						}
					})
					prints(claudeWork, claudeWell)(c)
				}
				if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitResult {
					t.Errorf("exit %d", code)
				}
				bus.set(func() {
					taken, given := 0, 0
					for _, s := range l.said {
						if strings.HasPrefix(s, "acquire run_1.") {
							taken++
						}
						if strings.HasPrefix(s, "release run_1.") {
							given++
						}
					}
					if taken == 0 || taken != given {
						t.Errorf("%d leases were taken, %d given back: %q", taken, given, l.said)
					}
				})
			})
		})
	}
}

// TestAgentWaitsForItsLease checks that the agent waits as long as the guard requires, and that heartbeats report this.
// A cooldown that is too long ends the attempt.
func TestAgentWaitsForItsLease(t *testing.T) {
	for name, row := range map[string]struct {
		closed time.Duration
		code   ExitCode
	}{"short": {2 * time.Minute, ExitResult}, "long": {3 * time.Hour, ExitError}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := agentPlan(t, "claude-code", nil)
				bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}, onRun: prints(claudeWell)}
				l := &lender{pool: budget.New("run_1", budget.Limits{
					MaxConcurrent: 1, Spacing: time.Second,
					Cooldown: 10 * time.Second,
				})}
				l.pool.Close("model.anthropic", time.Now().Add(row.closed))
				bus.budget = l.answer
				began := time.Now()
				if code := testWorker(t, p, bus, r).run(t.Context()); code != row.code {
					t.Fatalf("exit %d", code)
				}
				if row.code == ExitResult {
					if took := time.Since(began); took < 4*time.Minute || took > 5*time.Minute {
						t.Errorf("took %s", took)
					}
					if !slices.ContainsFunc(bus.beats, func(h wire.Heartbeat) bool {
						return h.State.Progress != nil &&
							h.State.Progress.Step == "waiting for model.anthropic: cooldown"
					}) {
						t.Error("the wait is not reported")
					}
					return
				}
				e := bus.onlyError(t)
				if len(r.runs) > 0 || e.ErrorType != "rate_limited" || e.RetryAfterSeconds == nil ||
					*e.RetryAfterSeconds != 3*3600 || e.Provider != "anthropic" || e.ExitCode != nil || e.Usage != nil {
					t.Errorf("%d runs, %+v", len(r.runs), e)
				}
			})
		})
	}
}

// TestOutOfTimeWhileLimited checks that the limit counts as the cause of a timeout.
func TestOutOfTimeWhileLimited(t *testing.T) {
	for name, row := range map[string]struct {
		lines []string
		want  string
	}{"limited": {[]string{claude429}, "rate_limited"}, "limited once": {[]string{claude429, claudeWork}, "timeout"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := agentPlan(t, "claude-code", nil)
				bus := newFakeBus()
				r := &fakeRunner{
					script: []exit{{timedOut: true, code: 143, signal: "SIGTERM", took: 30 * time.Minute}},
					onRun:  prints(row.lines...),
				}
				w := testWorker(t, p, bus, r)
				w.classify = classifyFailure
				w.run(t.Context())
				if e := bus.onlyError(t); e.ErrorType != row.want {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// TestNextRoundAndNextModel checks that the prompt of a fix round gives the reason of the refusal, and that the other
// model of a verdict is used.
func TestNextRoundAndNextModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := agentPlan(t, "claude-code", func(s *agent.Stage) { s.Model, s.AlternativeModel = "opus", "sonnet" })
		p.AttemptFile.Action = "retry_alternative"
		bus, r := newFakeBus(), &fakeRunner{
			script: []exit{minute(0), minute(2), minute(0), minute(0)},
			onRun:  prints(claudeWell),
		}
		if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitResult {
			t.Fatalf("exit %d", code)
		}
		first, second := r.runs[0].argv[2], r.runs[2].argv[2]
		if strings.Contains(first, "rejected") || !strings.Contains(second, "(round 1) was rejected") ||
			!strings.Contains(second, "> some trouble") {
			t.Errorf("%s\n%s", first, second)
		}
		if !slices.Contains(r.runs[0].argv, "sonnet") || !slices.Contains(r.runs[0].env, "RETAKE_MODEL=sonnet") {
			t.Errorf("%q", r.runs[0].argv)
		}
		if res := bus.only(t).(*wire.WorkerResult); res.Usage.PaidCalls != 2 || res.Usage.Tokens != 400 ||
			res.Usage.CostUSD != 0.5 {
			t.Errorf("%+v", res.Usage)
		}
	})
}
