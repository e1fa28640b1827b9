package director

import (
	"context"
	"slices"
	"testing"

	"retake/internal/bus"
)

// lateReports is what the stream has of one worker.
type lateReports []bus.Report

func (s lateReports) ReportsOf(_ context.Context, _ string, after uint64) ([]bus.Report, error) {
	return slices.DeleteFunc(slices.Clone(s), func(r bus.Report) bool { return r.Seq <= after }), nil
}

// A report that the consumer hands over behind a newer one, because what it had read ahead was given up in
// between, is among those of its worker all the same.
func TestLateReportIsNotMissed(t *testing.T) {
	var stored lateReports
	for _, seq := range []uint64{3, 7, 9} {
		stored = append(stored, bus.Report{Worker: "w-1", Seq: seq})
	}
	c := newReportCache(stored)
	c.begin("w-1")
	for _, i := range []int{0, 2, 1, 1} {
		c.add(stored[i])
	}
	got, err := c.of(t.Context(), "w-1")
	if err != nil || !slices.EqualFunc(got, stored, func(a, b bus.Report) bool { return a.Seq == b.Seq }) {
		t.Errorf("got %v, %v", got, err)
	}
}
