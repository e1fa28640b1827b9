package leadership

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"retake/internal/bus/bustest"
	"retake/internal/bus/keys"
	"retake/internal/bus/link"
	"retake/internal/bus/server"
	"retake/internal/patience"
)

func TestMain(m *testing.M) {
	ats.Register() // outside every synctest bubble; its ticker lives as long as the process
	defer ats.Unregister()
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.init.0.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

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

// until waits for a condition that a real process must fulfil.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience.For(time.Minute)); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// bubble runs a test on synctest's clock. nats.go keeps its timers in a pool for the whole process, and a timer of one
// bubble must not be used in another, so two garbage collections empty the pool. Such a test cannot run in parallel.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Setenv("RETAKE_TEST_BUBBLE", "1") // fails in a test that is parallel
	emptyTimerPool := func() { runtime.GC(); runtime.GC() }
	emptyTimerPool()
	defer emptyTimerPool()
	synctest.Test(t, test)
}

// opener is a server to which several processes connect.
type opener interface {
	open(*testing.T) jetstream.JetStream
}

// embedded is a server without a socket, for a bubble.
type embedded struct{ *server.Server }

func startEmbedded(t *testing.T) embedded {
	t.Helper()
	s, err := server.Start(ctxFor(t), server.Options{Dir: t.TempDir()})
	mustDo(t, err)
	t.Cleanup(func() { mustDo(t, s.Close(context.Background())) })
	return embedded{s}
}

func (s embedded) open(t *testing.T) jetstream.JetStream {
	t.Helper()
	return connect(t, s.Keys(), "", nats.InProcessServer(s.Server))
}

// outside is a server with a socket, which can be wiped.
type outside struct{ *bustest.Server }

func startOutside(t *testing.T) outside { return outside{bustest.New(t, t.TempDir())} }

func (s outside) open(t *testing.T) jetstream.JetStream {
	t.Helper()
	trust, err := link.Trust(s.URL, s.Director().CA())
	mustDo(t, err)
	return connect(t, s.Director(), s.URL, trust...)
}

func connect(t *testing.T, k *keys.Director, url string, more ...nats.Option) jetstream.JetStream {
	t.Helper()
	options := append(link.Options(zap.NewNop()), link.SignIn(func() (string, string, error) {
		u, err := k.Journal()
		return u.JWT, u.Seed, err
	}))
	nc, err := nats.Connect(url, append(options, more...)...)
	mustDo(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	mustDo(t, err)
	return js
}
