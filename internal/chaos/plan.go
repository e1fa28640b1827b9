package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"retake/internal/testbed"
)

// kind combines a world's runtime, bus and heartbeat TTL.
type kind struct {
	runtime, bus string
	ttl          time.Duration
}

func (k kind) String() string { return fmt.Sprintf("%s, %s, TTL %v", k.runtime, k.bus, k.ttl) }

// shortestTTL is the shortest TTL for heartbeats that are sent once a second. With this TTL, a slow director is most
// likely to consider a living worker silent.
const shortestTTL = 3 * time.Second

// plan is a world that a run will create.
type plan struct {
	kind
	rounds int
}

// plan divides the rounds among worlds of all possible kinds.
func (o Options) plan(ctx context.Context) (plans []plan, err error) {
	ttls, err := o.ttls()
	if err != nil {
		return nil, err
	}
	kinds, err := o.kinds(ctx)
	if err != nil {
		return nil, err
	}
	n := max(1, (o.Rounds+roundsPerWorld/2)/roundsPerWorld)
	if o.Bus != "" {
		n = max(n, len(strings.Split(o.Bus, ",")))
	}
	for _, ttl := range ttls {
		for i := range n {
			k := kinds[(uint64(len(plans))+o.Seed)%uint64(len(kinds))]
			k.ttl = ttl
			plans = append(plans, plan{k, o.Rounds*(i+1)/n - o.Rounds*i/n})
		}
	}
	return plans, nil
}

func (o Options) ttls() (ttls []time.Duration, err error) {
	if o.TTL == "" {
		return []time.Duration{shortestTTL}, nil
	}
	for text := range strings.SplitSeq(o.TTL, ",") {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || seconds < 1 || seconds > 100 { // the watchdog of these worlds ends workers after 120 s
			return nil, fmt.Errorf("chaos: TTL %q: want 1 to 100 seconds", text)
		}
		ttls = append(ttls, time.Duration(seconds*float64(time.Second)))
	}
	return ttls, nil
}

// kinds returns the possible kinds of worlds, which a run uses in turn. Adjacent kinds use different buses.
func (o Options) kinds(ctx context.Context) (kinds []kind, err error) {
	runtimes := map[string][]string{
		"": {testbed.RuntimeDocker, testbed.RuntimeProcess}, "docker": {testbed.RuntimeDocker},
		"processes": {testbed.RuntimeProcess},
	}[o.Runtime]
	known := []string{busEmbedded, busJoined, busCluster}
	buses := known
	if o.Bus != "" {
		buses = strings.Split(o.Bus, ",")
	}
	if runtimes == nil || slices.ContainsFunc(buses, func(b string) bool { return !slices.Contains(known, b) }) {
		return nil, fmt.Errorf("chaos: runtime %q, bus %q: want runtime docker or processes, and bus embedded, "+
			"joined or cluster",
			o.Runtime, o.Bus)
	}
	if e, err := testbed.OpenDocker(ctx, "chaos"); err == nil {
		_ = e.Close()
	} else if o.Runtime == "docker" {
		return nil, fmt.Errorf("chaos: cannot reach a Docker engine: %w", err)
	} else {
		runtimes = []string{testbed.RuntimeProcess}
		fmt.Fprintf(o.Out, "skipped workers in containers, because no Docker engine is reachable: %v\n", err)
	}
	for _, r := range runtimes {
		for _, b := range buses {
			if b == busCluster { // containers cannot reach the addresses of its servers
				if r = testbed.RuntimeProcess; o.Runtime == "docker" {
					continue
				}
			}
			if k := (kind{runtime: r, bus: b}); !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	if kinds == nil {
		return nil, errors.New("chaos: containers cannot reach a cluster: use RUNTIME=processes")
	}
	return kinds, nil
}
