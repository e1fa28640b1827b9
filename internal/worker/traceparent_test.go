package worker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/bus/wire"
)

// TestStagesBelongToTheTrace checks that each run of a stage gets its span as TRACEPARENT, and that the report of a
// failure has the times of the stages. Without a trace the variable is missing.
func TestStagesBelongToTheTrace(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	attempt, _ := wire.ParseTraceParent(parent)
	for _, traced := range []string{parent, ""} {
		synctest.Test(t, func(t *testing.T) {
			p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{script: []exit{
				minute(0), minute(1), minute(0),
				{timedOut: true, code: 143, took: time.Minute},
			}}
			p.TraceParent = traced
			began := time.Now()
			testWorker(t, p, bus, r).run(t.Context())
			var got, want []string
			for _, c := range r.runs {
				i := slices.IndexFunc(c.env, func(kv string) bool { return strings.HasPrefix(kv, wire.TraceEnv+"=") })
				if i >= 0 {
					got = append(got, strings.TrimPrefix(c.env[i], wire.TraceEnv+"="))
				}
			}
			for _, x := range []wire.TraceParent{
				attempt.ForStage("CODE", 1), attempt.ForStage("VALIDATE", 1),
				attempt.ForStage("CODE", 2), attempt.ForStage("VALIDATE", 2),
			} {
				want = append(want, x.String())
			}
			if traced == "" {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: the stages have %q, want %q", traced, got, want)
			}
			e := bus.onlyError(t)
			if len(e.Stages) != 4 || e.Stages[3].Stage != "VALIDATE" || e.Stages[3].ExitCode != 143 {
				t.Fatalf("the report has the stages %+v", e.Stages)
			}
			for i, s := range e.Stages {
				if at := began.Add(time.Duration(i) * time.Minute); !s.StartedAt.Equal(at.Truncate(time.Millisecond)) ||
					s.DurationMS != 60_000 {
					t.Errorf("stage %d: %s for %d ms, want %s for a minute", i, s.StartedAt, s.DurationMS, at)
				}
			}
		})
	}
}
