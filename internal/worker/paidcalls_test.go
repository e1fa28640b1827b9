package worker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"retake/internal/bus/wire"
)

// TestWhatPays states which runs are paid calls. A plan of an earlier release has no Paid.
func TestWhatPays(t *testing.T) {
	withAgent := &wire.PlanAgent{Name: "mine"}
	for _, row := range []struct {
		stage      wire.StagePlan
		alone, got bool // without and with a lease
	}{
		{wire.StagePlan{Name: wire.StageCode}, false, true},
		{wire.StagePlan{Name: wire.StageCode, Paid: "auto"}, false, true},
		{wire.StagePlan{Name: wire.StageValidate}, false, true},
		{wire.StagePlan{Name: wire.StageCode, Agent: withAgent}, true, true},
		{wire.StagePlan{Name: wire.StageValidate, Agent: withAgent, Paid: "auto"}, true, true},
		{wire.StagePlan{Name: wire.StageValidate, Resource: "model.x"}, true, true},
		{wire.StagePlan{Name: wire.StageContextLoad, Paid: "always"}, true, true},
		{wire.StagePlan{Name: wire.StageCode, Paid: "never"}, false, false},
		{wire.StagePlan{Name: wire.StageCode, Agent: withAgent, Resource: "model.x", Paid: "never"}, false, false},
	} {
		if alone, got := pays(row.stage, false), pays(row.stage, true); alone != row.alone || got != row.got {
			t.Errorf("%+v: %v, with a lease %v", row, alone, got)
		}
	}
	p := testPlan(t)
	p.Stages[1].Paid = "sometimes"
	if err := complete(p); err == nil || !strings.Contains(err.Error(), "stages[1].paid") {
		t.Errorf("%v; want an error with the bad value", err)
	}
}

// paidPlan returns a plan with paid runs of CODE.
func paidPlan(t *testing.T) *wire.Plan {
	p := testPlan(t)
	p.Stages[0].Paid = wire.PaidAlways
	return p
}

// TestEachRunOfAPaidStageCounts checks that a run counts however it ends, and that other stages are free.
func TestEachRunOfAPaidStageCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(2), minute(0), minute(0)}}
		if code := testWorker(t, paidPlan(t), bus, r).run(t.Context()); code != ExitResult {
			t.Fatalf("exit %d", code)
		}
		if res := bus.only(t).(*wire.WorkerResult); res.Usage == nil || *res.Usage != (wire.Usage{PaidCalls: 2}) {
			t.Errorf("%+v, want two paid calls", res.Usage)
		}
		if !slices.ContainsFunc(bus.beats, func(h wire.Heartbeat) bool {
			return h.Usage != nil && h.Usage.PaidCalls == 1 && h.State.Stage == wire.StageCode
		}) {
			t.Errorf("no heartbeat reports it while it runs: %+v", bus.beats)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(1)}}
		testWorker(t, paidPlan(t), bus, r).run(t.Context())
		if e := bus.onlyError(t); e.Usage == nil || e.Usage.PaidCalls != 1 {
			t.Errorf("%+v, want a paid call", e.Usage)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		missing := exit{err: errNoProgram}
		bus, r := newFakeBus(), &fakeRunner{script: []exit{missing, missing}}
		testWorker(t, paidPlan(t), bus, r).run(t.Context())
		if e := bus.onlyError(t); e.Usage != nil {
			t.Errorf("%+v for a missing program, want nothing", e.Usage)
		}
		for _, h := range bus.beats {
			if h.Usage != nil {
				t.Errorf("a heartbeat counts %+v for a missing program", h.Usage)
			}
		}
	})
}

// TestAMissingProgramOfAStoppedAttemptIsFree lets the watchdog stop the worker between its two searches.
func TestAMissingProgramOfAStoppedAttemptIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, r := newFakeBus(), &fakeRunner{script: []exit{{err: errNoProgram}}}
		p := paidPlan(t)
		p.WatchdogSeconds = recheckAfter.Seconds() / 2
		testWorker(t, p, bus, r).run(t.Context())
		if e := bus.onlyError(t); len(r.runs) != 1 || e.Usage != nil || e.ExitCode != nil {
			t.Errorf("%d runs, %+v; want one run without usage or an exit code", len(r.runs), e)
		}
	})
}

// TestAnAttemptGetsWhatIsLeft checks that a paid CODE begins only if the task's budget allows it. Otherwise the worker
// reports validation's own failure. A free CODE always begins.
func TestAnAttemptGetsWhatIsLeft(t *testing.T) {
	for _, row := range []struct {
		pay        string
		left       *int64
		runs, paid int
		id         string
	}{
		{"always", nil, 6, 3, "VALIDATE-3"},
		{"always", new(int64(3)), 6, 3, "VALIDATE-3"},
		{"always", new(int64(2)), 4, 2, "VALIDATE-2"},
		{"always", new(int64(1)), 2, 1, "VALIDATE-1"},
		{"always", new(int64(0)), 0, 0, "CODE-1"},
		{"auto", new(int64(0)), 6, 0, "VALIDATE-3"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{}
			p.PaidCallsLeft, p.Stages[0].Paid = row.left, row.pay
			for range 3 {
				r.script = append(r.script, minute(0), minute(2))
			}
			w := testWorker(t, p, bus, r)
			w.classify = classifyFailure
			w.run(t.Context())
			e := bus.onlyError(t)
			paid := 0
			if e.Usage != nil {
				paid = e.Usage.PaidCalls
			}
			if len(r.runs) != row.runs || paid != row.paid || !strings.HasSuffix(e.ErrorID, row.id) {
				t.Errorf("%d runs, %d paid, %s: %s; want %+v", len(r.runs), paid, e.ErrorID, e.Message, row)
			}
			if row.runs == 0 && (e.ErrorType != "needs_human" || e.ExitCode != nil ||
				!strings.Contains(e.Message, "recovery.paid_call_budget")) {
				t.Errorf("%+v; want the setting to raise", e)
			}
		})
	}
}
