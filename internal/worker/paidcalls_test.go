package worker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"retake/internal/bus/wire"
)

// TestAProgramThatCodesIsAPaidCall: each run of CODE is one, even of a custom program and with any end. Other stages
// are free.
func TestAProgramThatCodesIsAPaidCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(2), minute(0), minute(0)}}
		if code := testWorker(t, testPlan(t), bus, r).run(t.Context()); code != ExitResult {
			t.Fatalf("exit %d", code)
		}
		if res := bus.only(t).(*wire.WorkerResult); res.Usage == nil || *res.Usage != (wire.Usage{PaidCalls: 2}) {
			t.Errorf("%+v, want two paid calls", res.Usage)
		}
		if !slices.ContainsFunc(bus.beats, func(h wire.Heartbeat) bool {
			return h.Usage != nil && h.Usage.PaidCalls == 1 && h.State.Stage == wire.StageCode
		}) {
			t.Errorf("no heartbeat says so while it runs: %+v", bus.beats)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(1)}}
		testWorker(t, testPlan(t), bus, r).run(t.Context())
		if e := bus.onlyError(t); e.Usage == nil || e.Usage.PaidCalls != 1 {
			t.Errorf("%+v, want a paid call", e.Usage)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		missing := exit{err: errNoProgram}
		bus, r := newFakeBus(), &fakeRunner{script: []exit{missing, missing}}
		testWorker(t, testPlan(t), bus, r).run(t.Context())
		if e := bus.onlyError(t); e.Usage != nil {
			t.Errorf("%+v of a program that is not there, want nothing", e.Usage)
		}
	})
}

// TestAnAttemptGetsWhatIsLeft: no CODE begins that the task's budget does not allow; validation's own failure
// is reported then.
func TestAnAttemptGetsWhatIsLeft(t *testing.T) {
	for _, row := range []struct {
		left       *int64
		runs, paid int
		id         string
	}{
		{nil, 6, 3, "VALIDATE-3"},
		{new(int64(3)), 6, 3, "VALIDATE-3"},
		{new(int64(2)), 4, 2, "VALIDATE-2"},
		{new(int64(1)), 2, 1, "VALIDATE-1"},
		{new(int64(0)), 0, 0, "CODE-1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, bus, r := testPlan(t), newFakeBus(), &fakeRunner{}
			p.PaidCallsLeft = row.left
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
				t.Errorf("%+v; want what to raise", e)
			}
		})
	}
}
