package workspace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestGitHasLimits prints the limits of a program that git runs as an alias, to show that they are set before git
// starts a program.
func TestGitHasLimits(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{Limits: Limits{GitMemory: 3 << 30, GitTime: time.Minute, WorkBytes: 1 << 30, Bytes: 1 << 32}})
	checkout(t, w, o, nonceB)
	for range 20 { // git must wait for the process that sets the limits
		for remote, files := range map[bool]int64{false: 1<<30 + maxAnswer, true: 1 << 32} {
			c := w.tasks.at("", nonceB).call("-c", "alias.limits=!cat /proc/self/limits", "limits")
			c.remote = remote
			out, err := w.tasks.git.run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for line := range strings.Lines(out) {
				if len(line) > 26 {
					got[strings.TrimSpace(line[:26])] = strings.Fields(line[26:])[0]
				}
			}
			cpu := "120"
			if remote {
				cpu = "7200"
			}
			for name, want := range map[string]string{
				"Max address space": fmt.Sprint(int64(3 << 30)),
				"Max cpu time":      cpu, "Max file size": fmt.Sprint(files), "Max core file size": "0",
			} {
				if got[name] != want {
					t.Fatalf("remote %v: %s is %q, want %s", remote, name, got[name], want)
				}
			}
		}
	}
}

// TestGitBeyondItsLimits: each limit ends git, and the error names it.
func TestGitBeyondItsLimits(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	for _, c := range []struct {
		limits Limits
		alias  string
		text   string
	}{
		{Limits{GitMemory: 64 << 20}, "exec git hash-object --stdin < /dev/zero", "checkout.git_memory"},
		{Limits{WorkBytes: 1 << 20}, "", "checkout.max_work_bytes"},
	} {
		w := open(t, Options{Limits: c.limits})
		checkout(t, w, o, nonceB)
		busy := w.tasks.at("", nonceB).call("-c", "alias.busy=!"+c.alias, "busy")
		if c.alias == "" {
			large := filepath.Join(t.TempDir(), "noise")
			noise(t, large, 24<<20)
			busy.args = []string{"hash-object", "-w", large}
		}
		began := time.Now()
		_, err := w.tasks.git.run(t.Context(), busy)
		if !errors.Is(err, ErrTooMuch) || !strings.Contains(err.Error(), c.text) || time.Since(began) > 10*time.Second {
			t.Errorf("%s: %v after %s", c.alias, err, time.Since(began))
		}
	}
}

// TestOnlyWorkOfItsOwnIsEvidence: git that exceeds its deadline is ErrTooMuch only if it used the processor itself.
func TestOnlyWorkOfItsOwnIsEvidence(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{Limits: Limits{GitTime: time.Second}})
	checkout(t, w, o, nonceB)
	large := filepath.Join(t.TempDir(), "large")
	sparse(t, large, 1<<40)
	busy, idle := w.tasks.at("", nonceB).call("hash-object", large), w.tasks.at("", nonceB).call("-c",
		"alias.idle=!sleep 60", "idle")
	base := busy
	base.base = true
	for _, c := range []struct {
		name string
		call call
		kind Kind
		want error
	}{
		{"idle", idle, Transient, ErrSlow},
		{"busy", busy, Permanent, ErrTooMuch},
		{"busy with only the base", base, Permanent, ErrLimitTooLow},
	} {
		_, err := w.tasks.git.run(t.Context(), c.call)
		if slow := c.name != "idle" && errors.Is(err, ErrSlow); slow {
			t.Logf("%s: the machine is busy: %v", c.name, err)
			err = w.tasks.git.tookTooLong(c.call, time.Second)
		}
		if !errors.Is(err, c.want) || KindOf(err) != c.kind || !strings.Contains(err.Error(), "checkout.git_seconds") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestFetchAndPushBeyondOurLimits: the error names the limit, and is not ErrTooMuch. Messages of a server about its own
// limits do not count.
func TestFetchAndPushBeyondOurLimits(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{Limits: Limits{Bytes: 1 << 20, WorkBytes: 1 << 20}})
	checkout(t, w, o, nonceB)
	large := filepath.Join(t.TempDir(), "noise")
	noise(t, large, 24<<20)
	c := w.tasks.at("", nonceB).call("hash-object", "-w", large)
	c.remote = true
	_, err := w.tasks.git.run(t.Context(), c)
	if !errors.Is(err, ErrLimitTooLow) || errors.Is(err, ErrTooMuch) ||
		!strings.Contains(err.Error(), "checkout.max_bytes") {
		t.Errorf("size of a file: %v", err)
	}
	for said, want := range map[string]string{
		"error: index-pack died of signal 25\nfatal: fetch-pack: invalid index-pack output": "checkout.max_bytes",
		"fatal: Out of memory, malloc failed (tried to allocate 9 bytes)":                   "checkout.git_memory",
		"remote: fatal: Out of memory, malloc failed\nfatal: early EOF":                     "",
	} {
		got := w.tasks.git.overLimit(c, &exec.ExitError{ProcessState: &os.ProcessState{}}, said)
		if !strings.Contains(got,
			want) || want == "" && got != "" {
			t.Errorf("%q: %q", said, got)
		}
	}
}

// noise is a file that cannot be compressed.
func noise(t *testing.T, path string, size int) {
	t.Helper()
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAnswersAreBounded: git ends when its kept or listed output reaches the bound.
func TestAnswersAreBounded(t *testing.T) {
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{})
	checkout(t, w, o, nonceB)
	endless := w.tasks.at("", nonceB).call("-c", "alias.endless=!exec yes "+strings.Repeat("x", 500), "endless")
	_, before := peak(t)
	began := time.Now()
	if _, err := w.tasks.git.run(t.Context(), endless); !errors.Is(err, ErrTooMuch) {
		t.Errorf("kept: %v", err)
	}
	n := 0
	if err := w.tasks.git.records(t.Context(), endless, '\n', func([]byte) error { n++; return nil }); !errors.Is(err,
		ErrTooMuch) || n > maxAnswer/501 || n < maxAnswer/501-200 {
		t.Errorf("listed: %v after %d lines", err, n)
	}
	endless.unbounded = true
	stop := errors.New("stop")
	n = 0
	err := w.tasks.git.records(t.Context(), endless, '\n', func([]byte) error {
		if n++; n == 1_000_000 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 1_000_000 {
		t.Errorf("streamed: %v after %d lines", err, n)
	}
	if err := w.tasks.git.records(t.Context(), endless, 0, func([]byte) error { return nil }); err == nil ||
		!strings.Contains(err.Error(), "longer than 65536 bytes") {
		t.Errorf("one endless line: %v", err)
	}
	after, _ := peak(t)
	t.Logf("%s, memory grew by %d MiB at most", time.Since(began).Round(time.Millisecond), (after-before)>>20)
	if !raced && after-before > 100<<20 { // the race detector needs some hundred MiB
		t.Errorf("memory grew by %d bytes", after-before)
	}
}

// TestLimitOfTheServer checks the wait after each kind of limit, and that a success ends the doubling.
func TestLimitOfTheServer(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	var answer atomic.Pointer[func(http.ResponseWriter)]
	url := httpOrigin(t, o, func(rw http.ResponseWriter, _ *http.Request) bool {
		f := answer.Load()
		if f != nil {
			(*f)(rw)
		}
		return f != nil
	})
	w := open(t, Options{})
	for _, c := range []struct {
		status int
		after  string
		kind   Kind
		wait   time.Duration
	}{
		{403, "20", Limited, 20 * time.Second},
		{429, "7200", Limited, 2 * time.Hour},
		{429, "99999999999", Limited, limitStated},
		{429, time.Now().Add(3 * time.Hour).UTC().Format(http.TimeFormat), Limited, 3 * time.Hour},
		{429, "", Limited, limitFirst},
		{429, "soon", Limited, 2 * limitFirst},
		{403, "", Auth, 0},
		{503, "20", Transient, 0},
		{200, "", "", 0},
		{429, "", Limited, limitFirst},
	} {
		answer.Store(new(func(rw http.ResponseWriter) {
			if c.after != "" {
				rw.Header().Set("Retry-After", c.after)
			}
			http.Error(rw, "no", c.status)
		}))
		if c.status == http.StatusOK {
			answer.Store(nil)
		}
		began := time.Now()
		_, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: url, BaseBranch: "main"})
		if c.kind == "" {
			if err = errors.Join(err, w.Remove(t.Context(), nonceB)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		e := &Error{}
		if !errors.As(err, &e) || e.Kind != c.kind {
			t.Errorf("%d %q: %v, want %s", c.status, c.after, err, c.kind)
			continue
		}
		wait := e.Until.Sub(began)
		if c.wait == 0 && !e.Until.IsZero() ||
			c.wait > 0 && (wait < c.wait-2*time.Second || wait > c.wait+time.Minute/2) {
			t.Errorf("%d %q: until %s, want %s", c.status, c.after, wait, c.wait)
		}
	}
}
