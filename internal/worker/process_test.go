package worker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"retake/internal/secrets/redact"
)

// bench runs programs from this process, which is therefore a subreaper during the test.
type bench struct {
	*processRunner
	t        *testing.T
	dir      string
	out, err *buffer
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newBench(t *testing.T, secrets ...string) *bench {
	t.Helper()
	if err := adoptOrphans(); err != nil {
		t.Fatal(err)
	}
	r := startReaper()
	t.Cleanup(r.stop)
	b := &bench{t: t, dir: t.TempDir(), out: &buffer{}, err: &buffer{}}
	b.processRunner = &processRunner{
		reaper: r, masks: newMasks(secrets...), stdout: b.out, stderr: b.err,
		memory: uncounted,
	}
	return b
}

func testProgram(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func (b *bench) command(program string, env ...string) command {
	return command{
		argv: []string{testProgram(b.t)}, dir: b.dir, timeout: time.Minute, grace: 200 * time.Millisecond,
		env: append([]string{programEnv + "=" + program, "TEST_DIR=" + b.dir}, env...),
	}
}

func TestExitCodeAndStreams(t *testing.T) {
	b := newBench(t)
	e := b.run(t.Context(), b.command("speak", "TEST_OUT=to stdout\nlast", "TEST_ERR=to stderr\n", "TEST_EXIT=7"))
	if e.err != nil || e.code != 7 || e.signal != "" || !e.failedByItself() || e.ok() {
		t.Fatalf("got %+v", e)
	}
	if got := e.stdout.text(100); got != "to stdout\nlast" {
		t.Errorf("stdout tail %q", got)
	}
	if got := e.stderr.text(100); got != "to stderr\n" {
		t.Errorf("stderr tail %q", got)
	}
	if b.out.String() != "to stdout\nlast" || b.err.String() != "to stderr\n" {
		t.Errorf("passed on %q and %q", b.out, b.err)
	}
}

func TestSecretsNeverReachTailOrConsole(t *testing.T) {
	b := newBench(t, "hunter2-hunter2")
	e := b.run(t.Context(), b.command("speak", "TEST_OUT=key hunter2-hunter2 "+strings.Repeat("x", 100),
		"TEST_ERR=https://bot:s3cr3t@example.org/\n"))
	for name, text := range map[string]string{
		"tail":    e.stdout.text(1000) + e.stderr.text(1000),
		"console": b.out.String() + b.err.String(),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "s3cr3t") ||
			!strings.Contains(text, redact.Marker) {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestTimeoutKillsWhoIgnoresSIGTERM(t *testing.T) {
	b := newBench(t)
	c := b.command("stubborn")
	var e exit
	for c.timeout = 500 * time.Millisecond; c.timeout < time.Minute; c.timeout *= 4 {
		e = b.run(t.Context(), c)
		if _, err := os.Stat(filepath.Join(b.dir, "stubborn")); err == nil {
			break
		}
		// On a busy machine, it may be killed before it ignores SIGTERM.
	}
	if !e.timedOut || e.signal != "SIGKILL" || e.code != 137 || e.failedByItself() {
		t.Fatalf("got %+v", e)
	}
}

func TestStopEndsTheGroupPolitely(t *testing.T) {
	b := newBench(t)
	ctx, stop := context.WithCancelCause(t.Context())
	done := make(chan exit)
	c := b.command("sleeper")
	c.grace = time.Minute
	go func() { done <- b.run(ctx, c) }()
	eventually(t, "a child", func() bool { return !b.reaper.childless() })
	stop(&stopCause{"withdrawn", 30 * time.Second})
	if e := <-done; !e.stopped || e.signal != "SIGTERM" {
		t.Fatalf("got %+v", e)
	}
}

func TestStopWithoutGraceKillsAtOnce(t *testing.T) {
	b := newBench(t)
	ctx, stop := context.WithCancelCause(t.Context())
	done := make(chan exit)
	c := b.command("stubborn")
	c.grace = time.Minute
	go func() { done <- b.run(ctx, c) }()
	pid := stubbornPID(t, b.dir)
	stop(&stopCause{"fenced", 0})
	if e := <-done; !e.stopped || e.signal != "SIGKILL" || !gone(pid) {
		t.Fatalf("got %+v", e)
	}
}

func TestNothingDetachedSurvives(t *testing.T) {
	b := newBench(t)
	e := b.run(t.Context(), b.command("daemon"))
	if !e.ok() {
		t.Fatalf("got %+v: %s", e, e.stderr.text(1000))
	}
	if pid := stubbornPID(t, b.dir); !gone(pid) {
		t.Errorf("the daemon %d is still there", pid)
	}
	if !b.reaper.childless() {
		t.Error("children are left")
	}
	if got := e.stdout.text(100); got != "left a daemon\n" {
		t.Errorf("stdout %q", got)
	}
}

func TestReaperDoesNotStealExitCodes(t *testing.T) {
	b := newBench(t)
	for range 10 {
		if e := b.run(t.Context(), b.command("orphans")); e.code != 3 {
			t.Fatalf("got %+v", e)
		}
	}
	if b.reaper.orphans == 0 {
		t.Error("no orphan was reaped, so this test is inconclusive")
	}
}

func TestMissingPrograms(t *testing.T) {
	b := newBench(t)
	write := func(name, text string, mode os.FileMode) string {
		file := b.dir + "/" + name
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, row := range []struct {
		argv string
		says string
	}{
		{"no-such-agent", `"no-such-agent" is not in PATH=` + b.dir},
		{"/nowhere/agent", "/nowhere/agent"},
		{"./agent", b.dir + "/agent"},
		{write("script", "#!/no/such/interpreter\n", 0o755), "interpreter"},
		{write("text", "no program at all", 0o755), "built for this machine"},
		{b.dir, "permission denied"},
	} {
		c := b.command("speak")
		c.argv, c.path = []string{row.argv}, b.dir
		e := b.run(t.Context(), c)
		if e.err == nil || !strings.Contains(e.err.Error(), row.says) || !errors.Is(e.err, errNoProgram) {
			t.Errorf("%s: got %v, want it to say %q", row.argv, e.err, row.says)
		}
	}
}

func TestStageInputIsEmpty(t *testing.T) {
	b := newBench(t)
	c := b.command("")
	c.argv, c.path = []string{"cat"}, defaultPath
	if e := b.run(t.Context(), c); !e.ok() || len(e.stdout.kept) > 0 {
		t.Errorf("got %+v, want an end at once, for want of input", e)
	}
}

func TestSignalNames(t *testing.T) {
	for s, want := range map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.Signal(40): "SIG40"} {
		if got := signalName(s); got != want {
			t.Errorf("signal %d: got %s, want %s", s, got, want)
		}
	}
}
