package chaos

import (
	"io"
	"testing"
	"time"
)

// plan gives all rounds to each TTL, and at least one world to each named bus.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      Options
		worlds int
		rounds int // of all worlds
		buses  int
		first  time.Duration
		last   time.Duration
	}{
		{"by default", Options{Rounds: 8}, 1, 8, 1, shortestTTL, shortestTTL},
		{"in turn", Options{Rounds: 120}, 3, 120, 3, shortestTTL, shortestTTL},
		{"named buses", Options{Rounds: 8, Bus: "joined,cluster"}, 2, 8, 2, shortestTTL, shortestTTL},
		{"TTLs", Options{Rounds: 20, Bus: busEmbedded, TTL: "3,90"}, 2, 40, 1, 3 * time.Second, 90 * time.Second},
	} {
		c.o.Runtime, c.o.Out = "processes", io.Discard
		plans, err := c.o.plan(t.Context())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		rounds, buses := 0, map[string]bool{}
		for _, p := range plans {
			rounds += p.rounds
			buses[p.bus] = true
		}
		if len(plans) != c.worlds || rounds != c.rounds || len(buses) != c.buses || plans[0].ttl != c.first ||
			plans[len(plans)-1].ttl != c.last {
			t.Errorf("%s: %+v", c.name, plans)
		}
	}
	for _, bad := range []Options{{Bus: "ring"}, {Runtime: "jail"}, {TTL: "0"}, {TTL: "soon"}} {
		bad.Rounds, bad.Out = 8, io.Discard
		if plans, err := bad.plan(t.Context()); err == nil {
			t.Errorf("%+v: %+v, want an error", bad, plans)
		}
	}
}
