package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/bus/checkouts"
	"retake/internal/bus/server"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
)

// TestNothingIsTakenOfAnAttemptThatIsOver checks that all requests of a closed, revoked or replaced attempt are
// rejected, including the checkpoint that would count. That must hold even for a director that started later or has
// not yet learned of the end.
func TestNothingIsTakenOfAnAttemptThatIsOver(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, b *Bus, out *outside){
		"closed": func(t *testing.T, b *Bus, _ *outside) {
			if _, err := b.Checkouts().Close(ctxFor(t), checkoutTask, worker); err != nil {
				t.Fatal(err)
			}
		},
		"closed by another director": func(t *testing.T, _ *Bus, out *outside) {
			if _, err := openBus(t, out.join()).Checkouts().Close(ctxFor(t), checkoutTask, worker); err != nil {
				t.Fatal(err)
			}
		},
		"the next attempt has it": func(t *testing.T, _ *Bus, out *outside) {
			publish(t, openBus(t, out.join()), checkoutTask+"-2", base(t), true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := startOutside(t)
			b := openBus(t, out.join())
			stop := serveCheckouts(t, b, checkoutRules())
			o := checkoutOptions(t, b, worker)
			o.InProcess, o.URL, o.CA = nil, b.WorkerURL(""), b.options.Keys.CA()
			root := publish(t, b, worker, base(t), true)
			s := newSender(t, o)
			if err := s.fetch(root); err != nil {
				t.Fatal(err)
			}
			s.write("before", "x")
			s.mustSave()
			end(t, b, out)
			before, _ := checkedOut(t, b)
			s.write("after", "x")
			_, err := s.save(nil)
			refusedBecause(t, err, wire.RefusedClosed)
			if name == "closed" {
				_, err := s.client.Chunk(ctxFor(t), root.String())
				refusedBecause(t, err, wire.RefusedClosed)
				refusedBecause(t, s.client.PutChunk(ctxFor(t), []byte("late")), wire.RefusedClosed)
			}
			stop()
			closeBus(t, b)

			again := openBus(t, out.join())
			again.Admit(worker) // as if it was admitted by mistake
			serveCheckouts(t, again, checkoutRules())
			until(t, "the worker is back", s.client.Connected)
			refusedBecause(t, s.client.PutChunk(ctxFor(t), []byte("later")), wire.RefusedClosed)
			_, err = s.save(nil)
			refusedBecause(t, err, wire.RefusedClosed)
			if after, _ := checkedOut(t, again); after.Manifest != before.Manifest {
				t.Error("the checkout has changed")
			}
		})
	}
}

// TestRevokedWorkerSendsNothing checks that a revoked credential is sufficient for rejection, independent of the
// checkout's state and after a restart.
func TestRevokedWorkerSendsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *Bus { return openBus(t, Options{Server: startServer(t, server.Options{Dir: dir})}) }
	b := open()
	checkoutOptions(t, b, worker)
	publish(t, b, worker, base(t), true)
	if b.workers.revoked(worker) {
		t.Error("already revoked")
	}
	if err := b.Revoke(ctxFor(t), worker); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !b.workers.revoked(worker) {
			t.Error("not revoked")
		}
		closeBus(t, b)
		b = open()
	}
}

// TestWhatAWorkerMayNotOfACheckout checks that a worker cannot read chunks that its checkout did not begin with, send
// invalid chunks, or write with read-only access.
func TestWhatAWorkerMayNotOfACheckout(t *testing.T) {
	t.Parallel()
	b := openBus(t, Options{})
	serveCheckouts(t, b, checkoutRules())
	other := base(t)
	if err := os.WriteFile(filepath.Join(other, "secret"), []byte("of another task"), 0o600); err != nil {
		t.Fatal(err)
	}
	theirs := publish(t, b, "another1-1", other, true)
	reader := newSender(t, checkoutOptions(t, b, "readonly-1"))
	copied := publish(t, b, "readonly-1", base(t), false)
	if err := reader.fetch(copied); err != nil {
		t.Error(err)
	}
	refusedBecause(t, reader.client.PutChunk(ctxFor(t), []byte("x")), wire.RefusedClosed)
	_, err := reader.client.SaveCheckpoint(ctxFor(t),
		wire.Checkpoint{AttemptID: "readonly-1", Manifest: copied.String()})
	refusedBecause(t, err, wire.RefusedClosed)

	s := newSender(t, checkoutOptions(t, b, worker))
	root := publish(t, b, worker, base(t), true)
	ctx := ctxFor(t)
	_, err = s.client.Chunk(ctx, theirs.String())
	refusedBecause(t, err, wire.RefusedNotThere)
	_, err = s.client.Chunk(ctx, "../"+root.String())
	refusedBecause(t, err, wire.RefusedMalformed)
	refusedBecause(t, s.client.PutChunk(ctx, nil), wire.RefusedMalformed)
	refusedBecause(t, s.client.PutChunk(ctx, make([]byte, checkpoint.ChunkBytes+1)), wire.RefusedMalformed)
	missing, err := s.client.SaveCheckpoint(ctx, wire.Checkpoint{AttemptID: worker, Manifest: theirs.String()})
	if err != nil || !slices.Equal(missing, []string{theirs.String()}) {
		t.Errorf("another task's manifest: missing %q, %v", missing, err)
	}
	stolen := s.page(`{"path":"YQ","kind":"file","size":15,"parts":[[0,0,15]]}`)
	if missing, err = s.client.SaveCheckpoint(ctx, wire.Checkpoint{AttemptID: worker, Manifest: stolen}); err == nil {
		t.Errorf("paths without padding were read: %q", missing)
	}
	stolen = s.page(`{"path":"YQ==","kind":"file","size":15,"parts":[[0,0,15]]}`)
	if missing, err = s.client.SaveCheckpoint(ctx, wire.Checkpoint{AttemptID: worker, Manifest: stolen}); err != nil ||
		len(missing) != 1 {
		t.Errorf("a chunk of another task is missing %q, %v", missing, err)
	}
	hostile := s.page(`{"path":"Li4vYQ==","kind":"file"}`) // ../a
	_, err = s.client.SaveCheckpoint(ctx, wire.Checkpoint{AttemptID: worker, Manifest: hostile})
	refusedBecause(t, err, wire.RefusedMalformed)
	state, _ := checkedOut(t, b)
	if state.Manifest != root || state.Refused == nil || state.Refused.Why != wire.RefusedMalformed {
		t.Errorf("%+v", state)
	}

	thief := s.client.options // a thief who has only the credential
	thief.Key = []byte("another key, of 32 bytes, guessed")
	_, err = newSender(t, thief).client.SaveCheckpoint(ctx, wire.Checkpoint{AttemptID: worker, Manifest: root.String()})
	refusedBecause(t, err, wire.RefusedMalformed)
}

// page sends a manifest of one page that names a chunk of another task, and returns the manifest's digest.
func (s *sender) page(entries string) string {
	s.t.Helper()
	data := []byte(`{"chunks":["` + checkpoint.DigestOf([]byte("of another task")).String() + `"],"entries":[` +
		entries + `]}`)
	mustDo(s.t, s.client.PutChunk(ctxFor(s.t), data))
	r := []byte(`{"version":1,"pages":["` + checkpoint.DigestOf(data).String() + `"]}`)
	mustDo(s.t, s.client.PutChunk(ctxFor(s.t), r))
	return checkpoint.DigestOf(r).String()
}

// TestOnlyWhoNeedsItSpeaksOfCheckouts checks that other workers have no permission, and that no worker can act for
// another worker.
func TestOnlyWhoNeedsItSpeaksOfCheckouts(t *testing.T) {
	t.Parallel()
	b := openBus(t, Options{})
	serveCheckouts(t, b, checkoutRules())
	publish(t, b, worker, base(t), true)
	quick, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := dial(t, b, worker).PutChunk(quick, []byte("x")); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("without permission: %v", err)
	}
	o := checkoutOptions(t, b, worker)
	o.WorkerID = "another1-1"
	c, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.PutChunk(quick, []byte("x")); err == nil {
		t.Error("it spoke for another worker")
	}
}

// excesses are checkouts beyond each limit.
var excesses = map[string]struct {
	quota int64
	fill  func(s *sender)
	want  string
}{
	"entries": {0, func(s *sender) {
		for i := range checkoutLimits.Entries + 1 {
			s.write(fmt.Sprint("many/", i), "")
		}
	}, "checkout.max_entries"},
	"depth": {0, func(s *sender) { s.write(strings.Repeat("d/", 12)+"f", "x") }, "checkout.max_depth"},
	"bytes": {0, func(s *sender) {
		s.write("sparse", "x")
		mustDo(s.t, os.Truncate(filepath.Join(s.dir, "sparse"), 9<<20))
	}, "checkout.max_bytes"},
	"quota": {1 << 20, func(s *sender) { s.write("big", strings.Repeat("x", 2<<20)) }, "checkout.quota"},
}

// TestCheckpointsAreBounded checks that a checkpoint beyond a limit does not count and names the limit, and that the
// previous checkpoint still counts.
func TestCheckpointsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range excesses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBus(t, Options{})
			rules := checkoutRules()
			rules.Quota = c.quota
			serveCheckouts(t, b, rules)
			s := newSender(t, checkoutOptions(t, b, worker))
			root := publish(t, b, worker, base(t), true)
			if err := s.fetch(root); err != nil {
				t.Fatal(err)
			}
			s.write("good", "x")
			s.mustSave()
			before, _ := checkedOut(t, b)
			c.fill(s)
			_, err := s.save(nil)
			refusedBecause(t, err, wire.RefusedTooMuch)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not name %s", err, c.want)
			}
			after, names := checkedOut(t, b)
			if after.Manifest != before.Manifest || !slices.Contains(names, "good") || after.Refused == nil ||
				!strings.Contains(after.Refused.Text, c.want) {
				t.Errorf("%q, %+v", names, after)
			}
			for _, left := range []string{"many", "d", "sparse", "big"} { // the agent removes its files
				mustDo(t, os.RemoveAll(filepath.Join(s.dir, left)))
			}
			s.mustSave()
			if after, _ := checkedOut(t, b); after.Refused != nil {
				t.Errorf("still refused: %+v", after.Refused)
			}
		})
	}
}

// TestWhatIsMissingIsAskedFor checks that a checkpoint with unsent or lost chunks does not count until these chunks
// arrive.
func TestWhatIsMissingIsAskedFor(t *testing.T) {
	t.Parallel()
	b := openBus(t, Options{})
	serveCheckouts(t, b, checkoutRules())
	s := newSender(t, checkoutOptions(t, b, worker))
	root := publish(t, b, worker, base(t), true)
	s.write("work", "x")
	content := checkpoint.DigestOf([]byte("# not sent\n"))
	s.write("work", "# not sent\n")
	missing, err := s.save(func(d checkpoint.Digest) bool { return d == content })
	if err != nil || !slices.Equal(missing, []string{content.String()}) {
		t.Fatalf("missing %q, %v; want %s", missing, err, content)
	}
	if state, _ := checkedOut(t, b); state.Manifest != root {
		t.Error("half a checkpoint counts")
	}
	s.mustSave()
	loseChunk(t, b, content)
	store, err := b.Checkouts().Open(ctxFor(t), checkoutTask)
	mustDo(t, err)
	if _, err := store.Chunk(ctxFor(t), content); !errors.Is(err, checkouts.ErrNoChunk) {
		t.Errorf("got %v", err)
	}
}

// TestHeartbeatsComeBetweenChunks checks that sending a checkout does not delay the worker's other messages.
func TestHeartbeatsComeBetweenChunks(t *testing.T) {
	t.Parallel()
	b := openBus(t, Options{Server: startServer(t, server.Options{ListenHosts: []string{"127.0.0.1"}})})
	serveCheckouts(t, b, checkoutRules())
	beats := make(chan string, 100)
	background(t, func(ctx context.Context) error {
		return b.WatchWorkers(ctx, func(id string, _ wire.Heartbeat) { beats <- id },
			func(string, wire.TaskProgress) {})
	})
	o := checkoutOptions(t, b, worker)
	o.InProcess, o.URL = nil, b.WorkerURL("127.0.0.1")
	s := newSender(t, o)
	publish(t, b, worker, base(t), true)
	sending := make(chan error, 1)
	go func() {
		var err error
		for i := range 20 {
			err = errors.Join(err, s.client.PutChunk(t.Context(), bytes.Repeat([]byte{byte(i)}, checkpoint.ChunkBytes)))
		}
		sending <- err
	}()
	began := time.Now()
	if err := s.client.Heartbeat(heartbeat()); err != nil {
		t.Fatal(err)
	}
	<-beats
	t.Logf("a heartbeat came after %s", time.Since(began))
	if err := <-sending; err != nil {
		t.Error(err)
	}
}

// TestAFloodOfChunks checks that a worker is cut off if it exceeds the limit of unanswered requests.
func TestAFloodOfChunks(t *testing.T) {
	t.Parallel()
	offended := make(offences, 1)
	b := offended.open(t, 0)
	rules, busy := checkoutRules(), make(chan struct{})
	rules.Task = func(string) string { <-busy; return checkoutTask }
	serveCheckouts(t, b, rules)
	goOn := sync.OnceFunc(func() { close(busy) })
	t.Cleanup(goOn) // must run before the server's cleanup, which would otherwise block
	o := checkoutOptions(t, b, worker)
	o.InProcess, o.URL = nil, b.WorkerURL("127.0.0.1")
	s := newSender(t, o)
	publish(t, b, worker, base(t), true)
	for range 2 * pendingMessages {
		if err := s.client.nc.PublishRequest(b.subjects.Checkout(wire.CheckoutOpGet, worker), wire.Inbox(worker)+".x",
			[]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.client.nc.FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	until(t, "some are lost", func() bool {
		b.intake.mu.Lock()
		g := b.intake.gates[worker]
		b.intake.mu.Unlock()
		g.waits.Lock()
		defer g.waits.Unlock()
		return g.of[classCheckout].lost > 0
	})
	goOn()
	if f := <-offended; f.Worker != worker || !strings.Contains(f.What, "waiting to be read") {
		t.Errorf("%+v", f)
	}
}

// The initial checkout of an attempt is removed after two checkpoints. A director that takes over or restarts
// can continue nevertheless, even if the server has lost a part of the last checkpoint.
func TestCheckpointsGoOnAfterARestart(t *testing.T) {
	worker := checkoutTask + "-1"
	for name, lost := range map[string]bool{"whole": false, "with a chunk lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := startOutside(t)
			b := openBus(t, out.join())
			stop := serveCheckouts(t, b, checkoutRules())
			o := checkoutOptions(t, b, worker)
			o.InProcess, o.URL, o.CA = nil, b.WorkerURL(""), b.options.Keys.CA()
			s := newSender(t, o)
			if err := s.fetch(publish(t, b, worker, base(t), true)); err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"1", "2", "3"} {
				s.write("work", text)
				s.mustSave()
			}
			stop()
			if lost {
				state, _ := checkedOut(t, b)
				loseChunk(t, b, state.Manifest)
			}
			closeBus(t, b)

			again := openBus(t, out.join())
			again.Admit(worker)
			serveCheckouts(t, again, checkoutRules())
			until(t, "the worker is back", s.client.Connected)
			s.write("work", "4")
			s.mustSave()
		})
	}
}
