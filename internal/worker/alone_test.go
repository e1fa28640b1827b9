package worker

import (
	"bytes"
	"testing"
	"testing/synctest"

	"retake/internal/bus/wire"
)

// Without a director, the worker makes the same report, in the form that it has on the bus.
func TestAloneWritesTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := agentPlan(t, "claude-code", nil)
		r := &fakeRunner{script: []exit{minute(1)}, onRun: prints(claude429)}
		w := testWorker(t, p, newFakeBus(), r)
		w.dial = Alone(&out)
		if code := w.run(t.Context()); code != ExitError {
			t.Fatalf("exit %d", code)
		}
		e, err := wire.Decode(bytes.TrimSpace(out.Bytes()))
		if err != nil {
			t.Fatalf("%v in %s", err, &out)
		}
		if b, ok := e.Payload.(*wire.WorkerError); !ok || b.HTTPStatus != 429 {
			t.Errorf("%+v", e.Payload)
		}
	})
}
