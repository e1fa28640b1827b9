package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus/server"
	"retake/internal/bus/wire"
)

// errorID returns the id by which the tests recognize a report.
func errorID(r Report) string {
	switch p := r.Body.(type) {
	case *wire.WorkerError:
		return p.ErrorID
	case *wire.WorkerResult:
		return p.ResultID
	default:
		return "?"
	}
}

// inbox collects reports, acknowledging each.
type inbox struct {
	mu  sync.Mutex
	ids []string
	all []Report
}

func (i *inbox) take(r Report) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ids, i.all = append(i.ids, errorID(r)), append(i.all, r)
	_ = r.Ack() // if an acknowledgement is lost, the report comes again, which the tests would notice
}

// inTurn returns a callback without a preparation step.
func inTurn(take func(Report)) func(Report) func() {
	return func(r Report) func() { return func() { take(r) } }
}

func (i *inbox) seen() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.ids)
}

func TestReportReachesTheDirector(t *testing.T) {
	b := openBus(t, Options{})
	in := &inbox{}
	background(t, func(ctx context.Context) error { return b.Reports().Consume(ctx, inTurn(in.take)) })
	c := dial(t, b, worker)
	result := wire.WorkerResult{ResultID: "r1", AttemptID: worker, IssueNumber: 21, Attempt: 1, Outcome: wire.OutcomeOK}
	// the server's duplicate window detects that e1 is sent twice
	for _, p := range []wire.Payload{failure("e1"), failure("e1"), &result} {
		if err := c.Report(ctxFor(t), p); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "both reports", func() bool { return len(in.seen()) == 2 })
	if got := in.seen(); !slices.Equal(got, []string{"e1", "r1"}) {
		t.Errorf("got %v", got)
	}
	first := in.all[0]
	if first.Worker != worker || first.Seq != 1 || len(first.SHA256) != 64 || first.Bare || !first.Signed ||
		time.Since(first.Received) > time.Minute {
		t.Errorf("report: %+v", first)
	}
	stored, err := b.Reports().Of(ctxFor(t), worker, 0)
	if err != nil || len(stored) != 2 || errorID(stored[0]) != "e1" || stored[0].SHA256 != first.SHA256 ||
		stored[1].Seq != 2 {
		t.Errorf("ReportsOf: %+v, %v", stored, err)
	}
	if other, err := b.Reports().Of(ctxFor(t), "somebody-else", 0); err != nil || len(other) != 0 {
		t.Errorf("ReportsOf another: %+v, %v", other, err)
	}
}

func TestUnacknowledgedReportComesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := openBus(t, Options{})
		again := make(chan uint64, 4)
		background(t, func(ctx context.Context) error {
			return b.Reports().Consume(ctx, inTurn(func(r Report) { again <- r.Seq }))
		})
		c := dial(t, b, worker)
		start := time.Now()
		if err := c.Report(ctxFor(t), failure("e1")); err != nil {
			t.Fatal(err)
		}
		if first, second := <-again, <-again; first != 1 || second != 1 {
			t.Errorf("sequences %d, %d", first, second)
		}
		if waited := time.Since(start); waited < reportAckWait || waited > 2*reportAckWait {
			t.Errorf("came again after %s", waited)
		}
	})
}

func TestIdleBusIsQuietAndAwake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, said := observer.New(zap.WarnLevel)
		b := openBus(t, Options{Log: zap.New(log)})
		arrived := make(chan time.Time, 1)
		background(t, func(ctx context.Context) error {
			return b.Reports().Consume(ctx, inTurn(func(r Report) { arrived <- time.Now(); _ = r.Ack() }))
		})
		c := dial(t, b, worker)
		time.Sleep(time.Hour) // on the fake clock
		sent := time.Now()
		if err := c.Report(context.Background(), failure("e1")); err != nil {
			t.Fatal(err)
		}
		if took := (<-arrived).Sub(sent); took > 10*time.Millisecond {
			t.Errorf("took %s", took)
		}
		if said.Len() > 0 {
			t.Errorf("%d warnings, first: %+v", said.Len(), said.All()[0])
		}
	})
}

func TestRestartInMidStreamLosesNothing(t *testing.T) {
	t.Parallel()
	const total = 30
	out := startOutside(t)
	b := openBus(t, out.join())
	in := &inbox{}
	background(t, func(ctx context.Context) error { return b.Reports().Consume(ctx, inTurn(in.take)) })
	c := dial(t, b, worker)
	for i := range total {
		if i%10 == 5 {
			out.Stop()
			out.Start()
		}
		publishUntilStored(t, c, failure(fmt.Sprintf("e%03d", i)))
	}
	distinct := func() int {
		ids := in.seen()
		slices.Sort(ids)
		return len(slices.Compact(ids))
	}
	until(t, "all reports", func() bool { return distinct() == total })
	stream, err := b.reports.js.Stream(ctxFor(t), streamReports)
	if err != nil || stream.CachedInfo().State.Consumers != 1 {
		t.Errorf("consumers piled up: %+v, %v", stream.CachedInfo().State, err)
	}
}

// publishUntilStored publishes like a worker's spool.
func publishUntilStored(t *testing.T, c *Client, e *wire.WorkerError) {
	t.Helper()
	until(t, "report "+e.ErrorID, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Report(ctx, e)
		if err != nil && (Permanent(err) || !errors.Is(err, ErrNoAnswer)) {
			t.Fatalf("want a transient ErrNoAnswer, got %v", err)
		}
		return err == nil
	})
}

func TestConsumerThatWasDeletedIsMadeAgain(t *testing.T) {
	b := openBus(t, Options{})
	in := &inbox{}
	background(t, func(ctx context.Context) error { return b.Reports().Consume(ctx, inTurn(in.take)) })
	c := dial(t, b, worker)
	publishUntilStored(t, c, failure("e1"))
	until(t, "first", func() bool { return len(in.seen()) == 1 })
	if err := b.reports.js.DeleteConsumer(ctxFor(t), streamReports, consumerName); err != nil {
		t.Fatal(err)
	}
	publishUntilStored(t, c, failure("e2"))
	until(t, "second", func() bool { return slices.Contains(in.seen(), "e2") })
}

func TestEmbeddedRestartKeepsReportsAndWorkers(t *testing.T) {
	o := server.Options{Dir: t.TempDir(), ListenHosts: []string{"127.0.0.1"}}
	b := openBus(t, Options{Server: startServer(t, o)})
	back := make(chan struct{}, 8)
	opts := clientOptions(t, b, worker)
	opts.URL, opts.InProcess, opts.OnReconnect = b.WorkerURL("127.0.0.1"), nil, func() { back <- struct{}{} }
	c, err := Dial(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	publishUntilStored(t, c, failure("e1"))
	closeBus(t, b)

	b = openBus(t, Options{Server: startServer(t, o)})
	b.Admit(worker) // it returns with its existing credential
	<-back
	publishUntilStored(t, c, failure("e2"))
	reports, err := b.Reports().Of(ctxFor(t), worker, 0)
	if err != nil || len(reports) != 2 {
		t.Errorf("reports %+v, %v", reports, err)
	}
}

func TestBareReportOfTheOperator(t *testing.T) {
	b, nc := openOperated(t, Options{})
	in := &inbox{}
	background(t, func(ctx context.Context) error { return b.Reports().Consume(ctx, inTurn(in.take)) })
	for _, body := range []string{string(seedObject(t, worker)), `{"error":` + string(seedObject(t, worker)) + `}`} {
		if _, err := nc.Request(b.subjects.Worker(worker, wire.ChannelError), []byte(body), 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "two reports", func() bool { return len(in.seen()) == 2 })
	for _, r := range in.all {
		if e, ok := r.Body.(*wire.WorkerError); !ok || r.Worker != worker || !r.Bare || r.Signed ||
			e.Message != "Unit tests failed deterministically" || *e.ExitCode != 1 {
			t.Errorf("%+v", r)
		}
	}
}

// A publisher chooses where acknowledgements go, but they must not reach the journal.
func TestReplySubjectCannotReachTheJournal(t *testing.T) {
	b := openBus(t, Options{})
	c := dial(t, b, worker)
	m := nats.NewMsg(b.subjects.Worker(worker, wire.ChannelError))
	m.Reply, m.Data = b.subjects.Journal(), signed(t, b, worker, failure("e1"))
	if err := errors.Join(c.nc.PublishMsg(m), c.nc.Flush()); err != nil {
		t.Fatal(err)
	}
	until(t, "the report is a dead letter", func() bool { return totalDead(b) == 1 })
	if all, err := b.Reports().Of(ctxFor(t), worker, 0); err != nil || len(all) != 0 {
		t.Errorf("%d stored, %v", len(all), err)
	}
	if seq, err := b.Journal().Append(ctxFor(t), "first", 0, nil); err != nil || seq != 1 {
		t.Errorf("append: %d, %v", seq, err)
	}
}

// A thief of a worker's credential can publish in the worker's name. Without the attempt's key, those messages do not
// count.
func TestStolenCredentialForgesNothing(t *testing.T) {
	b := openBus(t, Options{})
	in := &inbox{}
	background(t, func(ctx context.Context) error { return b.Reports().Consume(ctx, inTurn(in.take)) })
	thief := dial(t, b, worker) // has the worker's credential; its key is not used
	result := &wire.WorkerResult{
		ResultID: worker + "/result", AttemptID: worker, IssueNumber: 21, Attempt: 1,
		Outcome: wire.OutcomeOK,
	}
	exit := failure(worker + "/exit")
	earlier := &wire.WorkerResult{
		ResultID: "k3v9qx2m-0/result", AttemptID: "k3v9qx2m-0", IssueNumber: 21, Attempt: 1,
		Outcome: wire.OutcomeOK,
	}
	publish := func(channel wire.Channel, data []byte) {
		t.Helper()
		_, err := thief.nc.Request(b.subjects.Worker(worker, channel), data, 5*time.Second)
		mustDo(t, err)
	}
	forged := []struct {
		channel wire.Channel
		data    []byte
		cause   wire.Cause
	}{
		{wire.ChannelResult, mustEncode(t, worker, result), wire.CauseUnsigned},
		{wire.ChannelError, mustEncode(t, worker, exit), wire.CauseUnsigned},
		{wire.ChannelResult, signed(t, b, "k3v9qx2m-0", earlier), wire.CauseForeignSender}, // of an earlier attempt
		{wire.ChannelResult, []byte(strings.ReplaceAll(string(signed(t, b, "k3v9qx2m-0", earlier)), "k3v9qx2m-0",
			worker)), wire.CauseUnsigned},
		{wire.ChannelResult, []byte(strings.Replace(string(signed(t, b, worker, result)), `"issue_number":21`,
			`"issue_number":22`, 1)), wire.CauseUnsigned},
	}
	for _, f := range forged {
		publish(f.channel, f.data)
	}
	until(t, "all refused", func() bool { return totalDead(b) == len(forged) })
	want := map[wire.Cause]int{}
	for _, f := range forged {
		want[f.cause]++
	}
	for _, c := range b.DeadLetters() {
		if int(c.Total) != want[c.Cause] {
			t.Errorf("%s: %d dead letters, want %d", c.Cause, c.Total, want[c.Cause])
		}
	}
	// Messages that others stored under the old ids do not hide later reports.
	for _, id := range []string{worker + "/" + result.ResultID, worker + "/" + exit.ErrorID} {
		m := nats.NewMsg(b.subjects.Worker(worker, wire.ChannelError))
		m.Data = []byte("junk")
		m.Header.Set(nats.MsgIdHdr, id)
		_, err := thief.nc.RequestMsg(m, 5*time.Second)
		mustDo(t, err)
	}
	mustDo(t, errors.Join(thief.Report(ctxFor(t), result), b.Reports().Put(ctxFor(t), worker, *exit)))
	until(t, "the true ones", func() bool { return len(in.seen()) == 2 })
	stored, err := b.Reports().Of(ctxFor(t), worker, 0)
	if err != nil || len(stored) != 2 || !stored[0].Signed || !stored[1].Signed {
		t.Errorf("stored: %+v, %v", stored, err)
	}
}
