package bus

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"retake/internal/bus/bustest"
	"retake/internal/bus/keys"
	"retake/internal/bus/server"
	"retake/internal/bus/wire"
	"retake/internal/sys/powercut"
)

const worker = "k3v9qx2m-1"

func TestMain(m *testing.M) {
	runMember()
	powercut.InMemory(4 << 30)
	// Run more tests in parallel than there are processors, because they mostly wait for timers and connections.
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	ats.Register() // outside every synctest bubble; its ticker lives as long as the process
	defer ats.Unregister()
	goleak.VerifyTestMain(m,
		// nats.go leaks this goroutine if it is scheduled only after its publisher is done.
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

// openBus opens a bus. Without a URL it uses an embedded server.
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

// startServer starts an embedded server. The bus that uses it closes it.
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

// dial connects an admitted worker. It connects to an embedded server without a socket.
func dial(t *testing.T, b *Bus, id string) *Client {
	t.Helper()
	c, err := Dial(clientOptions(t, b, id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// clientOptions returns the options of an admitted worker.
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

// bubble runs a test on synctest's clock. nats.go keeps its timers in a pool for the whole process, and timers of a
// bubble must not escape from it, so two collections empty the pool. Such a test cannot run in parallel.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Setenv("RETAKE_TEST_BUBBLE", "1") // fails in a test that is parallel
	emptyTimerPool := func() { runtime.GC(); runtime.GC() }
	emptyTimerPool()
	defer emptyTimerPool()
	synctest.Test(t, test)
}

// until waits for a condition that a real process must fulfil.
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

// signed returns a payload in the signed form that the worker sends.
func signed(t *testing.T, b *Bus, id string, p wire.Payload) []byte {
	t.Helper()
	data, err := wire.Encode(wire.Sender{Role: wire.RoleWorker, ID: id, Key: b.AttemptKey(id)}, 1, time.Now(), p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// outside is a NATS server as an operator runs it.
type outside struct {
	*bustest.Server
	t *testing.T
}

func startOutside(t *testing.T) *outside {
	t.Helper()
	return &outside{bustest.New(t, t.TempDir()), t}
}

// restart waits until every connection of a director has noticed the outage and reconnected. Each connection notices
// it separately, and messages written before that are lost.
func (o *outside) restart(b *Bus) {
	o.t.Helper()
	o.Stop()
	o.missed(b)
	o.Start()
	until(o.t, "the director to be back", b.Connected)
}

func (o *outside) missed(b *Bus) {
	o.t.Helper()
	until(o.t, "the server to be missed", func() bool {
		return !slices.ContainsFunc([]*nats.Conn{b.nc, b.own, b.stored, b.sys}, (*nats.Conn).IsConnected)
	})
}

// join returns the options of a director that joins the server. Each director has a separate directory.
func (o *outside) join() Options {
	o.t.Helper()
	return Options{URL: o.URL, Keys: o.Director(), Dir: o.t.TempDir()}
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := bustest.FreePort()
	mustDo(t, err)
	return port
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
