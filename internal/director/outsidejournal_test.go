package director

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/journal"
	"retake/internal/bus/server"
)

// outsideJournal is a journal with a server outside the synctest bubble. The bubble's clock stops during an append.
type outsideJournal struct {
	requests chan appendRequest
	answers  chan appendAnswer
	end      atomic.Pointer[bus.Head]
	batches  atomic.Int64
}

type appendRequest struct {
	id    string
	after uint64
	data  []byte
}

type appendAnswer struct {
	seq uint64
	err error
}

func openJournal(t *testing.T) *outsideJournal {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	srv, err := server.Start(t.Context(), server.Options{Dir: t.TempDir()})
	must(err)
	t.Cleanup(func() { _ = srv.Close(context.Background()) })
	user, err := srv.Keys().Journal()
	must(err)
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserJWTAndSeed(user.JWT, user.Seed),
		nats.Timeout(time.Minute))
	must(err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(err)
	dir := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Options{
		JS: js, Subject: "journal.backlog", Fleet: "default", Bytes: 1 << 30, Replicas: 1, Log: zap.NewNop(),
		Mirror: filepath.Join(dir, "journal.head"), Archive: journal.Archive{Dir: filepath.Join(dir, "journal")},
	})
	must(err)
	t.Cleanup(func() { must(j.Close()) })
	o := &outsideJournal{requests: make(chan appendRequest), answers: make(chan appendAnswer)}
	o.end.Store(new(j.Head()))
	go func() {
		for r := range o.requests {
			seq, err := j.Append(context.Background(), r.id, r.after, r.data)
			o.end.Store(new(j.Head()))
			o.batches.Add(1)
			o.answers <- appendAnswer{seq, err}
		}
	}()
	t.Cleanup(func() { close(o.requests) })
	return o
}

// Append appends one batch. The owner runs one append at a time.
func (o *outsideJournal) Append(_ context.Context, id string, after uint64, data []byte) (uint64, error) {
	o.requests <- appendRequest{id, after, data}
	a := <-o.answers
	return a.seq, a.err
}

func (o *outsideJournal) Head() bus.Head { return *o.end.Load() }
