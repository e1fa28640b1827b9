package worker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/testbed/program"
)

// secretsOf returns the secrets of a plan, which stages must not find.
func secretsOf(p *wire.Plan) []string { return append(ownSecrets(p), p.Secrets...) }

// lookFor lets the program testdata/snoop search for the plan's secrets. Its own arguments do not count.
func lookFor(p *wire.Plan) {
	p.Secrets = []string{"a-value-of-the-plan"}
	var reversed []string
	for _, s := range secretsOf(p) {
		letters := []byte(s)
		slices.Reverse(letters)
		reversed = append(reversed, string(letters))
	}
	for i := range p.Stages {
		p.Stages[i].Env = map[string]string{"TEST_REVERSED": strings.Join(reversed, " ")}
	}
}

// wantNothingFound checks that both stages searched and did not find a secret.
func wantNothingFound(t *testing.T, w *world, code, logs string) {
	t.Helper()
	if all := w.reports(); code != "0" || len(all) != 1 || all[0].MessageType() != "worker_result.v1" {
		t.Fatalf("exit %s, reports %+v\n%s", code, all, logs)
	}
	if !strings.Contains(logs, "uid 1000") || !strings.Contains(logs, `lease: {"grant_id":"run_x.1"`) {
		t.Errorf("logs:\n%s", logs)
	}
	for i, s := range secretsOf(w.plan) {
		if strings.Contains(logs, s) {
			t.Errorf("secret %d is in the log", i)
		}
	}
}

// TestInAScratchContainer runs the real program as PID 1 of an empty image, as an ordinary user without capabilities,
// with a bus on the gateway of its network.
func TestInAScratchContainer(t *testing.T) {
	c := newScratch(t, "./testdata/snoop")
	lookFor(c.plan)
	code, logs := c.run()
	wantNothingFound(t, c.world, code, logs)
	for what, seen := range map[string]string{
		"settings": docker(t, nil, "inspect", c.name),
		"files":    docker(t, nil, "export", c.name),
	} {
		for i, s := range secretsOf(c.plan) {
			if strings.Contains(seen, s) {
				t.Errorf("secret %d is in the container's %s", i, what)
			}
		}
	}
}

// eater is a stage program that uses more memory than is available.
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

// TestOutOfMemoryInAContainer checks that the limit kills the stage, while the worker survives and reads the kernel's
// counter. On a busy machine, the stage's memory may not be free when the worker needs a page. The kernel then also
// kills the worker. The director then gets the reason from the container's end.
func TestOutOfMemoryInAContainer(t *testing.T) {
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(eater), 0o600); err != nil {
		t.Fatal(err)
	}
	var c *scratch
	var code, logs string
	for range 10 {
		c = newScratch(t, source, "--memory", "64m", "--memory-swap", "64m")
		if code, logs = c.run(); code != "137" {
			break
		}
		if said := docker(t, nil, "inspect", "--format", "{{.State.OOMKilled}}", c.name); strings.TrimSpace(
			said) != "true" {
			t.Fatalf("killed, but not for lack of memory: %s\n%s", said, logs)
		}
		t.Log("the kernel also killed the worker")
	}
	all := c.reports()
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

// TestInputThatEndsEarly kills the sender of the plan before or during the plan. The worker ends at once, as with a bad
// plan.
func TestInputThatEndsEarly(t *testing.T) {
	for _, part := range []float64{0, 0.5, 0.999} {
		c := newScratch(t, "")
		began := time.Now()
		client := exec.Command("docker", "start", "--attach", "--interactive", c.name)
		in, err := client.StdinPipe()
		if err == nil {
			err = client.Start()
		}
		plan := c.input()
		if err == nil {
			_, err = in.Write(plan[:int(float64(len(plan))*part)])
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the container runs", func() bool {
			return strings.TrimSpace(docker(t, nil, "inspect", "--format", "{{.State.StartedAt}}",
				c.name)) > "0001-01-02"
		})
		_ = client.Process.Kill()
		_ = client.Wait()
		code := strings.TrimSpace(docker(t, nil, "wait", c.name))
		if logs := docker(t, nil, "logs", c.name); code != fmt.Sprint(int(ExitBadPlan)) ||
			!strings.Contains(logs, "standard input") || time.Since(began) > 30*time.Second {
			t.Errorf("%v of the plan: exit %s after %s\n%s", part, code, time.Since(began), logs)
		}
	}
}

// scratch is a world with a container from an empty image, created but not started. Its PID 1 is the real worker.
type scratch struct {
	*world
	name string
}

// newScratch builds a program for both stages of the worker. Without a name the stages run a missing program.
func newScratch(t *testing.T, program string, limits ...string) *scratch {
	t.Helper()
	needDocker(t)
	name := "retake-worker-test-" + strings.ToLower(rand.Text()[:8]) // the remains of a killed run do no harm
	docker(t, nil, "network", "create", name)
	t.Cleanup(func() { docker(t, nil, "network", "rm", name) })
	gateway := strings.TrimSpace(docker(t, nil, "network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}",
		name))
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	docker(t, empty.Bytes(), "import", "-", name+":scratch")
	t.Cleanup(func() { docker(t, nil, "rmi", name+":scratch") })

	c := &scratch{newWorldAt(t, gateway), name}
	dir := c.plan.Workdir
	openToAll(t, dir)
	if program != "" {
		build(t, program, filepath.Join(dir, "program"))
	}

	c.plan.Workdir = "/workspace"
	c.plan.Stages = []wire.StagePlan{
		{Name: wire.StageCode, Run: []string{"./program"}, TimeoutSeconds: 60},
		{Name: wire.StageValidate, Run: []string{"./program"}, TimeoutSeconds: 60},
	}
	docker(t, nil, slices.Concat([]string{
		"create", "--interactive", "--name", name, "--network", name, "--user", "1000:1000", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges",
		"--pids-limit", "64", "--tmpfs", "/tmp:exec", "--volume", dir + ":/workspace", "--entrypoint", "/retake/worker",
	}, limits, []string{name + ":scratch"})...)
	t.Cleanup(func() { docker(t, nil, "rm", "--force", name) })
	docker(t, c.files(realWorker(t)), "cp", "-", name+":/")
	return c
}

// run runs the container to its end.
func (c *scratch) run() (code, logs string) {
	c.t.Helper()
	start := exec.Command("docker", "start", "--attach", "--interactive", c.name)
	start.Stdin = bytes.NewReader(c.input())
	_ = start.Run() // the container has its exit code
	return strings.TrimSpace(docker(c.t, nil, "wait", c.name)), docker(c.t, nil, "logs", c.name)
}

// input returns the plan as the worker gets it.
func (w *world) input() []byte {
	w.t.Helper()
	data, err := json.Marshal(w.plan)
	if err != nil {
		w.t.Fatal(err)
	}
	return data
}

// openToAll gives another user access to a test's directory.
func openToAll(t *testing.T, dir string) {
	t.Helper()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
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

// files returns the container's files before its start.
func (c *scratch) files(worker string) []byte {
	c.t.Helper()
	program, err := os.ReadFile(worker)
	if err != nil {
		c.t.Fatal(err)
	}
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, f := range []struct {
		header tar.Header
		data   []byte
	}{
		{tar.Header{Typeflag: tar.TypeDir, Name: "retake/", Mode: 0o700, Uid: 1000, Gid: 1000}, nil},
		{tar.Header{Name: "retake/worker", Mode: 0o755}, program},
	} {
		f.header.Size = int64(len(f.data))
		if err := archive.WriteHeader(&f.header); err != nil {
			c.t.Fatal(err)
		}
		if _, err := archive.Write(f.data); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		c.t.Fatal(err)
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
	if err := program.Build(t.Context(), "", what, to); err != nil {
		t.Fatal(err)
	}
}

// built returns the directory of the worker's program, which is built once. TestMain removes it.
var built = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "retake-worker-"); err == nil {
		removeBuilt = func() { _ = os.RemoveAll(dir) }
		err = program.Build(context.Background(), "", "retake/cmd/worker", filepath.Join(dir, "worker"))
	}
	return dir, err
})

var removeBuilt = func() {}

// realWorker returns the file of the worker's program.
func realWorker(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "worker")
}

// TestAsAPlainProcess runs the real program below its supervisor, as the director starts it without an engine. Root
// runs it as another user, and that user also runs it directly.
func TestAsAPlainProcess(t *testing.T) {
	for _, root := range []bool{true, false} {
		if root && os.Geteuid() != 0 {
			t.Log("not root, so workers cannot run as another user")
			continue
		}
		w, folder := supervised(t, root)
		wantSupervisedNothing(t, w, folder)
	}
}

// supervised runs a worker under a supervisor, and returns the supervisor's directory.
func supervised(t *testing.T, root bool) (w *world, folder string) {
	t.Helper()
	w, folder = newWorld(t), t.TempDir()
	openToAll(t, w.plan.Workdir)
	openToAll(t, folder)
	program := filepath.Join(w.plan.Workdir, "program")
	build(t, "./testdata/snoop", program)
	worker := filepath.Join(folder, "worker")
	if err := os.Link(realWorker(t), worker); err != nil {
		t.Fatal(err)
	}
	w.plan.Stages = []wire.StagePlan{
		{Name: wire.StageCode, Run: []string{program}, TimeoutSeconds: 60},
		{Name: wire.StageValidate, Run: []string{program}, TimeoutSeconds: 60},
	}
	lookFor(w.plan)
	order := map[string]any{
		"Argv": []string{worker, "--plan", "-"}, "Env": []string{"HOME=" + w.plan.Workdir, "PATH=/bin"},
		"Workdir": w.plan.Workdir, "Stdin": w.input(),
	}
	supervise := exec.Command(worker, "supervise", folder)
	supervise.Env = []string{"PATH=/bin"}
	lock, err := os.Create(filepath.Join(folder, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	supervise.ExtraFiles = []*os.File{lock}
	if root {
		order["UID"], order["GID"] = 1000, 1000
	} else if os.Geteuid() == 0 {
		supervise.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	}
	data, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	supervise.Stdin = bytes.NewReader(data)
	if out, err := supervise.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_ = lock.Close()
	return w, folder
}

func wantSupervisedNothing(t *testing.T, w *world, folder string) {
	t.Helper()
	var ended struct {
		ExitCode int `json:"exit_code"`
	}
	text, err := os.ReadFile(filepath.Join(folder, "ended.json"))
	if err == nil {
		err = json.Unmarshal(text, &ended)
	}
	if err != nil {
		t.Fatal(err)
	}
	logs := ""
	for _, name := range []string{"stdout", "stderr"} {
		part, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		logs += string(part)
	}
	if os.Geteuid() != 0 {
		logs = strings.Replace(logs, fmt.Sprintf("uid %d", os.Geteuid()), "uid 1000", 1)
	}
	wantNothingFound(t, w, fmt.Sprint(ended.ExitCode), logs)
}
