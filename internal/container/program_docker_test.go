package container_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"retake/internal/container"
	"retake/internal/container/containertest"
)

// programs returns the names of the volumes with a fleet's worker program.
func programs(t *testing.T, fleet string) (names []string) {
	t.Helper()
	all, err := engine.api.VolumeList(t.Context(),
		volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", container.LabelFleet+"="+fleet))})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all.Volumes {
		names = append(names, v.Name)
	}
	return names
}

// newerProgram returns a copy of the probe with different content.
func newerProgram(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(engine.probe)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(path, append(data, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOneProgramForAll checks that an attempt has the whole program even if the volume is damaged or removed, and that
// the volume is removed with the last attempt.
func TestOneProgramForAll(t *testing.T) {
	needDocker(t)
	t.Parallel()
	fleet := containertest.Name(engine.fleet)
	d := open(t, fleet)
	works := func(what string, d *container.Docker, s container.Spec) {
		t.Helper()
		if exit := run(t, d, s); exit.ExitCode != 0 || string(exit.Stdout) != "out\n" {
			t.Errorf("%s: got %d, %q, %s", what, exit.ExitCode, exit.Stdout, exit.Stderr)
		}
	}
	works("the first", d, spec(t, "say", "out", "-"))
	first := programs(t, fleet)
	if len(first) != 1 {
		t.Fatalf("volumes %q, want one", first)
	}
	works("the second", d, spec(t, "say", "out", "-"))
	if again := programs(t, fleet); !slices.Equal(again, first) {
		t.Errorf("volumes %q, want still %q", again, first)
	}
	if exit := run(t, d, spec(t, "writefile", container.Dir+"/x", "text")); exit.ExitCode != 98 {
		t.Errorf("a worker could write to the folder of its program: %d, %s", exit.ExitCode, exit.Stderr)
	}

	if err := engine.api.VolumeRemove(t.Context(), first[0], false); err != nil { // as a prune does
		t.Fatal(err)
	}
	works("after a prune", d, spec(t, "say", "out", "-"))

	begun(t, "retake-worker-"+fleet+"-killed")
	other := open(t, fleet) // simulates another process of the director
	works("after a process that was killed during the copy", other, spec(t, "say", "out", "-"))
	if now := programs(t, fleet); len(now) != 1 || slices.Contains(now, first[0]) {
		t.Errorf("volumes %q, want only the new process's volume", now)
	}
	works("after another process removed the volume", d, spec(t, "say", "out", "-"))

	newer := spec(t, "say", "out", "-")
	newer.WorkerBinary = newerProgram(t)
	old := spec(t, "obey")
	ensure(t, d, old)
	awaitReady(t, old)
	works("a newer program", d, newer)
	if now := programs(t, fleet); len(now) < 2 || !slices.Contains(now, first[0]) {
		t.Errorf("volumes %q, want %q of the running process, and another", now, first)
	}
	stop(t, d, old.AttemptID)
	works("the older program", other, spec(t, "say", "out", "-"))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if now := programs(t, fleet); len(now) > 0 {
		t.Errorf("remaining volumes %q", now)
	}
}

// begun creates a volume with an incomplete program, as a process leaves it that is killed during the copy.
func begun(t *testing.T, name string) {
	t.Helper()
	made, err := engine.api.ContainerCreate(t.Context(),
		&apicontainer.Config{Image: engine.image, Entrypoint: []string{"/x"}},
		&apicontainer.HostConfig{Mounts: []mount.Mount{{
			Type: mount.TypeVolume, Source: name, Target: container.Dir,
			VolumeOptions: &mount.VolumeOptions{
				Labels: map[string]string{container.LabelFleet: strings.TrimSuffix(strings.TrimPrefix(name,
					"retake-worker-"), "-killed")},
			},
		}}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.api.ContainerRemove(t.Context(), made.ID, apicontainer.RemoveOptions{}); err != nil {
			t.Error(err)
		}
	}()
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.WriteHeader(&tar.Header{Name: container.WorkerPath[1:], Mode: 0o555, Size: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("ELF")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := engine.api.CopyToContainer(t.Context(), made.ID, "/", &files,
		apicontainer.CopyToContainerOptions{}); err != nil {
		t.Fatal(err)
	}
}
