package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"retake/internal/bench"
	"retake/internal/github/githubtest"
)

// idleFor is the observation time of an idle director. It covers more than one poll without changes.
const idleFor = 40 * time.Second

// buildPrograms builds the director and the worker into dir.
func buildPrograms(t *testing.T, dir string, flags ...string) {
	t.Helper()
	for _, name := range []string{"director", "worker"} {
		build := exec.Command("go", append([]string{
			"build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, name),
		}, append(flags, "retake/cmd/"+name)...)...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// measurePrograms builds the programs and records their sizes.
func measurePrograms(t *testing.T, dir string) {
	t.Helper()
	buildPrograms(t, dir)
	for _, name := range []string{"director", "worker"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		f := bench.Figure{
			Section: "idle", What: "size of the " + name + "'s program",
			Value: float64(info.Size()) / 1e6, Unit: "MB",
		}
		if name == "worker" { // copied into every container
			f.Goal.AtMost = 10
		}
		bench.Record(t, f)
	}
}

// idleGitHub serves a stand-in for GitHub with one repository, and returns the address of its API.
func idleGitHub(t *testing.T, dir string) string {
	t.Helper()
	hub := githubtest.New(githubtest.Options{DataDir: filepath.Join(dir, "git")})
	hub.AddUser("retake-bot", "token")
	seed := filepath.Join(dir, "seed")
	check(t, os.MkdirAll(seed, 0o755))
	check(t, os.WriteFile(filepath.Join(seed, "README.md"), []byte("# widgets\n"), 0o600))
	check(t, hub.AddRepo("acme/widgets", seed, map[string]string{"retake-bot": "write", "octocat": "write"}))
	web := httptest.NewServer(hub)
	t.Cleanup(web.Close)
	return web.URL + githubtest.APIPath
}

// TestBenchIdle measures the released program: its size, startup time, and idle cost.
func TestBenchIdle(t *testing.T) {
	bench.Begin(t)
	dir := t.TempDir()
	measurePrograms(t, dir)
	api := idleGitHub(t, dir)
	file := filepath.Join(dir, "c.toml")
	check(t, os.WriteFile(file, fmt.Appendf(nil, idleConfig, filepath.Join(dir, "data"), api), 0o600))

	began := time.Now()
	cmd, log := startProgram(t, dir, dir, file)
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	awaitReady(t, filepath.Join(dir, "data"), log)
	bench.Record(t, bench.Figure{
		Section: "idle", What: "start of the program → it answers, nothing to take up",
		Value: float64(time.Since(began).Microseconds()) / 1000, Unit: "ms", Goal: bench.Goal{AtMost: 2000},
	})
	time.Sleep(5 * time.Second) // startup is over
	from, at := cpuOf(t, cmd.Process.Pid), time.Now()
	time.Sleep(idleFor)
	used := cpuOf(t, cmd.Process.Pid) - from
	bench.Record(t, bench.Figure{
		Section: "idle", What: "processor time, no workers, of one core",
		Value: 100 * used.Seconds() / time.Since(at).Seconds(), Unit: "%", Goal: bench.Goal{AtMost: 0.5},
	})
	bench.Record(t, bench.Figure{
		Section: "idle", What: "resident memory, no workers",
		Value: float64(residentOf(t, cmd.Process.Pid)) / 1e6, Unit: "MB",
	})
}

const idleConfig = `[director]
data_dir = %q
[containers]
runtime = "process"
[github]
repositories = ["acme/widgets"]
api_url = %q
token_env = "GITHUB_TOKEN"
writes = true
[[stage]]
name = "CODE"
run = ["true"]
timeout_seconds = 60
`

// ticks is the unit of processor time in /proc per second. It is the same on all supported architectures.
const ticks = 100

// cpuOf returns the processor time of a process; see proc(5).
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(t, err)
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:])) // starts with the third field
	user, err := strconv.Atoi(fields[14-3])
	check(t, err)
	system, err := strconv.Atoi(fields[15-3])
	check(t, err)
	return time.Duration(user+system) * time.Second / ticks
}

// residentOf returns the resident memory of a process, in bytes.
func residentOf(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	check(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	check(t, err)
	return pages * int64(os.Getpagesize())
}
