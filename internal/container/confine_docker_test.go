package container_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"retake/internal/container"
)

// answering starts a server on the host that sends one byte to every client, and returns its address.
func answering(t *testing.T, at string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("x"))
			_ = c.Close()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

// addressOf returns a container's address on a network.
func addressOf(t *testing.T, name, on string) string {
	t.Helper()
	info, err := engine.api.ContainerInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return info.NetworkSettings.Networks[on].IPAddress
}

// bystander starts a container that does not belong to a director, with a server at a port.
func bystander(t *testing.T, on, port string) (address string) {
	t.Helper()
	s := spec(t, "answer", port)
	s.User = "1000:1000"
	// With an attempt's labels, it would count as a worker.
	id := startPlain(t, s, on)
	awaitReady(t, s)
	return addressOf(t, id, on)
}

// startPlain starts the probe in a container without our labels.
func startPlain(t *testing.T, s container.Spec, on string) string {
	t.Helper()
	made, err := engine.api.ContainerCreate(t.Context(), &apicontainer.Config{
		Image:      engine.image,
		Entrypoint: append([]string{"/probe/probe"}, s.Entrypoint[1:]...), User: s.User, WorkingDir: s.Workdir,
	},
		&apicontainer.HostConfig{
			NetworkMode: apicontainer.NetworkMode(on),
			Binds:       []string{s.Checkout + ":" + s.Workdir, engine.dir + ":/probe:ro"},
		}, nil, nil, s.AttemptID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.api.ContainerRemove(context.Background(), made.ID,
			apicontainer.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if err := engine.api.ContainerStart(t.Context(), made.ID, apicontainer.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	return s.AttemptID
}

// reached runs a worker that connects to addresses, and returns the addresses that it reached.
func reached(t *testing.T, d *container.Docker, addresses ...string) string {
	t.Helper()
	exit := run(t, d, spec(t, append([]string{"reach"}, addresses...)...))
	if exit.ExitCode != 0 || len(exit.Stderr) > 0 {
		t.Fatalf("%+v %s", exit, exit.Stderr)
	}
	var all []string
	for line := range strings.Lines(string(exit.Stdout)) {
		if what, ok := strings.CutPrefix(strings.TrimSpace(line), "reached "); ok {
			all = append(all, what)
		} else {
			t.Log(strings.TrimSpace(line))
		}
	}
	return strings.Join(all, ", ")
}

// TestConfine checks that workers reach only the allowed addresses, and that the rules are removed with the network.
func TestConfine(t *testing.T) {
	needDocker(t)
	t.Parallel()
	name := engine.network + "-confined"
	d := openAs(t, "-confined", name)
	d.CheckFenceOften()
	gateway, err := d.EnsureNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // again, in case the test ends early
		if err := d.RemoveNetwork(context.Background()); err != nil {
			t.Error(err)
		}
	})
	bridge := "br-" + named(t, name)[0].ID[:12]
	t.Run("reached", func(t *testing.T) { walls(t, d, name, gateway) })
	t.Run("a relay that starts later", func(t *testing.T) {
		late := bystander(t, name, "7002")
		eventually(t, "the rules allow it", func() bool { return reached(t, d, "tcp "+late+":7002") != "" })
	})
	t.Run("names", func(t *testing.T) { // the engine's resolver would forward them to the internet
		s := spec(t, "exit", "0")
		id, err := d.CreateOnly(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, d, s.AttemptID)
		info, err := engine.api.ContainerInspect(t.Context(), id)
		if err != nil || !slices.Equal(info.HostConfig.DNS, []string{"127.0.0.1"}) {
			t.Errorf("name servers of a closed worker: %v, %v", info.HostConfig.DNS, err)
		}
	})
	t.Run("removed", func(t *testing.T) {
		if !hasTable(t, bridge) {
			t.Error("rules are missing")
		}
		stale := "retake-br-ffffffffffff-" + engine.fleet
		if out, err := exec.Command("nft", "add table bridge "+stale).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := d.RemoveNetwork(t.Context()); err != nil {
			t.Fatal(err)
		}
		if hasTable(t, bridge) || hasTable(t, "br-ffffffffffff") {
			t.Error("rules remain")
		}
	})
}

// walls checks that a worker reaches only the doors, although it reaches other servers without the rules.
func walls(t *testing.T, d *container.Docker, name, gateway string) {
	door, everywhere := answering(t, gateway+":0"), answering(t, "0.0.0.0:0")
	neighbour := spec(t, "answer", "7001")
	ensure(t, d, neighbour)
	awaitReady(t, neighbour)
	beside := addressOf(t, neighbour.AttemptID, name)
	relay := bystander(t, name, "7002")
	other := engine.network + "-other"
	if _, err := engine.api.NetworkCreate(t.Context(), other, network.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	removeNamed(t, other)
	far := bystander(t, other, "7003")

	doors := []string{"tcp " + door.String(), "tcp " + relay + ":7002"}
	rest := []string{"tcp " + beside + ":7001", "udp " + beside + ":7001", "udp " + relay + ":7002"}
	for _, a := range append(hostAddresses(t), gateway, named(t, other)[0].IPAM.Config[0].Gateway) {
		rest = append(rest, fmt.Sprintf("tcp %s:%d", a, everywhere.Port()))
	}
	all := slices.Concat(doors, rest)
	if got := reached(t, d, all...); got != strings.Join(all, ", ") { // shows that the forbidden servers are up
		t.Errorf("before: reached %q, want %q", got, all)
	}
	// the engine also separates other bridges
	all = append(all, "tcp "+far+":7003", "udp "+far+":7003", "tcp 169.254.169.254:80")
	for _, closed := range []bool{false, true} {
		if err := d.Confine(t.Context(), container.Egress{
			Closed: closed, Doors: []netip.AddrPort{door}, Ports: []uint16{7002}, Image: engine.image,
			WorkerBinary: engine.probe,
		}); err != nil {
			t.Fatal(err)
		}
		if got := reached(t, d, all...); got != strings.Join(doors, ", ") {
			t.Errorf("closed %t: reached %q, want %q", closed, got, doors)
		}
	}
}

// TestConfineRefused: if the firewall's rules cannot be installed, workers start in an open network, but not in a
// closed one.
func TestConfineRefused(t *testing.T) {
	needDocker(t)
	t.Parallel()
	d := openAs(t, "-refused", engine.network)
	if _, err := d.EnsureNetwork(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := container.Egress{Closed: true, Image: engine.image, WorkerBinary: notFence(t)}
	if err := d.Confine(t.Context(), e); err == nil {
		t.Error("no error")
	}
	s := spec(t, "exit", "0")
	defer stop(t, d, s.AttemptID)
	if err := d.Ensure(t.Context(), s); err == nil {
		t.Error("the worker was started")
	}
	e.Closed = false
	if err := errors.Join(d.Confine(t.Context(), e), d.Ensure(t.Context(), s)); err != nil {
		t.Error(err)
	}
}

// notFence writes a program that does not install rules.
func notFence(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(file, []byte("\x7fELF and no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFleetsShareANetwork: each fleet reaches its bus despite the other firewall, and one closed fleet closes the
// network for both fleets.
func TestFleetsShareANetwork(t *testing.T) {
	needDocker(t)
	t.Parallel()
	name := engine.network + "-shared"
	removeNamed(t, name)
	var fleets [2]*container.Docker
	var doors [2]netip.AddrPort
	for i := range fleets {
		d := openAs(t, fmt.Sprintf("-share-%d", i), name)
		gateway, err := d.EnsureNetwork(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fleets[i], doors[i] = d, answering(t, gateway+":0")
		t.Cleanup(func() {
			if err := d.Unconfine(context.Background()); err != nil {
				t.Error(err)
			}
		})
		if err := d.Confine(t.Context(), container.Egress{
			Closed: i == 0, Doors: doors[i : i+1], Image: engine.image,
			WorkerBinary: engine.probe,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := reached(t, fleets[1], "tcp "+doors[0].String(), "tcp "+doors[1].String()); got != "tcp "+
		doors[0].String()+", tcp "+doors[1].String() {
		t.Errorf("reached %q", got)
	}
}

// hostAddresses returns at most two IPv4 addresses of this machine that are not loopback addresses.
func hostAddresses(t *testing.T) (all []string) {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if p, ok := a.(*net.IPNet); ok && p.IP.To4() != nil && !p.IP.IsLoopback() {
			all = append(all, p.IP.String())
		}
	}
	return all[:min(2, len(all))]
}

// hasTable asks the kernel for our table of a bridge.
func hasTable(t *testing.T, bridge string) bool {
	t.Helper()
	nft, err := exec.LookPath("nft")
	if err != nil || os.Getuid() != 0 {
		t.Skip("only root with nft can list the rules:", err)
	}
	out, err := exec.Command(nft, "list", "tables").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Contains(string(out), "retake-"+bridge+"-")
}
