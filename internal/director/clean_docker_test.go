package director

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/config"
	"retake/internal/safefile"
	"retake/internal/testbed/program"
)

// cheat is the only program of an otherwise empty image. As CODE it does bad work and hides that from VALIDATE in every
// available way. It leaves a daemon, and caches that report success in its HOME, a shared volume and an ignored
// directory of the checkout. As VALIDATE it trusts all of these, as build tools trust their caches.
const cheat = `package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

func places() []string { return []string{"/cache/result", os.Getenv("MYHOME") + "/.cache/result", "build/result"} }

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "daemon":
		l, err := net.Listen("tcp", "127.0.0.1:7777")
		for err == nil {
			var c net.Conn
			if c, err = l.Accept(); err == nil {
				fmt.Fprintln(c, "all is well")
				c.Close()
			}
		}
	case os.Getenv("RETAKE_STAGE") == "CODE":
		said, _ := os.ReadFile(".retake/last_failure.txt")
		if strings.Contains(string(said), "the work is bad") {
			os.WriteFile("work.txt", []byte("good\n"), 0o644)
			return
		}
		os.WriteFile("work.txt", []byte("bad\n"), 0o644)
		for _, p := range places() {
			os.MkdirAll(filepath.Dir(p), 0o755)
			if err := os.WriteFile(p, []byte("all is well"), 0o644); err != nil {
				fmt.Println(err)
				os.Exit(9)
			}
		}
		d := exec.Command(os.Args[0], "daemon")
		d.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		d.Start()
	default:
		for _, p := range places() {
			if text, err := os.ReadFile(p); err == nil {
				fmt.Println("cached in", p, string(text))
				return
			}
			os.MkdirAll(filepath.Dir(p), 0o755)
			if err := os.WriteFile(p, nil, 0o644); err != nil {
				fmt.Println("a build must write everywhere:", err)
				os.Exit(8)
			}
			os.Remove(p)
		}
		if c, err := net.Dial("tcp", "127.0.0.1:7777"); err == nil {
			fmt.Println("somebody says that all is well", c.RemoteAddr())
			return
		}
		if key := os.Getenv("MODEL_KEY"); key != "" {
			fmt.Println("there is a key")
			os.Exit(7)
		}
		if text, _ := os.ReadFile("work.txt"); string(text) != "good\n" {
			fmt.Println("--- FAIL: TestWork (0.00s)\n    the work is bad\nFAIL")
			os.Exit(1)
		}
		fmt.Println("it is really well")
	}
}
`

// TestCheatedValidation performs the attack. Files that an agent leaves outside its work make VALIDATE pass in the same
// container, so the director delivers bad work. In a clean container VALIDATE fails, and the agent repairs the work.
func TestCheatedValidation(t *testing.T) {
	t.Parallel()
	image := cheatImage(t)
	for name, want := range map[string]struct {
		validate, transport string
		branch, work        string
		verdicts            []string
	}{
		"inside":             {"inside", "mount", "retake/1-a1", "bad\n", nil},
		"fresh":              {"fresh", "mount", "retake/1-a4", "good\n", []string{"tests_failed"}},
		"inside, travelling": {"inside", "sync", "retake/1-a1", "bad\n", nil},
		// travelling checkouts are not mounted from this machine
		"fresh, travelling": {"fresh", "sync", "retake/1-a4", "good\n", []string{"tests_failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			name := "retake-cheat-" + strings.ToLower(rand.Text()[:8])
			s := newHarness(t, nil)
			placeWorker(t, filepath.Join(filepath.Dir(s.config.Director.DataDir), "worker"))
			c := &s.config
			c.Workspace.Transport = want.transport
			c.Worker.Validate, c.Director.Fleet = want.validate, name[len("retake-"):]
			c.Containers.Runtime, c.Containers.Image, c.Containers.Network, c.Containers.Memory = "docker", image, name,
				"256MiB"
			c.Containers.EnvPassthrough, c.Containers.Env = []string{"MODEL_KEY"},
				map[string]string{"MYHOME": "/home/me"}
			c.Containers.Mounts = []string{"volume:" + name + ":/cache", "volume:" + name + "-home:/home/me"}
			c.Stages = []config.Stage{
				{Name: "CODE", Run: []string{"/cheat"}, StatePaths: []string{"build/"}, Timeout: time.Minute},
				{Name: "VALIDATE", Run: []string{"/cheat"}, Timeout: time.Minute},
			}
			t.Cleanup(func() {
				s.stop()
				dockerLine(t, "network", "rm", name)
				dockerLine(t, "volume", "rm", name, name+"-home")
			})
			key := s.github.CreateIssue(repo, "octocat", "Do good work", "", "agent-task")
			s.start()
			s.until("review", s.labelled(key, "agent-review"))
			if got := s.git("show", want.branch+":work.txt"); got != want.work {
				t.Errorf("delivered is %q, want %q", got, want.work)
			}
			if v := s.verdicts(key); !slices.Equal(v, want.verdicts) {
				t.Errorf("verdicts %q, want %q", v, want.verdicts)
			}
		})
	}
}

// cheatImage builds the image, or returns the reason why it cannot.
func cheatImage(t *testing.T) string {
	t.Helper()
	return imageOf(t, "cheat", cheat)
}

// imageOf builds an image with one program, /name, or returns the reason why it cannot.
func imageOf(t *testing.T, name, source string) string {
	t.Helper()
	if out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		if os.Getenv("RETAKE_REQUIRE_DOCKER") == "1" {
			t.Fatalf("docker: %v %s", err, out)
		}
		t.Skipf("docker: %v %s", err, out)
	}
	dir, image := t.TempDir(), "retake-"+name+":"+strings.ToLower(rand.Text()[:8])
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	must(t, buildStatic(filepath.Join(dir, "main.go"), filepath.Join(dir, name)))
	program, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	must(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(program))}))
	_, err = archive.Write(program)
	must(t, err)
	must(t, archive.Close())
	load := exec.Command("docker", "import", "-", image)
	load.Stdin = &files
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v %s", err, out)
	}
	t.Cleanup(func() { dockerLine(t, "rmi", image) })
	return image
}

func buildStatic(what, to string) error { return program.Build(context.Background(), "", what, to) }

// builtWorker builds the real worker once.
var builtWorker = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "worker")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "worker")
	if err := buildStatic("retake/cmd/worker", file); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// placeWorker copies the real worker to the path where a director expects it.
func placeWorker(t *testing.T, to string) {
	t.Helper()
	program, err := builtWorker()
	must(t, err)
	_ = os.Remove(to) // the harness's
	must(t, safefile.Create(to, 0o755, bytes.NewReader(program)))
}

func dockerLine(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("docker", args...).CombinedOutput(); err != nil {
		t.Errorf("docker %s: %v %s", strings.Join(args, " "), err, out)
	}
}
