package container

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/container/supervisor"
)

func options(t *testing.T, runtime string) (Options, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.WarnLevel)
	return Options{
		Runtime: runtime, Fleet: "f", Network: "n", Dir: filepath.Join(t.TempDir(), "processes"),
		Log: zap.New(core), SameUser: os.Geteuid() != 0,
	}, logs
}

func noEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
}

// leave creates the directory of a plain process that an earlier director started.
func leave(t *testing.T, dir string) {
	t.Helper()
	at := filepath.Join(dir, "k3v9qx2m-1")
	err := os.MkdirAll(at, 0o700)
	if err == nil {
		err = supervisor.WriteFile(at, recordFile, record{AttemptID: "k3v9qx2m-1", Fleet: "f"})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func opened(t *testing.T, o Options) Runtime {
	t.Helper()
	r, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func isProcesses(r Runtime) bool { _, ok := r.(*Processes); return ok }

func TestOpenWithoutAnEngine(t *testing.T) {
	noEngine(t)
	for _, runtime := range []string{"docker", "auto"} { // plain processes must be configured explicitly
		o, _ := options(t, runtime)
		if _, err := Open(t.Context(), o); !errors.Is(err, ErrDaemon) ||
			!strings.Contains(err.Error(), `containers.runtime = "process"`) {
			t.Errorf("%s: got %v", runtime, err)
		}
	}
	o, logs := options(t, "process")
	r := opened(t, o)
	if !isProcesses(r) || r.Workdir(Spec{Workdir: "/workspace", Checkout: "/srv/c"}) != "/srv/c" {
		t.Errorf("got %T", r)
	}
	if logs.Len() != 1 || !strings.Contains(logs.All()[0].Message, "plain processes") {
		t.Fatalf("logged %v, want one warning", logs.All())
	}
	said := logs.All()[0].ContextMap()
	if list, ok := said["cannot"].([]any); !ok || len(list) < 5 || !strings.Contains(list[1].(string), "memory limit") {
		t.Errorf("logged %v, want the missing protections", said)
	}
}

func TestPlainProcessesAreAnotherUsers(t *testing.T) {
	noEngine(t)
	can := CanKeepApart()
	o, _ := options(t, "process")
	o.SameUser = false
	_, err := Open(t.Context(), o)
	if (err == nil) != (can == nil) || err != nil &&
		(!errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), "containers.process_same_user")) {
		t.Errorf("got %v, where %v", err, can)
	}
	o.SameUser = true
	if r := opened(t, o); r.(*Processes).apart {
		t.Error("workers are isolated despite SameUser")
	}
}

func TestOpenWithAnEngine(t *testing.T) {
	for _, c := range []struct {
		name, runtime, containers string
		left                      bool
		processes                 bool
		err                       error
		says                      string
	}{
		{name: "docker", runtime: "docker"},
		{name: "auto", runtime: "auto", says: `now means "docker"`},
		{name: "process", runtime: "process", processes: true},
		{name: "process, containers run", runtime: "process", containers: `{"Id":"at-1"}`, err: ErrSpec},
		{name: "docker ends processes", runtime: "docker", left: true},
		{name: "auto ends processes", runtime: "auto", left: true},
		{name: "unknown", runtime: "podman", err: ErrSpec},
	} {
		t.Run(c.name, func(t *testing.T) {
			openFake(t, answers{
				"GET /info": say(http.StatusOK,
					`{"MemoryLimit":true,"SwapLimit":true,"CpuCfsQuota":true,"PidsLimit":true}`),
				"GET /containers/at-1/json": inspected(`{"Status":"running","Running":true}`),
				"GET /containers/json":      say(http.StatusOK, "["+c.containers+"]"),
			})
			o, logs := options(t, c.runtime)
			if c.left {
				leave(t, o.Dir)
			}
			r, err := Open(t.Context(), o)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("got %v, want %v", err, c.err)
			}
			if err == nil {
				defer r.Close()
				if isProcesses(r) != c.processes {
					t.Errorf("got %T", r)
				}
			}
			if c.says != "" && (logs.Len() == 0 || !strings.Contains(logs.All()[0].Message, c.says)) {
				t.Errorf("said %v", logs.All())
			}
			if _, err := os.Stat(filepath.Join(o.Dir, "k3v9qx2m-1")); err == nil {
				t.Error("the earlier process still exists")
			}
		})
	}
}

func TestDockerSaysWhatItCannot(t *testing.T) {
	for info, want := range map[string]int{
		`{"MemoryLimit":true,"SwapLimit":true,"CpuCfsQuota":true,"PidsLimit":true}`: 0,
		`{"MemoryLimit":true,"CpuCfsQuota":true,"PidsLimit":true}`:                  1,
		`{}`: 3,
	} {
		d := openFake(t, answers{"GET /info": say(http.StatusOK, info)})
		if got := d.cannot; len(got) != want {
			t.Errorf("%s: got %q", info, got)
		}
	}
}

func TestHostTroubleIsADaemonsToTheDirector(t *testing.T) {
	err := hostFailure("start k3v9qx2m-1", os.ErrPermission)
	if !errors.Is(err, ErrHost) || !errors.Is(err, ErrDaemon) || !Transient(err) ||
		strings.Contains(err.Error(), "Docker") {
		t.Errorf("got %v", err)
	}
}

func TestDockerSaysWhatStandsBetween(t *testing.T) {
	for info, want := range map[string]string{
		`{"ServerVersion":"25.0.1","SecurityOptions":["name=seccomp,profile=default","name=userns"]}`:    "root in a container is not root on the host, because the engine maps users",
		`{"ServerVersion":"27.1.0","SecurityOptions":["name=seccomp,profile=builtin","name=rootless"]}`:  "root in a container is not root on the host, because the engine is rootless",
		`{"ServerVersion":"27.1.0","SecurityOptions":["name=seccomp,profile=builtin","name=cgroupns"]}`:  "lacks: root in a container is root on the host",
		`{"ServerVersion":"20.10.24+dfsg1","SecurityOptions":["name=seccomp,profile=default","userns"]}`: "lacks: the engine (20.10.24+dfsg1) lets containers use io_uring",
		`{"ServerVersion":"27.1.0","SecurityOptions":["name=rootless"]}`:                                 "lacks: no system call filter",
	} {
		d := openFake(t, answers{"GET /info": say(http.StatusOK, info)})
		holds, lacks, err := d.Isolation(t.Context())
		said := strings.Join(holds, "\n") + "\nlacks: " + strings.Join(lacks, "\nlacks: ")
		if err != nil || !strings.Contains(said, want) || len(lacks) > 1 {
			t.Errorf("%s: got %s, %v, want %q", info, said, err, want)
		}
	}
}
