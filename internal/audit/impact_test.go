package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

func TestIncidents(t *testing.T) {
	at := func(m, n int, reason recovery.Reason, signature string) TimelineEntry {
		return TimelineEntry{
			At: wire.At(noon.Add(time.Duration(m) * time.Minute)), ID: fmt.Sprintf("a/b#%d", n),
			Reason: string(reason), Signature: signature,
		}
	}
	for _, c := range []struct {
		name     string
		timeline []TimelineEntry
		want     string
	}{
		{"one task", []TimelineEntry{at(0, 1, recovery.Overloaded, "x"), at(1, 1, recovery.Overloaded, "x")}, ""},
		{"two tasks, different words", []TimelineEntry{
			at(0, 1, recovery.Overloaded, "x"),
			at(1, 2, recovery.Overloaded, "y"),
		}, "overloaded:2"},
		{"two tests", []TimelineEntry{at(0, 1, recovery.TestsFailed, "x"), at(1, 2, recovery.TestsFailed, "y")}, ""},
		{
			"the same test",
			[]TimelineEntry{at(0, 1, recovery.TestsFailed, "x"), at(1, 2, recovery.TestsFailed, "x")},
			"tests_failed:2",
		},
		{"no signature", []TimelineEntry{at(0, 1, recovery.TestsFailed, ""), at(1, 2, recovery.TestsFailed, "")}, ""},
		{"a day apart", []TimelineEntry{at(0, 1, recovery.Overloaded, ""), at(1440, 2, recovery.Overloaded, "")}, ""},
		{"two outages", []TimelineEntry{
			at(0, 1, recovery.Overloaded, ""), at(50, 2, recovery.Overloaded, ""), at(100, 3, recovery.Overloaded, ""),
			at(900, 1, recovery.Overloaded, ""), at(901, 2, recovery.Overloaded, ""),
		}, "overloaded:3 overloaded:2"},
	} {
		var got []string
		for _, i := range incidents(c.timeline) {
			got = append(got, fmt.Sprintf("%s:%d", i.Reason, len(i.Tasks)))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

func TestImpact(t *testing.T) {
	for _, c := range []struct {
		name        string
		deps        map[string][]string
		blocked     string
		depth       int
		canContinue bool
		fromTask    string
	}{
		{"chain", map[string][]string{"A": nil, "B": {"A"}, "C": {"B"}, "D": nil}, "B C", 2, true, "A"},
		{"all wait", map[string][]string{"A": nil, "B": {"A"}, "C": {"B"}}, "B C", 2, false, "A"},
		{
			"diamond",
			map[string][]string{"A": nil, "B": {"A"}, "C": {"A"}, "D": {"B", "C"}, "E": {"D"}},
			"B C D E", 3,
			false, "A",
		},
		{"circle", map[string][]string{"A": {"C"}, "B": {"A"}, "C": {"B"}}, "B C", 2, false, "A"},
		{"itself", map[string][]string{"A": {"A"}}, "", 0, false, "A"},
		{"nobody", map[string][]string{"A": nil}, "", 0, false, "A"},
		{"stranger", map[string][]string{"A": nil}, "", 0, true, "Z"},
	} {
		got := impactOf(c.deps, c.fromTask)
		if strings.Join(got.Blocked, " ") != c.blocked || got.Depth != c.depth || got.CanContinue != c.canContinue {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
