package bus

import (
	"testing"
	"time"

	"retake/internal/lease"
)

// impatient wants to lead, and takes what looks the same at two looks in a row.
func impatient(t *testing.T, out *outside) *Lease {
	t.Helper()
	l := lessee(t, openBus(t, out.join()), "second", "d2", time.Minute)
	l.term = lease.Term{Period: time.Nanosecond}
	return l
}

// looks holds what one look at the lease leads to against what it should.
func (l *Lease) looks(t *testing.T, leads bool, when string) {
	t.Helper()
	if got, err := l.try(ctxFor(t)); got != leads || err != nil {
		t.Fatalf("%s: it leads: %t, %v; want %t", when, got, err, leads)
	}
}

// A bucket that was lost and made again counts its revisions from the beginning: the same number there is another renewal.
func TestTheSameRevisionOfAnotherBucketIsARenewal(t *testing.T) {
	out := free(t, startOutside(t))
	first, second := lessee(t, openBus(t, out.join()), "first", "d1", time.Minute), impatient(t, out)
	first.looks(t, true, "it was given back")
	second.looks(t, false, "the first look")
	mustDo(t, first.bus.ownJS.DeleteKeyValue(ctxFor(t), first.bus.leaseBucket()))
	third := lessee(t, openBus(t, out.join()), "third", "d3", time.Minute)
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
}

// Nor is it the same emptiness: somebody may have led between two wipes, and lead still.
func TestAnEmptyBucketIsNotTheOneBefore(t *testing.T) {
	out := startOutside(t)
	second := impatient(t, out)
	empty := func(when string) {
		t.Helper()
		mustDo(t, second.bus.ownJS.DeleteKeyValue(ctxFor(t), second.bus.leaseBucket()))
		lessee(t, openBus(t, out.join()), "third", "d3", time.Minute)
		second.looks(t, false, when)
	}
	second.looks(t, false, "the first look")
	empty("another one is there")
	empty("and another one")
	mustDo(t, second.bus.ownJS.DeleteKeyValue(ctxFor(t), second.bus.leaseBucket()))
	second.looks(t, false, "none is there, and it makes one")
	second.looks(t, false, "the first look at its own")
	second.looks(t, true, "nobody has led since")
}
