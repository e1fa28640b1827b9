package bus

import (
	"context"
	"fmt"
	"testing"

	"retake/internal/bus/server"
	"retake/internal/sys/powercut"
)

// TestPowerCutKeepsTheJournal cuts the power right after the first appends of a new bus. With sync = always, no
// acknowledged batch, revocation or worker key may be lost. The default may lose all of them, and in this test
// does.
func TestPowerCutKeepsTheJournal(t *testing.T) {
	t.Parallel()
	for _, sync := range []string{"always", "default"} {
		t.Run("sync="+sync, func(t *testing.T) {
			disk := powercut.New(t)
			o := server.Options{Dir: disk.Dir + "/data/bus", SyncAlways: sync == "always"}
			open := func() *Bus {
				t.Helper()
				s, err := server.Start(t.Context(), o)
				mustDo(t, err)
				b, err := Open(t.Context(), Options{Server: s})
				mustDo(t, err)
				return b
			}
			b := open()
			user, _, err := b.workers.user(worker)
			mustDo(t, err)
			mustDo(t, b.Revoke(ctxFor(t), worker))
			last := uint64(0)
			for last < 200 { // with snapshots in between
				last, err = b.Journal().Append(ctxFor(t), fmt.Sprintf("cut/%d", last+1), last, batch(last+1))
				mustDo(t, err)
				if last%100 == 0 {
					mustDo(t, b.Journal().SaveSnapshot(ctxFor(t), b.Journal().Head(), make([]byte, 300<<10)))
				}
			}
			key := string(b.AttemptKey(worker))
			disk.Cut()
			_ = b.Close(context.Background()) // an error is expected here
			disk.Restore()
			b = open()
			defer closeBus(t, b)
			found, err := b.Journal().Replay(ctxFor(t), Head{}, func(seq uint64, data []byte) error {
				if string(data) != string(batch(seq)) {
					return fmt.Errorf("at %d: %.20q", seq, data)
				}
				return nil
			})
			if sync == "default" {
				if err == nil && found.Seq == last {
					t.Error("everything is there: the power was not cut")
				}
				return
			}
			if err != nil || found.Seq != last {
				t.Errorf("the journal has %d of %d batches, %v", found.Seq, last, err)
			}
			_, state, err := b.Journal().Snapshot(ctxFor(t), last)
			if err != nil || len(state) != 300<<10 {
				t.Errorf("snapshot with %d bytes, %v", len(state), err)
			}
			same := string(b.AttemptKey(worker)) == key
			b.workers.mu.Lock()
			defer b.workers.mu.Unlock()
			if b.workers.known.Revoked[user] == 0 || !same {
				t.Errorf("a revocation is lost, or keys: the keys are the same: %t", same)
			}
		})
	}
}

// batch is large enough that the journal needs more than one file.
func batch(n uint64) []byte { return fmt.Appendf(nil, "batch %060000d", n) }

// TestInitSyncs checks the same for a server with the configuration of `director bus init`.
func TestInitSyncs(t *testing.T) {
	if o := startOutside(t); !o.Options.SyncAlways {
		t.Error("its nats.conf acknowledges unsynced messages")
	}
}
