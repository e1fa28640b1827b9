package workspace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/safefile"
	"retake/internal/secrets/redact"
)

// recordingGit puts a git on the PATH that records its arguments and then runs git.
func recordingGit(t *testing.T) (argv string) {
	t.Helper()
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	argv = filepath.Join(t.TempDir(), "argv")
	fakeGit(t, `printf '%s\n' "$@" >> `+argv+"\nexec "+real+` "$@"`)
	return argv
}

func fakeGit(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := safefile.Create(filepath.Join(dir, "git"), 0o755,
		strings.NewReader("#!/bin/sh\n"+script+"\n")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestGitThatIsMissingOrOld(t *testing.T) {
	requireGit(t)
	t.Run("old", func(t *testing.T) {
		fakeGit(t, "echo git version 2.20.1")
		_, err := Open(Options{Dir: t.TempDir()})
		wantKind(t, err, Permanent, "2.20", "install git 2.32")
	})
	t.Run("new", func(t *testing.T) {
		fakeGit(t, "echo git version 3.0.0.rc1")
		if _, err := Open(Options{Dir: t.TempDir()}); err != nil {
			t.Error(err)
		}
	})
	t.Run("no git", func(t *testing.T) {
		fakeGit(t, "echo hello")
		_, err := Open(Options{Dir: t.TempDir()})
		wantKind(t, err, Permanent, "printed unexpected output")
	})
	t.Run("missing", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := Open(Options{Dir: t.TempDir()})
		wantKind(t, err, Permanent, "install git")
	})
}

// TestErrorsHaveGitsReasonAlone: errors omit git's advice and its messages about configuration.
func TestErrorsHaveGitsReasonAlone(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	q := request(o, nonceB)
	_, err := open(t, Options{}).Checkout(t.Context(), Request{
		Nonce: nonceB, Repo: repo, RemoteURL: q.RemoteURL,
		BaseBranch: "nowhere",
	})
	wantKind(t, err, Permanent, "no branch nowhere; its default branch is main")
	for _, noise := range []string{"deprecated", "warning:", "hint:"} {
		if strings.Contains(err.Error(), noise) {
			t.Errorf("%q is in %v", noise, err)
		}
	}
	said := essence(redact.Text("hint: Updates were rejected\nhint:\n ! [rejected] main (fetch first)\nerror: " +
		"failed to push"))
	if said != "! [rejected] main (fetch first)\nerror: failed to push" {
		t.Errorf("got %q", said)
	}
}

// TestFsyncByVersion: each version of git gets its own options for durable writes.
func TestFsyncByVersion(t *testing.T) {
	for version, want := range map[string]string{"2.35.1": "=core.fsyncObjectFiles", "2.36.0": "=core.fsync"} {
		fakeGit(t, "echo git version "+version)
		p, err := findGit(zap.NewNop(), Limits{}.orDefaults())
		if err != nil {
			t.Fatal(err)
		}
		keys := strings.Join(p.environment(call{}), "\n") + "\n"
		if !strings.Contains(keys, want+"\n") || want == "=core.fsync" && strings.Contains(keys, "ObjectFiles") {
			t.Errorf("git %s: want %s among\n%s", version, want, keys)
		}
	}
}

// TestCanceledGitEndsWithItsChildren: the context bounds every run, even if a child of git holds the pipes.
func TestCanceledGitEndsWithItsChildren(t *testing.T) {
	requireGit(t)
	dir := t.TempDir()
	fifo := filepath.Join(dir, "started")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	fakeGit(t, `case "$1" in --version) echo git version 2.40.0;; *) (echo go > `+fifo+`; exec sleep 600) ;; esac`)
	w := open(t, Options{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelled := make(chan time.Time, 1)
	go func() {
		_, _ = os.ReadFile(fifo) // opening it blocks until git runs
		cancelled <- time.Now()
		cancel()
	}()
	_, err := w.Checkout(ctx, Request{Nonce: nonceB, Repo: repo, RemoteURL: "/nowhere", BaseBranch: "main"})
	wantKind(t, err, Transient)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("not canceled: %v", err)
	}
	// a surviving child would hold the pipes for longer
	if took := time.Since(<-cancelled); took >= pipeGrace {
		t.Errorf("took %v", took)
	}
}

// TestLockIsHeldByOrphanedGit: the next director waits for the git that a killed director left running.
func TestLockIsHeldByOrphanedGit(t *testing.T) {
	requireGit(t)
	dir := t.TempDir()
	started, release := filepath.Join(dir, "started"), filepath.Join(dir, "release")
	if err := errors.Join(syscall.Mkfifo(started, 0o600), syscall.Mkfifo(release, 0o600)); err != nil {
		t.Fatal(err)
	}
	fakeGit(t, `case "$1" in --version) echo git version 2.40.0;; *) echo go > `+started+"; cat "+release+";; esac")
	w := open(t, Options{Dir: dir})
	task, err := w.tasks.lock(t.Context(), "test", nonceB)
	if err != nil {
		t.Fatal(err)
	}
	orphan := w.tasks.git.command(t.Context(), call{dir: dir, args: []string{"push"}, lock: task.lock})
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(started); err != nil {
		t.Fatal(err)
	}
	task.lock.unlock() // as the system does when the director dies
	if l, err := tryLock(task.lock.path); l != nil || err != nil {
		t.Errorf("got the lock while the orphan runs: %v, %v", l, err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Checkout(canceled, Request{Nonce: nonceB, Repo: repo, RemoteURL: "/x", BaseBranch: "main"})
	wantKind(t, err, Transient, "a git process")
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := orphan.Wait(); err != nil {
		t.Fatal(err)
	}
	if task, err = w.tasks.lock(t.Context(), "test", nonceB); err != nil {
		t.Fatal(err)
	}
	task.lock.unlockAndRemove()
}

func TestEnvironmentOfGit(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("GITHUB_TOKEN", "hunter2")
	p := &program{env: ownEnvironment(), config: baseConfig}
	env := p.environment(call{gitDir: "/g", config: [][2]string{{"a.b", "c"}}})
	for _, want := range []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"HOME=/nonexistent", "GIT_DIR=/g", "PATH=" + os.Getenv("PATH"),
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	all := strings.Join(env, "\n")
	for _, want := range []string{"=core.hooksPath", "=core.fsmonitor", "=gc.auto", "=protocol.allow", "=a.b"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(all, "hunter2") || strings.Contains(all, "XDG_CONFIG_HOME") {
		t.Error("git sees more of the director's environment than it needs")
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("progress\r", 100) + "fatal: caf\xc3\xa9 https://u:hunter2@host/ " +
		strings.Repeat("é", detailBytes)
	got := essence(redact.Text(long))
	if len(got) > detailBytes+3 || strings.Contains(got, "hunter2") {
		t.Errorf("%d bytes: %.100s", len(got), got)
	}
}
