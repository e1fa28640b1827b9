package container_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"retake/internal/container"
	"retake/internal/container/supervisor"
)

func TestProcessIsWhoItShouldBe(t *testing.T) {
	p := openProcesses(t, engine.fleet)
	exit := end(t, p, begin(t, p, "status"))
	uid := "\t" + strconv.Itoa(os.Geteuid())
	if os.Geteuid() == 0 {
		uid = "\t1000"
	}
	for _, want := range []string{
		"\nUid:" + strings.Repeat(uid, 4) + "\n", "\nNoNewPrivs:\t1\n",
		"\nCapEff:\t0000000000000000\n",
	} {
		if !strings.Contains(string(exit.Stdout), want) {
			t.Errorf("no %q in %s", want, exit.Stdout)
		}
	}
	if os.Geteuid() == 0 && !strings.Contains(string(exit.Stdout), "\nGroups:\t \n") {
		t.Errorf("the worker kept groups of the director: %s", exit.Stdout)
	}
}

func TestProcessEnvironment(t *testing.T) {
	t.Setenv("RETAKE_TEST_OURS", "the director's own")
	const secret = "hunter2-in-the-environment"
	p := openProcesses(t, engine.fleet)
	s := spec(t, "env")
	s.Env = []string{"PATH=/ours", "KEY=" + secret, supervisor.Marker + "=forged"}
	beginSpec(t, p, s)
	err := filepath.WalkDir(filepath.Join(processDir(), s.AttemptID),
		func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a temporary file of the supervisor
			}
			if err != nil || e.IsDir() || e.Name() == supervisor.StdoutFile {
				return err
			}
			data, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s holds the secret", path)
			}
			return err
		})
	if err != nil {
		t.Error(err)
	}
	dir := filepath.Join(processDir(), s.AttemptID)
	lines := strings.Split(strings.TrimSpace(string(end(t, p, s).Stdout)), "\n")
	host, _ := os.Hostname()
	want := []string{
		"DIR=" + s.Checkout, "HOME=" + dir + "/home", "HOSTNAME=" + host, "KEY=" + secret, "PATH=/ours",
		supervisor.Marker + "=" + s.AttemptID, "TMPDIR=" + dir + "/tmp",
	}
	if !slices.Equal(lines[1:], want) {
		t.Errorf("got %q, want %q", lines[1:], want)
	}
}

// Go's module cache consists of directories that are read-only even for their owner.
func TestProcessLeavesNoFolder(t *testing.T) {
	p := openProcesses(t, engine.fleet)
	s := begin(t, p, "readonly")
	if exit := end(t, p, s); exit.ExitCode != 0 {
		t.Fatalf("got %+v", exit)
	}
	if _, err := os.Stat(filepath.Join(processDir(), s.AttemptID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder remains (%v)", err)
	}
}

func TestProcessCutOffEnsure(t *testing.T) {
	for name, files := range map[string][]string{"before its record": nil, "before its supervisor": {"attempt.json"}} {
		t.Run(name, func(t *testing.T) {
			p := openProcesses(t, engine.fleet)
			s := spec(t, "say", "out", "err")
			dir := filepath.Join(processDir(), s.AttemptID)
			if err := os.MkdirAll(filepath.Join(dir, "retake", "half"), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if err := supervisor.WriteFile(dir, f, map[string]string{
					"attempt_id": s.AttemptID,
					"fleet":      engine.fleet,
				}); err != nil {
					t.Fatal(err)
				}
			}
			if exit := end(t, p, beginSpec(t, p, s)); string(exit.Stdout) != "out\n" {
				t.Errorf("got %+v", exit)
			}
			if err := os.Mkdir(dir, 0o755); err != nil { // recreate the directory for Stop
				t.Fatal(err)
			}
			if exit, err := p.Stop(t.Context(), s.AttemptID, 0, nil); err != nil || exit.Known {
				t.Errorf("got %+v, %v", exit, err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder remains: %v", err)
			}
		})
	}
}

func TestProcessRefuses(t *testing.T) {
	p := openProcesses(t, engine.fleet)
	closed := filepath.Join(checkout(t), "closed")
	if err := os.MkdirAll(filepath.Join(closed, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(closed, "in"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		change func(*container.Spec)
	}{
		{"volume cache at /cache", func(s *container.Spec) {
			s.Mounts = []container.Mount{{Source: "cache", Target: "/cache", Volume: true}}
		}},
		{
			"mount of /usr at /other",
			func(s *container.Spec) { s.Mounts = []container.Mount{{Source: "/usr", Target: "/other"}} },
		},
		{"/no/such/place", func(s *container.Spec) {
			s.Mounts = []container.Mount{{Source: "/no/such/place", Target: "/no/such/place"}}
		}},
		{"/etc/x", func(s *container.Spec) { s.Files = []container.File{{Name: "/etc/x"}} }},
		{"absolute path", func(s *container.Spec) { s.Entrypoint = []string{"sh"} }},
		{"attempt id", func(s *container.Spec) { s.AttemptID = "../x" }},
		{"/no/such/checkout", func(s *container.Spec) { s.Checkout = "/no/such/checkout" }},
		{"/no/such/worker", func(s *container.Spec) { s.WorkerBinary = "/no/such/worker" }},
		{"have the same version", func(s *container.Spec) { s.WorkerBinary = "/bin/false" }},
		{"cannot enter " + closed, func(s *container.Spec) { s.Checkout = filepath.Join(closed, "in") }},
	} {
		t.Run(c.want, func(t *testing.T) {
			if strings.HasPrefix(c.want, "cannot enter") && os.Geteuid() != 0 {
				t.Skip("only root runs workers as another user")
			}
			s := spec(t, "exit", "0")
			c.change(&s)
			err := p.Ensure(t.Context(), s)
			if !errors.Is(err, container.ErrSpec) || container.Transient(err) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a permanent ErrSpec with %q", err, c.want)
			}
			if _, err := p.Stop(t.Context(), s.AttemptID, 0, nil); err != nil {
				t.Errorf("Stop: %v", err)
			}
		})
	}
	t.Run("a mount of a folder onto itself is allowed", func(t *testing.T) {
		s := spec(t, "exit", "0")
		s.Mounts = []container.Mount{{Source: "/usr", Target: "/usr", ReadOnly: true}}
		if exit := end(t, p, beginSpec(t, p, s)); exit.ExitCode != 0 {
			t.Errorf("got %+v", exit)
		}
	})
}
