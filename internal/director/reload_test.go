package director

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"retake/internal/bus"
	"retake/internal/config"
	"retake/internal/director/offline"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/patience"
)

// written is a configuration that tests rewrite while a director runs.
type written struct {
	mu       sync.Mutex
	config   config.Config
	problems config.Problems
}

func (f *written) read() (config.Config, config.Problems) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.config, f.problems
}

func (f *written) write(change func(c *config.Config)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.config)
}

func working(ctx context.Context, a *fakeWorker) int { return a.work(ctx) }

// runs waits until a director answers and works.
func (s *harness) runs() {
	s.t.Helper()
	s.until("it runs", func() bool { return strings.HasPrefix(s.health(), "healthy") })
}

// rereads starts a director that rereads its configuration from the test's file.
func (s *harness) rereads() *written {
	f := &written{config: s.config}
	s.read = f.read
	s.start()
	return f
}

func (s *harness) reload() operator.Reading {
	s.t.Helper()
	r, err := operator.Reload(s.t.Context(), s.config.Director.DataDir)
	must(s.t, err)
	return r
}

// TestReloadHoldsForWhatComesNext checks that a running attempt keeps its plan, and the next one has the new stages.
// More workers begin at once.
func TestReloadHoldsForWhatComesNext(t *testing.T) {
	t.Parallel()
	plans, goOn := make(chan []string, 8), make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.showsPlan(ctx, plans, goOn) })
	s.config.Director.MaxWorkers = 1
	first := s.github.CreateIssue(repo, "octocat", "First", "", "agent-task")
	f := s.rereads()
	if got := <-plans; !slices.Equal(got, []string{"played", "1h0m0s"}) {
		t.Fatalf("the first plan is %q", got)
	}
	second := s.github.CreateIssue(repo, "octocat", "Second", "", "agent-task")
	s.until("it waits for a slot", func() bool { return s.state(second) == "Queued" })
	f.write(func(c *config.Config) {
		c.Director.MaxWorkers, c.Timeouts.WorkerWatchdog, c.GitHub.Labels.Task = 2, 2*time.Hour, "other-task"
		c.Stages = []config.Stage{{Name: "CODE", Run: []string{"played", "anew"}, Timeout: time.Minute}}
	})
	r := s.reload()
	if want := []string{"director.max_workers", "timeouts.worker_watchdog_seconds", "stage[0].run"}; !slices.Equal(
		r.Changed, want) || r.Pending || len(r.Problems) > 0 {
		t.Errorf("changed %q, want %q: %+v", r.Changed, want, r)
	}
	if want := []string{"github.labels.task"}; !slices.Equal(r.Restart, want) {
		t.Errorf("waits for a restart: %q, want %q", r.Restart, want)
	}
	if got := <-plans; !slices.Equal(got, []string{"played anew", "2h0m0s"}) {
		t.Errorf("the second plan is %q", got)
	}
	if s.runtime.running(first) == "" {
		t.Error("the first attempt no longer runs")
	}
	close(goOn)
	s.until("both are handed in", func() bool {
		return s.labelled(first, "agent-review")() &&
			s.labelled(second, "agent-review")()
	})
	now, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir)
	must(t, err)
	if c := now.Director.Config; c == nil || c.Digest != r.Digest || !slices.Equal(c.Restart, r.Restart) ||
		c.By != "director reload" {
		t.Errorf("status says %+v, and it was %+v", c, r)
	}
	if r := s.reload(); len(r.Changed) > 0 || len(r.Restart) != 1 || r.Digest != now.Director.Config.Digest {
		t.Errorf("read again: %+v", r)
	}
	s.stop()
	if facts := s.settingsChanged(); len(facts) != 1 || facts[0].By != "director reload" ||
		facts[0].Digest != r.Digest || !slices.Equal(facts[0].Keys, r.Changed) {
		t.Errorf("the journal has %+v", facts)
	}
}

// settingsChanged returns the journal's facts about changed settings.
func (s *harness) settingsChanged() (out []fsm.SettingsChanged) {
	s.t.Helper()
	must(s.t, offline.With(s.t.Context(), s.config, false, func(ctx context.Context, b *bus.Bus) error {
		_, err := b.Journal().Replay(ctx, bus.Head{}, func(_ uint64, data []byte) error {
			records, err := fsm.ReadBatch(data)
			for _, r := range records {
				for _, f := range r.Facts {
					if f, ok := f.(fsm.SettingsChanged); ok {
						out = append(out, f)
					}
				}
			}
			return err
		})
		return err
	}))
	return out
}

// TestABrokenConfigurationIsRefused checks that the director refuses a broken configuration as a whole with the reason,
// and accepts the repaired file.
func TestABrokenConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	s := newHarness(t, working)
	f := s.rereads()
	s.runs()
	before := s.reload()
	f.write(func(c *config.Config) {
		c.Director.MaxWorkers = 9
		f.problems = config.Problems{{
			Where: "c.toml:3:7", Key: "retry.jitter",
			Text: `got "ful", want one of "full", "equal", "none"`,
		}}
	})
	r := s.reload()
	if want := []string{f.problems[0].String()}; !slices.Equal(r.Problems, want) || r.Digest != before.Digest ||
		len(r.Changed) > 0 {
		t.Errorf("got %+v, want %q", r, want)
	}
	if h := s.health(); !strings.Contains(h, "was rejected (1 problem)") || !strings.HasPrefix(h, "healthy") {
		t.Errorf("health says %q", h)
	}
	now, err := operator.AskSnapshot(t.Context(), s.config.Director.DataDir)
	must(t, err)
	if c := now.Director.Config; c == nil || !slices.Equal(c.Problems, r.Problems) || c.Digest != before.Digest {
		t.Errorf("status says %+v", c)
	}
	f.write(func(*config.Config) { f.problems = nil })
	if r := s.reload(); !slices.Equal(r.Changed, []string{"director.max_workers"}) || len(r.Problems) > 0 {
		t.Errorf("mended: %+v", r)
	}
	if h := s.health(); strings.Contains(h, "refused") {
		t.Errorf("health says %q", h)
	}
}

// The director refuses a watchdog that would outlive the workers' keys, and a rules file that is no longer readable.
func TestWhatARunningDirectorCannotTake(t *testing.T) {
	t.Parallel()
	s := newHarness(t, working)
	f := s.rereads()
	s.runs()
	for want, change := range map[string]func(c *config.Config){
		"worker keys are valid for at most 13h0m0s": func(
			c *config.Config,
		) {
			c.Timeouts.WorkerWatchdog = 20 * time.Hour
		},
		"want a TOML file": func(c *config.Config) {
			c.Recovery.RulesFile = filepath.Join(
				t.TempDir(), "gone.toml")
		},
	} {
		was := f.config
		f.write(change)
		if r := s.reload(); len(r.Problems) != 1 || !strings.Contains(r.Problems[0], want) || len(r.Changed) > 0 {
			t.Errorf("got %+v, want %q", r, want)
		}
		f.write(func(c *config.Config) { *c = was })
	}
}

// TestAFileIsReadWhenItChanges covers a file that is written in place, a file that is replaced, and a file that
// another file names.
func TestAFileIsReadWhenItChanges(t *testing.T) {
	t.Parallel()
	s := newHarness(t, working)
	dir := t.TempDir()
	file, policy := filepath.Join(dir, "c.json"), filepath.Join(dir, "policy", "p.toml")
	must(t, os.Mkdir(filepath.Dir(policy), 0o755))
	const row = "base = \"director\"\n[[row]]\non = \"no_progress\"\nthen = \"escalate\"\n"
	must(t, os.WriteFile(policy, []byte(row), 0o600))
	type text struct{ Workers int }
	put := func(name string, n int) {
		data, err := json.Marshal(text{n})
		must(t, err)
		must(t, os.WriteFile(name, data, 0o600))
	}
	put(file, 3)
	s.config.Recovery.PolicyFile = policy
	s.file, s.read = file, func() (config.Config, config.Problems) {
		c, x := s.config, text{}
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &x)
		}
		if err != nil {
			return c, config.Problems{{Where: file, Text: err.Error()}}
		}
		c.Director.MaxWorkers = x.Workers
		return c, nil
	}
	s.start()
	changes := func(n int, key string) {
		t.Helper()
		s.until(key, func() bool {
			said := s.logs.FilterMessage("configuration changed").All()
			return len(said) == n && slices.Equal(said[n-1].ContextMap()["changed"].([]any), []any{key})
		})
	}
	s.runs()
	put(file, 4)
	changes(1, "director.max_workers")
	put(file+"~", 5)
	must(t, os.Rename(file+"~", file))
	changes(2, "director.max_workers")
	must(t, os.WriteFile(policy, []byte(strings.Replace(row, "escalate", "skip", 1)), 0o600))
	changes(3, "recovery.policy_file")
	must(t, os.WriteFile(file, []byte("{"), 0o600))
	s.until("it was rejected", func() bool { return strings.Contains(s.health(), "was rejected") })
	put(file, 5)
	s.until("it is as before", func() bool { return !strings.Contains(s.health(), "refused") })
	if n := s.logs.FilterMessage("configuration changed").Len(); n != 3 {
		t.Errorf("the configuration has changed %d times, want 3", n)
	}
}

// TestHangupReadsAgain checks that each hangup makes the director read the configuration again, and does not end it.
func TestHangupReadsAgain(t *testing.T) {
	t.Parallel()
	s := newHarness(t, working)
	hangups := make(chan struct{})
	s.hangups = hangups
	f := s.rereads()
	s.runs()
	for n := 1; n <= 3; n++ {
		f.write(func(c *config.Config) { c.Director.MaxRetries = 10 + n })
		select {
		case hangups <- struct{}{}:
		case <-time.After(patience.For(time.Minute)):
			t.Fatal("no director receives the hangup")
		}
		s.until("it is in the journal", func() bool {
			return s.logs.FilterMessage("configuration changed").Len() == n
		})
	}
}

// TestReloadsWhileWorkIsDone checks that every reader sees one whole configuration. The race detector watches.
func TestReloadsWhileWorkIsDone(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		var run []string
		for _, g := range a.plan.Stages {
			run = append(run, g.Run[1])
		}
		if a.plan.FixAttempts != len(run) || slices.ContainsFunc(run, func(arg string) bool { return arg != run[0] }) {
			t.Errorf("a reader saw a reader saw half of a change: %d rounds, %q", a.plan.FixAttempts, run)
		}
		return a.work(ctx)
	})
	stages := func(c *config.Config, n int) {
		arg := []string{"played", string(rune('a' + n))}
		c.Worker.FixAttempts, c.Stages = n, []config.Stage{{Name: "CODE", Run: arg, Timeout: time.Minute}}
		for len(c.Stages) < n {
			c.Stages = append(c.Stages, config.Stage{Name: "VALIDATE", Run: arg, Timeout: time.Minute})
		}
	}
	stages(&s.config, 1)
	var keys []string
	for range 6 {
		keys = append(keys, s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "", "agent-task"))
	}
	f := s.rereads()
	s.runs()
	n := 0
	s.until("all are handed in", func() bool {
		n++
		f.write(func(c *config.Config) {
			stages(c, 1+n%4)
			c.Director.MaxWorkers, c.GitHub.LabelCaps = 1+n%3, map[string]int{"x": n}
			c.RateLimits.Model.MaxConcurrentRequests = 1 + n%2
		})
		if r := s.reload(); len(r.Problems) > 0 {
			t.Fatal(r.Problems)
		}
		return !slices.ContainsFunc(keys, func(key string) bool { return !s.labelled(key, "agent-review")() })
	})
	t.Logf("%d reloads", n)
}

// A director that cannot reload reports that.
func TestReloadWithoutAFile(t *testing.T) {
	t.Parallel()
	s := newHarness(t, working)
	s.start()
	s.runs()
	r, err := operator.Reload(t.Context(), s.config.Director.DataDir)
	if must(t, err); len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "restart it") {
		t.Errorf("got %+v", r)
	}
}

// readsNumbers lets the director watch a file with only director.max_workers, and returns the last value read.
func (s *harness) readsNumbers(file string, each func()) (last func() int64) {
	var n atomic.Int64
	s.file, s.read = file, func() (config.Config, config.Problems) {
		c := s.config
		data, err := os.ReadFile(file)
		if err == nil {
			c.Director.MaxWorkers, err = strconv.Atoi(string(data))
		}
		if err != nil { // it is half written or missing
			return c, config.Problems{{Where: file, Text: err.Error()}}
		}
		each()
		n.Store(int64(c.Director.MaxWorkers))
		return c, nil
	}
	return n.Load
}

// A file that is written during a read is read once more, without a request.
func TestAChangeDuringTheReadingIsNotMissed(t *testing.T) {
	t.Parallel()
	s := newHarness(t, working)
	file := filepath.Join(t.TempDir(), "c.txt")
	must(t, os.WriteFile(file, []byte("3"), 0o600))
	last := s.readsNumbers(file, sync.OnceFunc(func() { // a write right after the read
		must(t, os.WriteFile(file, []byte("4"), 0o600))
	}))
	s.filesEvery = time.Hour
	s.start()
	s.runs()
	s.until("the facts of the other session are read", func() bool { return last() == 4 })
}

// Another directory replaces the directory of the configuration. The director reads later writes there.
func TestAFolderThatIsReplacedIsWatchedAnew(t *testing.T) {
	t.Parallel()
	s := newHarness(t, working)
	dir := filepath.Join(t.TempDir(), "etc")
	file := filepath.Join(dir, "c.txt")
	put := func(n int) {
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(file, []byte(strconv.Itoa(n)), 0o600))
	}
	put(3)
	last := s.readsNumbers(file, func() {})
	s.filesEvery = 100 * time.Millisecond
	s.start()
	s.runs()
	s.until("it is read", func() bool { return last() == 3 })
	must(t, os.Rename(dir, dir+".old"))
	s.until("it is said", func() bool {
		return s.logs.FilterMessageSnippet("only be polled").Len() == 1 && strings.Contains(s.health(), "was rejected")
	})
	put(5)
	s.until("the new folder is read", func() bool { return last() == 5 })
	s.until("and watched", func() bool { return s.logs.FilterMessageSnippet("resumed watching").Len() == 1 })
}
