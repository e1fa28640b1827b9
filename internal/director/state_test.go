package director

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/agent"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/effects"
	"retake/internal/github/githubtest"
	"retake/internal/safefile"
)

// leave writes files into the worker's checkout.
func (a *fakeWorker) leave(names ...string) error {
	var errs error
	for _, name := range names {
		file := filepath.Join(a.checkout, name)
		errs = errors.Join(errs, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("x"), 0o644))
	}
	return errs
}

// An agent that reports success and left only its session has done nothing. The director does not deliver or review
// it.
func TestStateOfAnAgentIsNoSuccess(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if err := a.leave(".opencode/opencode.db", ".crush/crush.db", ".played/session.json"); err != nil {
			return 1
		}
		return a.succeed(ctx)
	})
	key := s.github.CreateIssue(repo, "octocat", "Do something", "", "agent-task")
	s.start()
	s.until("a verdict", func() bool { return len(s.verdicts(key)) > 0 })
	if v := s.verdicts(key); v[0] != "no_progress" {
		t.Errorf("verdicts %q, want no_progress", v)
	}
	s.stop()
	if slices.Contains(s.labels(key), "agent-review") || len(s.branches()) != 1 {
		t.Errorf("labels %q, branches %q", s.labels(key), s.branches())
	}
}

// With other work, an agent's files stay behind, unless the configuration lists them as work. Listed files are
// delivered.
func TestBranchHasTheWorkWithoutTheState(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if err := a.leave(".opencode/opencode.db", ".played/session.json", ".played/rules.md", "scratch/x",
			"frobnicator.go"); err != nil {
			return 1
		}
		return a.succeed(ctx)
	})
	s.config.Stages = []config.Stage{{
		Name: "CODE", Run: []string{"played"},
		StatePaths: []string{"scratch", "!.played/rules.md"}, Timeout: s.config.Stages[0].Timeout,
	}}
	key := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "", "agent-task")
	s.start()
	s.until("review", s.labelled(key, "agent-review"))
	if got := strings.Fields(s.git("ls-tree", "-r", "--name-only", "retake/1-a1")); !slices.Equal(got,
		[]string{".played/rules.md", "README.md", "frobnicator.go"}) {
		t.Errorf("the branch has %q", got)
	}
}

// novelScript is an unknown agent. For the first issue it only writes its session and a log, without a report. For
// the second it also does some work, and commits everything to a new repository.
const novelScript = `#!/bin/sh
mkdir -p .novel "$HOME/.novel"
echo session > .novel/session.db
echo trace > build.tmp
printf '\033]0;novel\007\033[?25l'
case "$RETAKE_ISSUE" in
*#1) echo '2026-11-22T02:03:02Z ERROR request failed: 401 Unauthorized: invalid x-api-key' >> "$HOME/.novel/run.log" ;;
*) echo 'package widgets' > frobnicator.go
   git init -q && git add -A -f && git -c user.name=n -c user.email=n@example.com commit -q -m all ;;
esac
`

// With a real worker in a plain process, an attempt without work ends with the cause from the agent's log, and the
// branch has only the work.
func TestRealWorkerTellsWorkFromState(t *testing.T) {
	t.Parallel()
	s := newNovelHarness(t, novelScript)
	first := s.github.CreateIssue(repo, "octocat", "Do something", "", "agent-task")
	second := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "", "agent-task")
	s.start()
	s.until("a verdict of the first", func() bool { return len(s.verdicts(first)) > 0 })
	s.until("review of the second", s.labelled(second, "agent-review"))
	if v := s.verdicts(first); v[0] != "auth_error" {
		t.Errorf("verdicts %q, want auth_error", v)
	}
	s.until("a comment that quotes the log", func() bool {
		c := s.github.Issue(first).Comments
		return len(c) > 0 && strings.Contains(c[len(c)-1].Body, "401 Unauthorized: invalid x-api-key")
	})
	if got := strings.Fields(s.git("ls-tree", "-r", "--name-only", "retake/2-a1")); !slices.Equal(got,
		[]string{"README.md", "frobnicator.go"}) {
		t.Errorf("the branch has %q", got)
	}
	if got := s.git("log", "--format=%s", "main..retake/2-a1"); got != "Add a frobnicator\n" {
		t.Errorf("its commits are %q", got)
	}
}

// newNovelHarness has real workers in plain processes, with an unknown agent as CODE that prints text.
func newNovelHarness(t *testing.T, script string) *harness {
	t.Helper()
	s := newHarness(t, nil)
	dir := filepath.Dir(s.config.Director.DataDir)
	must(t, os.Chmod(filepath.Dir(dir), 0o711)) // workers are another user's if this one is root
	placeWorker(t, filepath.Join(dir, "worker"))
	program := filepath.Join(dir, "novel")
	must(t, safefile.Create(program, 0o755, strings.NewReader(script)))
	table, err := agent.Parse(agent.Builtin(), []byte("[[agent]]\nname = \"novel\"\nprogram = '"+program+
		"'\nargs = [\"{prompt}\"]\nlog_paths = [\"~/.novel/*.log\"]\n"))
	must(t, err)
	s.config.Agents, s.config.Containers.Runtime = table, "process"
	s.config.Stages = []config.Stage{{
		Name: "CODE", Agent: "novel", StatePaths: []string{"*.tmp"},
		Timeout: time.Minute,
	}}
	t.Cleanup(s.endWorkers)
	return s
}

// endWorkers ends the real workers that a director leaves running. A retry may have started one in the meantime.
func (s *harness) endWorkers() {
	s.stop()
	ctx := context.Background()
	p, err := container.OpenProcesses(ctx, container.Options{
		Fleet: s.config.Director.Fleet,
		Dir:   filepath.Join(s.config.Director.DataDir, "processes"), SameUser: os.Geteuid() != 0,
	})
	must(s.t, err)
	all, err := p.List(ctx)
	must(s.t, err)
	for _, w := range all {
		if _, err := p.Stop(ctx, w.AttemptID, 0, nil); err != nil {
			s.t.Error(err)
		}
	}
	must(s.t, p.Close())
}

// idleScript is an agent that always returns 0. For the first issue it prints an error in plain words, for the second
// the reason for changing nothing. For the third it works in its first attempt, which is interrupted, and is finished
// in the next.
const idleScript = `#!/bin/sh
case "$RETAKE_ISSUE $RETAKE_ATTEMPT" in
*"#1 "*) echo 'Error: 401 Invalid API key' ;;
*"#2 "*) echo 'No change is needed: the function already handles connection refused.' ;;
*"#3 1") echo 'package widgets' > frobnicator.go; echo 'Error: connect ECONNREFUSED 127.0.0.1:443'; exit 1 ;;
*) echo 'It is done already.' ;;
esac
`

// With a real worker and no changes, the agent's output is the cause, and checks do not run. Work of an earlier
// attempt can be delivered.
func TestRealWorkerTellsWhyNothingWasDone(t *testing.T) {
	t.Parallel()
	s := newNovelHarness(t, idleScript)
	s.config.Stages = append(s.config.Stages,
		config.Stage{Name: "VALIDATE", Run: []string{"test", "-e", "frobnicator.go"}, Timeout: time.Minute})
	var keys []string
	for _, title := range []string{"Do something", "Handle a refused connection", "Add a frobnicator"} {
		keys = append(keys, s.github.CreateIssue(repo, "octocat", title, "", "agent-task"))
	}
	s.start()
	s.until("review of the third", s.labelled(keys[2], "agent-review"))
	for i, want := range []struct{ reason, cause string }{
		{"auth_error", "Error: 401 Invalid API key"},
		{"no_progress", "No change is needed: the function already handles connection refused."},
	} {
		s.until("a comment that quotes "+want.cause, func() bool {
			return slices.ContainsFunc(s.github.Issue(keys[i]).Comments,
				func(c githubtest.Comment) bool { return strings.Contains(c.Body, want.cause) })
		})
		if v := s.verdicts(keys[i]); v[0] != want.reason {
			t.Errorf("verdicts %q, want %s", v, want.reason)
		}
	}
	if v := s.verdicts(keys[2]); !slices.Equal(v, []string{"network_transient"}) {
		t.Errorf("verdicts %q", v)
	}
}

// An attempt without work also fails where results are not delivered.
func TestNothingDoneAndNothingToHandIn(t *testing.T) {
	t.Parallel()
	s := newHarness(t, func(ctx context.Context, a *fakeWorker) int {
		if a.plan.Issue.Number == 2 {
			if err := a.leave("frobnicator.go"); err != nil {
				return 1
			}
		}
		return a.succeed(ctx)
	})
	s.config.GitHub.Delivery = effects.DeliverNone
	idle := s.github.CreateIssue(repo, "octocat", "Do something", "", "agent-task")
	busy := s.github.CreateIssue(repo, "octocat", "Add a frobnicator", "", "agent-task")
	s.start()
	s.until("review", s.labelled(busy, "agent-review"))
	s.until("a verdict", func() bool { return len(s.verdicts(idle)) > 0 })
	if v := s.verdicts(idle); v[0] != "no_progress" {
		t.Errorf("verdicts %q, want no_progress", v)
	}
	if len(s.branches()) != 1 {
		t.Errorf("branches %q", s.branches())
	}
}

// git asks the remote.
func (s *harness) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = filepath.Join(filepath.Dir(s.config.Director.DataDir), "git", repo+".git")
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("git %q: %v", args, err)
	}
	return string(out)
}

// branches returns the branches of the remote.
func (s *harness) branches() []string {
	return strings.Fields(s.git("branch", "--format=%(refname:short)"))
}
