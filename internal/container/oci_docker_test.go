package container_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"retake/internal/container"
)

// TestNamedRuntime: attempts run in the default runtime if it is named, and Open refuses an unknown name.
func TestNamedRuntime(t *testing.T) {
	needDocker(t)
	t.Parallel()
	info, err := engine.api.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := container.Options{Fleet: engine.fleet, Network: engine.network, OCI: info.DefaultRuntime}
	d, err := container.OpenDocker(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s := spec(t, "exit", "0")
	ensure(t, d, s)
	made, err := engine.api.ContainerInspect(t.Context(), s.AttemptID)
	if err != nil || made.HostConfig.Runtime != info.DefaultRuntime {
		t.Errorf("got %+v, %v; want %s", made.HostConfig, err, info.DefaultRuntime)
	}
	o.OCI = "no-such-runtime"
	if _, err := container.OpenDocker(t.Context(), o); !errors.Is(err, container.ErrSpec) ||
		!strings.Contains(err.Error(), "no-such-runtime") || !strings.Contains(err.Error(), info.DefaultRuntime) {
		t.Errorf("got %v, want ErrSpec with both names", err)
	}
}
