package director

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

func TestSnapshotNamesTheTasksOfAnIncident(t *testing.T) {
	m, at := fsm.New(fsm.Config{}), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	open := recovery.Breaker{}
	told := recovery.Breaker{Told: true}
	for _, task := range []string{"acme/widgets#1", "acme/widgets#2", "acme/widgets#3"} {
		open, told = open.Failed(at, task), told.Failed(at, task)
	}
	m.Apply(at, fsm.IncidentChanged{Incident: fsm.Incident{
		Key:    "github.git/network_transient",
		Reason: recovery.NetworkTransient, Cause: "reset", Breaker: open,
	}})
	m.Apply(at, fsm.IncidentChanged{Incident: fsm.Incident{
		Key: "acme/widgets/5f0c", Reason: recovery.BuildFailed,
		Cause: "undefined: x", Breaker: told,
	}})
	for i, want := range []string{
		"{incident/github.git/network_transient 2026-11-21T12:01:00Z network_transient: reset open [acme/widgets#1 " +
			"acme/widgets#2 acme/widgets#3]}",
		"{incident/acme/widgets/5f0c 2026-11-21T12:00:00Z build_failed: undefined: x told [acme/widgets#1 " +
			"acme/widgets#2 acme/widgets#3]}",
	} {
		c := machineSnapshot(m, m.Tasks(), seenNow{at: at}).Cooldowns[i]
		if got := fmt.Sprintf("{%s %s %s %s %s}", c.Resource, c.Until.Format(time.RFC3339), c.Why, c.State,
			c.Tasks); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestSecondsFromTheWireAreBounded(t *testing.T) {
	for in, want := range map[float64]time.Duration{
		-5: 0, 0: 0, 1.5: 1500 * time.Millisecond, 1e300: 31 * 24 * time.Hour, math.Inf(1): 31 * 24 * time.Hour,
	} {
		if got := seconds(in); got != want {
			t.Errorf("%g: got %s, want %s", in, got, want)
		}
	}
}

func TestExitReportIsMarkedAndOrdinary(t *testing.T) {
	code := 137
	e := fsm.Effect{Worker: "k3v9qx2m-1", Task: "acme/widgets#21", Attempt: 1}
	w := exitReport(e, container.Exit{Known: true, ExitCode: code, Signal: "SIGKILL"})
	if r := report(bus.Report{Worker: "k3v9qx2m-1", Body: &w}); r.Exit {
		t.Error("anybody's report of that name counts as the director's")
	}
	r := report(bus.Report{Worker: "k3v9qx2m-1", Signed: true, Own: true, Body: &w})
	if !r.Exit || !r.Final || r.OK || *r.Evidence.ExitCode != code {
		t.Errorf("got %+v; want a final report of an exit with its code", r)
	}
	data, err := wire.Encode(wire.Sender{Role: wire.RoleDirector, ID: "x"}, 1, time.Now(),
		exitReport(e, container.Exit{}))
	if err == nil {
		_, err = wire.Decode(data)
	}
	if err != nil {
		t.Errorf("the report of an unknown exit is not a valid payload: %v", err)
	}
}

// storedReports is a stream of reports that counts what is read of it.
type storedReports struct {
	stored []bus.Report
	read   int
}

func (f *storedReports) ReportsOf(_ context.Context, _ string, after uint64) (rest []bus.Report, err error) {
	for _, r := range f.stored {
		if r.Seq > after {
			rest = append(rest, r)
		}
	}
	f.read += len(rest)
	return rest, nil
}

// What the consumer has read is not read again for the end of the attempt, or for the comment. What it has not,
// is, once.
func TestReportsAreReadOnce(t *testing.T) {
	notice := bus.Report{Worker: "k-1", Seq: 3, Signed: true, Body: &wire.WorkerError{ErrorID: "notice"}}
	end := bus.Report{Worker: "k-1", Seq: 5, Body: &wire.WorkerError{ErrorID: "end"}}
	late := bus.Report{Worker: "k-1", Seq: 9, Body: &wire.WorkerResult{}}
	stream := &storedReports{stored: []bus.Report{notice, end, late}}
	c := newReportCache(stream)
	c.begin("k-1")
	for _, r := range []bus.Report{notice, end, notice, end} { // some come again
		c.add(r)
	}
	for range 2 {
		list, err := c.of(t.Context(), "k-1")
		if err != nil || len(list) != 3 || list[0].Seq != 3 || list[2].Seq != 9 || stream.read != 1 {
			t.Errorf("%v, %v; %d read from the stream, want only the late one", list, err, stream.read)
		}
	}
	failure, persons, err := c.failure(t.Context(), "k-1", &fsm.ReportRef{Seq: 5})
	if err != nil || failure == nil || failure.ErrorID != "end" || !persons || stream.read != 1 {
		t.Errorf("%+v, a person's %v, %v; %d read", failure, persons, err, stream.read)
	}
	if _, persons, err := c.failure(t.Context(), "k-1", &fsm.ReportRef{Seq: 3}); err != nil || persons {
		t.Errorf("the worker's own: a person's %v, %v", persons, err)
	}
	c.drop("k-1")
	if c.bytes != 0 {
		t.Errorf("%d bytes are left", c.bytes)
	}
	restarted := newReportCache(stream)
	restarted.add(late) // the first ones were consumed before
	if list, err := restarted.of(t.Context(), "k-1"); err != nil || len(list) != 3 {
		t.Errorf("after a restart: %v, %v", list, err)
	}
}

// However much workers report, the cache stays small; what it lets go of is read again.
func TestReportCacheIsBounded(t *testing.T) {
	const each = 1 << 20
	stream := &storedReports{}
	c := newReportCache(stream)
	for n := range 100 {
		c.begin(fmt.Sprintf("k-%d", n))
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
