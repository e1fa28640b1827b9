package container_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"retake/internal/container"
)

// named lists the networks of exactly that name.
func named(t *testing.T, name string) (all []network.Summary) {
	t.Helper()
	list, err := engine.api.NetworkList(context.Background(),
		network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", name))})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list {
		if n.Name == name {
			all = append(all, n)
		}
	}
	return all
}

// removeNamed removes these networks at the end of the test.
func removeNamed(t *testing.T, name string) {
	t.Cleanup(func() {
		for _, n := range named(t, name) {
			if err := engine.api.NetworkRemove(context.Background(), n.ID); err != nil {
				t.Error(err)
			}
		}
	})
}

// openAs opens the engine for a fleet until the end of the test. To simulate a killed director, a test calls it again.
func openAs(t *testing.T, fleet, name string) *container.Docker {
	t.Helper()
	d, err := container.OpenDocker(context.Background(), container.Options{Fleet: engine.fleet + fleet, Network: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// makeTwin creates a second network of the same name, as two simultaneous directors do.
func makeTwin(t *testing.T, fleet, name string) string {
	t.Helper()
	dial := func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", strings.TrimPrefix(engine.api.DaemonHost(), "unix://"))
	}
	if !strings.HasPrefix(engine.api.DaemonHost(), "unix://") {
		t.Skip("the engine is not behind a socket: " + engine.api.DaemonHost())
	}
	body := fmt.Sprintf(`{"Name":%q,"CheckDuplicate":false,"Driver":"bridge","Labels":{%q:%q}}`, name,
		container.LabelFleet, engine.fleet+fleet)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://docker/v1.41/networks/create",
		bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode == http.StatusConflict {
		t.Skipf("this engine refuses a second network of the same name: %s", said)
	}
	if answer.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %s", answer.Status, said)
	}
	_, id, _ := strings.Cut(string(said), `"Id":"`)
	return id[:64]
}

// TestTwoDirectorsMakeOneNetwork: two simultaneous directors agree on one network, and only that one remains.
func TestTwoDirectorsMakeOneNetwork(t *testing.T) {
	needDocker(t)
	t.Parallel()
	for round := range 6 {
		name := fmt.Sprintf("%s-shared-%d", engine.network, round)
		removeNamed(t, name)
		var wait sync.WaitGroup
		var gateways [2]string
		var errs [2]error
		for i, fleet := range []string{"-a", "-b"} {
			d := openAs(t, fleet, name)
			wait.Go(func() { gateways[i], errs[i] = d.EnsureNetwork(context.Background()) })
		}
		wait.Wait()
		if err := errors.Join(errs[:]...); err != nil || gateways[0] != gateways[1] {
			t.Errorf("round %d: gateways %q, %v", round, gateways, err)
		}
		if all := named(t, name); len(all) != 1 {
			t.Errorf("round %d: %d networks of the same name", round, len(all))
		}
	}
}

// TestKilledWhileItMakesTheNetwork: the engine completes a killed director's request, and the next director uses the
// resulting network.
func TestKilledWhileItMakesTheNetwork(t *testing.T) {
	needDocker(t)
	t.Parallel()
	for round, after := range []time.Duration{
		0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond,
	} {
		name := fmt.Sprintf("%s-killed-%d", engine.network, round)
		removeNamed(t, name)
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_, _ = openAs(t, "-a", name).EnsureNetwork(ctx) // usually interrupted
		cancel()
		first, err := openAs(t, "-a", name).EnsureNetwork(t.Context())
		if err != nil {
			t.Errorf("killed after %s: %v", after, err)
		}
		again, err := openAs(t, "-a", name).EnsureNetwork(t.Context())
		if all := named(t, name); err != nil || again != first || len(all) != 1 {
			t.Errorf("killed after %s: gateway %s, then %s, %v; %d networks", after, first, again, err, len(all))
		}
	}
}

// TestTwinsOfTheNetwork: two networks of the same name are not an error. The director uses the older one, unless
// workers of its fleet use another. It removes an empty network that it created.
func TestTwinsOfTheNetwork(t *testing.T) {
	needDocker(t)
	t.Parallel()
	name := engine.network + "-twins"
	removeNamed(t, name)
	oldest, ours := makeTwin(t, "-b", name), makeTwin(t, "-a", name)
	var foreign string
	t.Run("workers keep their network", func(t *testing.T) {
		d := openAs(t, "-a", engine.network)
		s := spec(t, "obey")
		made, err := engine.api.NetworkInspect(t.Context(), ours, network.InspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ensure(t, d, s)
		if err := engine.api.NetworkConnect(t.Context(), ours, s.AttemptID, nil); err != nil {
			t.Fatal(err)
		}
		gateway, err := openAs(t, "-a", name).EnsureNetwork(t.Context())
		if err != nil || gateway != made.IPAM.Config[0].Gateway {
			t.Errorf("gateway %s, %v; its worker uses %v", gateway, err, made.IPAM.Config)
		}
	})
	t.Run("one is empty", func(t *testing.T) {
		foreign = makeTwin(t, "-c", name)
		d := openAs(t, "-a", name)
		gateway, err := d.EnsureNetwork(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		info, err := engine.api.NetworkInspect(t.Context(), oldest, network.InspectOptions{})
		if err != nil || gateway != info.IPAM.Config[0].Gateway {
			t.Errorf("gateway %s, %v, want the gateway of the oldest network: %v", gateway, err, info.IPAM.Config)
		}
		var left []string
		for _, n := range named(t, name) {
			left = append(left, n.ID)
		}
		if len(left) != 2 || !strings.Contains(strings.Join(left, " "), foreign) ||
			!strings.Contains(strings.Join(left, " "), oldest) {
			t.Errorf("remaining: %q, want %s and %s", left, oldest, foreign)
		}
		if exit := run(t, d, spec(t, "exit", "0")); !exit.Known || exit.ExitCode != 0 {
			t.Errorf("a worker with a twin of its network: %+v", exit)
		}
	})
}
