package container_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"

	"retake/internal/container"
	"retake/internal/container/containertest"
)

func TestDockerConformance(t *testing.T) {
	needDocker(t)
	t.Parallel()
	containertest.Run(t, containertest.Subject{
		Capabilities: containertest.Capabilities{
			Adoption: true, MemoryLimit: true, Pause: true, Confinement: true,
			Images: true, Streams: true, Starts: true, KillsAtOnce: true,
		},
		Fleet: engine.fleet, Parallel: true,
		Open: func(t testing.TB, fleet string) container.Runtime {
			return open(t, fleet)
		},
		Spec: func(t testing.TB, _ string) container.Spec { return spec(t) },
		Kill: func(t testing.TB, attemptID string) {
			if err := engine.api.ContainerKill(t.Context(), attemptID, "SIGKILL"); err != nil {
				t.Fatal(err)
			}
		},
		Freeze: func(t testing.TB, attemptID string) {
			if err := engine.api.ContainerPause(t.Context(), attemptID); err != nil {
				t.Fatal(err)
			}
		},
		Exists: exists,
	})
}

// importImage creates an image with the given settings in one layer, because a build takes a second.
func importImage(t *testing.T, tag string, settings ...string) {
	t.Helper()
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	importArchive(t, tag, &empty, settings...)
}

func importArchive(t *testing.T, tag string, files io.Reader, settings ...string) {
	t.Helper()
	settings = append(settings, "LABEL "+container.LabelFleet+"="+engine.fleet)
	answer, err := engine.api.ImageImport(t.Context(), image.ImportSource{Source: files, SourceName: "-"}, tag,
		image.ImportOptions{Changes: settings})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	t.Cleanup(func() {
		if _, err := engine.api.ImageRemove(context.Background(), tag,
			image.RemoveOptions{Force: true, PruneChildren: true}); err != nil {
			t.Error(err)
		}
	})
	if _, err := io.Copy(io.Discard, answer); err != nil {
		t.Fatal(err)
	}
}

// A spec overrides every setting of an image.
func TestImagesOwnSettingsAreOverridden(t *testing.T) {
	needDocker(t)
	t.Parallel()
	tag := engine.fleet + ":stubborn"
	importImage(t, tag, "USER root", "WORKDIR /somewhere", `ENTRYPOINT ["/no-such-program"]`,
		`CMD ["more", "arguments"]`,
		`HEALTHCHECK --interval=1s CMD ["/no-such-program"]`, "VOLUME /data", "VOLUME "+container.Dir, "ENV A=image")
	s := spec(t, "env")
	s.Image, s.Env = tag, []string{"A=ours"}
	exit := run(t, open(t, engine.fleet), s)
	for _, want := range []string{"PID=1\n", "DIR=/workspace\n", "A=ours\n"} {
		if !strings.Contains(string(exit.Stdout), want) {
			t.Errorf("no %q in %q (%s)", want, exit.Stdout, exit.Stderr)
		}
	}
	s = spec(t, "readonce", container.Dir+"/plan.json")
	s.Image, s.Files = tag, []container.File{{Name: "plan.json", Data: []byte("plan")}}
	if exit := run(t, open(t, engine.fleet), s); string(exit.Stdout) != "plan" || exit.ExitCode != 0 {
		t.Errorf("got %+v", exit)
	}
}

// If a director dies before the start, its container's input ends, so the next director replaces the container.
func TestInputAfterAnEnsureThatWasCutOff(t *testing.T) {
	needDocker(t)
	t.Parallel()
	d := open(t, engine.fleet)
	s := spec(t, "input")
	s.Stdin = []byte("the plan")
	made, err := engine.api.ContainerCreate(t.Context(), &apicontainer.Config{
		Image: s.Image, Entrypoint: s.Entrypoint, AttachStdin: true, OpenStdin: true, StdinOnce: true,
		Labels: map[string]string{container.LabelFleet: engine.fleet, container.LabelAttempt: s.AttemptID},
	}, nil, nil, nil, s.AttemptID)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := engine.api.ContainerAttach(t.Context(), made.ID, apicontainer.AttachOptions{Stream: true, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	cut.Close()
	exit := run(t, d, s)
	if want := fmt.Sprintf("8 bytes %x\n", sha256.Sum256(s.Stdin)); exit.ExitCode != 0 || string(exit.Stdout) != want {
		t.Errorf("got %d, %q, %s; want %q", exit.ExitCode, exit.Stdout, exit.Stderr, want)
	}
}

// The engine does not show or store the input.
func TestInputIsNowhereElse(t *testing.T) {
	needDocker(t)
	t.Parallel()
	d := open(t, engine.fleet)
	s := spec(t, "obey")
	s.Stdin = []byte("nobody-shall-read-this")
	ensure(t, d, s)
	awaitReady(t, s)
	_, settings, err := engine.api.ContainerInspectWithRaw(t.Context(), s.AttemptID, true)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.api.ContainerExport(t.Context(), s.AttemptID)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	exported, err := io.ReadAll(files)
	if err != nil || len(exported) == 0 {
		t.Fatal(len(exported), err)
	}
	for what, seen := range map[string][]byte{"settings": settings, "files": exported} {
		if bytes.Contains(seen, s.Stdin) {
			t.Errorf("the input is in the container's %s", what)
		}
	}
}

func TestNetworkIsEnsuredAndReachesTheHost(t *testing.T) {
	needDocker(t)
	t.Parallel()
	d := open(t, engine.fleet)
	gateway, err := d.EnsureNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := d.EnsureNetwork(t.Context()); err != nil || again != gateway {
		t.Errorf("second time %q, %v; want %q", again, err, gateway)
	}
	info, err := engine.api.NetworkInspect(t.Context(), engine.network, network.InspectOptions{})
	if err != nil || info.Labels[container.LabelFleet] != engine.fleet {
		t.Errorf("labels %v, %v; want the fleet in them", info.Labels, err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(gateway, "0"))
	if err != nil {
		t.Fatalf("listen on the gateway: %v", err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return // closed
		}
		_, _ = conn.Write([]byte("hello"))
		conn.Close()
	}()
	exit := run(t, d, spec(t, "dial", listener.Addr().String()))
	if string(exit.Stdout) != "hello" {
		t.Errorf("the worker heard %q (%s)", exit.Stdout, exit.Stderr)
	}
}

// "docker system prune" removes an unused network, although the bus listens on its gateway.
func TestPrunedNetworkComesBackTheSame(t *testing.T) {
	needDocker(t)
	t.Parallel()
	d, err := container.OpenDocker(t.Context(), container.Options{Fleet: engine.fleet, Network: engine.network +
		"-pruned"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	remove := func(ctx context.Context) {
		if err := engine.api.NetworkRemove(ctx, engine.network+"-pruned"); err != nil {
			t.Error(err)
		}
	}
	defer func() { remove(context.Background()) }()
	before, err := d.EnsureNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	remove(t.Context())
	s := spec(t, "input") // the first start fails, but must not lose the input
	s.Stdin = []byte("the plan")
	if exit := run(t, d, s); !exit.Known || exit.ExitCode != 0 || !strings.HasPrefix(string(exit.Stdout), "8 bytes ") {
		t.Errorf("got %+v", exit)
	}
	if after, err := d.EnsureNetwork(t.Context()); err != nil || after != before {
		t.Errorf("gateway was %s, is %s, %v", before, after, err)
	}
}

func TestMounts(t *testing.T) {
	needDocker(t)
	t.Parallel()
	d := open(t, engine.fleet)
	cache := container.Mount{Source: engine.fleet + "-cache", Target: "/deep/cache", Volume: true}
	defer func() {
		if err := engine.api.VolumeRemove(context.Background(), cache.Source, true); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		name  string
		mount container.Mount
		act   []string
		code  int
		out   string
	}{
		{"a volume is writable", cache, []string{"writefile", "/deep/cache/a", "text"}, 0, ""},
		{"and persists", cache, []string{"readonce", "/deep/cache/a"}, 0, "text"},
		{
			"a read-only bind is not",
			container.Mount{Source: checkout(t), Target: "/ro", ReadOnly: true},
			[]string{"writefile", "/ro/a", "x"},
			98, "",
		},
		{"a bind is", container.Mount{Source: checkout(t), Target: "/rw"}, []string{"writefile", "/rw/a", "x"}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spec(t, c.act...)
			s.Mounts = []container.Mount{c.mount}
			if exit := run(t, d, s); exit.ExitCode != c.code || string(exit.Stdout) != c.out {
				t.Errorf("got %d, %q, %s", exit.ExitCode, exit.Stdout, exit.Stderr)
			}
		})
	}
	t.Run("the engine refuses an absent host path", func(t *testing.T) {
		s := spec(t, "exit", "0")
		s.Checkout = filepath.Join(engine.dir, "absent")
		if err := d.Ensure(t.Context(), s); !errors.Is(err, container.ErrSpec) ||
			!strings.Contains(err.Error(), s.Checkout) {
			t.Errorf("got %v, want ErrSpec naming the path", err)
		}
	})
	t.Run("the engine's socket is refused", func(t *testing.T) {
		s := spec(t, "exit", "0")
		s.Mounts = []container.Mount{{Source: "/var/run/docker.sock", Target: "/d.sock", ReadOnly: true}}
		if err := d.Ensure(t.Context(), s); !errors.Is(err, container.ErrSpec) || exists(t, s.AttemptID) {
			t.Errorf("got %v, want ErrSpec", err)
		}
	})
}

func TestCreatedIsStarted(t *testing.T) {
	needDocker(t)
	t.Parallel()
	d := open(t, engine.fleet)
	s := spec(t, "say", "out", "err")
	id, err := d.CreateOnly(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Ensure(t.Context(), s); err != nil {
		t.Errorf("Ensure: %v", err)
	}
	if now := containerID(t, s.AttemptID); now != id {
		t.Errorf("another container: %s, then %s", id, now)
	}
	if exit := run(t, d, s); string(exit.Stdout) != "out\n" || string(exit.Stderr) != "err\n" {
		t.Errorf("got %+v", exit)
	}
}

func TestCreatedIsRemoved(t *testing.T) {
	needDocker(t)
	t.Parallel()
	d := open(t, engine.fleet)
	s := spec(t, "exit", "0")
	if _, err := d.CreateOnly(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if exit := stop(t, d, s.AttemptID); exit.Known {
		t.Errorf("got %+v, want an unknown end, because the container never ran", exit)
	}
}

// A container's processes can be frozen through its cgroup. The daemon then still reports that the container runs.
func TestFrozenBehindTheDaemonsBack(t *testing.T) {
	needDocker(t)
	t.Parallel()
	d := open(t, engine.fleet)
	s := spec(t, "ignore")
	ensure(t, d, s)
	awaitReady(t, s)
	if !freeze(containerID(t, s.AttemptID)) {
		t.Skip("this user cannot write to a freezer of a local engine")
	}
	began := time.Now()
	exit, err := d.Stop(t.Context(), s.AttemptID, 0, nil)
	if err != nil || exit.Signal != "SIGKILL" || !exit.Killed {
		t.Errorf("got %+v, %v", exit, err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

// freeze writes to the freezer of cgroup v1 or v2, at the path that Docker's default drivers use.
func freeze(id string) bool {
	for path, word := range map[string]string{
		"/sys/fs/cgroup/freezer/docker/" + id + "/freezer.state":                    "FROZEN",
		"/sys/fs/cgroup/system.slice/docker-" + id + ".scope/cgroup.freeze":         "1",
		"/sys/fs/cgroup/docker/" + id + "/cgroup.freeze":                            "1",
		"/sys/fs/cgroup/freezer/system.slice/docker-" + id + ".scope/freezer.state": "FROZEN",
	} {
		if _, err := os.Stat(path); err == nil && os.WriteFile(path, []byte(word), 0) == nil {
			return true
		}
	}
	return false
}
