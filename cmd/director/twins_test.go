package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
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
	"retake/internal/sys/pdeathsig"
	"retake/internal/testbed/program"
)

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
	if err := pdeathsig.Start(d.cmd); err != nil {
		d.t.Fatal(err)
	}
}

func (d *twin) signal(s syscall.Signal) {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(s)
	_ = d.cmd.Process.Signal(syscall.SIGCONT) // it may be paused
	_ = d.cmd.Wait()
	d.cmd = nil
}

// ask returns the director's state. ok is false if it does not answer.
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
		d.t.Errorf("it does not lead because the previous director %s: %+v", why, s.Leadership)
	}
}

// programs returns the directory with the built director and worker. The director's clock can be shifted. They are
// built without the race detector, which would slow real processes down and find only the races that the packages' own
// tests find.
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

// untilTold is the script of a worker that waits for goOn.
const untilTold = "until [ -e %s/go-on ]; do sleep 0.1; done"

// newTwins prepares two directors that share a bus, and starts the bus and the stand-in for GitHub. If shared is set,
// they also share the directory of the checkouts. work is a shell line, in which %s is the world's directory.
func newTwins(t *testing.T, shared bool, work string) (a, b *twin, w *world) {
	t.Helper()
	w, api := newWorld(t)
	w.bus = bustest.New(t, w.dir)
	storage := ""
	if shared {
		storage = filepath.Join(w.dir, "shared")
	}
	work = "echo >begun.txt; " + strings.ReplaceAll(work, "%s", w.dir) + "; echo work > work.txt"
	return w.director("a", storage, api, work), w.director("b", storage, api, work), w
}

// newWorld starts a stand-in for GitHub without a bus, and returns the URL of its API.
func newWorld(t *testing.T) (w *world, api string) {
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
	return w, web.URL + githubtest.APIPath
}

func (w *world) director(name, storage, api, work string) *twin {
	d := &twin{t: w.t, dir: filepath.Join(w.dir, name), data: filepath.Join(w.dir, name, "data")}
	check(w.t, os.Mkdir(d.dir, 0o755))
	check(w.t, os.WriteFile(filepath.Join(d.dir, "c.toml"), fmt.Appendf(nil, takeoverConfig, d.data, storage,
		takeoverLease.Seconds(), w.bus.URL, w.bus.Credentials(), api, work), 0o600))
	w.t.Cleanup(d.endWithLog)
	return d
}

// endWithLog ends the director, and logs its output if the test has failed.
func (d *twin) endWithLog() {
	d.signal(syscall.SIGTERM)
	if d.t.Failed() {
		d.t.Logf("%s:\n%s", d.dir, d.log())
	}
}

func (d *twin) log() string {
	log, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	return string(log)
}

func (w *world) issue(title string) (key string) {
	return w.github.CreateIssue("acme/widgets", "octocat", title, "please", "agent-task")
}

// begun counts the checkouts below a directory that contain a running or finished worker.
func begun(dir string) int {
	found, _ := filepath.Glob(filepath.Join(dir, "tasks", "*", "checkout", "begun.txt"))
	return len(found)
}

// goOn lets waiting workers continue.
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

// endBelow kills processes that run a program below a directory, because workers outlive their director.
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
