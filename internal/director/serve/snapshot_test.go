package serve

import (
	"fmt"
	"testing"
	"time"

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
