package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"retake/internal/bench"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/github/githubtest"
	"retake/internal/timeline"
)

// The build tag fasthour, Options.Hour of the stand-in and these values make everything ten times as fast as on GitHub,
// except git, the workers and the programs themselves.
const (
	fast          = 10
	fastHour      = time.Hour / fast
	fastLatency   = 250 * time.Millisecond / fast // of a request to GitHub
	fastPause     = 2 * time.Second / fast        // between two writes, the default of the configuration
	backlogIssues = 300
)

// TestBenchBacklog labels 300 issues at once. 40 workers run as plain processes, and their agents take three seconds.
// It measures the deliveries in the first hour of the fast time, and compares them with the bound by GitHub's limits.
func TestBenchBacklog(t *testing.T) {
	bench.Begin(t)
	dir := t.TempDir()
	check(t, os.Chmod(filepath.Dir(dir), 0o711)) // workers run as another user if this one is root
	buildPrograms(t, dir, "-tags", "fasthour")
	alone := workOnBacklog(t, dir, 1)
	all := workOnBacklog(t, dir, backlogIssues)
	first := all.done[0]
	within := slices.IndexFunc(all.done, func(at time.Duration) bool { return at > first+fastHour })
	if within < 0 {
		within = len(all.done)
	}
	tasks := float64(len(all.done))
	content, requests := 480.0/2, 5000/(float64(all.counted)/tasks)
	pace := float64(fastHour) / (float64(all.writes) / tasks * float64(fastPause+fastLatency))
	bound := min(content, pace, requests)
	figure := func(what, unit string, v, beside float64, of string, goal bench.Goal) {
		bench.Record(t, bench.Figure{
			Section: "backlog", What: "300 issues labelled at once, 1:10, " + what, Unit: unit, Value: v,
			Beside: beside, Of: of, Goal: goal,
		})
	}
	info := bench.Goal{}
	figure("done in an hour", "", float64(within), bound, "bound", bench.Goal{AtLeast: 0.9, Ratio: true})
	figure("bound by new content", "", content, 0, "", info)
	figure("bound by the pace of writes", "", pace, 0, "", info)
	figure("bound by requests", "", requests, 0, "", info)
	figure("first delivery", "s", first.Seconds(), alone.done[0].Seconds(), "a single issue",
		bench.Goal{AtMost: 1.2, Ratio: true})
	figure("longest wait for a delivery, in fast time", "s", fast*all.waited.Seconds(), 0, "",
		bench.Goal{AtMost: 120})
	figure("processor of the director", "s", all.cpu.Seconds(), 0, "", info)
}

// worked is the result of a backlog.
type worked struct {
	done    []time.Duration // from the labels to each delivery, in order
	waited  time.Duration   // longest time from the end of an agent to the delivery
	writes  int             // requests that changed something
	counted int             // requests that use up the hour's requests over REST
	cpu     time.Duration
}

// workOnBacklog runs the director on issues that are labelled at once, until all are delivered.
func workOnBacklog(t *testing.T, programs string, issues int) (w worked) {
	t.Helper()
	dir := t.TempDir()
	hub := githubtest.New(githubtest.Options{DataDir: filepath.Join(dir, "git"), Limits: true, Hour: fastHour})
	hub.AddUser("retake-bot", "token")
	seed := filepath.Join(dir, "seed")
	check(t, os.MkdirAll(seed, 0o755))
	check(t, os.WriteFile(filepath.Join(seed, "README.md"), []byte("# widgets\n"), 0o600))
	check(t, hub.AddRepo("acme/widgets", seed, map[string]string{"retake-bot": "write", "octocat": "write"}))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(fastLatency)
		hub.ServeHTTP(w, r)
	}))
	defer web.Close()
	file, data := filepath.Join(dir, "c.toml"), filepath.Join(dir, "data")
	check(t, os.WriteFile(file, fmt.Appendf(nil, backlogConfig, data, web.URL+githubtest.APIPath), 0o600))
	cmd, log := startProgram(t, programs, dir, file)
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	awaitReady(t, data, log)
	time.Sleep(5 * time.Second) // its first poll is over
	before, began := len(hub.Requests()), time.Now()
	for i := range issues {
		hub.CreateIssue("acme/widgets", "octocat", fmt.Sprint("Issue ", i), "Please.", "agent-task")
	}
	for len(w.done) < issues && time.Since(began) < 2*fastHour {
		time.Sleep(3 * time.Second)
		w.done, w.waited = deliveries(t, data, began)
	}
	w.cpu = cpuOf(t, cmd.Process.Pid)
	for _, r := range hub.Requests()[before:] {
		if r.Method != http.MethodGet {
			w.writes++
		}
		if r.Status != http.StatusNotModified && !strings.HasSuffix(r.Path, "/graphql") {
			w.counted++
		}
	}
	if len(w.done) < issues {
		text, _ := os.ReadFile(log)
		t.Fatalf("%d of %d issues are delivered\n%s", len(w.done), issues, text[max(0, len(text)-5000):])
	}
	if n := hub.Throttled(); n > 0 {
		t.Errorf("%d requests met a limit", n)
	}
	if n := len(slices.DeleteFunc(hub.Issues("acme/widgets"), func(i githubtest.Issue) bool {
		return i.Head == "" || i.HeadSHA == ""
	})); n != issues {
		t.Errorf("%d pull requests for %d issues", n, issues)
	}
	return w
}

// deliveries returns the time of each delivery in the director's history, and the longest time that finished work
// waited for its delivery.
func deliveries(t *testing.T, data string, began time.Time) (done []time.Duration, waited time.Duration) {
	t.Helper()
	ended := map[fsm.IssueKey]time.Time{}
	check(t, operator.AskEvents(t.Context(), data, operator.EventFilter{}, func(e timeline.Event) error {
		switch e.Kind {
		case "report_accepted":
			ended[e.Issue] = e.At
		case "work_delivered":
			done, waited = append(done, e.At.Sub(began)), max(waited, e.At.Sub(ended[e.Issue]))
		}
		return nil
	}))
	return done, waited
}

const backlogConfig = `[director]
data_dir = %q
max_workers = 40
[containers]
runtime = "process"
[github]
repositories = ["acme/widgets"]
api_url = %q
token_env = "GITHUB_TOKEN"
writes = true
poll_seconds = 1
[rate_limits.github]
cooldown_on_rate_limit_seconds = 6
[[stage]]
name = "CODE"
run = ["sh", "-c", "sleep 3; echo done > work.txt"]
timeout_seconds = 60
`
