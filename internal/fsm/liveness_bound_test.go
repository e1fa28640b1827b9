package fsm

import (
	"strconv"
	"testing"
	"time"
)

// maxRecord is the limit of one message of the journal.
const maxRecord = 1 << 20

// All workers of a large fleet become silent, and then send heartbeats again, at the same time. Records stay small
// enough for the journal. A worker stays Running if its heartbeat arrived in time, even if the machine gets it late.
func TestMassSilenceFitsTheJournal(t *testing.T) {
	const n = 20_000
	m := crowd(t, n)
	d := NewDriver(m, 0, "p")
	var seq uint64
	states := func(s State) (k int) {
		for _, t := range m.hard.Tasks {
			if t.State == s {
				k++
			}
		}
		return k
	}
	offer := func(at time.Time, body EventBody) {
		t.Helper()
		if err := d.Offer(Event{At: at, Body: body}, 0); err != nil {
			t.Fatal(err)
		}
		for !d.Idle() {
			if r := d.Ready(); r.Batch != nil {
				if len(r.Batch.Data) > maxRecord {
					t.Fatalf("a batch of %d bytes for %T", len(r.Batch.Data), body)
				}
				seq++
				d.Appended(seq)
			}
		}
	}
	silent := at(1000)
	for steps := 0; m.Due(silent); steps++ {
		if offer(silent, Tick{}); steps > n {
			t.Fatal("it does not end")
		}
	}
	if got := states(Suspect); got != n {
		t.Fatalf("%d of %d are suspected", got, n)
	}
	var signs []Sign
	list := ContainersListed{TakenAt: silent.Add(time.Second)} // the second piece of evidence
	for i := range n {
		worker := "k" + strconv.Itoa(i+1) + "-1"
		signs = append(signs, Sign{WorkerSeen{Worker: worker}, silent.Add(2 * time.Second)})
		list.Containers = append(list.Containers, Container{Attempt: worker, Running: true})
	}
	offer(silent.Add(time.Second), list)
	for _, part := range InParts(signs) {
		offer(silent.Add(m.cfg.HeartbeatTTL/2), part) // after the second deadline of all workers
	}
	if got := states(Running); got != n {
		t.Errorf("%d of %d run, although a heartbeat of each had arrived", got, n)
	}
}
