package main

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"retake/internal/bus/bustest"
	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/github/githubtest"
	"retake/internal/sys/clockshift"
	"retake/internal/sys/tied"
	"retake/internal/testbed/program"
)

var takeovers = flag.Int("takeovers", 1, "how often TestTakeovers kills the leading director")

// takeoverLease is short, but long enough for a machine with other load.
const takeoverLease = 3 * time.Second

// twin is one of two directors with the same fleet.
type twin struct {
	t         *testing.T
	dir, data string
	shift     string   // clock offset; empty if correct
	env       []string // additional environment
	cmd       *exec.Cmd
}

func (d *twin) start() {
	d.t.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	bin := filepath.Dir(d.dir)
	d.cmd = exec.Command(filepath.Join(bin, "director"), "run", "-c", filepath.Join(d.dir, "c.toml"), "--worker-binary",
		filepath.Join(bin, "worker"))
	d.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "GITHUB_TOKEN=token"}, d.env...)
	if os.Geteuid() != 0 {
		d.cmd.Env = append(d.cmd.Env, "RETAKE_CFG_CONTAINERS_PROCESS_SAME_USER=true")
	}
	if d.shift != "" {
		d.cmd.Env = append(d.cmd.Env, clockshift.Variable+"="+d.shift)
	}
	d.cmd.Stderr, d.cmd.SysProcAttr = log, &syscall.SysProcAttr{Setpgid: true}
	if err := tied.Start(d.cmd); err != nil {
		d.t.Fatal(err)
	}
}

func (d *twin) signal(s syscall.Signal) {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(s)
	_ = d.cmd.Process.Signal(syscall.SIGCONT) // it may be stopped
	_ = d.cmd.Wait()
	d.cmd = nil
}

// ask returns the director's state. Ok is false if it does not answer.
func (d *twin) ask() (s wire.SnapshotDirector, ok bool) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 5*time.Second)
	defer cancel()
	all, err := operator.AskSnapshot(ctx, d.data)
	return all.Director, err == nil
}

func (d *twin) leads() bool {
	s, ok := d.ask()
	return ok && s.Leader
}

func (d *twin) standsBy() bool {
	s, ok := d.ask()
	return ok && !s.Leader && s.Phase == "STANDBY" && s.Leadership != nil
}

// tookOver checks why a director leads.
func (d *twin) tookOver(why string) {
	d.t.Helper()
	if s, ok := d.ask(); !ok || s.Leadership == nil || !strings.Contains(s.Leadership.Why, why) {
		d.t.Errorf("it leads for another reason than that the one before %s: %+v", why, s.Leadership)
	}
}

// programs is the folder with the built director and worker. The director's clock can be shifted. They are built
// without the race detector: it would slow real processes down, and find nothing there that it does not find in the
// packages' own tests.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "retake-programs-")
	if err != nil {
		return "", err
	}
	removePrograms = func() { _ = os.RemoveAll(dir) }
	build := exec.Command("env", "CGO_ENABLED=0", "go", "build", "-o", dir, "-tags", "clockshift",
		"-ldflags", "-checklinkname=0", "retake/cmd/director")
	if out, err := build.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w\n%s", err, out)
	}
	return dir, program.Build(context.Background(), "", "retake/cmd/worker", dir+"/")
})

var removePrograms = func() {}

// world is the environment shared by the directors, with the script of their workers.
type world struct {
	t      *testing.T
	dir    string
	github *githubtest.Server
	bus    *bustest.Server
}

// untilTold is the script of a worker that waits for world.goOn.
const untilTold = "until [ -e %s/go-on ]; do sleep 0.1; done"

// newTwins starts what two directors need. Without storage that they share each has its own. work is a shell's
// line, in which %s is the world's folder.
func newTwins(t *testing.T, shared bool, work string) (a, b *twin, w *world) {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes, and waits for leases")
	}
	t.Parallel()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	w = &world{t: t, dir: t.TempDir()}
	check(t, os.Chmod(filepath.Dir(w.dir), 0o755)) // workers are another user's processes
	check(t, os.Chmod(w.dir, 0o755))
	t.Cleanup(func() { endBelow(w.dir) })
	for _, name := range []string{"director", "worker"} {
		check(t, os.Link(filepath.Join(bin, name), filepath.Join(w.dir, name)))
	}
	w.github = githubtest.New(githubtest.Options{DataDir: filepath.Join(w.dir, "git"), RateLimit: 1_000_000})
	w.github.AddUser("retake-bot", "token")
	seed := filepath.Join(w.dir, "seed")
	check(t, os.MkdirAll(seed, 0o755))
	check(t, os.WriteFile(filepath.Join(seed, "README.md"), []byte("# widgets\n"), 0o600))
	check(t, w.github.AddRepo("acme/widgets", seed, map[string]string{"retake-bot": "write", "octocat": "write"}))
	labels := []string{"agent-task", "agent-claimed", "agent-blocked", "agent-review"}
	// the labels exist, because only one write per second is allowed
	had := w.github.CreateIssue("acme/widgets", "octocat", "An issue of before", "", labels...)
	for _, label := range labels {
		w.github.RemoveLabel(had, "octocat", label)
	}
	web := httptest.NewServer(w.github)
	t.Cleanup(web.Close)
	w.bus = bustest.New(t, w.dir)
	storage := ""
	if shared {
		storage = filepath.Join(w.dir, "shared")
	}
	work = "echo >begun.txt; " + strings.ReplaceAll(work, "%s", w.dir) + "; echo work > work.txt"
	api := web.URL + githubtest.APIPath
	return w.director("a", storage, api, work), w.director("b", storage, api, work), w
}

func (w *world) director(name, storage, api, work string) *twin {
	d := &twin{t: w.t, dir: filepath.Join(w.dir, name), data: filepath.Join(w.dir, name, "data")}
	check(w.t, os.Mkdir(d.dir, 0o755))
	check(w.t, os.WriteFile(filepath.Join(d.dir, "c.toml"), fmt.Appendf(nil, takeoverConfig, d.data, storage,
		takeoverLease.Seconds(), w.bus.URL, w.bus.Credentials(), api, work), 0o600))
	w.t.Cleanup(func() {
		d.signal(syscall.SIGTERM)
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", d.dir, d.log())
		}
	})
	return d
}

func (d *twin) log() string {
	log, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	return string(log)
}

func (w *world) issue(title string) (key string) {
	return w.github.CreateIssue("acme/widgets", "octocat", title, "please", "agent-task")
}

// begun counts the checkouts with a running or finished worker below a folder.
func begun(dir string) int {
	found, _ := filepath.Glob(filepath.Join(dir, "tasks", "*", "checkout", "begun.txt"))
	return len(found)
}

// goOn ends what workers wait for.
func (w *world) goOn() { check(w.t, os.WriteFile(filepath.Join(w.dir, "go-on"), nil, 0o600)) }

// handedIn waits until an attempt has delivered an issue, and checks that it has exactly one comment.
func (w *world) handedIn(key string, attempt int) {
	w.t.Helper()
	wait(w.t, key+" is handed in",
		func() bool { return slices.Equal(w.github.Issue(key).Labels, []string{"agent-review"}) })
	branch := fmt.Sprintf("retake/%s-a%d", key[strings.LastIndexByte(key, '#')+1:], attempt)
	wait(w.t, key+" names "+branch,
		func() bool { return strings.Contains(w.github.Issue(key).Comments[0].Body, branch) })
	if comments := w.github.Issue(key).Comments; len(comments) != 1 {
		w.t.Errorf("%s has %d comments: %+v", key, len(comments), comments)
	}
}

// endBelow kills what runs a program below a folder: workers outlive their director.
func endBelow(dir string) {
	programs, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range programs {
		if program, err := os.Readlink(exe); err == nil && strings.HasPrefix(program, dir+"/") {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(exe))); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// A disconnection from the bus that exceeds the lease only costs the lead. The former leader gets it back and
// continues.
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

// Without shared storage, a takeover only costs the running attempt, which is repeated. The former leader's worker is
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
	wait(t, "what was left behind is removed", func() bool {
		left, _ := filepath.Glob(filepath.Join(a.data, "processes", "*", "retake"))
		return len(left) == 0 && a.leads()
	})
}

// Two directors share one bus. The leader is killed repeatedly during work on issues. The other director takes over
// within two lease periods, or immediately after a graceful stop. Nothing is lost or repeated. -takeovers 20 prints the
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
		time.Sleep(time.Duration(n%4) * 700 * time.Millisecond) // at another moment of the work each time
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
	other.tookOver("has given the lease back")
	for _, key := range issues {
		w.handedIn(key, 1)
	}
}

// A leader that was paused for longer than its lease finds a new leader when it resumes, and becomes a standby.
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

// The clocks of two machines are five minutes apart, either way. The successor takes over in time, continues with the
// leader's worker, and interprets GitHub's answers correctly: no older than the leader's, with no deadline expired.
func TestClocksThatDiffer(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("package clockshift can set the clock of a program wrong on amd64 only")
	}
	t.Parallel()
	for _, shift := range []string{"5m", "-5m"} {
		t.Run(shift, func(t *testing.T) {
			a, b, w := newTwins(t, true, untilTold)
			b.shift = shift
			kept, closed := w.issue("Add a frobnicator"), w.issue("Not needed any more")
			a.start()
			wait(t, "two workers run", func() bool { return begun(filepath.Join(w.dir, "shared")) == 2 })
			b.start()
			wait(t, "the second one stands by", b.standsBy)
			a.signal(syscall.SIGKILL)
			w.github.SetState(closed, "octocat", "closed")
			wait(t, "a takeover", b.leads) // long before the clocks are as far apart
			wait(t, "what was closed meanwhile is given back",
				func() bool { return !slices.Contains(w.github.Issue(closed).Labels, "agent-claimed") })
			w.goOn()
			w.handedIn(kept, 1)
			if log := b.log(); strings.Contains(log, `"verdict"`) || strings.Contains(log, "was not running") {
				t.Error("somebody was judged by the wrong clock")
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
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
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
