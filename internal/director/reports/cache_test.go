package reports

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/secrets/redact"
)

// storedReports is a stream of reports that counts reads.
type storedReports struct {
	stored []bus.Report
	read   int
}

func (f *storedReports) Of(_ context.Context, _ string, after uint64) (rest []bus.Report, err error) {
	for _, r := range f.stored {
		if r.Seq > after {
			rest = append(rest, r)
		}
	}
	f.read += len(rest)
	return rest, nil
}

func newCache(s Store) *Cache { return NewCache(s, func() *redact.Redactor { return redact.New() }) }

// TestReportsAreReadOnce checks that the end of an attempt and its comment use the reports that the consumer has read.
// The others are read once.
func TestReportsAreReadOnce(t *testing.T) {
	notice := bus.Report{Worker: "k-1", Seq: 3, Signed: true, Body: &wire.WorkerError{ErrorID: "notice"}}
	end := bus.Report{Worker: "k-1", Seq: 5, Body: &wire.WorkerError{ErrorID: "end"}}
	late := bus.Report{Worker: "k-1", Seq: 9, Body: &wire.WorkerResult{}}
	stream := &storedReports{stored: []bus.Report{notice, end, late}}
	c := newCache(stream)
	c.Begin("k-1")
	for _, r := range []bus.Report{notice, end, notice, end} { // the stream delivers some reports again
		c.add(r)
	}
	for range 2 {
		list, err := c.Of(t.Context(), "k-1")
		if err != nil || len(list) != 3 || list[0].Seq != 3 || list[2].Seq != 9 || stream.read != 1 {
			t.Errorf("%v, %v; %d read from the stream, want only the late one", list, err, stream.read)
		}
	}
	failure, persons, err := c.Failure(t.Context(), "k-1", &fsm.ReportRef{Seq: 5})
	if err != nil || failure == nil || failure.ErrorID != "end" || !persons || stream.read != 1 {
		t.Errorf("%+v, a person's %v, %v; %d read", failure, persons, err, stream.read)
	}
	if _, persons, err := c.Failure(t.Context(), "k-1", &fsm.ReportRef{Seq: 3}); err != nil || persons {
		t.Errorf("the worker's report: from a person %v, %v", persons, err)
	}
	c.Drop("k-1")
	if c.bytes != 0 {
		t.Errorf("%d bytes remain", c.bytes)
	}
	restarted := newCache(stream)
	restarted.add(late) // an earlier process consumed the other reports
	if list, err := restarted.Of(t.Context(), "k-1"); err != nil || len(list) != 3 {
		t.Errorf("after a restart: %v, %v", list, err)
	}
}

// TestReportCacheIsBounded checks that the cache stays small, however much workers report.
func TestReportCacheIsBounded(t *testing.T) {
	const each = 1 << 20
	stream := &storedReports{}
	c := newCache(stream)
	for n := range 100 {
		c.Begin(fmt.Sprintf("k-%d", n))
		c.add(bus.Report{Worker: fmt.Sprintf("k-%d", n), Seq: uint64(n + 1), Bytes: each, Body: &wire.WorkerError{}})
		kept := 0
		for _, list := range c.read {
			kept += sizeOf(list)
		}
		if kept != c.bytes || kept > maxCachedBytes {
			t.Fatalf("after %d reports: %d bytes, %d counted", n+1, kept, c.bytes)
		}
	}
}

// TestLateReportIsNotMissed checks that a report counts even if the consumer delivers it after a newer one. That
// happens when the consumer drops reports that it has read ahead.
func TestLateReportIsNotMissed(t *testing.T) {
	var stored []bus.Report
	for _, seq := range []uint64{3, 7, 9} {
		stored = append(stored, bus.Report{Worker: "w-1", Seq: seq})
	}
	c := newCache(&storedReports{stored: stored})
	c.Begin("w-1")
	for _, i := range []int{0, 2, 1, 1} {
		c.add(stored[i])
	}
	got, err := c.Of(t.Context(), "w-1")
	if err != nil || !slices.EqualFunc(got, stored, func(a, b bus.Report) bool { return a.Seq == b.Seq }) {
		t.Errorf("got %v, %v", got, err)
	}
}
