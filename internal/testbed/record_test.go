package testbed

import (
	"context"
	"slices"
	"testing"
)

func TestRecordOfProcesses(t *testing.T) {
	r := NewRecord(func(ctx context.Context, _ *Record) error { <-ctx.Done(); return nil })
	status := func(attempt string, lives bool) Worker { return Worker{attempt, "demo/widgets#6", lives} }
	var before map[string]bool
	for _, list := range [][]Worker{
		{status("a-1", false)},
		{status("a-1", true)},
		{status("a-1", true)},
		{},
		{status("a-2", true)},
		{status("a-3", true)}, // one ended and another began since the last list
		{status("a-3", false)},
		{},
	} {
		before = r.compare(before, list)
	}
	all, err := r.Stop()
	var got []string
	for _, x := range all {
		if x.Task != "demo/widgets#6" {
			t.Errorf("%+v: the event lacks its task", x)
		}
		got = append(got, x.Action+" "+x.Attempt)
	}
	want := []string{
		"create a-1", "start a-1", "die a-1", "create a-2", "start a-2", "die a-2", "create a-3", "start a-3",
		"die a-3",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
