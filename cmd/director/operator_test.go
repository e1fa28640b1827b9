package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/timeline"
)

// answering serves an operator's socket with fixed answers, like a running director.
func answering(t *testing.T, h operator.Health, s wire.Snapshot, more ...func(*http.ServeMux)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	door, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, operator.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	lift := operator.CooldownLift{Lifted: s.Cooldowns}
	if len(s.Cooldowns) == 0 {
		lift.Problem = "model.none is not closed; director cooldown list shows the closed ones"
	}
	rows := []timeline.Task{}
	for _, task := range s.Tasks {
		rows = append(rows, timeline.Task{
			Issue: fsm.IssueKey(task.Issue), State: task.State, Waits: task.WaitsFor,
			Title: "A title",
		})
	}
	for path, body := range map[string]any{"/healthz": h, "/snapshot": s, "/tasks": rows, "/cooldown/lift": lift} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(body) })
	}
	for _, add := range more {
		add(mux)
	}
	server := &http.Server{Handler: mux} //nolint:gosec // of a test
	go func() { _ = server.Serve(door) }()
	t.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	return dir
}

func TestWhatOperatorsRead(t *testing.T) {
	well := answering(t, operator.Health{OK: true, RunID: "run_1", Phase: "MONITOR", Tasks: 1}, wire.Snapshot{
		Director: wire.SnapshotDirector{RunID: "run_1", Phase: "MONITOR", Leader: true},
		Tasks: []wire.SnapshotTask{
			{Issue: "a/b#1", State: "Blocked", WaitsFor: "a person's answer"},
			{Issue: "a/b#2", State: "Queued"},
			{Issue: "a/b#3", State: "Blocked"},
		},
	})
	ill := answering(t, operator.Health{
		RunID: "run_1", Phase: "MONITOR", Tasks: 2,
		Problem: "the agent bus is not responding",
	}, wire.Snapshot{Director: wire.SnapshotDirector{Leader: true}})
	for _, c := range []struct {
		dir, command string
		exit         int
		says         string
	}{
		{well, "director health", 0, "healthy: run_1, phase MONITOR, 1 task\n"},
		{well, "director health --json", 0, `{"ok":true,"run_id":"run_1","phase":"MONITOR","tasks":1}` + "\n"},
		{ill, "director health", 1, "unhealthy: the agent bus is not responding (run_1, phase MONITOR, 2 tasks)\n"},
		{t.TempDir(), "director health", 2, "is a director running with this director.data_dir? (dial unix "},
		{well, "director status", 0, "tasks       1 Queued, 2 Blocked\n"},
		{well, "director status", 0, "needs you   a/b#1: waiting for an answer\n"},
		{well, "director status", 0, "workers     none\n"},
		{ill, "director status", 0, "tasks      no tasks\n"},
		{well, "director tasks", 0, "a/b#3"},
		{well, "director tasks", 0, "a person's answer   -\n"},
		{well, "director tasks --state queued", 0, "a/b#2   A title   Queued"},
		{well, "director tasks --state Sleeping", 2, "unknown state \"Sleeping\""},
		{well, "director tasks --waiting-for person --json", 0, "\"waits_for\":\"a person's answer\""},
		{well, "director tasks --waiting-for GitHub", 0, "no tasks\n"},
		{ill, "director tasks", 0, "no tasks\n"},
	} {
		out, exit := shell(t, t.TempDir(), "touch c.toml; "+c.command+" -c c.toml --set director.data_dir="+c.dir)
		if exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s\n  exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
	}
}

func TestCooldownCommands(t *testing.T) {
	moment := func(minute int) wire.Time { return wire.At(time.Date(2026, 11, 21, 10, minute, 0, 0, time.UTC)) }
	closed := answering(t, operator.Health{}, wire.Snapshot{Cooldowns: []wire.SnapshotCooldown{
		{Resource: "github.write", Until: moment(5), Why: "secondary limit"},
		{
			Resource: "model.x", Until: moment(15), Since: new(moment(0)), Why: "wait 24h",
			StatedBy: []wire.SnapshotStated{
				{Issue: "a/b#1", Attempt: 2, At: moment(0), Until: moment(59), Text: "wait 24h"},
				{Issue: "a/b#7", Attempt: 1, At: moment(1), Until: moment(58), Text: "429"},
			},
		},
	}})
	open := answering(t, operator.Health{}, wire.Snapshot{Cooldowns: []wire.SnapshotCooldown{}})
	incident := answering(t, operator.Health{},
		wire.Snapshot{Cooldowns: []wire.SnapshotCooldown{{Resource: "incident/host/disk_full", Until: moment(1)}}})
	for _, c := range []struct {
		dir, command string
		exit         int
		says         string
	}{
		{closed, "director cooldown list", 0, "model.x        2026-11-21 10:15:00   0s     2026-11-21 10:00:00   " +
			"a/b#1, attempt 2, and a/b#7, attempt 1   wait 24h\n"},
		{closed, "director cooldown list", 0, "github.write   2026-11-21 10:05:00   0s     -                     the " +
			"director                             secondary limit\n"},
		{closed, "director cooldown list", 0, "model.x: a/b#7, attempt 1, on 2026-11-21 10:01:00 reported a limit " +
			"until 2026-11-21 10:58:00: 429\n"},
		{open, "director cooldown list", 0, "no resource is closed\n"},
		{open, "director cooldown list --json", 0, "[]\n"},
		{incident, "director cooldown list", 0, "no resource is closed\n"},
		{closed, "director cooldown list --json", 0, `"stated_by":[{"issue":"a/b#1","attempt":2,`},
		{closed, "director cooldown lift --all", 0, "model.x is open again. It would have stayed closed until " +
			"2026-11-21 10:15:00, as reported by a/b#1, attempt 2, and a/b#7, attempt 1: wait 24h\n"},
		{closed, "director cooldown lift model.x --json", 0, `{"lifted":[{"resource":"github.write",`},
		{
			open, "director cooldown lift model.none", 1,
			"model.none is not closed; director cooldown list shows the closed ones\n",
		},
		{closed, "director cooldown lift", 2, "specify the resources to reopen (director cooldown list shows them), " +
			"or use --all"},
		{closed, "director cooldown lift model.x --all", 2, "(director cooldown list shows them), or use --all"},
		{t.TempDir(), "director cooldown list", 2, "no answer"},
	} {
		out, exit := shell(t, t.TempDir(), "touch c.toml; "+c.command+" -c c.toml --set director.data_dir="+c.dir)
		if exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s\n  exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
	}
}

func TestStatusShowsThePace(t *testing.T) {
	now := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	until := wire.At(now.Add(20 * time.Minute))
	s := wire.Snapshot{Meters: map[string]float64{operator.MeterDelivered: 31, operator.MeterContentLeft: 212}}
	for _, c := range []struct {
		since time.Time
		queue wire.SnapshotQueue
		want  string
	}{
		{now.Add(-time.Minute), wire.SnapshotQueue{}, "31 delivered since 13:59:00. GitHub allows 212 more comments " +
			"and pull requests"},
		{
			now.Add(-2 * time.Hour),
			wire.SnapshotQueue{WaitsFor: "GitHub's pace of writes"},
			"31 delivered in the last hour. Work is waiting for GitHub's pace of writes. GitHub allows 212 more " +
				"comments and pull requests",
		},
		{
			now.Add(-2 * time.Hour),
			wire.SnapshotQueue{WaitsFor: "new content", Until: &until},
			"31 delivered in the last hour. Work is waiting for new content, until 14:20:00. GitHub allows 212 more " +
				"comments and pull requests",
		},
	} {
		s.Director.Since, s.Queue = wire.At(c.since), c.queue
		if got := paceLine(s, now); got != "pace\t"+c.want {
			t.Errorf("got  %q\nwant %q", got, "pace\t"+c.want)
		}
	}
}

func TestStatusNamesTheTasksOfAnIncident(t *testing.T) {
	at := wire.At(time.Date(2026, 11, 21, 10, 1, 0, 0, time.UTC))
	for want, c := range map[string]wire.SnapshotCooldown{
		"cooldown\tgithub.write until 2026-11-21 10:01:00: secondary limit": {
			Resource: "github.write", Until: at,
			Why: "secondary limit",
		},
		"cooldown\tmodel.x until 2026-11-21 10:01:00, since 2026-11-21 10:01:00, reported by a/a#1, " +
			"attempt 2: 429": {
			Resource: "model.x", Until: at, Since: &at, Why: "429",
			StatedBy: []wire.SnapshotStated{{Issue: "a/a#1", Attempt: 2}},
		},
		"incident\tgithub.git/network_transient open until 10:01:00: network_transient: reset; failed in a/a#1, " +
			"a/a#2, b/b#1": {
			Resource: "incident/github.git/network_transient", Until: at, Why: "network_transient: reset",
			State: "open",
			Tasks: []string{"a/a#1", "a/a#2", "b/b#1"},
		},
		"incident\thost/disk_full ramp: disk_full: ENOSPC": {
			Resource: "incident/host/disk_full", Until: at,
			Why: "disk_full: ENOSPC", State: "ramp",
		},
		"incident\ta/a/5f0c told: build_failed: undefined: x; failed in a/a#1, a/a#2, a/a#3": {
			Resource: "incident/a/a/5f0c", Until: at, Why: "build_failed: undefined: x", State: "told",
			Tasks: []string{"a/a#1", "a/a#2", "a/a#3"},
		},
	} {
		if got := cooldownLine(c); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
