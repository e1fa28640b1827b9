package leadership

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"retake/internal/bus/lease"
)

// impatient returns a lease that takes over after two equal reads.
func impatient(t *testing.T, out opener) *Lease {
	t.Helper()
	l := lessee(t, out.open(t), "second", "d2", time.Minute)
	l.term = lease.Term{Period: time.Nanosecond}
	return l
}

// looks checks the result of one try.
func (l *Lease) looks(t *testing.T, leads bool, when string) {
	t.Helper()
	time.Sleep(time.Nanosecond) // the period of an impatient lease, in the bubble's time
	if got, err := l.try(ctxFor(t)); got != leads || err != nil {
		t.Fatalf("%s: it leads: %t, %v; want %t", when, got, err, leads)
	}
}

// A bucket that was lost and recreated numbers its revisions from 1 again, so the same revision may be another renewal.
func TestTheSameRevisionOfAnotherBucketIsARenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startEmbedded(t))
		first, second := lessee(t, out.open(t), "first", "d1", time.Minute), impatient(t, out)
		first.looks(t, true, "it was given back")
		second.looks(t, false, "the first look")
		mustDo(t, first.bucket.JS.DeleteKeyValue(ctxFor(t), first.bucket.Name))
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

// TestAnEmptyBucketIsNotTheOneBefore recreates the empty bucket. A process may have taken the lead between two
// wipes, and may still lead.
func TestAnEmptyBucketIsNotTheOneBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := startEmbedded(t)
		second := impatient(t, out)
		empty := func(when string) {
			t.Helper()
			mustDo(t, second.bucket.JS.DeleteKeyValue(ctxFor(t), second.bucket.Name))
			lessee(t, out.open(t), "third", "d3", time.Minute)
			second.looks(t, false, when)
		}
		second.looks(t, false, "the first look")
		empty("another one is there")
		empty("and another one")
		mustDo(t, second.bucket.JS.DeleteKeyValue(ctxFor(t), second.bucket.Name))
		second.looks(t, false, "none is there, and it makes one")
		second.looks(t, false, "its first try at the new bucket")
		second.looks(t, true, "one period without a leader")
	})
}

// TestALeaderPutsALostLeaseBack checks that a leader whose server loses the lease writes it again and keeps its term.
func TestALeaderPutsALostLeaseBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startEmbedded(t))
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
			mustDo(t, b.DeleteKeyValue(ctxFor(t), first.bucket.Name))
			lose()
			until(t, "lease back after "+what, func() bool {
				_, err := other.kv.Get(ctxFor(t), keyLeader)
				return err == nil || !first.Leads()
			})
			if other.looks(t, false, what); other.theirs.ID != "first" || !first.Leads() {
				t.Errorf("%s: it lost its term", what)
			}
		}
	})
}

// TestALeaseWhoseBucketCannotBeMadeIsTriedAgain checks that a leader keeps trying to recreate a lost bucket.
func TestALeaseWhoseBucketCannotBeMadeIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out := free(t, startEmbedded(t))
		first := lessee(t, out.open(t), "first", "d1", time.Minute)
		first.looks(t, true, "it was given back")
		mustDo(t, first.bucket.JS.DeleteKeyValue(ctxFor(t), first.bucket.Name))
		ended, end := context.WithCancel(t.Context())
		end()
		if err := first.open(ended); err == nil {
			t.Fatal("the bucket was recreated")
		}
		_, _, unwritten := first.write(ctxFor(t), first.revision)
		if revision, _, err := first.recover(ctxFor(t), unwritten); err != nil || revision == 0 {
			t.Errorf("it is not written again: %v", err)
		}
	})
}

// A rewritten lease counts if it was written within the term and no other process has led since.
func TestALostLeaseIsNotPutBackLate(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, first, other *Lease){
		"its term is over":  func(_ *testing.T, first, _ *Lease) { first.giveUp() },
		"another one leads": func(t *testing.T, _, other *Lease) { other.looks(t, true, "a period later") },
		"another one has given it back": func(t *testing.T, _, other *Lease) {
			other.looks(t, true, "a period later")
			mustDo(t, other.kv.Delete(ctxFor(t), keyLeader))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				out := free(t, startEmbedded(t))
				first := lessee(t, out.open(t), "first", "d1", time.Minute)
				first.looks(t, true, "it was given back")
				mustDo(t, first.bucket.JS.DeleteKeyValue(ctxFor(t), first.bucket.Name))
				other := impatient(t, out)
				other.looks(t, false, "it is empty")
				spoil(t, first, other)
				_, _, unwritten := first.write(ctxFor(t), first.revision)
				if _, _, err := first.recover(ctxFor(t), unwritten); !errors.Is(err, errTaken) {
					t.Errorf("it continues to lead: %v", err)
				}
				if e, err := first.kv.Get(ctxFor(t), keyLeader); err == nil {
					var there Leader
					if mustDo(t, json.Unmarshal(e.Value(), &there)); there.ID == first.o.Me.ID {
						t.Error("a late renewal was stored")
					}
				}
			})
		})
	}
}
