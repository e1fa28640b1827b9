package bus

import (
	"context"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"retake/internal/bus/wire"
)

const worker = "k3v9qx2m-1"

func TestMain(m *testing.M) {
	ats.Register() // outside of every synctest bubble; its ticker lives as long as the process
	defer ats.Unregister()
	goleak.VerifyTestMain(m,
		// nats.go leaves this one behind when it is scheduled only after the publisher that it belongs to is done.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.init.0.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// ctxFor bounds a test: a hang fails with a stack of its own instead of the package's timeout.
func ctxFor(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func openBus(t *testing.T, o Options) *Bus {
	t.Helper()
	if o.StoreDir == "" && o.URL == "" {
		o.StoreDir = t.TempDir()
	}
	b, err := Open(ctxFor(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBus(t, b) })
	return b
}

func closeBus(t *testing.T, b *Bus) {
	t.Helper()
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// dial connects an admitted worker without a socket.
func dial(t *testing.T, b *Bus, id string) *Client {
	t.Helper()
	cred := b.Authorize(id)
	c, err := Dial(ctxFor(t), ClientOptions{User: cred.User, Password: cred.Password, WorkerID: id, InProcess: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// bubble runs a test on synctest's clock. nats.go keeps its timers in a pool for the whole process, and a timer of one
// bubble must not be seen outside of it: two collections empty the pool.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
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

func failure(id string) wire.WorkerError {
	return wire.WorkerError{
		ErrorID: id, WorkerID: worker, AttemptID: worker, IssueNumber: 21, Stage: wire.StageValidate, Attempt: 1,
		ErrorType: "tests_failed", Message: "Unit tests failed",
	}
}

func heartbeat() wire.Heartbeat {
	return wire.Heartbeat{State: wire.HeartbeatState{Stage: wire.StageCode, IssueNumber: 21, Attempt: 1, LastUpdateAt: wire.At(time.Now())}}
}

func mustEncode(t *testing.T, id string, p wire.Payload) []byte {
	t.Helper()
	data, err := wire.Encode(wire.Sender{Role: wire.RoleWorker, ID: id}, 1, time.Now(), p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// outside is a plain NATS server, as an operator would run it; it can be stopped and started again on its port.
type outside struct {
	t    *testing.T
	opts server.Options
	s    *server.Server
}

func startOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{t: t, opts: server.Options{
		Host: "127.0.0.1", Port: freePort(t), JetStream: true, StoreDir: filepath.Join(t.TempDir(), "js"), NoLog: true, NoSigs: true,
	}}
	o.start()
	t.Cleanup(o.stop)
	return o
}

func (o *outside) start() {
	o.t.Helper()
	opts := o.opts
	s, err := server.NewServer(&opts)
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

func (o *outside) url() string { return "nats://127.0.0.1:" + strconv.Itoa(o.opts.Port) }

// freePort is one that the tests of other packages, which run beside, do not get by chance while a server is away.
func freePort(t *testing.T) int {
	t.Helper()
	l, port, err := listen(t.Context(), Options{StoreDir: t.TempDir(), ListenHosts: []string{"127.0.0.1"}})
	if err == nil {
		err = closeAll(l)
	}
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// operatorConn signs in as the operator, without a socket.
func operatorConn(t *testing.T, b *Bus) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(b.server.server), nats.UserInfo(userOperator, b.server.auth.operator))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// seedObject is the founding document's example, for a given worker.
func seedObject(t *testing.T, id string) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"error_id": "20260212-004102Z-worker-3-attempt-2", "worker_id": id, "issue_number": 21, "stage": "VALIDATE", "attempt": 2,
		"error_type": "tests_failed", "is_transient": false, "should_retry": false, "escalate_to_human": true,
		"message": "Unit tests failed deterministically", "exit_code": 1, "container_id": "<docker-id>",
		"worktree_path": "../Review-Cat-agent-21-1707600000", "last_stdout_tail": "...", "last_stderr_tail": "...",
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
