package bus

import (
	"context"
	"strings"
	"testing"

	"retake/internal/bus/link"
	"retake/internal/bus/server"
	"retake/internal/bus/wire"
)

// A worker keeps the message limit with which it was started. A director that adopts it with a lower limit
// still accepts its messages.
func TestLongReportOfAWorkerThatWasStartedWithALargerBound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := openBus(t, Options{Server: startServer(t, server.Options{Dir: dir}), MaxMessageBytes: 64 << 10})
	o := clientOptions(t, before, worker)
	closeBus(t, before)

	after := openBus(t, Options{Server: startServer(t, server.Options{Dir: dir}), MaxMessageBytes: 4096})
	after.Admit(worker)
	o.InProcess, o.MaxMessageBytes = after.options.Server, 64<<10
	c, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	long := failure("e1")
	long.LastStdoutTail = strings.Repeat("ok  	retake/internal/bus\n", 2000)
	if err := c.Report(ctxFor(t), long); err != nil {
		t.Fatal(err)
	}
	in := &inbox{}
	background(t, func(ctx context.Context) error { return after.Reports().Consume(ctx, inTurn(in.take)) })
	until(t, "the report to be read", func() bool { return len(in.seen()) == 1 })
	stored, err := after.Reports().Of(ctxFor(t), worker, 0)
	if err != nil || len(stored) != 1 || stored[0].Body.(*wire.WorkerError).LastStdoutTail != long.LastStdoutTail {
		t.Errorf("%d stored, %v", len(stored), err)
	}

	// The server enforces the lower limit for newly started workers.
	now := clientOptions(t, after, "other-1")
	now.MaxMessageBytes = 64 << 10
	c, err = Dial(now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	e := failureOf("other-1", "e2")
	e.LastStdoutTail = long.LastStdoutTail
	ctx, cancel := context.WithTimeout(t.Context(), link.AnswerTimeout)
	defer cancel()
	if err := c.Report(ctx, e); err == nil {
		t.Error("a newly started worker may send a message beyond the lower limit")
	}
}
