package bus

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"retake/internal/bus/lease"
)

// impatient wants to lead, and takes what looks the same at two looks in a row.
func impatient(t *testing.T, out opener) *Lease {
	t.Helper()
	l := lessee(t, out.open(t), "second", "d2", time.Minute)
	l.term = lease.Term{Period: time.Nanosecond}
	return l
}

// looks compares the result of one try with what it should be.
func (l *Lease) looks(t *testing.T, leads bool, when string) {
	t.Helper()
	time.Sleep(time.Nanosecond) // an impatient one's period, in a bubble
	if got, err := l.try(ctxFor(t)); got != leads || err != nil {
		t.Fatalf("%s: it leads: %t, %v; want %t", when, got, err, leads)
	}
}

// A bucket that was lost and made again counts its revisions from the beginning: the same number there is
// another renewal.
func TestTheSameRevisionOfAnotherBucketIsARenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startLeaseServer(t))
		first, second := lessee(t, out.open(t), "first", "d1", time.Minute), impatient(t, out)
		first.looks(t, true, "it was given back")
		second.looks(t, false, "the first look")
		mustDo(t, first.bus.ownJS.DeleteKeyValue(ctxFor(t), first.bus.leaseBucket()))
		third := lessee(t, out.open(t), "third", "d3", time.Minute)
		for range first.revision - 1 {
			_, err := third.kv.Put(ctxFor(t), "another", nil)
			mustDo(t, err)
		}
		if revision, _, err := third.write(ctxFor(t), 0); err != nil || revision != first.revision {
			t.Fatalf("revision %d, %v; want %d", revision, err, first.revision)
		}
		second.looks(t, false, "another one has led since")
		if second.theirs.ID != "third" {
			t.Errorf("it stands by for %s", second.theirs.ID)
		}
		second.looks(t, true, "that one has not renewed it")
	})
}

// Nor is it the same emptiness: somebody may have led between two wipes, and lead still.
func TestAnEmptyBucketIsNotTheOneBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := startLeaseServer(t)
		second := impatient(t, out)
		empty := func(when string) {
			t.Helper()
			mustDo(t, second.bus.ownJS.DeleteKeyValue(ctxFor(t), second.bus.leaseBucket()))
			lessee(t, out.open(t), "third", "d3", time.Minute)
			second.looks(t, false, when)
		}
		second.looks(t, false, "the first look")
		empty("another one is there")
		empty("and another one")
		mustDo(t, second.bus.ownJS.DeleteKeyValue(ctxFor(t), second.bus.leaseBucket()))
		second.looks(t, false, "none is there, and it makes one")
		second.looks(t, false, "the first look at its own")
		second.looks(t, true, "nobody has led since")
	})
}

// A leader whose server loses the lease keeps its term: it puts the lease there again before anybody else may take it.
func TestALeaderPutsALostLeaseBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startLeaseServer(t))
		const period = 20 * time.Second
		b := out.open(t)
		first := lessee(t, b, "first", "d1", period)
		leads, _ := awaits(t, first)
		mustDo(t, <-leads)
		other := lessee(t, out.open(t), "other", "d2", time.Minute)
		for what, lose := range map[string]func(){
			"gone": func() {},
			"empty, because who stands by has made it again": func() { mustDo(t, other.open(ctxFor(t))) },
		} {
			mustDo(t, b.ownJS.DeleteKeyValue(ctxFor(t), b.leaseBucket()))
			lose()
			until(t, "the lease is there again, which was "+what, func() bool {
				_, err := other.kv.Get(ctxFor(t), keyLeader)
				return err == nil || !first.Leads()
			})
			if other.looks(t, false, what); other.theirs.ID != "first" || !first.Leads() {
				t.Errorf("%s: it lost its term", what)
			}
		}
	})
}

// A bucket that cannot be made again at once is asked for later: the leader goes on trying.
func TestALeaseWhoseBucketCannotBeMadeIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startLeaseServer(t))
		first := lessee(t, out.open(t), "first", "d1", time.Minute)
		first.looks(t, true, "it was given back")
		mustDo(t, first.bus.ownJS.DeleteKeyValue(ctxFor(t), first.bus.leaseBucket()))
		ended, end := context.WithCancel(t.Context())
		end()
		if err := first.open(ended); err == nil {
			t.Fatal("it was made")
		}
		_, _, unwritten := first.write(ctxFor(t), first.revision)
		if revision, _, err := first.anew(ctxFor(t), unwritten); err != nil || revision == 0 {
			t.Errorf("it is not written again: %v", err)
		}
	})
}

// A rewritten lease counts if it was written within the term and no other process has led since.
func TestALostLeaseIsNotPutBackLate(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, first, other *Lease){
		"its term is over":  func(_ *testing.T, first, _ *Lease) { first.giveUp() },
		"another one leads": func(t *testing.T, _, other *Lease) { other.looks(t, true, "nobody leads for long") },
		"another one has given it back": func(t *testing.T, _, other *Lease) {
			other.looks(t, true, "nobody leads for long")
			mustDo(t, other.kv.Delete(ctxFor(t), keyLeader))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				out := free(t, startLeaseServer(t))
				first := lessee(t, out.open(t), "first", "d1", time.Minute)
				first.looks(t, true, "it was given back")
				mustDo(t, first.bus.ownJS.DeleteKeyValue(ctxFor(t), first.bus.leaseBucket()))
				other := impatient(t, out)
				other.looks(t, false, "it is empty")
				spoil(t, first, other)
				_, _, unwritten := first.write(ctxFor(t), first.revision)
				if _, _, err := first.anew(ctxFor(t), unwritten); !errors.Is(err, errTaken) {
					t.Errorf("it goes on: %v", err)
				}
				if e, err := first.kv.Get(ctxFor(t), keyLeader); err == nil {
					var there Leader
					if mustDo(t, json.Unmarshal(e.Value(), &there)); there.ID == first.o.Me.ID {
						t.Error("what does not count stands there")
					}
				}
			})
		})
	}
}
