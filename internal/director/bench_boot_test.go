package director

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	stdsync "sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bench"
	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/bus/server"
	"retake/internal/bus/wire"
	"retake/internal/director/lead"
	"retake/internal/director/restore"
	"retake/internal/fsm"
)

// TestBenchBoot measures a director's start: reading the journal and receiving hellos.
func TestBenchBoot(t *testing.T) {
	bench.Begin(t)
	facts := 1_000_000
	if bench.Quick() {
		facts = 100_000
	}
	t.Run("replay", func(t *testing.T) { benchReplay(t, facts, 211) })
	t.Run("replay, short batches", func(t *testing.T) { benchReplay(t, facts/5, 1) })
	for _, sync := range []string{"always", "default"} {
		t.Run("ready, sync "+sync, func(t *testing.T) { benchReady(t, sync) })
	}
}

// perSecond returns the rate per second of an operation that do performs n times.
func perSecond(n int, do func()) float64 {
	runtime.GC()
	began := time.Now()
	do()
	return float64(n) / time.Since(began).Seconds()
}

// benchReplay measures the replay of a journal with the given number of facts, in batches of 1 to most records. It
// measures a director's start, and a consumer that discards the records. For comparison, it reads a part of the journal
// as early versions did, with one request per batch and encoding/json.
func benchReplay(t *testing.T, facts, most int) {
	// Write the journal without syncs, because that is faster.
	srv, err := server.Start(t.Context(), server.Options{Dir: t.TempDir()})
	must(t, err)
	b, err := bus.Open(t.Context(), bus.Options{Server: srv})
	must(t, err)
	defer func() { must(t, b.Close(context.Background())) }()
	records, bytes := 0, 0
	fleet := newBusyFleet(t, most, func(one *fsm.Batch) (uint64, error) {
		records, bytes = records+len(one.Records), bytes+len(one.Data)
		return b.Journal().Append(t.Context(), one.ID, one.After, one.Data)
	})
	began := time.Now()
	fleet.run(t, facts)
	t.Logf("written in %s: %d facts of %d tasks (%d unfinished), in %d records in %d batches, %d MB",
		time.Since(began).Round(time.Second),
		fleet.facts, fleet.issues, len(fleet.d.Machine().Tasks()), records, fleet.seq, bytes/1e6)

	var h *restore.State
	replayed := perSecond(fleet.facts, func() {
		h = &restore.State{Machine: fsm.New(fleet.cfg)}
		must(t, h.ReadOn(t.Context(), b.Journal()))
	})
	is, err := h.Machine.Snapshot()
	must(t, err)
	was, err := fleet.d.Machine().Snapshot()
	must(t, err)
	if h.Head != b.Journal().Head() || string(is) != string(was) {
		t.Fatal("the state read differs from the state written")
	}
	verified := perSecond(fleet.facts, func() {
		n, err := b.Journal().VerifyLive(t.Context(), fleet.seq, 0)
		if must(t, err); n != fleet.seq {
			t.Fatalf("%d of %d batches are verified", n, fleet.seq)
		}
	})
	stream := rawJournal(t, srv)
	raw := perSecond(fleet.facts, func() { readRaw(t, stream, fleet.seq) })
	old := readAsBefore(t, fleet.cfg, stream, min(fleet.seq, 600))

	in, goal := fmt.Sprintf("in batches of 1 to %d records", most), bench.Goal{AtLeast: 500_000}
	if most == 1 {
		in, goal = "in batches of one record", bench.Goal{}
	}
	record := func(what string, value, beside float64, of string, goal bench.Goal) {
		bench.Record(t, bench.Figure{
			Section: "boot", Unit: "/s", What: what + ", " + in, Value: value, Beside: beside,
			Of: of, Goal: goal,
		})
	}
	const consumer = "an ordered consumer that only reads"
	record("facts replayed", replayed, raw, consumer, goal)
	record("facts replayed", replayed, old, "a request for each batch, encoding/json", bench.Goal{})
	record("facts verified by the chain", verified, raw, consumer, bench.Goal{})
}

// rawJournal returns the journal's stream, without the bus.
func rawJournal(t *testing.T, srv *server.Server) jetstream.Stream {
	user, err := srv.Keys().Journal()
	must(t, err)
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserJWTAndSeed(user.JWT, user.Seed))
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	stream, err := js.Stream(t.Context(), "RETAKE_JOURNAL")
	must(t, err)
	return stream
}

func readRaw(t *testing.T, stream jetstream.Stream, batches uint64) {
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	must(t, err)
	all, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(1000, 4<<20))
	must(t, err)
	defer all.Stop()
	for range batches {
		_, err := all.Next()
		must(t, err)
	}
}

// readAsBefore reads the first batches one by one, with encoding/json. It returns the number of facts per second.
func readAsBefore(t *testing.T, cfg fsm.Config, stream jetstream.Stream, batches uint64) float64 {
	facts, m, links := 0, fsm.New(cfg), chain.Follow(bus.Head{})
	began := time.Now()
	for seq := uint64(1); seq <= batches; seq++ {
		stored, err := stream.GetMsg(t.Context(), seq)
		must(t, err)
		must(t, links.Add(chain.Record{
			Seq: seq, ID: stored.Header.Get(jetstream.MsgIDHeader),
			Prev: stored.Header.Get(chain.HeaderPrev), Data: stored.Data,
		}))
		for line := range strings.Lines(string(stored.Data)) {
			var r fsm.Record
			must(t, json.Unmarshal([]byte(line), &r))
			m.Replay([]fsm.Record{r})
			facts += len(r.Facts)
		}
	}
	return float64(facts) / time.Since(began).Seconds()
}

// hello reports whether a worker is welcomed in time.
func hello(ctx context.Context, c *bus.Client, n int, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p, err := c.Hello(ctx, wire.Hello{
		ProtocolVersion: wire.ProtocolVersion,
		Worker:          wire.HelloWorker{WorkerID: foundID(n), AttemptID: foundID(n)},
	})
	_, welcome := p.(*wire.Welcome)
	return err == nil && welcome
}

// benchReady starts a director on the data of another one, and measures the time until it welcomes a worker that kept
// sending hellos. Then all workers send a hello at once: the connected workers, and the workers that reconnect.
func benchReady(t *testing.T, sync string) {
	f := newFoundFleet(t, sync)
	f.parts()
	began := time.Now()
	f.start()
	first, err := f.dial(1)
	for ; err != nil; first, err = f.dial(1) {
		time.Sleep(5 * time.Millisecond)
	}
	for !hello(t.Context(), first, 1, 100*time.Millisecond) {
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(began)
	first.Close()
	bench.Record(t, bench.Figure{
		Section: "boot", Unit: "ms", What: fmt.Sprintf("start with %d tasks, until a worker is welcomed, sync %s",
			foundTasks, sync),
		Value: milliseconds(took), Goal: bench.Goal{AtMost: 2000},
	})

	clients := make([]*bus.Client, foundWorkers)
	for n := range clients {
		clients[n], err = f.dial(n + 1)
		must(t, err)
	}
	atOnce := func(what string, welcomed func(n int) bool) {
		took := make([]time.Duration, foundWorkers)
		var all stdsync.WaitGroup
		began := time.Now()
		for n := range foundWorkers {
			all.Go(func() {
				if !welcomed(n + 1) {
					t.Errorf("worker %d is not welcomed", n+1)
				}
				took[n] = time.Since(began)
			})
		}
		all.Wait()
		bench.Record(t, bench.Figure{
			Section: "boot", Unit: "ms", What: fmt.Sprintf("%d workers %s, until all are welcomed, sync %s",
				foundWorkers, what, sync),
			Value: milliseconds(slices.Max(took)), Goal: bench.Goal{AtMost: 1000},
		})
	}
	atOnce("say hello at once", func(n int) bool { return hello(t.Context(), clients[n-1], n, 10*time.Second) })
	for _, c := range clients {
		c.Close()
	}
	atOnce("connect and say hello at once", func(n int) bool {
		c, err := f.dial(n)
		if err != nil {
			t.Error(err)
			return false
		}
		defer c.Close()
		return hello(t.Context(), c, n, 10*time.Second)
	})
	f.stop()
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// parts logs the duration of each part of a start.
func (f *foundFleet) parts() {
	t := f.t
	var took []string
	began := time.Now()
	lap := func(what string, err error) {
		must(t, err)
		took = append(took, fmt.Sprintf("%s %.1f ms", what, milliseconds(time.Since(began))))
		began = time.Now()
	}
	o := lead.BusOptions(f.config)
	var err error
	o.Server, err = server.Start(t.Context(), server.Options{
		Dir: o.Dir, Fleet: o.Fleet, Prefix: o.Prefix,
		ListenHosts: []string{"127.0.0.1"}, SyncAlways: f.config.AgentBus.Sync == "always",
	})
	lap("the server starts", err)
	b, err := bus.Open(t.Context(), o)
	lap("the bus is opened", err)
	var data []byte
	at, err := b.Journal().LoadSnapshot(t.Context(), func(state []byte) error { data = state; return nil })
	lap("the snapshot is read", err)
	m := fsm.New(fsm.Config{})
	lap("restored", m.Restore(data))
	_, err = b.Journal().Replay(t.Context(), at, nil)
	lap("nothing is replayed", err)
	_, err = m.Snapshot()
	lap("a snapshot is made", err)
	_, err = b.Journal().VerifyLive(t.Context(), at.Seq, 0)
	lap("earlier batches verified", err)
	lap("closed", b.Close(t.Context()))
	t.Log(strings.Join(took, ", "))
}
