package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/server"
	"retake/internal/bus/wire"
	"retake/internal/checkpoint"
)

var checkoutLimits = checkpoint.Limits{Files: 1000, Entries: 100, Depth: 10, PathBytes: 200, Bytes: 8 << 20}

// checkoutTask is the task of worker.
var checkoutTask, _, _ = strings.Cut(worker, "-")

func checkoutRules() CheckoutRules {
	return CheckoutRules{
		Limits: checkoutLimits,
		Task:   func(id string) string { task, _, _ := strings.Cut(id, "-"); return task },
	}
}

// sender is a worker's side of a checkout, with a directory for it.
type sender struct {
	t      *testing.T
	client *Client
	dir    string
	scan   checkpoint.Scanner
}

// serveCheckouts serves checkouts until the test ends or stop is called.
func serveCheckouts(t *testing.T, b *Bus, rules CheckoutRules) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.ServeCheckouts(ctx, rules) }()
	var stopped bool
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	until(t, "checkouts are served", func() bool {
		b.intake.mu.Lock()
		defer b.intake.mu.Unlock()
		return b.intake.handlers[classCheckout] != nil
	})
	b.intake.flush() // wait until the server knows the subscription
	return stop
}

// publish stores a directory as a task's checkout, and opens it for a worker.
func publish(t *testing.T, b *Bus, id, dir string, writes bool) checkpoint.Digest {
	t.Helper()
	ctx := ctxFor(t)
	store, err := b.Checkouts().Open(ctx, checkoutRules().Task(id))
	if err != nil {
		t.Fatal(err)
	}
	put := func(d checkpoint.Digest, data []byte) error { return store.Put(ctx, d, data) }
	s := checkpoint.Scanner{Dir: dir, Limits: checkoutLimits, Emit: put}
	tree, err := s.Scan(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	m, err := tree.Encode(put)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Open(ctx, OpenCheckout{Worker: id, Start: m.Root, Writes: writes},
		json.RawMessage(`{"base":"abc"}`)); err != nil {
		t.Fatal(err)
	}
	return m.Root
}

// checkoutOptions returns the options of an admitted worker with a checkout on the bus.
func checkoutOptions(t *testing.T, b *Bus, id string) ClientOptions {
	t.Helper()
	cred, err := b.AuthorizeCheckout(ctxFor(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return ClientOptions{JWT: cred.JWT, Seed: cred.Seed, Key: cred.Key, WorkerID: id, InProcess: b.options.Server}
}

func newSender(t *testing.T, o ClientOptions) *sender {
	t.Helper()
	c, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	dir := t.TempDir()
	return &sender{t: t, client: c, dir: dir, scan: checkpoint.Scanner{Dir: dir, Limits: checkpoint.Unlimited}}
}

// fetch fills the directory with the attempt's initial checkout.
func (s *sender) fetch(root checkpoint.Digest) error {
	ctx := ctxFor(s.t)
	get := func(ctx context.Context, d checkpoint.Digest) ([]byte, error) { return s.client.Chunk(ctx, d.String()) }
	m, err := checkpoint.Load(root, checkoutLimits, func(d checkpoint.Digest) ([]byte, error) { return get(ctx, d) })
	if err == nil {
		err = checkpoint.Apply(ctx, s.dir, &checkpoint.Tree{}, m.Tree, get)
	}
	if err == nil {
		s.scan.Know(m.Tree)
	}
	return err
}

func (s *sender) write(name, text string) {
	s.t.Helper()
	p := filepath.Join(s.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
		s.t.Fatal(err)
	}
}

// save sends the contents of the directory, except for the chunks that leave selects.
func (s *sender) save(leave func(checkpoint.Digest) bool) (missing []string, err error) {
	ctx := ctxFor(s.t)
	put := func(d checkpoint.Digest, data []byte) error {
		if leave != nil && leave(d) {
			return nil
		}
		return s.client.PutChunk(ctx, data)
	}
	s.scan.Emit = put
	tree, err := s.scan.Scan(ctx, true)
	if err != nil {
		return nil, err
	}
	m, err := tree.Encode(put)
	if err != nil {
		return nil, err
	}
	return s.client.SaveCheckpoint(ctx, wire.Checkpoint{
		AttemptID: s.client.options.WorkerID,
		Manifest:  m.Root.String(),
	})
}

func (s *sender) mustSave() {
	s.t.Helper()
	if missing, err := s.save(nil); err != nil || len(missing) > 0 {
		s.t.Fatalf("not saved: %v, missing %q", err, missing)
	}
}

// refusedBecause checks that the error is a refusal for this reason.
func refusedBecause(t *testing.T, err error, want string) {
	t.Helper()
	if r, ok := errors.AsType[*RefusedError](err); !ok || r.Why != want {
		t.Errorf("got %v, want it refused: %s", err, want)
	}
}

// checkedOut returns the state of a task's checkout as stored on the bus.
func checkedOut(t *testing.T, b *Bus) (CheckoutState, []string) {
	t.Helper()
	ctx := ctxFor(t)
	store, err := b.Checkouts().Open(ctx, checkoutTask)
	if err != nil {
		t.Fatal(err)
	}
	s, there, err := store.State(ctx)
	if err != nil || !there {
		t.Fatalf("state: %v, %v", there, err)
	}
	m, err := store.Load(ctx, s.Manifest, checkoutLimits)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range m.Tree.Entries {
		names = append(names, e.Path)
	}
	return s, names
}

func checkoutBucket(t *testing.T, b *Bus) jetstream.KeyValue {
	t.Helper()
	kv, err := b.ownJS.KeyValue(ctxFor(t), "RETAKE_CHECKOUTS")
	mustDo(t, err)
	return kv
}

// chunks returns the stored chunks of the task.
func chunks(t *testing.T, b *Bus) (all []string) {
	t.Helper()
	list, err := checkoutBucket(t, b).ListKeysFiltered(ctxFor(t), checkoutTask+".c.>")
	mustDo(t, err)
	for key := range list.Keys() {
		all = append(all, key)
	}
	return all
}

// loseChunk removes a chunk from the server.
func loseChunk(t *testing.T, b *Bus, d checkpoint.Digest) {
	t.Helper()
	mustDo(t, checkoutBucket(t, b).Purge(ctxFor(t), checkoutTask+".c."+d.String()))
}

func base(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "README.md"), []byte("# widgets\n"), 0o644),
		os.Symlink("README.md", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCheckoutTravels checks that, across two directors, a worker gets its checkout and sends only changes, and
// that only the necessary chunks stay stored.
func TestCheckoutTravels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *Bus {
		return openBus(t, Options{Server: startServer(t, server.Options{Dir: dir, ListenHosts: []string{"127.0.0.1"}})})
	}
	b := open()
	serveCheckouts(t, b, checkoutRules())
	o := checkoutOptions(t, b, worker)
	o.InProcess, o.URL = nil, b.WorkerURL("127.0.0.1")
	root := publish(t, b, worker, base(t), true)
	s := newSender(t, o)
	if err := s.fetch(root); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "link")); err != nil || string(text) != "# widgets\n" {
		t.Fatalf("%q, %v", text, err)
	}
	s.write("a/work.txt", "half")
	s.mustSave()
	if state, names := checkedOut(t, b); !slices.Equal(names, []string{"README.md", "a", "a/work.txt", "link"}) ||
		state.N != 1 || state.Attempt != worker || string(state.Record) != `{"base":"abc"}` {
		t.Errorf("%q, %+v", names, state)
	}

	closeBus(t, b)
	b = open()
	b.Admit(worker)
	serveCheckouts(t, b, checkoutRules())
	until(t, "the worker is back", s.client.Connected)
	for i := range 10 {
		s.write("a/work.txt", fmt.Sprint("more ", i))
		s.mustSave()
	}
	if err := os.Remove(filepath.Join(s.dir, "README.md")); err != nil {
		t.Fatal(err)
	}
	s.mustSave()
	state, names := checkedOut(t, b)
	if !slices.Equal(names, []string{"a", "a/work.txt", "link"}) || state.N != 12 {
		t.Errorf("%q, %d checkpoints", names, state.N)
	}
	if n := len(chunks(t, b)); n > 6 { // root, page and content of the last two checkpoints
		t.Errorf("%d chunks are stored", n)
	}
	if tasks, err := b.Checkouts().Tasks(ctxFor(t)); err != nil || !slices.Equal(tasks, []string{checkoutTask}) {
		t.Errorf("tasks %q, %v", tasks, err)
	}
	if err := b.Checkouts().Drop(ctxFor(t), checkoutTask); err != nil {
		t.Fatal(err)
	}
	if tasks, err := b.Checkouts().Tasks(ctxFor(t)); err != nil || len(tasks) > 0 {
		t.Errorf("tasks %q, %v", tasks, err)
	}
}
