package director

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/disk"
	"retake/internal/fsm"
	"retake/internal/github/api"
	"retake/internal/github/githubtest"
	"retake/internal/patience"
	"retake/internal/secrets/redact"
)

const repo = "acme/widgets"

// harness is a whole director on the stand-in GitHub, with real git and a real bus. The containers are played, unless a
// test needs real ones.
type harness struct {
	t        *testing.T
	github   *githubtest.Server
	runtime  *fakeRuntime
	config   config.Config
	logs     *observer.ObservedLogs
	log      *zap.Logger
	token    string
	app      *api.App                           // replaces the token, unless nil
	diskUse  func(dir string) (disk.Use, error) // nil reads the real disk
	whole    time.Duration                      // see Options.wholeEvery
	comments time.Duration                      // see Options.commentsEvery

	only []fsm.IssueKey // see Options.Only

	transport  http.RoundTripper // transport to GitHub; nil means the default
	firstProbe time.Duration     // see Options.firstProbe

	patience     time.Duration // see Options.findPatience
	beforeAppend func()
	journalBytes int64 // see Options.journalBytes
	badDiskFor   time.Duration
	noWebhooks   bool // set if no webhook secret is configured

	read       func() (config.Config, config.Problems) // see Options.Read
	file       string                                  // see Options.ConfigFile
	hangups    <-chan struct{}
	filesEvery time.Duration // see Options.filesEvery

	decides func(*fsm.Config) // see Options.decides

	hideInLog func(values func() *redact.Redactor)

	marked *markedRuntime // replaces the runtime, unless nil

	cancel context.CancelCauseFunc
	ended  chan error
	over   atomic.Pointer[over]
}

// skipRaced keeps one in three tests when the race detector is on, which makes the same code some ten times slower.
func skipRaced(t *testing.T) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.Name()))
	if raced && h.Sum32()%3 != 0 && os.Getenv("RETAKE_NIGHTLY") != "1" {
		t.Skip("the race detector runs on one in three tests of whole directors; RETAKE_NIGHTLY=1: on all")
	}
}

func newHarness(t *testing.T, play func(ctx context.Context, a *fakeWorker) int) *harness {
	t.Helper()
	skipRaced(t)
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
	must(t, os.WriteFile(worker, []byte("\x7fELFplayed"), 0o755))

	c := config.Default()
	c.Containers.SameUser = container.CanKeepApart() != nil // otherwise the runtime refuses it
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
	return fmt.Sprintf("%d:%d", uid, gid)
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
	s.over.Store(nil)
	go func() {
		err := Run(ctx, o)
		s.over.Store(&over{time.Now(), err})
		ended <- err
	}()
}

// over is the end of a director.
type over struct {
	at  time.Time
	err error
}

// options returns the options that start a director.
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
		programsEvery: 300 * time.Millisecond,
		findPatience:  s.patience,
		decides:       s.decides,
		beforeAppend:  s.beforeAppend,
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
	if s.app != nil {
		o.Token, o.Login, o.Rights = s.app.Token, s.app.Login, s.app.Rights
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

// address returns the URL of a path at director.http_listen, as soon as a server listens there.
func (s *harness) address(path string) string {
	s.t.Helper()
	s.until("it listens", func() bool { return s.logs.FilterMessage("listening").Len() > 0 })
	all := s.logs.FilterMessage("listening").All()
	return all[len(all)-1].ContextMap()["address"].(string) + path
}

// stop ends the director if it runs, and leaves its workers running.
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
	case <-time.After(patience.For(60 * time.Second)):
		s.t.Fatal("director does not end")
	}
}

// until waits for a condition. Its deadline is above the minute in which the gate and an incident may hold back work
// on an idle machine, and grows with the load.
func (s *harness) until(what string, cond func() bool) {
	s.t.Helper()
	ctx, cancel := patience.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	for !cond() {
		if over := s.over.Load(); over != nil && over.err != nil && time.Since(over.at) > 20*time.Second {
			s.t.Fatalf("never happened: %s: the director ended with %v", what, over.err)
		}
		if ctx.Err() != nil {
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
