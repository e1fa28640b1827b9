package director

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus/keys"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/disk"
	"retake/internal/director/operator"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/github/githubtest"
	"retake/internal/secrets/redact"
)

const repo = "acme/widgets"

// harness is a whole director on the stand-in GitHub, with real git and a real bus; only the containers are
// played, unless there is nothing to play.
type harness struct {
	t        *testing.T
	github   *githubtest.Server
	runtime  *fakeRuntime
	config   config.Config
	logs     *observer.ObservedLogs
	log      *zap.Logger
	token    string
	diskUse  func(dir string) (disk.Use, error) // nil: what the system says
	whole    time.Duration                      // between two looks at everything; 0: the usual
	comments time.Duration                      // between two looks at comments that nothing points to; 0: the usual

	only []fsm.IssueKey // of the run; none: all

	transport  http.RoundTripper // to GitHub; nil: the usual
	firstProbe time.Duration     // 0: the usual

	patience     time.Duration // of a rebuild with an issue that cannot be read; 0: the usual
	journalBytes int64         // of the live journal; 0: the usual
	badDiskFor   time.Duration
	noWebhooks   bool // there is no secret for them

	read       func() (config.Config, config.Problems) // again; nil: it cannot be
	file       string                                  // that is watched
	hangups    <-chan struct{}
	filesEvery time.Duration // zero: the director's own

	decides func(*fsm.Config) // has the last word on what decisions are made by; nil: nobody

	hideInLog func(values func() *redact.Redactor)

	marked *markedRuntime // instead of the runtime; nil: none

	cancel context.CancelCauseFunc
	ended  chan error
}

func newHarness(t *testing.T, play func(ctx context.Context, a *fakeWorker) int) *harness {
	dir := t.TempDir()
	s := &harness{t: t, runtime: newFakeRuntime(play), ended: make(chan error, 1), token: "token"}
	seed := filepath.Join(dir, "seed")
	must(t, os.MkdirAll(seed, 0o755))
	must(t, os.WriteFile(filepath.Join(seed, "README.md"), []byte("# widgets\n"), 0o644))
	s.github = githubtest.New(githubtest.Options{DataDir: filepath.Join(dir, "git")})
	s.github.AddUser("retake-bot", "token")
	must(t, s.github.AddRepo(repo, seed, map[string]string{"retake-bot": "write", "octocat": "write"}))
	web := httptest.NewServer(s.github)
	t.Cleanup(web.Close)
	worker := filepath.Join(dir, "worker")
	must(t, os.WriteFile(worker, []byte(elfMagic+"played"), 0o755))

	c := config.Default()
	c.Containers.SameUser = container.CanKeepApart() != nil // where it is refused otherwise
	c.Director.DataDir, c.Director.Interval = filepath.Join(dir, "data"), 500*time.Millisecond
	c.Containers.User = userOf(os.Getuid(), os.Getgid())
	c.AgentBus.ListenPort, c.AgentBus.HeartbeatInterval = 0, 200*time.Millisecond
	c.Timeouts.WorkerHeartbeatTTL = 20 * time.Second // nothing here waits for it, and a busy machine must not reach it
	c.GitHub.Repositories, c.GitHub.APIURL, c.GitHub.Writes = []string{repo}, web.URL+githubtest.APIPath, true
	c.GitHub.Poll, c.GitHub.Delivery = 300*time.Millisecond, "branch"
	c.RateLimits.GitHub.MinBetweenWrites = 50 * time.Millisecond
	c.Stages = []config.Stage{{Name: "CODE", Run: []string{"played"}, Timeout: time.Minute}}
	s.config, s.runtime.dataDir = c, c.Director.DataDir
	core, logs := observer.New(zap.InfoLevel)
	s.logs, s.log = logs, zap.New(core)
	t.Cleanup(func() { s.stop(); s.runtime.close() })
	return s
}

func userOf(uid, gid int) string {
	if uid == 0 {
		return "1000:1000"
	}
	b, _ := json.Marshal(uid)
	g, _ := json.Marshal(gid)
	return string(b) + ":" + string(g)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *harness) start() {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	ended := make(chan error, 1)
	s.ended = ended
	o := s.options()
	go func() { ended <- Run(ctx, o) }()
}

// options are those that a director is started with.
func (s *harness) options() Options {
	o := Options{
		Config: s.config, Log: s.log, Only: s.only,
		WorkerBinary:  filepath.Join(filepath.Dir(s.config.Director.DataDir), "worker"),
		Token:         func(context.Context) (string, error) { return s.token, nil },
		LeastBetween:  time.Millisecond,
		DriftEvery:    300 * time.Millisecond,
		diskUse:       s.diskUse,
		wholeEvery:    s.whole,
		commentsEvery: s.comments,
		findPatience:  s.patience,
		decides:       s.decides,
		journalBytes:  s.journalBytes,
		badDiskFor:    s.badDiskFor,
		filesEvery:    s.filesEvery,
		WebhookSecret: ourSecret,
		Transport:     s.transport,
		firstProbe:    s.firstProbe,
		Read:          s.read,
		ConfigFile:    s.file,
		Hangups:       s.hangups,
		HideInLog:     s.hideInLog,
	}
	if s.noWebhooks {
		o.WebhookSecret = nil
	}
	if s.runtime.play != nil {
		o.Runtime = s.runtime
	}
	if s.marked != nil {
		o.Runtime = s.marked
	}
	return o
}

// address is that of a path at director.http_listen, as soon as something listens there.
func (s *harness) address(path string) string {
	s.t.Helper()
	s.until("it listens", func() bool { return s.logs.FilterMessage("listening").Len() > 0 })
	all := s.logs.FilterMessage("listening").All()
	return all[len(all)-1].ContextMap()["address"].(string) + path
}

// stop ends the director, if one runs, and leaves its workers alone.
func (s *harness) stop() {
	if s.cancel == nil {
		return
	}
	s.cancel(context.Canceled)
	s.cancel = nil
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Errorf("director ended with: %v", err)
		}
	case <-time.After(60 * time.Second):
		s.t.Fatal("director does not end")
	}
}

// until waits for a condition of the world; its deadline is far beyond what a busy machine needs.
func (s *harness) until(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			for _, e := range s.logs.All() {
				s.t.Log(e.Message, e.ContextMap())
			}
			s.t.Fatalf("never happened: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *harness) labels(key string) []string { return s.github.Issue(key).Labels }

func (s *harness) labelled(key string, want ...string) func() bool {
	return func() bool { return slices.Equal(s.labels(key), want) }
}

// verdicts lists the reasons of all verdicts about an issue.
func (s *harness) verdicts(key string) []string {
	var out []string
	for _, e := range s.logs.FilterMessage("verdict").All() {
		if m := e.ContextMap(); m["issue"] == key {
			out = append(out, m["reason"].(string))
		}
	}
	return out
}

func TestSuccessIsDelivered(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "please", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	s.until("one comment that names the branch", func() bool {
		c := s.github.Issue(key).Comments
		return len(c) == 1 && strings.Contains(c[0].Body, "retake/1-a1")
	})
	s.until("checkout removed", func() bool {
		left, err := os.ReadDir(filepath.Join(s.config.Director.DataDir, "tasks"))
		return err == nil && len(left) == 0
	})
	h, err := operator.AskHealth(t.Context(), s.config.Director.DataDir)
	if err != nil || !h.OK {
		t.Errorf("health %+v, %v; want well", h, err)
	}
}

// The bare object of the founding document, for a running worker, is decided like the worker's own; the same twice is
// decided once; for an attempt that is over it changes nothing.
func TestBareReportOfAnOutsider(t *testing.T) {
	t.Parallel()
	var once sync.Once
	fenced := make(chan string, 8)
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		for {
			select {
			case why := <-a.stop:
				once.Do(func() { fenced <- why })
			case <-ctx.Done():
				return 1
			}
		}
	})
	key := s.github.CreateIssue(repo, "octocat", "Wait for ever", "", "agent-task")
	s.start()
	s.until("a running worker", func() bool {
		return s.runtime.running(key) != "" &&
			len(s.logs.FilterMessage("transition").FilterField(zap.String("event", "hello")).All()) == 1
	})
	worker := s.runtime.running(key)
	s.publish(worker, `"e-1"`)
	s.publish(worker, `"e-1"`)
	s.until("blocked", s.labelled(key, "agent-blocked"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"tests_failed"}) {
		t.Errorf("verdicts %q; want one, tests_failed", v)
	}
	if s.logs.FilterMessage(reports.PersonsWord).FilterField(zap.String("worker", worker)).Len() == 0 {
		t.Error("the log does not say whose word it is")
	}
	s.until("a question that says whose word it is", func() bool {
		return slices.ContainsFunc(s.github.Issue(key).Comments,
			func(c githubtest.Comment) bool { return strings.Contains(c.Body, "- "+reports.PersonsWord) })
	})
	s.until("an audit that says so, too", func() bool {
		found, _ := filepath.Glob(filepath.Join(s.config.Director.DataDir, "audits", worker+"*", "*"))
		return slices.ContainsFunc(found, func(name string) bool {
			data, _ := os.ReadFile(name)
			return strings.Contains(string(data), reports.PersonsWord)
		})
	})
	s.until("all labels moved, and the claim's comment points to the question, which is the last change", func() bool {
		e := s.github.Events(key)
		return !s.labelled(key, "agent-claimed")() && !s.labelled(key, "agent-task")() &&
			e[len(e)-1].Event == "comment_edited"
	})
	before := len(s.github.Events(key))
	s.publish(worker, `"e-2"`)
	s.until("fenced", func() bool {
		return s.logs.FilterMessage("fenced a worker without an attempt").
			Len() > 0
	})
	if after := len(s.github.Events(key)); after != before || len(s.verdicts(key)) != 1 {
		t.Errorf("a report of an attempt that is over changed something: %d → %d events, verdicts %q", before, after,
			s.verdicts(key))
	}

	s.github.RemoveLabel(key, "octocat", "agent-blocked")
	s.until("a second attempt", func() bool { return s.runtime.running(key) != "" && s.runtime.running(key) != worker })
	s.until("claimed again", s.labelled(key, "agent-claimed"))
}

// publish sends the seed document's object with the operator's credential, as docs/examples does.
func (s *harness) publish(worker, id string) {
	s.t.Helper()
	var operator keys.Person
	data, err := os.ReadFile(filepath.Join(s.config.Director.DataDir, "bus", "operator.json"))
	must(s.t, err)
	must(s.t, json.Unmarshal(data, &operator))
	nc, err := nats.Connect(operator.URL, nats.UserJWTAndSeed(operator.JWT, operator.Seed))
	must(s.t, err)
	defer nc.Close()
	body := `{"error_id":` + id + `,"worker_id":"` + worker + `","issue_number":1,"stage":"VALIDATE","attempt":1,
		"error_type":"tests_failed","is_transient":false,"should_retry":false,"escalate_to_human":true,
		"message":"Unit tests failed deterministically","exit_code":1,"last_stdout_tail":"...","last_stderr_tail":"..."}`
	_, err = nc.Request(operator.Prefix+".worker."+worker+".error", []byte(body), 5*time.Second)
	must(s.t, err)
}

// A worker that is killed from outside is replaced on the same checkout; a director that ends in between
// changes nothing.
func TestKilledWorkerAndEndedDirector(t *testing.T) {
	t.Parallel()
	first := make(chan string, 4)
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Attempt == 1 {
			if err := os.WriteFile(filepath.Join(a.checkout, "half.txt"), nil, 0o644); err != nil {
				return 1
			}
			first <- a.plan.WorkerID
			<-ctx.Done()
			return 1
		}
		if _, err := os.Stat(filepath.Join(a.checkout, "half.txt")); err != nil {
			return 1
		}
		return a.work(ctx)
	})
	key := s.github.CreateIssue(repo, "octocat", "Half", "", "agent-task")
	s.start()
	worker := <-first
	s.stop()
	s.start()
	s.until("adopted", func() bool { return s.logs.FilterMessage("adopted a running container").Len() == 1 })
	s.runtime.killFromOutside(worker)
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"worker_lost"}) {
		t.Errorf("verdicts %q; want worker_lost alone", v)
	}
	if s.runtime.begun() != 2 {
		t.Errorf("containers made: %q; want two", s.runtime.attempts())
	}
	if n := len(s.github.Issue(key).Comments); n != 1 {
		t.Errorf("%d comments, want one that is edited", n)
	}
}

// A director that is away while its worker ends reads the report later.
func TestWorkEndsWhileTheDirectorIsAway(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan string, 1), make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		began <- a.plan.WorkerID
		<-goOn
		return a.work(ctx)
	})
	key := s.github.CreateIssue(repo, "octocat", "Later", "", "agent-task")
	s.start()
	<-began
	s.stop()
	close(goOn)
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if s.runtime.begun() != 1 || len(s.verdicts(key)) != 0 {
		t.Errorf("containers %q, verdicts %q; want one container and no failure", s.runtime.attempts(), s.verdicts(key))
	}
}

// A director that is killed while it hands the plan over leaves a worker that ends at once: the attempt is made
// again, at nobody's cost.
func TestPlanThatEndedEarlyCostsNobody(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int { return a.work(ctx) })
	s.runtime.early = func(a *fakeWorker) int {
		if a.plan.Attempt == 1 {
			return 10 // worker.ExitBadPlan
		}
		return 0
	}
	key := s.github.CreateIssue(repo, "octocat", "Half a plan", "", "agent-task")
	began := time.Now()
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if v := s.verdicts(key); !slices.Equal(v, []string{"worker_lost"}) {
		t.Errorf("verdicts %q; want worker_lost alone", v)
	}
	if took := time.Since(began); took > s.config.Timeouts.WorkerStart {
		t.Errorf("took %s: the worker's end was not seen", took)
	}
	for _, e := range s.logs.FilterMessage("verdict").All() {
		if m := e.ContextMap(); m["action"] != "restart_worker" {
			t.Errorf("verdict %v", m)
		}
	}
}
