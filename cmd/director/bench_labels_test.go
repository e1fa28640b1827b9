package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"retake/internal/bench"
	"retake/internal/director/operator"
	"retake/internal/github/githubtest"
	"retake/internal/sys/pdeathsig"
)

// labelled is the cost of working on issues that were labelled at the same time.
type labelled struct {
	took   time.Duration // until the last issue is delivered
	peak   int64         // the director's resident memory, in bytes
	cpu    time.Duration
	writes int // requests that changed something
}

// TestBenchLabels measures the time, memory and writes for 20 issues that are labelled at the same time, with four
// workers and an agent that ends immediately.
func TestBenchLabels(t *testing.T) {
	bench.Begin(t)
	dir := t.TempDir()
	check(t, os.Chmod(filepath.Dir(dir), 0o711)) // workers run as another user if this one is root
	buildPrograms(t, dir)
	for _, pause := range []int{1, 2} {
		var old labelled
		if base := os.Getenv(bench.BaselineEnv); base != "" {
			old = labelAtOnce(t, base, pause)
		}
		got := labelAtOnce(t, dir, pause)
		what := fmt.Sprintf("20 issues labelled at once, writes %d s apart, ", pause)
		figure := func(name, unit string, v, beside float64, goal bench.Goal) {
			f := bench.Figure{Section: "labels", What: what + name, Unit: unit, Value: v, Beside: beside}
			if beside != 0 {
				f.Of, f.Goal = "baseline", goal
			}
			bench.Record(t, f)
		}
		figure("until all are handed in", "s", got.took.Seconds(), old.took.Seconds(),
			bench.Goal{AtMost: 0.4, Ratio: true})
		figure("peak memory", "MB", float64(got.peak)/1e6, float64(old.peak)/1e6, bench.Goal{
			AtMost: 0.6, Ratio: true, Limit: "the program's own pages take 50 MB, and the rules for failures and " +
				"secrets 33 MB of the heap",
		})
		figure("processor", "s", got.cpu.Seconds(), old.cpu.Seconds(), bench.Goal{})
		figure("writes", "", float64(got.writes), float64(old.writes), bench.Goal{})
	}
}

// labelAtOnce runs the director in a directory on 20 issues.
func labelAtOnce(t *testing.T, programs string, pause int) (cost labelled) {
	t.Helper()
	dir := t.TempDir()
	hub := githubtest.New(githubtest.Options{DataDir: filepath.Join(dir, "git"), Limits: true})
	hub.AddUser("retake-bot", "token")
	seed := filepath.Join(dir, "seed")
	check(t, os.MkdirAll(seed, 0o755))
	check(t, os.WriteFile(filepath.Join(seed, "README.md"), []byte("# widgets\n"), 0o600))
	check(t, hub.AddRepo("acme/widgets", seed, map[string]string{"retake-bot": "write", "octocat": "write"}))
	web := httptest.NewServer(hub)
	defer web.Close()
	file := filepath.Join(dir, "c.toml")
	check(t, os.WriteFile(file, fmt.Appendf(nil, labelsConfig, filepath.Join(dir, "data"), web.URL+githubtest.APIPath,
		pause), 0o600))
	cmd, log := startProgram(t, programs, dir, file)
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	awaitReady(t, filepath.Join(dir, "data"), log)
	time.Sleep(3 * time.Second) // its first poll is over
	before, began := len(hub.Requests()), time.Now()
	var keys []string
	for i := range 20 {
		key := hub.CreateIssue("acme/widgets", "octocat", fmt.Sprint("Issue ", i), "Please.", "agent-task")
		keys = append(keys, key)
	}
	for slices.ContainsFunc(keys, func(k string) bool {
		i := hub.Issue(k)
		return !slices.Equal(i.Labels, []string{"agent-review"}) || len(i.Comments) != 1 ||
			!strings.Contains(i.Comments[0].Body, `"ended":"delivered"`)
	}) {
		time.Sleep(20 * time.Millisecond)
		blocked := slices.ContainsFunc(keys, func(k string) bool {
			return slices.Contains(hub.Issue(k).Labels, "agent-blocked")
		})
		if blocked || time.Since(began) > 6*time.Minute {
			text, _ := os.ReadFile(log)
			t.Fatalf("not all issues are handed in\n%s", text[max(0, len(text)-5000):])
		}
	}
	cost.took, cost.peak, cost.cpu = time.Since(began), peakOf(t, cmd.Process.Pid), cpuOf(t, cmd.Process.Pid)
	for _, r := range hub.Requests()[before:] {
		if r.Method != http.MethodGet {
			cost.writes++
		}
	}
	if n := hub.Throttled(); n > 0 {
		t.Errorf("%d requests met a limit", n)
	}
	return cost
}

const labelsConfig = `[director]
data_dir = %q
max_workers = 4
[containers]
runtime = "process"
[github]
repositories = ["acme/widgets"]
api_url = %q
token_env = "GITHUB_TOKEN"
writes = true
delivery = "branch"
poll_seconds = 1
[rate_limits.github]
min_seconds_between_writes = %d
[[stage]]
name = "CODE"
run = ["sh", "-c", "echo done > work.txt"]
timeout_seconds = 60
`

// peakOf returns the greatest resident memory that a process has had, in bytes; see proc(5).
func peakOf(t *testing.T, pid int) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(t, err)
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	check(t, err)
	return kib << 10
}

// startProgram runs the director in a directory of programs, and returns it with the file of its log.
func startProgram(t *testing.T, programs, home, config string) (cmd *exec.Cmd, log string) {
	t.Helper()
	cmd = exec.Command(filepath.Join(programs, "director"), "run", "-c", config, "--worker-binary",
		filepath.Join(programs, "worker"))
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GITHUB_TOKEN=token",
	}
	if os.Geteuid() != 0 {
		cmd.Env = append(cmd.Env, "RETAKE_CFG_CONTAINERS_PROCESS_SAME_USER=true")
	}
	file, err := os.Create(filepath.Join(home, "log"))
	check(t, err)
	t.Cleanup(func() { _ = file.Close() })
	cmd.Stderr, cmd.SysProcAttr = file, &syscall.SysProcAttr{Setpgid: true}
	check(t, pdeathsig.Start(cmd))
	return cmd, file.Name()
}

// awaitReady waits until the director answers.
func awaitReady(t *testing.T, data, log string) {
	t.Helper()
	began := time.Now()
	for {
		if _, err := operator.AskSnapshot(t.Context(), data); err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			text, _ := os.ReadFile(log)
			t.Fatalf("it is not ready\n%s", text)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
