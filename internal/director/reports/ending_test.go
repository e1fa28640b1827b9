package reports

import (
	"math"
	"testing"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
	"retake/internal/fsm"
	"retake/internal/recovery/circumstances/recorded"
)

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
	w := exitReport(e, container.Exit{Known: true, ExitCode: code, Signal: "SIGKILL"},
		recorded.Circumstances(t, "exit"))
	if r := Translate(bus.Report{Worker: "k3v9qx2m-1", Body: &w}); r.Exit {
		t.Error("another sender can report as the director")
	}
	r := Translate(bus.Report{Worker: "k3v9qx2m-1", Signed: true, Own: true, Body: &w})
	if !r.Exit || !r.Final || r.OK || *r.Evidence.ExitCode != code {
		t.Errorf("got %+v; want a final report of an exit with its code", r)
	}
	data, err := wire.Encode(wire.Sender{Role: wire.RoleDirector, ID: "x"}, 1, time.Now(),
		exitReport(e, container.Exit{}, recorded.Circumstances(t, "exit")))
	if err == nil {
		_, err = wire.Decode(data)
	}
	if err != nil {
		t.Errorf("the report of an unknown exit is not a valid payload: %v", err)
	}
}
