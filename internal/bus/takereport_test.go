package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// A worker cannot write the director's reports, and its ids cannot hide the reports of other workers.
func TestReportsThatAWorkerCannotMake(t *testing.T) {
	b := openBus(t, Options{})
	c := dial(t, b, worker)
	plain := func(from wire.Sender, id string) []byte {
		data, err := wire.Encode(from, 1, time.Now(), failure(id))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	key := b.AttemptKey(worker)
	me := wire.Sender{Role: wire.RoleWorker, ID: worker, Key: key}
	for name, data := range map[string][]byte{
		"as the director":         plain(wire.Sender{Role: wire.RoleDirector, ID: "default", Key: key}, "e1"),
		"as the operator":         plain(wire.Sender{Role: wire.RoleOperator, ID: "me"}, "e2"),
		"as the operator, signed": plain(wire.Sender{Role: wire.RoleOperator, ID: "me", Key: key}, "e3"),
		"unsigned":                plain(wire.Sender{Role: wire.RoleWorker, ID: worker}, "e4"),
		"signed with a wrong key": plain(wire.Sender{
			Role: wire.RoleWorker, ID: worker,
			Key: b.AttemptKey("other-1"),
		}, "e5"),
		"bare":                          seedObject(t, worker),
		"the director's exit report":    plain(me, ExitID(worker)),
		"the director's offence report": plain(me, OffenceID(worker)),
		"the director's disk report":    plain(me, DiskID(worker)),
	} {
		m, err := c.nc.Request(b.subjects.Worker(worker, wire.ChannelError), data, 5*time.Second)
		if err != nil || !strings.Contains(string(m.Data), `"code":400`) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if all, err := b.Reports().Of(ctxFor(t), worker, 0); err != nil || len(all) != 0 || totalDead(b) != 9 {
		t.Errorf("%d stored, %d dead letters, %v", len(all), totalDead(b), err)
	}
	for _, id := range []string{"other-1/other-1/result", "other-1/" + ExitID("other-1"), worker + "/" +
		ExitID(worker)} {
		m := nats.NewMsg(b.subjects.Worker(worker, wire.ChannelError))
		m.Header.Set(nats.MsgIdHdr, id)
		m.Data = plain(me, "poison/"+id)
		if _, err := c.nc.RequestMsg(m, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	other := dial(t, b, "other-1")
	result := wire.WorkerResult{
		ResultID: "other-1/result", AttemptID: "other-1", IssueNumber: 21, Attempt: 1,
		Outcome: wire.OutcomeOK,
	}
	if err := errors.Join(other.Report(ctxFor(t), &result), b.Reports().Put(ctxFor(t), "other-1",
		*failureOf("other-1", ExitID("other-1"))),
		b.Reports().Put(ctxFor(t), worker, *failure(ExitID(worker)))); err != nil {
		t.Fatal(err)
	}
	for w, want := range map[string]int{"other-1": 2, worker: 4} {
		if all, err := b.Reports().Of(ctxFor(t), w, 0); err != nil || len(all) != want || all[len(all)-1].Own != true {
			t.Errorf("%s: %d reports, want %d, %v", w, len(all), want, err)
		}
	}
}

func failureOf(worker, id string) *wire.WorkerError {
	e := failure(id)
	e.WorkerID, e.AttemptID = worker, worker
	return e
}

func TestReportsOfAnAttemptAreBounded(t *testing.T) {
	t.Parallel()
	told := make(offences, 2)
	b := told.open(t, 0)
	c, other := dialSocket(t, b, worker), dialSocket(t, b, "other-1")
	for n := range 2 * reportsPerAttempt {
		e := failure(fmt.Sprintf("e%d", n))
		err := c.Report(ctxFor(t), e)
		if n < reportsPerAttempt-1 && err == nil { // repeats of a report do not count
			err = c.Report(ctxFor(t), e)
		}
		if stored := n < reportsPerAttempt; stored != (err == nil) || !stored && !errors.Is(err, ErrRejected) {
			t.Fatalf("report %d: %v", n, err)
		}
	}
	if len(told) != 0 {
		t.Fatalf("%+v", <-told)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = c.Report(ctx, failure("one more")) // the worker is cut off regardless of the answer
	if o := <-told; o.Worker != worker {
		t.Errorf("%+v", o)
	}
	if err := other.Report(ctxFor(t), failureOf("other-1", "e1")); err != nil {
		t.Error(err)
	}
	if all, err := b.Reports().Of(ctxFor(t), worker, 0); err != nil || len(all) != reportsPerAttempt {
		t.Errorf("%d stored, %v", len(all), err)
	}
}

// Messages of a worker that is not admitted are not read.
func TestUnknownWorkersAreNotHeard(t *testing.T) {
	b := openBus(t, Options{})
	c := dial(t, b, worker)
	b.intake.dismiss(worker) // its credential stays valid
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := c.Report(ctxFor(t), failure("e1")); !errors.Is(err, ErrNoAnswer) ||
		!errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("%v", err)
	}
}
