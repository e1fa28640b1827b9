package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/testbed"
)

func TestChoose(t *testing.T) {
	all := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}
	for _, c := range []struct {
		only    []int
		runtime string
		want    []int
	}{
		{nil, testbed.RuntimeDocker, all},
		{[]int{7}, testbed.RuntimeDocker, []int{7}},
		{[]int{7, 1}, testbed.RuntimeDocker, []int{1, 7}},
		{nil, testbed.RuntimeProcess, slices.DeleteFunc(slices.Clone(all), func(n int) bool { return n == 5 })},
		{[]int{10}, testbed.RuntimeDocker, []int{1, 10}},
		{[]int{10, 4}, testbed.RuntimeDocker, []int{4, 10}},
	} {
		chosen, err := choose(c.only, c.runtime)
		var got []int
		for _, s := range chosen {
			got = append(got, s.Number)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("choose(%v, %s) = %v, %v, want %v", c.only, c.runtime, got, err, c.want)
		}
	}
	for runtime, only := range map[string][]int{testbed.RuntimeDocker: {1, 14}, testbed.RuntimeProcess: {5}} {
		if _, err := choose(only, runtime); err == nil || !strings.Contains(err.Error(), "6 7 8 9 10 11 12 13") {
			t.Errorf("%s, %v: got %v, want an error that names the known ones", runtime, only, err)
		}
	}
}

// Scenario n is issue n, and has an acceptance test. Other issues have no such test, and so the agent cannot work on
// them.
func TestIssuesFitTheScenarios(t *testing.T) {
	texts := issueTexts()
	acceptance := regexp.MustCompile("(?m)^```go\n// \\S+_test\\.go$")
	people := 0
	for i, text := range texts {
		isWork := slices.ContainsFunc(scenarios, func(s scenario) bool { return s.Number == i+1 })
		if text.title == "" || acceptance.MatchString(text.body) != isWork {
			t.Errorf("issue %d (%q): has an acceptance test: %v, want %v", i+1, text.title, !isWork, isWork)
		}
		if !isWork {
			people++
		}
	}
	if people == 0 {
		t.Error("an issue for the director to ignore is missing")
	}
	for i, s := range scenarios {
		if s.Number != i+1 {
			t.Errorf("scenario %d has index %d", s.Number, i+1)
		}
	}
}

func TestConfigurationHasNoProblems(t *testing.T) {
	fleet := newFleet()
	docker := &testbed.Docker{Image: "retake-testbed:" + fleet, Fleet: fleet}
	for runtime, h := range map[string]host{
		testbed.RuntimeDocker: &local{docker, docker}, testbed.RuntimeProcess: &local{Host: &testbed.Processes{}},
	} {
		s := &world{
			fleet: fleet, dir: t.TempDir(), host: h, github: &testbed.GitHub{URL: "http://127.0.0.1:1234"},
			model: &model{url: "http://127.0.0.1:5678"}, providerURL: "http://127.0.0.1:5679",
			agent: testbed.AgentPath, cache: cache{dir: "/home/somebody/.cache/retake-demo/go-build"},
			tools: toolchain{root: "/usr/local/go", mounts: []string{"/usr/share/go/src"}},
		}
		if err := s.writeConfig(); err != nil {
			t.Fatal(err)
		}
		c, problems := config.Load(s.config(), nil, nil)
		if problems = append(problems, c.CheckRun(func(string) (string, bool) { return "set", true })...); len(
			problems) > 0 {
			t.Fatal(problems)
		}
		if c.Director.Fleet != fleet || c.Containers.Runtime != runtime || len(c.Containers.Mounts) != 3 ||
			len(c.Stages) != 5 {
			t.Errorf("%s: got\n%s", runtime, c)
		}
		for i, m := range c.Containers.ParsedMounts() {
			if m.ReadOnly != (i < 2) || runtime == testbed.RuntimeProcess && m.Source != m.Target {
				t.Errorf("%s: mount %v: read-only: %v", runtime, m, m.ReadOnly)
			}
		}
		if l := c.GitHub.Labels; !slices.Equal(testbed.Labels, []string{l.Task, l.Claimed, l.Blocked, l.Review}) {
			t.Errorf("the labels by default are %v", l)
		}
		if memory := c.Containers.Memory; runtime == testbed.RuntimeDocker && memory != memoryLimit {
			t.Errorf("the limit is shown as %s, want %s", memory, memoryLimit)
		}
	}
}

func TestToolchainWithLinks(t *testing.T) {
	dir := t.TempDir()
	root, elsewhere := filepath.Join(dir, "lib", "go"), filepath.Join(dir, "share", "go", "src")
	for _, d := range []string{filepath.Join(root, "bin"), elsewhere} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"src": "../../share/go/src", "tools": "bin", "gone": "/nonexistent"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := linkedFolders(root)
	if err != nil || !slices.Equal(got, []string{elsewhere}) {
		t.Errorf("linked = %v, %v, want %s", got, err, elsewhere)
	}
}

// Every transition has a text, except the transitions that other lines report.
func TestTransitionsHaveWords(t *testing.T) {
	var silent []string
	for _, x := range fsm.Transitions {
		for _, from := range x.From {
			if transitionText(line{From: from.String(), To: x.To.String(), Event: string(x.On)}) == "" {
				silent = append(silent, fmt.Sprintf("%v-%v", from, x.To))
			}
		}
	}
	want := []string{
		"Queued-Forgotten", "Claiming-Forgotten", "Starting-Stopping", "Running-Stopping",
		"Suspect-Stopping",
	}
	if !slices.Equal(silent, want) {
		t.Errorf("silent: %v, want %v", silent, want)
	}
}

func TestNarratorAligns(t *testing.T) {
	var out strings.Builder
	n := &progressLog{out: &out, began: time.Now()}
	n.logLine(line{Message: "transition", Issue: "demo/widgets#7", From: "Starting", To: "Running"})
	n.logLine(line{
		Message: "verdict", Issue: "demo/widgets#12", Reason: "worker_lost", Action: "restart_worker",
		Cause: strings.Repeat("long ", 40),
	})
	n.logLine(line{Message: "poll", Issue: "demo/widgets#7", Level: "info"})
	n.print("the end")
	const want = "   0.0s  #7   the worker is up\n" +
		"   0.0s  #12  worker_lost: restart_worker  (long long long long long long long long long long long long " +
		"long lo...)\n" +
		"   0.0s       the end\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTroublesKeepWhatMatters(t *testing.T) {
	var all strings.Builder
	log := &logTail{out: &all}
	for i := range 100 {
		fmt.Fprintf(log, `{"level":"info","msg":"%d"}`+"\n", i)
		fmt.Fprintf(log, `{"level":"warn","msg":"%d"}`+"\n", i)
	}
	fmt.Fprintln(log, "config: no such file")
	if n := strings.Count(all.String(), "\n"); n != 201 {
		t.Errorf("%d lines were passed on, want 201", n)
	}
	if len(log.lines) != maxLogLines || strings.Contains(strings.Join(log.lines, ""), "info") ||
		!strings.HasSuffix(log.last(), "config: no such file") {
		t.Errorf("got %q", log.lines)
	}
}
