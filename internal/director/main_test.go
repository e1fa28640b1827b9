package director

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if err := os.Setenv("MODEL_KEY", "key-0123456789"); err != nil { // some tests pass it to workers
		panic(err)
	}
	debug.SetGCPercent(GCPercent) // measure with the same setting as the released program
	// Tests of whole directors spend their time waiting, so they do not compete for a processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// nats.go leaks this goroutine when the first asynchronous publish, that of a snapshot, meets the end of its
		// connection.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}
