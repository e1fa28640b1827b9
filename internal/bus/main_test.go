package bus

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"retake/internal/bus/keys"
	"retake/internal/bus/server"
	"retake/internal/bus/wire"
	"retake/internal/sys/powercut"
)

const worker = "k3v9qx2m-1"

func TestMain(m *testing.M) {
	powercut.InMemory(4 << 30)
	// Tests of the bus spend much of their time waiting for timers and connections, not for a processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	ats.Register() // outside of every synctest bubble; its ticker lives as long as the process
	defer ats.Unregister()
	goleak.VerifyTestMain(m,
		// nats.go leaves this one behind when it is scheduled only after the publisher that it belongs to is done.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.init.0.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// ctxFor bounds a test, so that a hang fails with the test's stack instead of the package's timeout.
func ctxFor(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// openBus opens a bus, on an embedded server unless a URL is given.
func openBus(t *testing.T, o Options) *Bus {
	t.Helper()
	if o.Server == nil && o.URL == "" {
		o.Server = startServer(t, server.Options{})
	}
	b, err := Open(ctxFor(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBus(t, b) })
	return b
}

// startServer starts an embedded server. The bus that it is given to closes it.
func startServer(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := server.Start(ctxFor(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeBus(t *testing.T, b *Bus) {
	t.Helper()
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// dial connects an admitted worker; to an embedded server without a socket.
func dial(t *testing.T, b *Bus, id string) *Client {
	t.Helper()
	c, err := Dial(clientOptions(t, b, id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// clientOptions are those of an admitted worker.
func clientOptions(t *testing.T, b *Bus, id string) ClientOptions {
	t.Helper()
	cred, err := b.Authorize(ctxFor(t), id)
	if err != nil {
		t.Fatal(err)
	}
	o := ClientOptions{JWT: cred.JWT, Seed: cred.Seed, Key: cred.Key, WorkerID: id, InProcess: b.options.Server}
	if b.options.Server == nil {
		o.URL, o.CA = b.WorkerURL(""), cred.CA
	}
	return o
}

// bubble runs a test on synctest's clock. nats.go keeps its timers in a pool for the whole process, and a timer of one
// bubble must not be seen outside of it: two collections empty the pool. So it does not run beside other tests.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Setenv("RETAKE_TEST_BUBBLE", "1") // fails in a test that is parallel
	emptyTimerPool := func() { runtime.GC(); runtime.GC() }
	emptyTimerPool()
	defer emptyTimerPool()
	synctest.Test(t, test)
}

// until waits for a condition that a real process brings about.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// background runs a blocking method until the test ends, and waits for it.
func background(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func failure(id string) *wire.WorkerError {
	return &wire.WorkerError{
		ErrorID: id, WorkerID: worker, AttemptID: worker, IssueNumber: 21, Stage: wire.StageValidate, Attempt: 1,
		ErrorType: "tests_failed", Message: "Unit tests failed",
	}
}

func heartbeat() wire.Heartbeat {
	return wire.Heartbeat{State: wire.HeartbeatState{
		Stage: wire.StageCode, IssueNumber: 21, Attempt: 1,
		LastUpdateAt: wire.At(time.Now()),
	}}
}

func mustEncode(t *testing.T, id string, p wire.Payload) []byte {
	t.Helper()
	data, err := wire.Encode(wire.Sender{Role: wire.RoleWorker, ID: id}, 1, time.Now(), p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// signed is what the worker itself would send.
func signed(t *testing.T, b *Bus, id string, p wire.Payload) []byte {
	t.Helper()
	data, err := wire.Encode(wire.Sender{Role: wire.RoleWorker, ID: id, Key: b.AttemptKey(id)}, 1, time.Now(), p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// outside is a NATS server as an operator runs it, with the configuration that `director bus init` writes; it
// can be stopped and started again on its port.
type outside struct {
	t    *testing.T
	dir  string // of its keys
	opts natsd.Options
	s    *natsd.Server
}

func startOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{t: t, dir: t.TempDir()}
	made := keys.Init{Hosts: []string{"127.0.0.1"}, Port: freePort(t), Store: t.TempDir(), Prefix: wire.DefaultPrefix}
	if err := made.Make(o.dir); err != nil {
		t.Fatal(err)
	}
	o.start()
	t.Cleanup(o.stop)
	return o
}

func (o *outside) start() {
	o.t.Helper()
	o.opts = natsd.Options{}
	if err := o.opts.ProcessConfigFile(filepath.Join(o.dir, keys.DirServer, keys.FileConfig)); err != nil {
		o.t.Fatal(err)
	}
	o.opts.NoLog, o.opts.NoSigs = true, true
	s, err := natsd.NewServer(&o.opts)
	if err != nil {
		o.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		o.t.Fatal("server not ready")
	}
	o.s = s
}

func (o *outside) stop() {
	o.s.Shutdown()
	o.s.WaitForShutdown()
}

// restart waits until every connection of a director has missed the server, and is back: none notices the end
// of another, and what is written before is lost.
func (o *outside) restart(b *Bus) {
	o.t.Helper()
	o.stop()
	o.missed(b)
	o.start()
	until(o.t, "the director to be back", b.Connected)
}

func (o *outside) missed(b *Bus) {
	o.t.Helper()
	until(o.t, "the server to be missed", func() bool {
		return !slices.ContainsFunc([]*nats.Conn{b.nc, b.own, b.stored, b.sys}, (*nats.Conn).IsConnected)
	})
}

func (o *outside) url() string { return "tls://127.0.0.1:" + strconv.Itoa(o.opts.Port) }

// join returns the options of a director that joins the server. Each director has a separate directory.
func (o *outside) join() Options {
	o.t.Helper()
	k, err := keys.Load(filepath.Join(o.dir, keys.DirDirector))
	if err != nil {
		o.t.Fatal(err)
	}
	return Options{URL: o.url(), Keys: k, Dir: o.t.TempDir()}
}

// freePort is one that the tests of other packages, which run beside, do not get by chance while a server is away.
func freePort(t *testing.T) int {
	t.Helper()
	for range 20 {
		port := 20000 + rand.N(12000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// openOperated opens a bus, and a connection to it with the operator's credential file.
func openOperated(t *testing.T, o Options) (*Bus, *nats.Conn) {
	t.Helper()
	dir := t.TempDir()
	o.Server = startServer(t, server.Options{Dir: dir})
	b := openBus(t, o)
	op := person(t, dir)
	nc, err := nats.Connect("", nats.InProcessServer(o.Server), nats.UserJWTAndSeed(op.JWT, op.Seed))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return b, nc
}

// seedObject is the founding document's example, for a given worker.
func seedObject(t *testing.T, id string) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"error_id": "20260212-004102Z-worker-3-attempt-2", "worker_id": id, "issue_number": 21, "stage": "VALIDATE",
		"attempt":    2,
		"error_type": "tests_failed", "is_transient": false, "should_retry": false, "escalate_to_human": true,
		"message": "Unit tests failed deterministically", "exit_code": 1, "container_id": "<docker-id>",
		"worktree_path": "../Review-Cat-agent-21-1707600000", "last_stdout_tail": "...", "last_stderr_tail": "...",
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// person reads a person's credential.
func person(t *testing.T, dir string) keys.Person {
	t.Helper()
	var p keys.Person
	data, err := os.ReadFile(filepath.Join(dir, keys.FilePerson))
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
