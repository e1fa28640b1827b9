package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"retake/internal/bus/chain"
	"retake/internal/bus/server"
	"retake/internal/patience"
	"retake/internal/sys/powercut"
)

// served is a server, and a director's connection to it.
type served struct {
	*server.Server
	nc *nats.Conn
	js jetstream.JetStream
}

func start(dir string) (*served, error) {
	srv, err := server.Start(context.Background(), server.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	js, err := connect(srv)
	if err != nil {
		return nil, err
	}
	return &served{srv, js.Conn(), js}, nil
}

func connect(srv *server.Server) (jetstream.JetStream, error) {
	user, err := srv.Keys().Journal()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserJWTAndSeed(user.JWT, user.Seed),
		nats.MaxReconnects(-1))
	if err != nil {
		return nil, err
	}
	return jetstream.New(nc)
}

func (s *served) stop() error {
	s.nc.Close()
	return s.Close(context.Background())
}

// common is the server of most tests.
var common *served

// tests starts the common server around the tests.
type tests struct{ *testing.M }

func (m tests) Run() int {
	dir, err := os.MkdirTemp("", "journal")
	if err == nil {
		common, err = start(dir)
	}
	if err != nil {
		panic(err)
	}
	code := m.M.Run()
	if err := errors.Join(common.stop(), os.RemoveAll(dir)); err != nil {
		panic(err)
	}
	return code
}

func TestMain(m *testing.M) {
	powercut.InMemory(2 << 30)
	ats.Register() // its ticker runs as long as the process
	defer ats.Unregister()
	goleak.VerifyTestMain(tests{m},
		// nats.go leaks this goroutine if it is scheduled only after its publisher is done.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.init.0.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// ctxFor bounds a test, so that a hang fails with the test's stack instead of the package's timeout.
func ctxFor(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.For(time.Minute))
	t.Cleanup(cancel)
	return ctx
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, file string, data []byte) {
	t.Helper()
	mustDo(t, os.WriteFile(file, data, 0o600))
}

// director has a journal open, with an archive and a mirror in its directory.
type director struct {
	*Journal
	t   *testing.T
	o   Options
	now time.Time // the time for Retire

	stamped map[string]bool // segments with an adjusted file time
}

// options returns the options of a new journal.
func options(t *testing.T, js jetstream.JetStream) Options {
	id := newID()
	return Options{
		JS: js, Suffix: "_" + id, Subject: "journal." + id, Fleet: "default", Bytes: 256 << 20, Replicas: 1,
		Log: zap.NewNop(),
	}.in(t.TempDir())
}

// in returns o with the mirror and the archive in a directory.
func (o Options) in(dir string) Options {
	o.Mirror, o.Archive.Dir = filepath.Join(dir, "journal.head"), filepath.Join(dir, "journal")
	return o
}

func openAs(t *testing.T, o Options) *director {
	t.Helper()
	d := &director{t: t, o: o, now: time.Now(), stamped: map[string]bool{}}
	d.open()
	t.Cleanup(func() { mustDo(t, d.Close()) })
	return d
}

// begun creates a journal on the shared server.
func begun(t *testing.T) *director {
	t.Helper()
	o := options(t, common.js)
	t.Cleanup(func() { // frees space
		_ = common.js.DeleteStream(context.Background(), o.stream())
		_ = common.js.DeleteObjectStore(context.Background(), o.snapshots())
	})
	return openAs(t, o)
}

func (d *director) open() {
	d.t.Helper()
	j, err := Open(ctxFor(d.t), d.o)
	mustDo(d.t, err)
	d.Journal = j
}

func (d *director) reopen() {
	d.t.Helper()
	mustDo(d.t, d.Close())
	d.open()
}

// beside opens the journal as a second director of the fleet, with a separate directory.
func (d *director) beside() *director {
	d.t.Helper()
	d.o.Shared, d.site.Shared = true, true
	return openAs(d.t, d.o.in(d.t.TempDir()))
}

// read replays the batches after a head, and returns their number.
func (d *director) read(after chain.Head) (n int, head chain.Head, err error) {
	d.t.Helper()
	head, err = d.Replay(ctxFor(d.t), after, func(uint64, []byte) error { n++; return nil })
	return n, head, err
}

func (d *director) mustRead(after chain.Head, want int) (head chain.Head) {
	d.t.Helper()
	n, head, err := d.read(after)
	if err != nil || n != want {
		d.t.Fatalf("%d batches of %d: %v", n, want, err)
	}
	return head
}

// replace does what `director journal rebuild` does.
func (d *director) replace() {
	d.t.Helper()
	mustDo(d.t, d.Replace(ctxFor(d.t), filepath.Join(d.t.TempDir(), "aside.jsonl.zst")))
}

// more appends short batches.
func (d *director) more(n int) {
	d.t.Helper()
	for range n {
		at := d.Head().Seq
		_, err := d.Append(ctxFor(d.t), fmt.Sprintf("w/%d", at+1), at, fmt.Appendf(nil, "batch %d", at+1))
		mustDo(d.t, err)
	}
}

// lastState returns the state that a director would save as a snapshot.
func (d *director) lastState() (at chain.Head, state string, err error) {
	d.t.Helper()
	at, err = d.LoadSnapshot(ctxFor(d.t), func(data []byte) error { state = string(data); return nil })
	return at, state, err
}

// cutTo keeps only the first batches of a journal, as if the server had come back with an old copy of its files.
func (d *director) cutTo(last uint64) {
	d.t.Helper()
	ctx := ctxFor(d.t)
	var all []chain.Record
	_, err := d.Records(ctx, chain.Head{}, func(r chain.Record) error { all = append(all, r); return nil })
	mustDo(d.t, err)
	info, err := d.live.stream.Info(ctx)
	mustDo(d.t, err)
	mustDo(d.t, d.o.JS.DeleteStream(ctx, d.o.stream()))
	_, err = d.o.JS.CreateStream(ctx, info.Config)
	mustDo(d.t, err)
	for _, r := range all[:last] {
		mustDo(d.t, d.restore(ctx, r))
	}
}
