package attack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/testbed"
)

const (
	repository = "acme/widgets"
	person     = testbed.Person
	bot        = testbed.Bot
	agentUID   = 1000 // uid of workers if this is root
)

// world is one director on a stand-in GitHub. Its methods may be called from any goroutine.
type world struct {
	t      *testing.T
	dir    string
	keys   string // directory of a joined server
	github *testbed.GitHub

	settings settings
	director *testbed.Process
	pairs    []chan pair // pairs in preparation
	last     pair        // the pair of the last attack
}

// worldOptions configure a world.
type worldOptions struct {
	dir      string            // directory to use instead of a new one
	fleet    string            // made from dir by default
	data     string            // director.data_dir, below dir by default
	sections string            // more keys and stages of the configuration, as TOML; at least one stage
	director string            // more keys of [director]
	bus      string            // more keys of [agent_bus]
	keys     string            // directory of a joined server
	worker   string            // binary, or empty for played workers
	names    map[string]string // see settings
	ca       string
	environ  []string // more environment variables of the director
	program  string   // the director's program; by default the suite itself, which is faster with GitHub
	under    []string // a command that runs the director's command
	delivery string   // github.delivery, branch by default
}

const playedStage = "[[stage]]\nname = \"CODE\"\nrun = [\"played\"]\ntimeout_seconds = 600\n"

const configText = `[director]
fleet = %q
data_dir = %q
max_workers = 24
%s
[timeouts]
worker_heartbeat_ttl_seconds = 20
worker_start_seconds = 20
worker_watchdog_seconds = 900
stop_grace_seconds = 2
[retry]
backoff_initial_seconds = 0.1
backoff_max_seconds = 0.5
[agent_bus]
listen_port = 0
heartbeat_interval_seconds = 0.5
%s
[rate_limits.model]
min_seconds_between_requests = 0
[rate_limits.github]
min_seconds_between_writes = 1
[github]
repositories = [%q]
api_url = %q
writes = true
poll_seconds = 1
delivery = %q
[escalation]
incident_issues = false
%s`

// newWorld starts a director, which ends with the test.
func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	w := &world{t: t, dir: o.dir, keys: o.keys}
	if w.dir == "" {
		w.dir = t.TempDir()
		must(t, os.Chmod(w.dir, 0o711), os.Chmod(filepath.Dir(w.dir), 0o711))
	}
	var err error
	w.github, err = testbed.OpenGitHub(t.Context(), testbed.GitHubOptions{
		Dir: filepath.Join(w.dir, "git"), Repository: repository, Files: map[string]string{"README.md": "# widgets\n"},
		Token: token, RateLimit: 1_000_000,
	})
	must(t, err)
	t.Cleanup(func() { _ = w.github.Shutdown() })

	data := o.data
	if data == "" {
		data = filepath.Join(w.dir, "data")
		must(t, os.MkdirAll(data, 0o711))
	}
	w.settings = settings{Config: filepath.Join(w.dir, "config.toml"), Worker: o.worker, Names: o.names, CA: o.ca}
	if o.worker == "" {
		w.settings.Worker, w.settings.Played = filepath.Join(w.dir, "worker"), filepath.Join(w.dir, "played")
		must(t, os.Mkdir(w.settings.Played, 0o700), os.WriteFile(w.settings.Worker, []byte("\x7fELFplayed"), 0o755))
		o.sections += playedStage
	}
	text := fmt.Sprintf(configText, cmp.Or(o.fleet, fleetOf(w.dir)), data, o.director, o.bus, repository,
		w.github.API(), cmp.Or(o.delivery, "branch"), o.sections)
	if os.Getuid() != 0 && o.worker == "" {
		text += fmt.Sprintf("[containers]\nuser = \"%d:%d\"\n", os.Getuid(), os.Getgid())
	}
	must(t, os.WriteFile(w.settings.Config, []byte(text), 0o600))
	given, err := json.Marshal(w.settings)
	file := filepath.Join(w.dir, "settings.json")
	must(t, err, os.WriteFile(file, given, 0o600))
	self, err := suite()
	must(t, err)
	w.director = &testbed.Process{
		Name: "director", Argv: []string{self}, Log: filepath.Join(w.dir, "director.log"),
		Env: append(append(os.Environ(), shellVariable+"="+file, "GITHUB_TOKEN="+token), o.environ...),
	}
	if o.program != "" {
		w.director.Argv = []string{
			o.program, "run", "--config", w.settings.Config, "--worker-binary", w.settings.Worker,
		}
	}
	w.director.Argv = append(o.under, w.director.Argv...)
	t.Cleanup(w.leave)
	w.start()
	return w
}

// suite returns the path of the test program that runs the director: this program, or attack.test in -baseline.
func suite() (string, error) {
	if *baseline != "" {
		return filepath.Join(*baseline, "attack.test"), nil
	}
	return os.Executable()
}

// fleetOf returns a fleet's name that is unique to this process and the directory.
func fleetOf(dir string) string {
	return "attack-" + strconv.Itoa(os.Getpid()) + "-" + filepath.Base(dir)
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) data() string {
	c, err := os.ReadFile(w.settings.Config)
	must(w.t, err)
	_, rest, _ := strings.Cut(string(c), "data_dir = ")
	line, _, _ := strings.Cut(rest, "\n")
	dir, err := strconv.Unquote(line)
	must(w.t, err)
	return dir
}

// start starts the director and waits until it is healthy.
func (w *world) start() {
	w.t.Helper()
	must(w.t, w.director.Start())
	if err := until("the director is healthy", time.Minute, func() bool { return w.well() == nil }); err != nil {
		text, _ := os.ReadFile(w.director.Log)
		w.t.Fatalf("%v\n%s", err, text[max(0, len(text)-2000):])
	}
}

// stop stops the director, if it runs.
func (w *world) stop() {
	if w.director == nil {
		return
	}
	_ = w.director.Stop() // kills it if necessary
	w.endLeftovers()
}

// endLeftovers kills the git processes that a killed director left running in the world's directory.
func (w *world) endLeftovers() {
	for _, p := range entries("/proc") {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		cwd, _ := os.Readlink(filepath.Join("/proc", p.Name(), "cwd"))
		argv, _ := os.ReadFile(filepath.Join("/proc", p.Name(), "cmdline"))
		if pid != os.Getpid() && bytes.HasPrefix(argv, []byte("git")) &&
			(strings.HasPrefix(cwd, w.dir) || bytes.Contains(argv, []byte(w.dir))) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// well returns an error if the director does not report that it is healthy.
func (w *world) well() error { return testbed.Well(context.Background(), w.data()) }

func (w *world) snapshot() wire.Snapshot {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, _ := operator.AskSnapshot(ctx, w.data()) // empty if the director does not answer
	return s
}

// memory returns the current memory of the director's process and its peak since forget, in MiB.
func (w *world) memory() (now, peak int) {
	data, _ := os.ReadFile(w.proc("status"))
	for line := range strings.Lines(string(data)) {
		var n int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &n); err == nil {
			now = n >> 10
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &n); err == nil {
			peak = n >> 10
		}
	}
	return now, peak
}

// forget resets the peak memory of the director's process to its current memory.
func (w *world) forget() { _ = os.WriteFile(w.proc("clear_refs"), []byte("5"), 0o600) }

func (w *world) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(w.director.PID()), name)
}

// linesOf returns the last lines of the director's log that contain a name.
func (w *world) linesOf(name string) string {
	data, _ := os.ReadFile(filepath.Join(w.dir, "director.log"))
	var found []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, name) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return strings.Join(found[max(0, len(found)-12):], "\n\t")
}

// logged reports whether the director's log has all the texts in one line.
func (w *world) logged(texts ...string) bool {
	data, _ := os.ReadFile(filepath.Join(w.dir, "director.log"))
	for line := range bytes.Lines(data) {
		if !slices.ContainsFunc(texts, func(s string) bool { return !bytes.Contains(line, []byte(s)) }) {
			return true
		}
	}
	return false
}

// issue opens an issue for the director.
func (w *world) issue(title string) (key string) {
	return w.github.CreateIssue(repository, person, title, "please", "agent-task")
}

func (w *world) has(key, label string) bool {
	return slices.Contains(w.github.Issue(key).Labels, label)
}

// git runs git in the repository of the stand-in.
func (w *world) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", filepath.Join(w.dir, "git", repository+".git")}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// delivered lists the files of the branch that was pushed for an issue, if any.
func (w *world) delivered(key string) []string {
	_, number, _ := strings.Cut(key, "#")
	refs, _ := w.git("for-each-ref", "--format=%(refname)", "refs/heads/retake/"+number+"-a?")
	ref, _, _ := strings.Cut(refs, "\n")
	if ref == "" {
		return nil
	}
	files, _ := w.git("ls-tree", "-r", "-z", "--format=%(objectmode) %(path)", ref)
	return strings.Split(strings.TrimSuffix(files, "\x00"), "\x00")
}

// pushed waits for the branch of an issue. It does not wait for later comments and pull requests, because GitHub's
// limit of 80 a minute may delay them when many rows run.
func (w *world) pushed(key string, most time.Duration) error {
	return until("the work on "+key+" is pushed", most, func() bool { return len(w.delivered(key)) > 0 })
}

// until waits until a condition holds.
func until(what string, most time.Duration, cond func() bool) error {
	return testbed.Await(context.Background(), most, what, cond)
}
