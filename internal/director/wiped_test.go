package director

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"retake/internal/bus/keys"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/fsm"
	"retake/internal/github/githubtest"
)

// joined is a NATS server that an operator runs and the director joins.
type joined struct {
	t    *testing.T
	keys string
	opts natsd.Options
	s    *natsd.Server
}

// joins makes the director join a server.
func (s *harness) joins() *joined {
	s.t.Helper()
	dir := s.t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(s.t, err)
	port := l.Addr().(*net.TCPAddr).Port
	must(s.t, l.Close())
	j := &joined{t: s.t, keys: filepath.Join(dir, "keys")}
	made := keys.Init{
		Hosts: []string{"127.0.0.1"}, Port: port, Store: filepath.Join(dir, "store"),
		Prefix: wire.DefaultPrefix,
	}
	must(s.t, made.Make(j.keys))
	j.start()
	s.t.Cleanup(func() { s.stop(); s.runtime.close(); j.stop() })
	s.config.AgentBus.URL, s.config.AgentBus.Credentials = fmt.Sprintf("tls://127.0.0.1:%d", port),
		filepath.Join(j.keys, keys.DirDirector)
	s.config.Director.Lease = 3 * time.Second
	return j
}

func (j *joined) start() {
	j.t.Helper()
	j.opts = natsd.Options{}
	must(j.t, j.opts.ProcessConfigFile(filepath.Join(j.keys, keys.DirServer, keys.FileConfig)))
	j.opts.NoLog, j.opts.NoSigs = true, true
	var err error
	j.s, err = natsd.NewServer(&j.opts)
	must(j.t, err)
	j.s.Start()
	if !j.s.ReadyForConnections(time.Minute) {
		j.t.Fatal("the server to join did not start")
	}
}

func (j *joined) stop() {
	j.s.Shutdown()
	j.s.WaitForShutdown()
}

// TestJoinedServerWipedLive wipes the server, including the workers' account, while an attempt runs and a finished
// one is delivered. The director rebuilds its journal, the worker reconnects with its credential, and new workers are
// accepted. The finished attempt is not repeated, because its report is in its spool.
func TestJoinedServerWipedLive(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Number == 2 {
			select {
			case <-goOn:
			case <-ctx.Done():
			}
		}
		return a.work(ctx)
	})
	s.config.Journal.OnDamage = config.OnDamageRebuild
	s.config.RateLimits.GitHub.MinBetweenWrites = 50 * time.Millisecond
	server := s.joins()
	must(t, s.github.Inject(githubtest.Fault{Times: 1000, Status: 503}.OnPush()))
	finished := s.github.CreateIssue(repo, "octocat", "It has ended", "", "agent-task")
	running := s.github.CreateIssue(repo, "octocat", "It runs meanwhile", "", "agent-task")
	s.start()
	s.until("running", func() bool {
		return s.runtime.running(running) != "" &&
			s.logs.FilterMessage("transition").FilterField(zap.String("event", "hello")).Len() == 2
	})
	s.until("claimed", s.labelled(running, "agent-claimed"))
	s.until("the other has ended", s.inState(finished, fsm.Delivering.String()))
	s.until("one worker remains", func() bool {
		return s.runtime.running(finished) == "" &&
			s.runtime.running(running) != ""
	})

	server.stop()
	must(t, os.RemoveAll(server.opts.StoreDir))
	server.start()
	s.github.Repair()

	next := s.github.CreateIssue(repo, "octocat", "After it", "", "agent-task")
	s.until("the next is delivered", s.labelled(next, "agent-review"))
	close(goOn)
	for _, key := range []string{finished, running} {
		s.until(key+" is delivered", s.labelled(key, "agent-review"))
	}
	if v := slices.Concat(s.verdicts(finished), s.verdicts(running), s.verdicts(next)); len(v) > 0 ||
		s.runtime.begun() != 3 {
		t.Errorf("verdicts %q, attempts %q; want none and three", v, s.runtime.attempts())
	}
}
