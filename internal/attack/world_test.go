package attack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/operator"
	"retake/internal/github/githubtest"
	"retake/internal/sys/tied"
)

const (
	repository = "acme/widgets"
	person     = "octocat"
	bot        = "retake-bot"
	agentUID   = 1000 // of workers, when this is root
)

// world is one director on a stand-in GitHub. Its methods may be called from any goroutine.
type world struct {
	t      *testing.T
	dir    string
	keys   string // folder of a server that was joined
	github *githubtest.Server

	settings settings
	environ  []string    // more of the director's
	program  string      // the director itself; empty: the suite is one, which is faster with GitHub
	pairs    []chan pair // being made ready
	last     pair        // that fought
	mu       sync.Mutex
	cmd      *exec.Cmd
	ended    chan struct{}
	log      *os.File
}

// worldOptions are what differs between worlds.
type worldOptions struct {
	dir      string // instead of a new one
	fleet    string // empty: made from dir
	data     string // director.data_dir; empty: below dir
	sections string // of the configuration: more keys and stages, as TOML; it needs a stage
	director string // more keys of [director]
	bus      string // more keys of [agent_bus]
	keys     string // folder of a server that was joined
	worker   string // binary; empty: played workers
	files    map[string]string
	names    map[string]string // see settings
	ca       string
	environ  []string // more of the director's
	program  string   // see world
	delivery string   // github.delivery; empty: branch
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

// newWorld starts a director. It ends with the test.
func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	w := &world{t: t, dir: o.dir, keys: o.keys}
	if w.dir == "" {
		w.dir = t.TempDir()
		must(t, os.Chmod(w.dir, 0o711), os.Chmod(filepath.Dir(w.dir), 0o711))
	}
	seed := filepath.Join(w.dir, "seed")
	must(t, os.MkdirAll(seed, 0o755), os.WriteFile(filepath.Join(seed, "README.md"), []byte("# widgets\n"), 0o644))
	for name, text := range o.files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(seed, name)), 0o755),
			os.WriteFile(filepath.Join(seed, name), []byte(text), 0o755))
	}
	w.github = githubtest.New(githubtest.Options{DataDir: filepath.Join(w.dir, "git"), RateLimit: 1_000_000})
	w.github.AddUser(bot, token)
	must(t, w.github.AddRepo(repository, seed, map[string]string{bot: "write", person: "write"}))
	web := httptest.NewServer(w.github)
	t.Cleanup(web.Close)

	data := o.data
	if data == "" {
		data = filepath.Join(w.dir, "data")
		must(t, os.MkdirAll(data, 0o711))
	}
	w.settings = settings{Config: filepath.Join(w.dir, "config.toml"), Worker: o.worker, Names: o.names, CA: o.ca}
	w.environ, w.program = o.environ, o.program
	if o.worker == "" {
		w.settings.Worker, w.settings.Played = filepath.Join(w.dir, "worker"), filepath.Join(w.dir, "played")
		must(t, os.Mkdir(w.settings.Played, 0o700), os.WriteFile(w.settings.Worker, []byte("\x7fELFplayed"), 0o755))
		o.sections += playedStage
	}
	text := fmt.Sprintf(configText, cmp.Or(o.fleet, fleetOf(w.dir)), data, o.director, o.bus, repository, web.URL+
		githubtest.APIPath, cmp.Or(o.delivery, "branch"), o.sections)
	if os.Getuid() != 0 && o.worker == "" {
		text += fmt.Sprintf("[containers]\nuser = \"%d:%d\"\n", os.Getuid(), os.Getgid())
	}
	must(t, os.WriteFile(w.settings.Config, []byte(text), 0o600))
	t.Cleanup(w.leave)
	w.start()
	return w
}

// fleetOf names the containers, images and networks of a world.
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

// start starts the director and waits until it is well.
func (w *world) start() {
	w.t.Helper()
	text, err := json.Marshal(w.settings)
	file := filepath.Join(w.dir, "settings.json")
	must(w.t, err, os.WriteFile(file, text, 0o600))
	self, err := os.Executable()
	must(w.t, err)
	log, err := os.OpenFile(filepath.Join(w.dir, "director.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(w.t, err)
	cmd := exec.Command(self)
	if w.program != "" {
		cmd = exec.Command(w.program, "run", "--config", w.settings.Config, "--worker-binary", w.settings.Worker)
	}
	cmd.Env = append(os.Environ(), shellVariable+"="+file, "GITHUB_TOKEN="+token)
	cmd.Env = append(cmd.Env, w.environ...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(w.t, tied.Start(cmd))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	w.mu.Lock()
	w.cmd, w.ended, w.log = cmd, ended, log
	w.mu.Unlock()
	if err := until("the director is well", time.Minute, func() bool { return w.well() == nil }); err != nil {
		text, _ := os.ReadFile(log.Name())
		w.t.Fatalf("%v\n%s", err, text[max(0, len(text)-2000):])
	}
}

// stop ends the director, if one runs.
func (w *world) stop() {
	w.mu.Lock()
	cmd, ended := w.cmd, w.ended
	w.cmd = nil
	w.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // gone already: as good
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		<-ended
	}
	_ = w.log.Close()
	w.endLeftovers()
}

// endLeftovers ends what the director left running in the world's folder, such as a git that it waited for.
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

// well asks the director how it is.
func (w *world) well() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	h, err := operator.AskHealth(ctx, w.data())
	if err == nil && !h.OK {
		err = errors.New(h.String())
	}
	return err
}

func (w *world) snapshot() wire.Snapshot {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, _ := operator.AskSnapshot(ctx, w.data()) // none: empty
	return s
}

// memory is what the director's process holds and held at most since forget, in MiB.
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

// forget begins a new measurement of the peak.
func (w *world) forget() { _ = os.WriteFile(w.proc("clear_refs"), []byte("5"), 0o600) }

func (w *world) proc(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return filepath.Join("/proc", strconv.Itoa(w.cmd.Process.Pid), name)
}

// linesOf are the last lines of the director's log that name something.
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

// issue opens one that is work.
func (w *world) issue(title string) (key string) {
	return w.github.CreateIssue(repository, person, title, "please", "agent-task")
}

func (w *world) has(key, label string) bool {
	return slices.Contains(w.github.Issue(key).Labels, label)
}

// branches lists those that were pushed, with their commits.
func (w *world) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", filepath.Join(w.dir, "git", repository+".git")}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// delivered lists the files of the branch that was pushed for an issue; none: nothing was.
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

// pushed waits for the branch of an issue. What comes after it on GitHub says nothing of an attack: rows follow
// each other so quickly that the director meets GitHub's limit of 80 new comments and pull requests a minute,
// and keeps them back.
func (w *world) pushed(key string, most time.Duration) error {
	return until("the work on "+key+" is pushed", most, func() bool { return len(w.delivered(key)) > 0 })
}

// until waits for something.
func until(what string, most time.Duration, cond func() bool) error {
	deadline := time.Now().Add(most)
	for !cond() {
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %s", most, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// played is one attempt whose worker is the suite.
type played struct {
	given
	w      *world
	id     string
	client *bus.Client
	from   *address // where it calls from
	quiet  context.CancelFunc
	beats  sync.WaitGroup

	notices int
}

// attempt waits until an attempt of an issue was started that is not among the earlier ones, and not over.
func (w *world) attempt(key string, earlier ...string) (*played, error) {
	p := &played{w: w}
	err := until("an attempt of "+key, longest, func() bool {
		files, _ := filepath.Glob(filepath.Join(w.settings.Played, "*.json"))
		for _, f := range files {
			data, err := os.ReadFile(f)
			id := strings.TrimSuffix(filepath.Base(f), ".json")
			if err == nil && json.Unmarshal(data, &p.given) == nil && p.Task == key && !slices.Contains(earlier, id) {
				if p.id = id; !p.stopped() {
					return true
				}
			}
		}
		return false
	})
	return p, err
}

// work signs in, says hello until it is welcomed, and lets its heart beat. It calls again as seldom as a real
// worker at first.
func (p *played) work() error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := p.hello()
		if err == nil {
			break
		}
		if time.Now().After(deadline) || p.stopped() { // its credential is worth nothing any more
			return fmt.Errorf("never welcomed: %w; the director's log has: %s", err, p.w.linesOf(p.id)+"\n\t"+
				p.w.linesOf("bus connections refused"))
		}
		time.Sleep(200 * time.Millisecond)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.quiet = cancel
	if err := p.client.OnControl(func(c bus.Command) {
		if _, ok := c.Payload.(*wire.Probe); ok {
			_ = c.Reply(p.heartbeat())
		}
	}); err != nil {
		return err
	}
	p.beats.Go(func() {
		for ctx.Err() == nil {
			_ = p.client.Heartbeat(p.heartbeat())
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return nil
}

func (p *played) hello() (err error) {
	if p.client == nil {
		if p.from == nil {
			p.from = anAddress()
		}
		o := clientOptions(p.Plan)
		if o.InProcess, err = p.from.to(p.Plan.Bus.URL); err != nil {
			return err
		}
		if p.client, err = bus.Dial(o); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	answer, err := p.client.Hello(ctx, helloOf(p.id))
	if _, ok := answer.(*wire.Welcome); !ok && err == nil {
		err = fmt.Errorf("hello: %s", answer.MessageType())
	}
	return err
}

func helloOf(id string) wire.Hello {
	return wire.Hello{ProtocolVersion: wire.ProtocolVersion, Worker: wire.HelloWorker{WorkerID: id, AttemptID: id}}
}

func (p *played) heartbeat() wire.Heartbeat {
	return wire.Heartbeat{State: wire.HeartbeatState{
		Stage: wire.StageCode, IssueNumber: p.Plan.Issue.Number, Attempt: p.Plan.Attempt,
		LastUpdateAt: wire.At(time.Now()),
	}}
}

// result is the success of an attempt.
func (p *played) result() *wire.WorkerResult {
	return &wire.WorkerResult{
		ResultID: p.id + "/result", AttemptID: p.id, IssueNumber: p.Plan.Issue.Number, Attempt: p.Plan.Attempt,
		Outcome: wire.OutcomeOK,
	}
}

// failure is an error of an attempt.
func (p *played) failure(id, message string) *wire.WorkerError {
	one := 1
	return &wire.WorkerError{
		ErrorID: p.id + "/" + id, WorkerID: p.id, AttemptID: p.id, IssueNumber: p.Plan.Issue.Number,
		Attempt: p.Plan.Attempt,
		Stage:   wire.StageValidate, ErrorType: "tests_failed", Message: message, ExitCode: &one,
	}
}

// report sends a report as the worker itself does, until it is acknowledged.
func (p *played) report(r wire.Payload) error {
	var err error
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err = p.client.Report(ctx, r)
		cancel()
		if err == nil || bus.Permanent(err) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// succeed does some work, reports it, and ends.
func (p *played) succeed() error {
	err := os.WriteFile(filepath.Join(p.Checkout, "work.txt"), []byte("done by "+p.id+"\n"), 0o644)
	if err == nil {
		err = p.report(p.result())
	}
	p.end(0)
	return err
}

// end is the end of the container.
func (p *played) end(code int) {
	p.hush()
	_ = os.WriteFile(filepath.Join(p.w.settings.Played, p.id+".exit"), []byte(strconv.Itoa(code)), 0o600)
}

// hush ends what the worker does on the bus.
func (p *played) hush() {
	if p.quiet != nil {
		p.quiet()
		p.beats.Wait()
		p.quiet = nil
	}
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}

// stopped reports whether the director has ended the worker.
func (p *played) stopped() bool {
	_, err := os.Stat(filepath.Join(p.w.settings.Played, p.id+".stop"))
	return err == nil
}

// ask is one question about a lease.
func (p *played) ask(q wire.Payload) (wire.BudgetGrant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return p.client.AskBudget(ctx, q)
}

// lease asks for one as the worker does.
func (p *played) lease(resource string) (wire.BudgetGrant, error) {
	var g wire.BudgetGrant
	err := until("a lease or a wait", 20*time.Second, func() bool {
		var err error
		g, err = p.ask(wire.BudgetAcquire{Resource: resource})
		return err == nil && (g.GrantID != "" || g.WaitSeconds > 2) || err == nil && g.Why == "busy"
	})
	return g, err
}

func (p *played) askBudget(r wire.BudgetReport) error {
	_, err := p.ask(r)
	return err
}
