package worker

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"retake/internal/bus/wire"
)

// snoop is a static stage program: as CODE it leaves a daemon behind and looks for the worker's secrets, as VALIDATE it
// looks for the daemon. It returns 0 if it found nothing.
const snoop = `package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

func main() {
	if len(os.Args) > 1 {
		select {}
	}
	found := 0
	fmt.Println("uid", os.Getuid())
	for _, secret := range []string{"/proc/1/environ", "/proc/1/mem", "/proc/1/fd", "/retake/plan.json"} {
		data, err := os.ReadFile(secret)
		if secret == "/proc/1/fd" {
			_, err = os.ReadDir(secret)
		}
		if err == nil && (len(data) > 0 || secret == "/proc/1/fd") {
			fmt.Println("readable:", secret)
			found = 3
		}
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	if len(procs) != 2 {
		fmt.Println("processes:", procs)
		found = 4
	}
	out, err := exec.Command(os.Getenv("RETAKE_WORKER"), "budget", "acquire").CombinedOutput()
	fmt.Printf("lease: %s", out)
	if err != nil {
		fmt.Println(err)
		found = 6
	}
	if os.Getenv("RETAKE_STAGE") == "CODE" {
		cmd := exec.Command(os.Args[0], "daemon")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			found = 5
		}
	}
	os.Exit(found)
}
`

// TestInAScratchContainer runs the real program as PID 1 of an image that has nothing in it, as an ordinary user without
// capabilities, against a bus on the gateway of its network.
func TestInAScratchContainer(t *testing.T) {
	w, code, logs := inContainer(t, snoop)
	if all := w.reports(); code != "0" || len(all) != 1 || all[0].MessageType() != "worker_result.v1" {
		t.Fatalf("exit %s, reports %+v\n%s", code, all, logs)
	}
	if !strings.Contains(logs, "uid 1000") || !strings.Contains(logs, `lease: {"grant_id":"run_x.1"`) {
		t.Errorf("logs:\n%s", logs)
	}
}

// eater is a stage program that takes more memory than there is.
const eater = `package main

func main() {
	var kept [][]byte
	for {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = 1
		}
		kept = append(kept, b)
	}
}
`

// TestOutOfMemoryInAContainer: the limit kills the stage, not the worker, which has the kernel's word for it.
func TestOutOfMemoryInAContainer(t *testing.T) {
	w, code, logs := inContainer(t, eater, "--memory", "64m", "--memory-swap", "64m")
	all := w.reports()
	if code != "1" || len(all) != 1 {
		t.Fatalf("exit %s, reports %+v\n%s", code, all, logs)
	}
	e, ok := all[0].(*wire.WorkerError)
	if !ok || e.ErrorType != "oom_killed" || e.Signal != "SIGKILL" || e.Stage != wire.StageCode || !e.ShouldRetry {
		t.Fatalf("%+v", all[0])
	}
	for _, want := range []string{"out of memory: the kernel killed 1 process", "limit 64MiB"} {
		if !strings.Contains(e.Message, want) {
			t.Errorf("message %q, want %q in it", e.Message, want)
		}
	}
}

// inContainer builds a program, runs it as both stages of a worker in a container from an empty image, and returns the
// container's exit code and logs.
func inContainer(t *testing.T, program string, limits ...string) (w *world, code, logs string) {
	t.Helper()
	needDocker(t)
	name := "retake-worker-test-" + strings.ToLower(rand.Text()[:8]) // a killed run's leftovers are in nobody's way
	docker(t, nil, "network", "create", name)
	t.Cleanup(func() { docker(t, nil, "network", "rm", name) })
	gateway := strings.TrimSpace(docker(t, nil, "network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", name))
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	docker(t, empty.Bytes(), "import", "-", name+":scratch")
	t.Cleanup(func() { docker(t, nil, "rmi", name+":scratch") })

	w = newWorldAt(t, gateway)
	dir := w.plan.Workdir
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	build(t, source, filepath.Join(dir, "program"))
	worker := filepath.Join(t.TempDir(), "worker")
	build(t, "retake/cmd/worker", worker)

	w.plan.Workdir = "/workspace"
	w.plan.Stages = []wire.StagePlan{
		{Name: wire.StageCode, Run: []string{"./program"}, TimeoutSeconds: 60}, {Name: wire.StageValidate, Run: []string{"./program"}, TimeoutSeconds: 60},
	}
	docker(t, nil, slices.Concat([]string{
		"create", "--name", name, "--network", name, "--user", "1000:1000", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--pids-limit", "64", "--tmpfs", "/tmp:exec", "--volume", dir + ":/workspace", "--entrypoint", "/retake/worker",
	}, limits, []string{name + ":scratch"})...)
	t.Cleanup(func() { docker(t, nil, "rm", "--force", name) })
	docker(t, w.files(worker), "cp", "-", name+":/")
	docker(t, nil, "start", name)
	code = strings.TrimSpace(docker(t, nil, "wait", name))
	return w, code, docker(t, nil, "logs", name)
}

func needDocker(t *testing.T) {
	t.Helper()
	out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").CombinedOutput()
	if err == nil {
		return
	}
	why := strings.TrimSpace(fmt.Sprintf("%v %s", err, out))
	if os.Getenv("RETAKE_REQUIRE_DOCKER") == "1" {
		t.Fatal("docker: " + why)
	}
	t.Skip("docker: " + why)
}

// files is what goes into the container before it starts. The plan and its folder belong to the container's user, who
// has to remove it.
func (w *world) files(worker string) []byte {
	w.t.Helper()
	program, err := os.ReadFile(worker)
	if err != nil {
		w.t.Fatal(err)
	}
	plan, err := json.Marshal(w.plan)
	if err != nil {
		w.t.Fatal(err)
	}
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, f := range []struct {
		header tar.Header
		data   []byte
	}{
		{tar.Header{Typeflag: tar.TypeDir, Name: "retake/", Mode: 0o700, Uid: 1000, Gid: 1000}, nil},
		{tar.Header{Name: "retake/worker", Mode: 0o755}, program},
		{tar.Header{Name: "retake/plan.json", Mode: 0o600, Uid: 1000, Gid: 1000}, plan},
	} {
		f.header.Size = int64(len(f.data))
		if err := archive.WriteHeader(&f.header); err != nil {
			w.t.Fatal(err)
		}
		if _, err := archive.Write(f.data); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		w.t.Fatal(err)
	}
	return out.Bytes()
}

func docker(t *testing.T, input []byte, args ...string) string {
	t.Helper()
	cmd := exec.Command("docker", args...)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func build(t *testing.T, what, to string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", to, what)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", what, err, out)
	}
}
