package container_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"go.uber.org/goleak"

	"retake/internal/container"
	"retake/internal/container/containertest"
)

// engine has a client of the container engine, and the objects that all tests of a run share. cleanUp finds objects of
// the run by their fleet label.
var engine struct {
	api     *client.Client
	why     string // why no engine is available
	fleet   string // all fleets of this run begin with it
	network string
	image   string // FROM scratch, empty
	probe   string
	dir     string
}

func TestMain(m *testing.M) {
	if order := os.Getenv(directorEnv); order != "" {
		os.Exit(playDirector(order))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // tests mostly wait for the engine, not for a processor
		panic(err)
	}
	if err := buildShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.RemoveAll(engine.dir)
		os.Exit(1)
	}
	if err := openEngine(); err != nil {
		engine.why = err.Error()
	}
	goleak.VerifyTestMain(cleaned{m})
}

// cleaned runs the tests, and cleans up before leaked goroutines are counted.
type cleaned struct{ *testing.M }

func (c cleaned) Run() int {
	code := c.M.Run()
	for _, err := range cleanUp() {
		fmt.Fprintln(os.Stderr, "left behind:", err)
		code = max(code, 1)
	}
	return code
}

// buildShared chooses the names of the run's objects, and builds the probe, which tests also need without an engine.
func buildShared() (err error) {
	engine.fleet = containertest.Name("retake-test")
	engine.network = engine.fleet
	engine.image = engine.fleet + ":scratch"
	if engine.dir, err = os.MkdirTemp("", engine.fleet+"-"); err != nil {
		return err
	}
	if err := os.Chmod(engine.dir, 0o755); err != nil {
		return err
	}
	if engine.probe = os.Getenv(probeEnv); engine.probe != "" {
		return nil
	}
	engine.probe, err = containertest.BuildProbe(engine.dir)
	return errors.Join(err, readSources("containertest/probe", "supervisor", "fence"))
}

// readSources reads the sources of the probe, so that go test does not use cached results after changes of the probe.
func readSources(dirs ...string) (err error) {
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, f := range files {
			_, readErr := os.ReadFile(f)
			err = errors.Join(err, readErr)
		}
	}
	return err
}

// openEngine finds an engine and creates the tests' shared objects.
func openEngine() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	if _, err := api.Ping(ctx); err != nil {
		api.Close()
		return err
	}
	engine.api = api
	return buildImage(ctx, engine.image)
}

// cleanUp removes the tests' shared objects. It reports and removes anything else that remains.
func cleanUp() (left []error) {
	report := func(err error) {
		if err != nil {
			left = append(left, err)
		}
	}
	report(processesLeft())
	report(os.RemoveAll(engine.dir))
	if engine.api == nil {
		return left
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer engine.api.Close()
	containers, err := engine.api.ContainerList(ctx,
		apicontainer.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", container.LabelFleet))})
	report(err)
	for _, c := range containers {
		if strings.HasPrefix(c.Labels[container.LabelFleet], engine.fleet) {
			report(fmt.Errorf("container %v", c.Names))
			report(engine.api.ContainerRemove(ctx, c.ID, apicontainer.RemoveOptions{Force: true, RemoveVolumes: true}))
		}
	}
	networks, err := engine.api.NetworkList(ctx,
		network.ListOptions{Filters: filters.NewArgs(filters.Arg("label", container.LabelFleet))})
	report(err)
	for _, n := range networks {
		if strings.HasPrefix(n.Labels[container.LabelFleet], engine.fleet) {
			if n.Name != engine.network { // any Ensure may have created the network
				report(fmt.Errorf("network %s", n.Name))
			}
			report(engine.api.NetworkRemove(ctx, n.ID))
		}
	}
	volumes, err := engine.api.VolumeList(ctx,
		volume.ListOptions{Filters: filters.NewArgs(filters.Arg("name", engine.fleet))})
	report(err)
	for _, v := range volumes.Volumes {
		report(fmt.Errorf("volume %s", v.Name))
		report(engine.api.VolumeRemove(ctx, v.Name, true))
	}
	images, err := engine.api.ImageList(ctx,
		image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", container.LabelFleet+"="+engine.fleet))})
	report(err)
	for _, i := range images {
		for _, tag := range i.RepoTags {
			if tag != engine.image {
				report(fmt.Errorf("image %s", tag))
			}
			_, err := engine.api.ImageRemove(ctx, tag, image.RemoveOptions{Force: true, PruneChildren: true})
			report(err)
		}
	}
	return left
}

// needDocker skips a test if the engine does not answer. With RETAKE_REQUIRE_DOCKER=1, the test fails instead.
func needDocker(t testing.TB) {
	t.Helper()
	if engine.why == "" {
		return
	}
	if os.Getenv("RETAKE_REQUIRE_DOCKER") == "1" {
		t.Fatal("docker: " + engine.why)
	}
	t.Skip("docker: " + engine.why)
}

// buildImage builds an image with only a label.
func buildImage(ctx context.Context, tag string) error {
	dockerfile := "FROM scratch\nLABEL " + container.LabelFleet + "=" + engine.fleet + "\n"
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: "Dockerfile", Mode: 0o644,
		Size: int64(len(dockerfile)),
	})
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(dockerfile)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	answer, err := engine.api.ImageBuild(ctx, &buf, build.ImageBuildOptions{
		Tags: []string{tag}, Remove: true,
		ForceRemove: true,
	})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for d := json.NewDecoder(answer.Body); ; {
		var m struct {
			Error string `json:"error"`
		}
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if m.Error != "" {
			return errors.New(m.Error)
		}
	}
}

// ociEnv names the engine's runtime for the attempts of these tests, such as runsc. Empty means the default.
const ociEnv = "RETAKE_TEST_OCI_RUNTIME"

func open(t testing.TB, fleet string) *container.Docker {
	t.Helper()
	// The test's context has already ended when the cleanup runs.
	d, err := container.OpenDocker(context.Background(), container.Options{
		Fleet: fleet, Network: engine.network,
		OCI: os.Getenv(ociEnv),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// checkout makes a directory that the worker's user can write.
func checkout(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(engine.dir, "checkout-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func spec(t testing.TB, act ...string) container.Spec {
	return container.Spec{
		AttemptID: containertest.Name("attempt") + "-1", Task: "acme/widgets#21", Image: engine.image,
		Workdir: "/workspace", Checkout: checkout(t), Entrypoint: append([]string{container.WorkerPath}, act...),
		WorkerBinary: engine.probe, Memory: 64 << 20, CPUs: 1, Pids: 64, User: "1000:1000", ReadOnly: true,
	}
}

// ensure starts a spec and stops it at the end of the test, even after a failed start.
func ensure(t testing.TB, d *container.Docker, s container.Spec) {
	t.Helper()
	t.Cleanup(func() { stop(t, d, s.AttemptID) })
	if err := d.Ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// run runs a spec to its end.
func run(t testing.TB, d *container.Docker, s container.Spec) container.Exit {
	t.Helper()
	if err := d.Ensure(t.Context(), s); err != nil {
		t.Errorf("Ensure: %v", err)
	} else {
		wait, failed := engine.api.ContainerWait(t.Context(), s.AttemptID, apicontainer.WaitConditionNotRunning)
		select {
		case <-wait:
		case err := <-failed:
			t.Error(err)
		}
	}
	return stop(t, d, s.AttemptID)
}

func stop(t testing.TB, d *container.Docker, attemptID string) container.Exit {
	t.Helper()
	exit, err := d.Stop(context.Background(), attemptID, 0, nil)
	if err != nil {
		t.Errorf("Stop: %v", err)
	}
	if exists(t, attemptID) {
		t.Errorf("%s still exists", attemptID)
	}
	return exit
}

func exists(t testing.TB, attemptID string) bool {
	t.Helper()
	_, err := engine.api.ContainerInspect(context.Background(), attemptID)
	if err != nil && !cerrdefs.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func containerID(t testing.TB, attemptID string) string {
	t.Helper()
	info, err := engine.api.ContainerInspect(t.Context(), attemptID)
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

func awaitReady(t testing.TB, s container.Spec) {
	t.Helper()
	eventually(t, "the program is ready", func() bool {
		_, err := os.Stat(filepath.Join(s.Checkout, "ready"))
		return err == nil
	})
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}
