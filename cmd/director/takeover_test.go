package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"retake/internal/patience"

	"retake/internal/director/operator"
)

var takeovers = flag.Int("takeovers", 1, "how often TestTakeovers kills the leading director")

// takeoverLease is short, but long enough for a busy machine.
const takeoverLease = 3 * time.Second

// A disconnection from the bus for longer than the lease costs only the leadership. The former leader gets it back
// and continues.
func TestTheBusIsAwayForLongerThanTheLease(t *testing.T) {
	alone, _, w := newTwins(t, true, untilTold)
	key := w.issue("Add a frobnicator")
	alone.start()
	wait(t, "a worker runs", func() bool { return begun(filepath.Join(w.dir, "shared")) == 1 })
	w.bus.Stop()
	wait(t, "it stands by", func() bool {
		s, ok := alone.ask()
		return ok && !s.Leader
	})
	if h, err := operator.AskHealth(t.Context(), alone.data); err != nil || h.OK {
		t.Errorf("without a bus: %+v, %v", h, err)
	}
	w.bus.Start()
	wait(t, "it leads again", alone.leads)
	w.goOn()
	w.handedIn(key, 1)
}

// Without shared storage, a takeover costs only the running attempt, which is repeated. The former leader's worker is
// fenced.
func TestTakeoverWithoutSharedStorage(t *testing.T) {
	a, b, w := newTwins(t, false, untilTold)
	key := w.issue("Add a frobnicator")
	a.start()
	wait(t, "a worker runs", func() bool { return begun(a.data) == 1 })
	b.start()
	wait(t, "the second one stands by", b.standsBy)
	a.signal(syscall.SIGKILL)
	wait(t, "another attempt", func() bool { return begun(b.data) == 1 })
	w.goOn()
	w.handedIn(key, 2)
	// The first director's worker still exists. It is removed when its director leads again.
	b.signal(syscall.SIGTERM)
	a.start()
	wait(t, "leftovers are removed", func() bool {
		left, _ := filepath.Glob(filepath.Join(a.data, "processes", "*", "retake"))
		return len(left) == 0 && a.leads()
	})
}

// Two directors share one bus. The leader is killed repeatedly during work on issues. The other director takes over
// within two lease periods, or immediately after a graceful stop. No work is lost or repeated. -takeovers 20 prints the
// slowest of 20.
func TestTakeovers(t *testing.T) {
	lead, other, w := newTwins(t, true, "sleep 2")
	var issues []string
	for i := range *takeovers + 1 {
		issues = append(issues, w.issue(fmt.Sprint("Add a frobnicator ", i)))
	}
	lead.start()
	wait(t, "the first one leads", lead.leads)
	other.start()
	wait(t, "the second one stands by", other.standsBy)
	wait(t, "work has begun", func() bool { return slices.Contains(w.github.Issue(issues[0]).Labels, "agent-claimed") })
	// a busy machine may delay a takeover, but three late takeovers in a row are a bug
	var took []time.Duration
	for n := 0; n < *takeovers || n < 3 && slices.Min(took) > 2*takeoverLease; n++ {
		time.Sleep(time.Duration(n%4) * 700 * time.Millisecond) // kill the leader in different phases of the work
		began := time.Now()
		lead.signal(syscall.SIGKILL)
		wait(t, "a takeover", other.leads)
		took = append(took, time.Since(began))
		t.Logf("takeover %d after %.2f s", n+1, took[n].Seconds())
		other.tookOver("has not renewed its lease")
		lead.start()
		wait(t, "the killed one stands by", lead.standsBy)
		lead, other = other, lead
	}
	slowest := slices.Max(took)
	t.Logf("slowest of %d takeovers: %.2f s, %.2f lease periods", len(took), slowest.Seconds(),
		slowest.Seconds()/takeoverLease.Seconds())
	if slices.Min(took) > 2*takeoverLease {
		t.Errorf("takeovers took %s, more than two lease periods", took)
	}
	began := time.Now()
	lead.signal(syscall.SIGTERM)
	wait(t, "a takeover after a clean stop", other.leads)
	t.Logf("takeover after a clean stop, the stop included: %.2f s", time.Since(began).Seconds())
	other.tookOver("released the lease")
	for _, key := range issues {
		w.handedIn(key, 1)
	}
}

// A leader that was paused for longer than its lease finds a new leader when it resumes, and stands by.
func TestAStoppedLeaderStandsBy(t *testing.T) {
	a, b, w := newTwins(t, true, untilTold)
	key := w.issue("Add a frobnicator")
	a.start()
	wait(t, "a worker runs", func() bool { return begun(filepath.Join(w.dir, "shared")) == 1 })
	b.start()
	wait(t, "the second one stands by", b.standsBy)
	check(t, a.cmd.Process.Signal(syscall.SIGSTOP))
	wait(t, "a takeover", b.leads)
	check(t, a.cmd.Process.Signal(syscall.SIGCONT))
	wait(t, "the stopped one stands by", a.standsBy)
	if !b.leads() {
		t.Error("nobody leads")
	}
	w.goOn()
	w.handedIn(key, 1)
}

// The clocks of two machines are five minutes apart, either way. The successor takes over in time and continues with
// the leader's worker. It accepts GitHub's answers that are as new as the leader's, and meets all deadlines.
func TestClocksThatDiffer(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("package clockshift can set the clock of a program wrong on amd64 only")
	}
	t.Parallel()
	for _, shift := range []string{"5m", "-5m"} {
		t.Run(shift, func(t *testing.T) {
			a, b, w := newTwins(t, true, untilTold)
			b.shift = shift
			kept, closed := w.issue("Add a frobnicator"), w.issue("No longer needed")
			a.start()
			wait(t, "two workers run", func() bool { return begun(filepath.Join(w.dir, "shared")) == 2 })
			b.start()
			wait(t, "the second one stands by", b.standsBy)
			a.signal(syscall.SIGKILL)
			w.github.SetState(closed, "octocat", "closed")
			wait(t, "a takeover", b.leads) // long before the clocks' difference has passed
			wait(t, "the issue closed during the takeover is released",
				func() bool { return !slices.Contains(w.github.Issue(closed).Labels, "agent-claimed") })
			w.goOn()
			w.handedIn(kept, 1)
			if log := b.log(); strings.Contains(log, `"verdict"`) || strings.Contains(log, "was suspended") {
				t.Error("an attempt was judged by the wrong clock")
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := patience.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ; !holds(); time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("never happened: %s", what)
		}
	}
}

const takeoverConfig = `[director]
data_dir = %q
shared_dir = %q
lease_seconds = %g
interval_seconds = 1
[agent_bus]
url = %q
credentials = %q
heartbeat_interval_seconds = 1
[timeouts]
worker_heartbeat_ttl_seconds = 20
worker_watchdog_seconds = 200
worker_start_seconds = 60
[containers]
runtime = "process"
[rate_limits.github]
min_seconds_between_writes = 1
[github]
repositories = ["acme/widgets"]
api_url = %q
token_env = "GITHUB_TOKEN"
writes = true
poll_seconds = 1
delivery = "branch"
[escalation]
incident_issues = false
[[stage]]
name = "CODE"
run = ["sh", "-c", "%s"]
timeout_seconds = 150
`
