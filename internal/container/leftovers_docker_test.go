package container_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"retake/internal/container"
)

// TestRemoveLeftovers checks that the objects of a killed trial are removed once they are old. Another fleet keeps its
// objects, even if its name has the same prefix.
func TestRemoveLeftovers(t *testing.T) {
	needDocker(t)
	t.Parallel()
	fleet := engine.fleet + "-killed"
	killed, err := container.OpenDocker(context.Background(), container.Options{
		Fleet: fleet, Owner: fleet, Network: fleet,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killed.Close() })
	const alive = "-killed-not"
	other, err := container.OpenDocker(context.Background(), container.Options{
		Fleet: engine.fleet + alive, Owner: "an installation", Network: engine.fleet + alive,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(other.RemoveNetwork(context.Background()), other.Close()); err != nil {
			t.Error(err)
		}
	})
	kept := spec(t, "say", "out", "-")
	ensure(t, killed, spec(t, "say", "out", "-"))
	ensure(t, other, kept)
	if removed, err := other.RemoveLeftovers(t.Context(), fleet, time.Hour); err != nil || len(removed) > 0 {
		t.Errorf("removed %q, which is not old: %v", removed, err)
	}
	helper, err := engine.api.ContainerCreate(t.Context(), // as a director that is killed while it installs rules
		&apicontainer.Config{
			Image: engine.image, Entrypoint: []string{"/x"}, Labels: map[string]string{container.LabelFence: fleet},
		},
		&apicontainer.HostConfig{Mounts: []mount.Mount{{
			Type: mount.TypeVolume, Source: programs(t, fleet)[0], Target: "/mnt",
		}}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // the daemon states whole seconds
	removed, err := other.RemoveLeftovers(t.Context(), fleet, 0)
	if err != nil {
		t.Error(err)
	}
	kinds := ""
	for _, name := range removed {
		kind, _, _ := strings.Cut(name, " ")
		kinds += kind + " "
	}
	if kinds != "container container network volume " || !slices.Contains(removed, "container "+helper.ID) {
		t.Errorf("removed %q, want two containers, a network and a volume", removed)
	}
	if volumes := programs(t, engine.fleet+alive); len(volumes) != 1 {
		t.Errorf("the other fleet has the volumes %q, want one", volumes)
	}
	if exit := stop(t, other, kept.AttemptID); exit.ExitCode != 0 {
		t.Errorf("the other fleet's container ended with %+v", exit)
	}
}
